//! Generates the structs, their defaults, and the trait implementations of root structs.

use super::{FieldSite, base_type, errors, kind, names, push_line, range};
use crate::about::Glossary;
use crate::model::{Default, Kind, Versions};
use crate::resolve::{Message, Struct};

pub(crate) fn emit(out: &mut String, message: &Message, item: &Struct, glossary: &Glossary) {
    let sites: Vec<_> = item.members.iter().map(|member| FieldSite { message, item, member }).collect();
    let derived = sites.iter().all(is_plain_default);
    push_line!(out, "#[doc = {:?}]", struct_doc(message, item, glossary));
    push_line!(out, "#[derive(Debug, Clone, PartialEq{})]", if derived { ", Default" } else { "" });
    push_line!(out, "pub struct {} {{", item.name);
    for site in &sites {
        let base = base_type(&site.member.ty);
        let ty = if site.optional() { format!("Option<{base}>") } else { base };
        push_line!(out, "#[doc = {:?}]", field_doc(site, glossary));
        push_line!(out, "pub {}: {ty},", site.field());
    }
    push_line!(out, "/// Tagged fields that the schema does not know, in their encoding.");
    push_line!(out, "pub unknown_tags: Tags,");
    push_line!(out, "}}");
    if !derived {
        push_line!(out, "impl Default for {} {{ fn default() -> Self {{ Self {{", item.name);
        for site in &sites {
            push_line!(out, "{}: {},", site.field(), site.default());
        }
        push_line!(out, "unknown_tags: Tags::default() }} }} }}");
    }
}

/// Whether the schema's default is the derived default of the Rust type.
fn is_plain_default(site: &FieldSite<'_>) -> bool {
    match &site.member.default {
        Default::Null => true,
        _ if site.optional() => false,
        Default::Bool(value) => !value,
        Default::Int(value) => *value == 0,
        Default::Float(value) => *value == 0.0,
        Default::Text(text) => text.is_empty(),
        Default::Uuid(bytes) => *bytes == [0; 16],
        Default::Empty => true,
    }
}

fn struct_doc(message: &Message, item: &Struct, glossary: &Glossary) -> String {
    if item.name != message.name {
        return format!("Part of {}, versions {}.", message.name, item.versions);
    }
    let about = glossary.message(&message.name).unwrap_or("A Kafka message.");
    format!("{about} Versions {}.", item.versions)
}

fn field_doc(site: &FieldSite<'_>, glossary: &Glossary) -> String {
    let member = site.member;
    let mut doc = match glossary.field(&site.message.name, &member.name) {
        Some(about) => about.to_owned(),
        None => format!("The field `{}`.", member.name),
    };
    let mut facts = Vec::new();
    if member.versions != site.item.versions {
        facts.push(format!("versions {}", member.versions));
    }
    if let Some(tag) = member.tag {
        facts.push(format!("tag {tag}"));
    }
    if site.optional() && member.nullable != member.versions {
        facts.push(format!("null in versions {}", member.nullable));
    }
    let default = site.default();
    if !is_plain_default(site) {
        facts.push(format!("default `{default}`"));
    }
    if !facts.is_empty() {
        doc.push_str(&format!(" ({})", facts.join("; ")));
    }
    doc
}

pub(crate) fn root(out: &mut String, message: &Message) {
    let name = &message.name;
    push_line!(out, "impl Message for {name} {{");
    push_line!(out, "const NAME: &'static str = {name:?};");
    push_line!(out, "const VERSIONS: Versions = {};", range(message.valid));
    push_line!(out, "const FLEXIBLE: Versions = {};", range(message.flexible));
    push_line!(out, "const TABLE: &'static tables::MessageTable = &TABLE;");
    push_line!(out, "fn decode(r: &mut Reader, version: i16) -> Result<Self, DecodeError> {{");
    push_line!(out, "r.check_version(Self::VERSIONS, version, &At({name:?}, \"\"))?;");
    // The message is decoded inside the `Result` that is returned, because building the `Result` afterwards would copy
    // it.
    push_line!(out, "let mut message = Ok(Self::default());");
    push_line!(
        out,
        "if let Ok(place) = &mut message && let Err(why) = r.read(|r| place.read(r, version)) {{"
    );
    push_line!(out, "message = Err(why); }} message }}");
    push_line!(out, "fn encode(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError> {{");
    push_line!(
        out,
        "w.check_version(Self::VERSIONS, version, &At({name:?}, \"\"))?; self.write(w, version) }}"
    );
    push_line!(out, "}}");
    let Some(_) = message.api_key else { return };
    let api = names::api(name);
    let key = names::screaming_snake(api);
    match message.kind {
        Kind::Request => {
            push_line!(out, "impl Request for {name} {{ const KEY: ApiKey = ApiKey::{key};");
            push_line!(
                out,
                "type Response = super::{}::{api}Response; }}",
                names::snake(&format!("{api}Response"))
            );
        }
        Kind::Response => {
            let errors = errors::root(message);
            push_line!(out, "impl Response for {name} {{ const KEY: ApiKey = ApiKey::{key}; {errors} }}");
        }
        _ => {}
    }
    debug_assert!(message.valid != Versions::NONE && !kind(message.kind).is_empty());
}
