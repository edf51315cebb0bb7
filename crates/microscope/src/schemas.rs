//! Tables of other schemas than the built-in ones, made at run time; and the texts of schemas, for pages.

use flate2::read::DeflateDecoder;
use ottla_schema::{Default, FieldType, Kind, Member, Message, SchemaError, Versions as Range, parse};
use ottla_wire::tables::{self, FieldTable, MessageKind, MessageTable, StructTable, TableSet, Type};
use ottla_wire::{ApiInfo, ApiKey, Uuid, Versions};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

/// A set of tables, and the texts of the schemas they were made from.
#[derive(Clone, Debug)]
pub struct Schemas {
    tables: &'static TableSet,
    texts: BTreeMap<String, String>,
}

/// A file that is no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is no schema of a message: {why}")]
pub struct BadSchema {
    /// The file.
    pub file: String,
    /// What is wrong with it, and where.
    pub why: SchemaError,
}

impl Schemas {
    /// The built-in tables, which the broker uses.
    pub fn built_in() -> Schemas {
        Schemas { tables: TableSet::built_in(), texts: BTreeMap::new() }
    }

    /// The built-in tables, in which the messages of these files (name and text) replace the built-in ones. Of two
    /// files for one message, the later counts. Without files: [`Schemas::built_in`].
    ///
    /// Tables live as long as the process, so each call with files leaks memory, about ten times the size of their
    /// texts. Read schemas once in a process.
    ///
    /// # Errors
    /// A text is not in the schema language.
    pub fn read(files: &[(String, String)]) -> Result<Schemas, BadSchema> {
        if files.is_empty() {
            return Ok(Schemas::built_in());
        }
        let mut texts = BTreeMap::new();
        let mut messages = BTreeMap::new();
        for (file, text) in files {
            let schema = parse(text).map_err(|why| BadSchema { file: file.clone(), why })?;
            texts.insert(schema.name.clone(), without_licence(text).to_owned());
            messages.insert(schema.name.clone(), Message::resolve(&schema));
        }
        let messages: Vec<Message> = messages.into_values().collect();
        let set = Box::leak(Box::new(overlaid(&messages)));
        Ok(Schemas { tables: set, texts })
    }

    /// The tables.
    pub fn tables(&self) -> &'static TableSet {
        self.tables
    }

    /// The text of a message's schema: that of its file without the licence in front, or the built-in one.
    pub fn text(&self, message: &str) -> Option<&str> {
        self.texts.get(message).map(String::as_str).or_else(|| built_in_text(message))
    }

    /// Whether the message's table comes from a file.
    pub fn is_read(&self, message: &str) -> bool {
        self.texts.contains_key(message)
    }
}

/// Removes the licence before the first brace.
fn without_licence(text: &str) -> &str {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('{') {
            return text.get(at..).unwrap_or_default().trim_end();
        }
        at += line.len();
    }
    text.trim_end()
}

fn built_in_text(message: &str) -> Option<&'static str> {
    static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schemas.deflate"));
    static TEXTS: OnceLock<String> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let mut texts = String::new();
        // The build script compressed valid text, so this cannot fail.
        let _ = DeflateDecoder::new(PACKED).read_to_string(&mut texts);
        texts
    });
    let name = format!("\"name\": \"{message}\",");
    let own = |text: &&str| text.lines().any(|line| line.strip_prefix("  ") == Some(name.as_str()));
    texts.split('\0').find(own).map(str::trim_end)
}

/// The built-in tables with these messages in place of the built-in ones.
fn overlaid(messages: &[Message]) -> TableSet {
    let mut by_name: BTreeMap<&'static str, &'static MessageTable> =
        TableSet::built_in().messages().iter().map(|table| (table.name, *table)).collect();
    let mut apis: BTreeMap<ApiKey, ApiInfo> =
        TableSet::built_in().apis().iter().map(|api| (api.key, api.clone())).collect();
    for message in messages {
        let table = (!message.structs.is_empty()).then(|| message_table(message));
        match table {
            Some(table) => drop(by_name.insert(table.name, table)),
            None => drop(by_name.remove(message.name.as_str())),
        }
        if let Some(key) = message.api_key.map(ApiKey) {
            let api = apis.entry(key).or_insert_with(|| unknown(key, message));
            replace(api, message, table);
        }
    }
    let apis: Vec<ApiInfo> = apis.into_values().collect();
    let messages: Vec<&'static MessageTable> = by_name.into_values().collect();
    TableSet::new(apis.leak(), messages.leak())
}

/// An API that the built-in tables lack.
fn unknown(key: ApiKey, message: &Message) -> ApiInfo {
    ApiInfo {
        key,
        name: api_name(message),
        request_versions: Versions::NONE,
        response_versions: Versions::NONE,
        request_flexible: Versions::NONE,
        response_flexible: Versions::NONE,
        listeners: &[],
        latest_version_unstable: false,
        request: None,
        response: None,
    }
}

fn replace(api: &mut ApiInfo, message: &Message, table: Option<&'static MessageTable>) {
    match message.kind {
        Kind::Request => {
            api.name = api_name(message);
            api.request_versions = range(message.valid);
            api.request_flexible = range(message.flexible);
            let listeners: Vec<&'static str> = message.listeners.iter().map(|name| leaked(name)).collect();
            api.listeners = listeners.leak();
            api.latest_version_unstable = message.latest_version_unstable;
            api.request = table;
        }
        Kind::Response => {
            api.response_versions = range(message.valid);
            api.response_flexible = range(message.flexible);
            api.response = table;
        }
        _ => {}
    }
}

fn api_name(message: &Message) -> &'static str {
    let name = message.name.as_str();
    leaked(name.strip_suffix("Request").or_else(|| name.strip_suffix("Response")).unwrap_or(name))
}

fn message_table(message: &Message) -> &'static MessageTable {
    let mut done = BTreeMap::new();
    let root = struct_table(message, &message.name, &mut done);
    Box::leak(Box::new(MessageTable {
        name: leaked(&message.name),
        about: "",
        kind: match message.kind {
            Kind::Request => MessageKind::Request,
            Kind::Response => MessageKind::Response,
            Kind::Header => MessageKind::Header,
            Kind::Metadata | Kind::Data => MessageKind::Data,
            Kind::CoordinatorKey => MessageKind::CoordinatorKey,
            Kind::CoordinatorValue => MessageKind::CoordinatorValue,
        },
        api_key: message.api_key.map(ApiKey),
        versions: range(message.valid),
        flexible: range(message.flexible),
        root,
    }))
}

/// The recursion ends, because the parser refuses structs that contain themselves.
fn struct_table(
    message: &Message,
    name: &str,
    done: &mut BTreeMap<String, &'static StructTable>,
) -> &'static StructTable {
    if let Some(table) = done.get(name) {
        return table;
    }
    let (versions, members) = match message.find(name) {
        Some(found) => (range(found.versions), found.members.as_slice()),
        None => (Versions::NONE, &[][..]),
    };
    let fields: Vec<FieldTable> = members.iter().map(|member| field_table(message, member, done)).collect();
    let table = Box::leak(Box::new(StructTable { name: leaked(name), versions, fields: fields.leak() }));
    done.insert(name.to_owned(), table);
    table
}

fn field_table(
    message: &Message,
    member: &Member,
    done: &mut BTreeMap<String, &'static StructTable>,
) -> FieldTable {
    FieldTable {
        name: leaked(&member.name),
        about: member.about.as_deref().map_or("", leaked),
        ty: type_of(message, &member.ty, done),
        versions: range(member.versions),
        nullable: range(member.nullable),
        tag: member.tag,
        tagged: range(member.tagged),
        flexible: member.flexible.map(range),
        default: default(&member.default),
        ignorable: member.ignorable,
        map_key: member.map_key,
        entity_type: member.entity_type.as_deref().map(leaked),
        // A schema file does not mark secrets, so the marks of the built-in table count.
        secret: is_secret(&message.name, &member.name),
    }
}

fn is_secret(message: &str, field: &str) -> bool {
    TableSet::built_in().message(message).is_some_and(|table| table.secrets().contains(&field))
}

fn type_of(message: &Message, ty: &FieldType, done: &mut BTreeMap<String, &'static StructTable>) -> Type {
    match ty {
        FieldType::Bool => Type::Bool,
        FieldType::Int8 => Type::Int8,
        FieldType::Int16 => Type::Int16,
        FieldType::Uint16 => Type::Uint16,
        FieldType::Int32 => Type::Int32,
        FieldType::Uint32 => Type::Uint32,
        FieldType::Int64 => Type::Int64,
        FieldType::Float64 => Type::Float64,
        FieldType::Uuid => Type::Uuid,
        FieldType::String => Type::String,
        FieldType::Bytes => Type::Bytes,
        FieldType::Records => Type::Records,
        FieldType::Struct(name) => Type::Struct(struct_table(message, name, done)),
        FieldType::Array(element) => Type::Array(Box::leak(Box::new(type_of(message, element, done)))),
    }
}

fn default(default: &Default) -> tables::Default {
    match default {
        Default::Null => tables::Default::Null,
        Default::Bool(value) => tables::Default::Bool(*value),
        Default::Int(value) => tables::Default::Int(*value),
        Default::Float(value) => tables::Default::Float(*value),
        Default::Text(text) => tables::Default::Text(leaked(text)),
        Default::Uuid(bytes) => tables::Default::Uuid(Uuid(*bytes)),
        Default::Empty => tables::Default::Empty,
    }
}

fn range(versions: Range) -> Versions {
    Versions::new(versions.min, versions.max)
}

fn leaked(text: &str) -> &'static str {
    text.to_owned().leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All built-in schemas, as files.
    fn all() -> Vec<(String, String)> {
        let tables = TableSet::built_in().messages();
        let text = |table: &&MessageTable| built_in_text(table.name).unwrap().to_owned();
        tables.iter().map(|table| (format!("{}.json", table.name), text(table))).collect()
    }

    fn without_about(table: &MessageTable) -> String {
        let text = format!("{table:?}");
        let mut parts = text.split("about: ");
        let mut out = parts.next().unwrap().to_owned();
        for part in parts {
            // The text of an `about` has no unescaped quote.
            let mut rest = part[1..].chars();
            while let Some(c) = rest.next() {
                match c {
                    '\\' => drop(rest.next()),
                    '"' => break,
                    _ => {}
                }
            }
            out.push_str(rest.as_str());
        }
        out
    }

    #[test]
    fn tables_made_at_run_time_equal_the_built_in_ones() {
        let schemas = Schemas::read(&all()).unwrap();
        let (made, built_in) = (schemas.tables(), TableSet::built_in());
        assert_eq!(made.messages().len(), built_in.messages().len());
        for table in built_in.messages() {
            let made = made.message(table.name).unwrap();
            assert!(!std::ptr::eq(made, *table), "{}", table.name);
            assert_eq!(without_about(made), without_about(table));
        }
        for (made, built_in) in made.apis().iter().zip(built_in.apis()) {
            let facts = |api: &ApiInfo| {
                let versions = [api.request_versions, api.response_versions];
                let flexible = [api.request_flexible, api.response_flexible];
                (api.key, api.name, versions, flexible, api.listeners, api.latest_version_unstable)
            };
            assert_eq!(facts(made), facts(built_in));
        }
    }

    #[test]
    fn one_file_takes_the_place_of_its_message_alone() {
        let text = "// licence\n// more\n\n{ \"apiKey\": 25, \"type\": \"request\", \"listeners\": [\"broker\"],\n  \
            \"name\": \"AddOffsetsToTxnRequest\", \"validVersions\": \"0-9\", \"flexibleVersions\": \"3+\", \"fields\": [\n  \
            { \"name\": \"Only\", \"type\": \"int8\", \"versions\": \"0+\", \"about\": \"mine\" } ] }\n";
        let schemas = Schemas::read(&[("x.json".to_owned(), text.to_owned())]).unwrap();
        let api = schemas.tables().api_named("AddOffsetsToTxn").unwrap();
        assert_eq!((api.request_versions.max, api.response_versions.max), (9, 4));
        assert_eq!(api.request.unwrap().root.fields[0].about, "mine");
        assert!(schemas.text("AddOffsetsToTxnRequest").unwrap().starts_with("{ \"apiKey\": 25"));
        assert!(schemas.is_read("AddOffsetsToTxnRequest") && !schemas.is_read("AddOffsetsToTxnResponse"));
        assert!(schemas.text("AddOffsetsToTxnResponse").unwrap().starts_with("{\n  \"apiKey\": 25,\n"));
    }

    #[test]
    fn a_file_that_is_no_schema_is_named() {
        let bad = Schemas::read(&[("bad.json".to_owned(), "{ \"type\": \"request\" }".to_owned())]);
        assert!(bad.unwrap_err().to_string().starts_with("bad.json is no schema of a message: "));
    }
}
