//! Every page there is: all APIs at all versions.

use bytes::Bytes;
use ottla_microscope::diff::diff;
use ottla_microscope::page::{Page, highest_version};
use ottla_microscope::schemas::Schemas;
use ottla_microscope::stream::{Assume, Frames};
use ottla_microscope::text::{self, Paint, Parts};
use ottla_microscope::{names, page_json};
use ottla_wire::ApiInfo;
use ottla_wire::explain::Options;
use ottla_wire::tables::Direction;

fn all() -> impl Iterator<Item = (&'static ApiInfo, i16)> {
    let apis = Schemas::built_in().tables().apis().iter();
    apis.flat_map(|api| api.request_versions.iter().map(move |version| (api, version)))
}

#[test]
fn every_page_has_both_sides_without_a_fault_and_places_every_byte() {
    let schemas = Schemas::built_in();
    assert!(all().count() > 300);
    for (api, version) in all() {
        let page = Page::new(&schemas, api, version).unwrap();
        let sides: Vec<_> = page.sides().collect();
        assert_eq!(sides.len(), 2, "{} v{version}", api.name);
        for side in sides {
            assert_eq!(side.explained.faults(), [], "{}", side.line());
            let cells = side.cells();
            assert_eq!(cells.len(), side.size());
            // Each byte belongs to something that has no other bytes below it, or to the length in front of what has.
            for (at, cell) in cells.iter().enumerate() {
                let node = &side.explained.nodes()[cell.node];
                assert!((node.at as usize..(node.at + node.size) as usize).contains(&at), "{}", side.line());
            }
            assert!(side.schema.contains(&format!("\"name\": \"{}\"", side.message.name)));
        }
        let words = text::page(&page, Parts::ALL, Paint::Plain);
        assert!(words.contains(&format!("Encoded at         v{version}\n")));
        assert!(words.lines().all(|line| line.trim_end() == line));
        let json = page_json::page(&page);
        assert_eq!(json["request"]["tree"]["size"], page.request.as_ref().unwrap().size());
    }
}

#[test]
fn every_name_and_number_leads_to_its_page() {
    let schemas = Schemas::built_in();
    for api in schemas.tables().apis() {
        for name in [api.name.to_owned(), api.name.to_uppercase(), api.key.0.to_string()] {
            let found = names::find(schemas.tables(), &name);
            assert!(matches!(found, Ok(names::Subject::Api(found, None)) if found.key == api.key), "{name}");
        }
        let highest = highest_version(api, None);
        assert_eq!(highest.is_some(), api.request.is_some(), "{}", api.name);
    }
}

#[test]
fn neighbouring_versions_differ_only_in_what_is_named() {
    let schemas = Schemas::built_in();
    for (api, version) in all().filter(|(api, version)| api.request_versions.contains(version - 1)) {
        if !diff(api, version - 1, version).is_empty() {
            continue;
        }
        // Nothing is named, so the bytes are the same but for the version.
        let pages = [version - 1, version].map(|version| Page::new(&schemas, api, version).unwrap());
        for (a, b) in pages[0].sides().zip(pages[1].sides()) {
            let [a, b] = [a, b].map(|side| {
                let mut bytes = side.explained.source(0).to_vec();
                if side.direction == Direction::Request {
                    bytes[6..8].fill(0);
                }
                bytes
            });
            assert_eq!(a, b, "{} v{version}", api.name);
        }
    }
}

#[test]
fn a_stream_of_every_frame_is_recognised() {
    let schemas = Schemas::built_in();
    let (mut stream, mut expected) = (Vec::new(), Vec::new());
    for (id, (api, version)) in (1_000_000_000..).zip(all()) {
        let page = Page::new(&schemas, api, version).unwrap();
        for side in page.sides() {
            let mut frame = side.explained.source(0).to_vec();
            let at = if side.direction == Direction::Request { 8 } else { 4 };
            frame[at..at + 4].copy_from_slice(&i32::to_be_bytes(id));
            stream.extend(frame);
            expected.push((side.direction, Some((api.key, version))));
        }
    }
    let options = Options::default();
    let frames = Frames::new(schemas.tables(), Bytes::from(stream), Assume::Mixed, &options);
    let found: Vec<_> = frames.map(|frame| (frame.direction, frame.api)).collect();
    assert_eq!(found, expected);
}
