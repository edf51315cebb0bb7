//! Real traffic: kcat (librdkafka) producing three records to a topic and consuming them, captured by tcpdump.

use crate::support::{read, read_with};
use ottla_microscope::capture::{PcapngWriter, Settings};
use ottla_microscope::conversation::{Event, Kind};
use ottla_wire::explain::Options;
use ottla_wire::tables::{Direction, TableSet};
use std::collections::BTreeMap;

const KCAT: &[u8] = include_bytes!("kcat.pcap");

#[test]
fn every_frame_of_a_real_client_is_read_to_its_last_byte() {
    let result = read(KCAT);
    assert!(result.end.as_ref().unwrap().is_ok());
    let mut counts = BTreeMap::new();
    for frame in result.frames() {
        assert_eq!(frame.kind, Kind::Message);
        let tree = frame.explain(TableSet::built_in(), &Options::default()).unwrap();
        assert_eq!(tree.faults().len(), 0, "{:?}", frame.head);
        let head = frame.head.as_ref().unwrap();
        let count = counts.entry((head.key.name(), head.version)).or_insert([0, 0]);
        count[usize::from(frame.direction == Direction::Response)] += 1;
    }
    assert!(counts.values().all(|[asked, answered]| asked == answered), "{counts:?}");
    let names: Vec<String> =
        counts.iter().map(|((name, version), [count, _])| format!("{name} {version}: {count}")).collect();
    assert_eq!(
        names.join(", "),
        "ApiVersions 3: 2, Fetch 11: 1, ListOffsets 2: 1, Metadata 4: 3, Produce 7: 1"
    );
    assert_eq!(result.notices(), []);
}

#[test]
fn it_reads_the_same_after_the_port_is_said_and_after_it_was_written_again() {
    let result = read(KCAT);
    let by_port = read_with(Settings { port: Some(19_392), ..Settings::default() }, KCAT, 10);
    let mut writer = PcapngWriter::new();
    let mut file = writer.header();
    for (connection, time, event) in &result.events {
        file.extend(match event {
            Event::Opened => writer.open(connection, *time),
            Event::Frame(frame) => writer.data(connection, frame.direction, *time, &frame.bytes),
            Event::Notice(..) => Vec::new(),
            Event::Closed => writer.close(connection, *time),
        });
    }
    let again = read(&file);
    for other in [&by_port, &again] {
        for direction in [Direction::Request, Direction::Response] {
            assert_eq!(result.bytes(direction), other.bytes(direction));
        }
        let when = |result: &crate::support::CaptureResult| {
            result.events.iter().map(|(_, time, _)| *time).collect::<Vec<_>>()
        };
        assert_eq!(when(&result), when(other));
    }
}
