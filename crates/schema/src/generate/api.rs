//! The list of APIs, and the dispatch that tests use.

use super::{names, put, range};
use crate::model::Kind;
use crate::resolve::Message;

pub(crate) fn emit(out: &mut String, messages: &[Message]) {
    let mut requests: Vec<_> =
        messages.iter().filter(|m| m.kind == Kind::Request).filter_map(|m| Some((m.api_key?, m))).collect();
    requests.sort_by_key(|(key, _)| *key);
    put!(out, "impl ApiKey {{");
    for (key, request) in &requests {
        let api = names::api(&request.name);
        put!(out, "#[doc = {:?}]", format!("{api}, versions {}.", request.valid));
        put!(out, "pub const {}: ApiKey = ApiKey({key});", names::shout(api));
    }
    put!(out, "}}");
    put!(out, "/// Every API there is or was, by ascending number.");
    put!(out, "pub static API_TABLE: &[ApiInfo] = &[");
    for (key, request) in &requests {
        let api = names::api(&request.name);
        let response =
            messages.iter().find(|m| m.kind == Kind::Response && m.api_key == Some(*key)).unwrap_or(request);
        put!(out, "ApiInfo {{ key: ApiKey({key}), name: {api:?},");
        put!(
            out,
            "request_versions: {}, response_versions: {},",
            range(request.valid),
            range(response.valid)
        );
        put!(
            out,
            "request_flexible: {}, response_flexible: {},",
            range(request.flexible),
            range(response.flexible)
        );
        put!(
            out,
            "listeners: &{:?}, latest_version_unstable: {},",
            request.listeners,
            request.latest_version_unstable
        );
        put!(out, "request: {}, response: {} }},", table(request), table(response));
    }
    put!(out, "];");
    put!(out, "/// The tables of every message that has a valid version.");
    put!(out, "pub static MESSAGE_TABLES: &[&tables::MessageTable] = &[");
    for message in messages.iter().filter(|message| !message.structs.is_empty()) {
        put!(out, "&{}::TABLE,", names::snake(&message.name));
    }
    put!(out, "];");
}

fn table(message: &Message) -> String {
    if message.structs.is_empty() {
        return "None".to_owned();
    }
    format!("Some(&{}::TABLE)", names::snake(&message.name))
}

pub(crate) fn dispatch(messages: &[Message]) -> String {
    let mut out = String::new();
    put!(out, "/// Decodes the message of that name and encodes it again.");
    put!(
        out,
        "pub(crate) fn recode(name: &str, version: i16, r: &mut Reader, w: &mut Writer) -> Result<String, String> {{"
    );
    put!(out, "match name {{");
    for message in messages.iter().filter(|message| super::has_code(message)) {
        put!(out, "{:?} => typed::<ottla_wire::messages::{}>(version, r, w),", message.name, message.name);
    }
    put!(out, "_ => Err(format!(\"no message {{name}}\")) }} }}");
    out
}
