//! The table at the end: counts of frames by API and version.

use super::inspect::Inspection;
use crate::cli::out;
use ottla::tap::RelayedFrame;
use ottla_wire::ApiKey;
use std::collections::BTreeMap;

const HEADINGS: [&str; 8] =
    ["API", "VERSION", "REQUESTS", "BYTES", "RESPONSES", "BYTES", "WITH ERRORS", "FAULTY FRAMES"];

/// The counts of one API and version.
#[derive(Debug, Default)]
struct Counts {
    requests: usize,
    request_bytes: usize,
    responses: usize,
    response_bytes: usize,
    errors: usize,
    faulty: usize,
}

/// The counts of all frames that were shown.
#[derive(Debug, Default)]
pub(super) struct Summary(BTreeMap<Option<(ApiKey, i16)>, Counts>);

impl Summary {
    pub(super) fn count(&mut self, frame: &RelayedFrame, inspection: &Inspection) {
        let counts = self.0.entry(frame.head.as_ref().map(|head| (head.key, head.version))).or_default();
        if frame.is_request {
            counts.requests += 1;
            counts.request_bytes += frame.size;
        } else {
            counts.responses += 1;
            counts.response_bytes += frame.size;
        }
        counts.errors += usize::from(!inspection.errors.is_empty());
        counts.faulty += usize::from(!inspection.faults.is_empty());
    }

    pub(super) fn table(&self) -> String {
        let name = |key: ApiKey| match key.info() {
            Some(info) => info.name.to_owned(),
            None => format!("API {}", key.0),
        };
        let row = |(of, counts): (&Option<(ApiKey, i16)>, &Counts)| {
            let (api, version) = match of {
                Some((key, version)) => (name(*key), version.to_string()),
                None => ("no header".to_owned(), "-".to_owned()),
            };
            let Counts { requests, request_bytes, responses, response_bytes, errors, faulty } = counts;
            let numbers = [requests, request_bytes, responses, response_bytes, errors, faulty];
            [api, version].into_iter().chain(numbers.map(ToString::to_string)).collect()
        };
        out::table(&HEADINGS, &self.0.iter().map(row).collect::<Vec<_>>())
    }
}
