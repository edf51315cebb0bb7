//! `ottla apis`: every API of the protocol, and which of them this broker serves.

use super::failure::Failure;
use super::out::Out;
use clap::Args;
use ottla_broker::served_versions;
use ottla_microscope::page::highest_version;
use ottla_wire::smallest_frame;
use ottla_wire::tables::Direction;
use ottla_wire::{API_TABLE, ApiInfo, Versions, request_header_version, response_header_version};
use serde_json::{Value, json};

/// List every API: number, name, versions, header versions, what this broker serves, smallest frames.
///
/// FLEXIBLE is the first version with compact lengths and tagged fields. HEADERS are the versions of the request's and
/// the response's header, REQUEST and RESPONSE BYTES the sizes of the smallest frames, size prefix included, all at the
/// version AT: the highest stable one. SERVED are the versions that this broker answers. `--json` has headers and sizes
/// of every version.
#[derive(Args)]
pub(crate) struct Apis {
    /// Print JSON instead of aligned text.
    #[arg(long)]
    json: bool,
}

const HEADINGS: [&str; 10] = [
    "KEY",
    "NAME",
    "REQUESTS",
    "RESPONSES",
    "FLEXIBLE",
    "SERVED",
    "AT",
    "HEADERS",
    "REQUEST BYTES",
    "RESPONSE BYTES",
];

impl Apis {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        if self.json {
            return Ok(out.json(&Value::Array(API_TABLE.iter().map(described).collect()))?);
        }
        Ok(out.table(&HEADINGS, &API_TABLE.iter().map(row).collect::<Vec<_>>())?)
    }
}

/// Header versions and smallest frames of an API at one version.
struct Frames {
    request_header: i16,
    response_header: i16,
    request_size: Option<usize>,
    response_size: Option<usize>,
}

fn frames(api: &ApiInfo, version: i16) -> Option<Frames> {
    let size = |direction| smallest_frame(api.key, direction, version).map(|frame| frame.len());
    Some(Frames {
        request_header: request_header_version(api.key, version)?,
        response_header: response_header_version(api.key, version)?,
        request_size: size(Direction::Request),
        response_size: size(Direction::Response),
    })
}

fn row(api: &ApiInfo) -> Vec<String> {
    let dash = || "-".to_owned();
    let number = |size: Option<usize>| size.map_or_else(dash, |size| size.to_string());
    let mut row = vec![
        api.key.0.to_string(),
        api.name.to_owned(),
        api.request_versions.to_string(),
        api.response_versions.to_string(),
        flexible_from(api).map_or_else(dash, |from| from.to_string()),
        served_versions(api.key).map_or_else(dash, |versions| versions.to_string()),
    ];
    let highest = highest_version(api, Some(Direction::Request));
    row.push(highest.map_or_else(dash, |version| version.to_string()));
    match highest.and_then(|version| frames(api, version)) {
        Some(frames) => row.extend([
            format!("{}, {}", frames.request_header, frames.response_header),
            number(frames.request_size),
            number(frames.response_size),
        ]),
        None => row.extend([dash(), dash(), dash()]),
    }
    row
}

fn flexible_from(api: &ApiInfo) -> Option<i16> {
    (!api.request_flexible.is_empty()).then_some(api.request_flexible.min)
}

fn described(api: &ApiInfo) -> Value {
    let version = |version: i16| {
        let frames = frames(api, version)?;
        Some(json!({
            "version": version,
            "request_header": frames.request_header,
            "response_header": frames.response_header,
            "smallest_request": frames.request_size,
            "smallest_response": frames.response_size,
        }))
    };
    let range = |versions: Versions| (!versions.is_empty()).then(|| versions.to_string());
    json!({
        "key": api.key.0,
        "name": api.name,
        "request_versions": range(api.request_versions),
        "response_versions": range(api.response_versions),
        "flexible_from": flexible_from(api),
        "latest_version_unstable": api.latest_version_unstable,
        "listeners": api.listeners,
        "served": served_versions(api.key).and_then(range),
        "versions": api.request_versions.iter().filter_map(version).collect::<Vec<_>>(),
    })
}
