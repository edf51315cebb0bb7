//! Messages as JSON: arbitrary JSON written as bytes, and arbitrary bytes read as JSON, beside the typed codec.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use ottla_fuzz::{choose, recode};
use ottla_microscope::json::{self, Options};
use ottla_wire::Reader;

fuzz_target!(|data: &[u8]| {
    let Some((table, version, body)) = choose(data) else { return };
    if let Ok(value) = serde_json::from_slice(body)
        && let Ok(bytes) = json::encode(table, version, &value)
    {
        let (left, canonical) = recode(table, version, &bytes)
            .unwrap_or_else(|| Ok((0, bytes.clone())))
            .unwrap_or_else(|why| panic!("{} {version}: {why}\n{value}", table.name));
        assert_eq!((left, &canonical), (0, &bytes), "{} {version} {value}", table.name);
    }
    let body = Bytes::copy_from_slice(body);
    let mut r = Reader::new(body.clone());
    let read = json::decode(table, version, &mut r, Options::default());
    let Some(typed) = recode(table, version, &body) else { return };
    match (read, typed) {
        (Ok(value), Ok((left, canonical))) => {
            assert_eq!(r.remaining(), left, "{} {version}", table.name);
            let again = json::encode(table, version, &value)
                .unwrap_or_else(|why| panic!("{} {version}: {why}\n{value}", table.name));
            assert_eq!(again, canonical, "{} {version}\n{value}", table.name);
        }
        (Err(_), Err(_)) => {}
        (read, typed) => panic!("{} {version}: {read:?} but {typed:?}", table.name),
    }
});
