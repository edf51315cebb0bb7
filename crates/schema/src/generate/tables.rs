//! Generates the static tables that describe a message.

use super::{kind, names, push_line, range};
use crate::about::Glossary;
use crate::model::{Default, FieldType};
use crate::resolve::{Member, Message, Struct};

pub(crate) fn emit(out: &mut String, message: &Message, glossary: &Glossary) {
    for item in &message.structs {
        table(out, message, item, glossary);
    }
    let about = glossary.message(&message.name).unwrap_or("");
    let key = message.api_key.map_or("None".to_owned(), |key| format!("Some(ApiKey({key}))"));
    push_line!(out, "/// The table of the message.");
    push_line!(
        out,
        "pub static TABLE: tables::MessageTable = tables::MessageTable {{ name: {:?}, about: {about:?},",
        message.name
    );
    push_line!(out, "kind: tables::MessageKind::{}, api_key: {key},", kind(message.kind));
    push_line!(out, "versions: {}, flexible: {},", range(message.valid), range(message.flexible));
    push_line!(out, "root: &{} }};", static_name(&message.name));
}

fn static_name(name: &str) -> String {
    format!("{}_TABLE", names::screaming_snake(name))
}

fn table(out: &mut String, message: &Message, item: &Struct, glossary: &Glossary) {
    push_line!(out, "static {}: tables::StructTable = tables::StructTable {{", static_name(&item.name));
    push_line!(out, "name: {:?}, versions: {}, fields: &[", item.name, range(item.versions));
    for member in &item.members {
        field(out, message, member, glossary);
    }
    push_line!(out, "] }};");
}

fn field(out: &mut String, message: &Message, member: &Member, glossary: &Glossary) {
    let about = glossary.field(&message.name, &member.name).or(member.about.as_deref()).unwrap_or("");
    let flexible = member.flexible.map_or("None".to_owned(), |versions| format!("Some({})", range(versions)));
    push_line!(out, "tables::FieldTable {{ name: {:?}, about: {about:?},", member.name);
    push_line!(out, "ty: {},", type_table(&member.ty));
    push_line!(out, "versions: {}, nullable: {},", range(member.versions), range(member.nullable));
    push_line!(out, "tag: {:?}, tagged: {}, flexible: {flexible},", member.tag, range(member.tagged));
    push_line!(
        out,
        "default: {}, ignorable: {}, map_key: {},",
        default(&member.default),
        member.ignorable,
        member.map_key
    );
    let secret = glossary.is_secret(&message.name, &member.name);
    push_line!(out, "entity_type: {:?}, secret: {secret} }},", member.entity_type);
}

fn type_table(ty: &FieldType) -> String {
    match ty {
        FieldType::Struct(name) => format!("tables::Type::Struct(&{})", static_name(name)),
        FieldType::Array(element) => format!("tables::Type::Array(&{})", type_table(element)),
        plain => format!("tables::Type::{plain:?}"),
    }
}

fn default(default: &Default) -> String {
    let value = match default {
        Default::Null => "Null".to_owned(),
        Default::Bool(value) => format!("Bool({value})"),
        Default::Int(value) => format!("Int({value})"),
        Default::Float(value) => format!("Float({value:?})"),
        Default::Text(text) => format!("Text({text:?})"),
        Default::Uuid(bytes) => format!("Uuid(Uuid({bytes:?}))"),
        Default::Empty => "Empty".to_owned(),
    };
    format!("tables::Default::{value}")
}
