//! Generates the list of APIs, and the dispatch that tests use.

use super::{names, push_line, range};
use crate::model::Kind;
use crate::resolve::Message;

pub(crate) fn emit(out: &mut String, messages: &[Message]) {
    let mut requests: Vec<_> =
        messages.iter().filter(|m| m.kind == Kind::Request).filter_map(|m| Some((m.api_key?, m))).collect();
    requests.sort_by_key(|(key, _)| *key);
    push_line!(out, "impl ApiKey {{");
    for (key, request) in &requests {
        let api = names::api(&request.name);
        push_line!(out, "#[doc = {:?}]", format!("{api}, versions {}.", request.valid));
        push_line!(out, "pub const {}: ApiKey = ApiKey({key});", names::screaming_snake(api));
    }
    push_line!(out, "}}");
    push_line!(out, "/// Every API of the schemas, removed ones included, by ascending number.");
    push_line!(out, "pub static API_TABLE: &[ApiInfo] = &[");
    for (key, request) in &requests {
        let api = names::api(&request.name);
        let response =
            messages.iter().find(|m| m.kind == Kind::Response && m.api_key == Some(*key)).unwrap_or(request);
        push_line!(out, "ApiInfo {{ key: ApiKey({key}), name: {api:?},");
        push_line!(
            out,
            "request_versions: {}, response_versions: {},",
            range(request.valid),
            range(response.valid)
        );
        push_line!(
            out,
            "request_flexible: {}, response_flexible: {},",
            range(request.flexible),
            range(response.flexible)
        );
        push_line!(
            out,
            "listeners: &{:?}, latest_version_unstable: {},",
            request.listeners,
            request.latest_version_unstable
        );
        push_line!(out, "request: {}, response: {} }},", table(request), table(response));
    }
    push_line!(out, "];");
    push_line!(out, "/// The tables of every message that has a valid version.");
    push_line!(out, "pub static MESSAGE_TABLES: &[&tables::MessageTable] = &[");
    for message in messages.iter().filter(|message| !message.structs.is_empty()) {
        push_line!(out, "&{}::TABLE,", names::snake(&message.name));
    }
    push_line!(out, "];");
}

fn table(message: &Message) -> String {
    if message.structs.is_empty() {
        return "None".to_owned();
    }
    format!("Some(&{}::TABLE)", names::snake(&message.name))
}

pub(crate) fn dispatch(messages: &[Message]) -> String {
    let mut out = String::new();
    push_line!(out, "/// Decodes the message of that name and encodes it again.");
    push_line!(
        out,
        "pub(crate) fn recode(name: &str, version: i16, r: &mut Reader, w: &mut Writer) -> Result<String, String> {{"
    );
    push_line!(out, "match name {{");
    for message in messages.iter().filter(|message| super::has_code(message)) {
        push_line!(
            out,
            "{:?} => typed::<ottla_wire::messages::{}>(version, r, w),",
            message.name,
            message.name
        );
    }
    push_line!(out, "_ => Err(format!(\"no message {{name}}\")) }} }}");
    out
}
