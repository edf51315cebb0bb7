//! Generates the visitor of the error codes in a response.

use super::{FieldSite, has_word, push_line};
use crate::model::{FieldType, Kind};
use crate::resolve::{Message, Struct};
use std::collections::BTreeSet;

/// Generates the visitor of a struct, if the struct or one below it has an error code.
pub(crate) fn emit(out: &mut String, message: &Message, item: &Struct) {
    if message.kind == Kind::Response && structs_with_errors(message).contains(item.name.as_str()) {
        push_line!(
            out,
            "pub(crate) fn each_error(&self, visit: &mut dyn FnMut(ErrorCode)) {{\n{}}}",
            walk(message, item)
        );
    }
}

/// The method `error_codes` of the trait `Response`.
pub(crate) fn root(message: &Message) -> String {
    let name = &message.name;
    let body =
        if structs_with_errors(message).contains(name.as_str()) { "self.each_error(visit)" } else { "" };
    let visit = if has_word(body, "visit") { "visit" } else { "_visit" };
    format!("fn error_codes(&self, {visit}: &mut dyn FnMut(ErrorCode)) {{ {body} }}")
}

fn walk(message: &Message, item: &Struct) -> String {
    let structs_with_errors = structs_with_errors(message);
    let mut body = String::new();
    for member in &item.members {
        let site = FieldSite { message, item, member };
        let field = site.field();
        match &member.ty {
            FieldType::Int16 if is_error(&member.name) => push_line!(body, "visit(ErrorCode(self.{field}));"),
            FieldType::Struct(name) if structs_with_errors.contains(name.as_str()) => match site.optional() {
                true => push_line!(body, "if let Some(inner) = &self.{field} {{ inner.each_error(visit); }}"),
                false => push_line!(body, "self.{field}.each_error(visit);"),
            },
            FieldType::Array(element) => {
                let FieldType::Struct(name) = &**element else { continue };
                if structs_with_errors.contains(name.as_str()) {
                    let iter = if site.optional() { ".iter().flatten()" } else { ".iter()" };
                    push_line!(body, "for element in self.{field}{iter} {{ element.each_error(visit); }}");
                }
            }
            _ => {}
        }
    }
    body
}

fn is_error(name: &str) -> bool {
    name.ends_with("ErrorCode")
}

/// The structs of a message that have an error code, or contain a struct that has one.
fn structs_with_errors(message: &Message) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for item in &message.structs {
            let has = item.members.iter().any(|member| match &member.ty {
                FieldType::Int16 => is_error(&member.name),
                FieldType::Struct(name) => found.contains(name.as_str()),
                FieldType::Array(element) => {
                    matches!(&**element, FieldType::Struct(name) if found.contains(name.as_str()))
                }
                _ => false,
            });
            if has {
                found.insert(item.name.as_str());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}
