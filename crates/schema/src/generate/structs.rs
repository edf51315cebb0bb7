//! The structs themselves, their defaults, and the traits of root structs.

use super::{Site, base_type, errors, kind, names, put, range};
use crate::about::Glossary;
use crate::model::{Default, Kind, Versions};
use crate::resolve::{Message, Struct};

pub(crate) fn emit(out: &mut String, message: &Message, item: &Struct, glossary: &Glossary) {
    let sites: Vec<_> = item.members.iter().map(|member| Site { message, item, member }).collect();
    let derived = sites.iter().all(is_plain_default);
    put!(out, "#[doc = {:?}]", struct_doc(message, item, glossary));
    put!(out, "#[derive(Debug, Clone, PartialEq{})]", if derived { ", Default" } else { "" });
    put!(out, "pub struct {} {{", item.name);
    for site in &sites {
        let base = base_type(&site.member.ty);
        let ty = if site.optional() { format!("Option<{base}>") } else { base };
        put!(out, "#[doc = {:?}]", field_doc(site, glossary));
        put!(out, "pub {}: {ty},", site.field());
    }
    put!(out, "/// Tagged fields that the schema does not know, kept as they came.");
    put!(out, "pub unknown_tags: Tags,");
    put!(out, "}}");
    if !derived {
        put!(out, "impl Default for {} {{ fn default() -> Self {{ Self {{", item.name);
        for site in &sites {
            put!(out, "{}: {},", site.field(), site.default());
        }
        put!(out, "unknown_tags: Tags::default() }} }} }}");
    }
}

/// Whether the schema's default is what Rust would derive.
fn is_plain_default(site: &Site<'_>) -> bool {
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

fn field_doc(site: &Site<'_>, glossary: &Glossary) -> String {
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
    put!(out, "impl Message for {name} {{");
    put!(out, "const NAME: &'static str = {name:?};");
    put!(out, "const VERSIONS: Versions = {};", range(message.valid));
    put!(out, "const FLEXIBLE: Versions = {};", range(message.flexible));
    put!(out, "const TABLE: &'static tables::MessageTable = &TABLE;");
    put!(out, "fn decode(r: &mut Reader, version: i16) -> Result<Self, DecodeError> {{");
    put!(out, "r.check_version(Self::VERSIONS, version, &At({name:?}, \"\"))?;");
    // One value that is read into and returned: another way round it would be copied.
    put!(out, "let mut message = Ok(Self::default());");
    put!(out, "if let Ok(place) = &mut message && let Err(why) = r.read(|r| place.read(r, version)) {{");
    put!(out, "message = Err(why); }} message }}");
    put!(out, "fn encode(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError> {{");
    put!(out, "w.check_version(Self::VERSIONS, version, &At({name:?}, \"\"))?; self.write(w, version) }}");
    put!(out, "}}");
    let Some(_) = message.api_key else { return };
    let api = names::api(name);
    let key = names::shout(api);
    match message.kind {
        Kind::Request => {
            put!(out, "impl Request for {name} {{ const KEY: ApiKey = ApiKey::{key};");
            put!(
                out,
                "type Response = super::{}::{api}Response; }}",
                names::snake(&format!("{api}Response"))
            );
        }
        Kind::Response => {
            let errors = errors::root(message);
            put!(out, "impl Response for {name} {{ const KEY: ApiKey = ApiKey::{key}; {errors} }}");
        }
        _ => {}
    }
    debug_assert!(message.valid != Versions::NONE && !kind(message.kind).is_empty());
}
