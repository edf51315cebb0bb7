//! The smallest frame of every API, direction and version of Kafka 4.4: built from the tables, read and written again
//! by the typed codec, equal to the committed file, and equal to what an independent encoder made of an older Kafka's
//! schemas.

use crate::support::{Case, cases, recode_frame};
use bytes::Bytes;
use ottla_wire::smallest_frame;
use ottla_wire::tables::Direction;
use std::collections::BTreeMap;
use std::fmt::Write;

const GOLDEN: &str = include_str!("../golden/smallest_frames.tsv");
/// Made by an independent encoder from a snapshot of Kafka 4.0.
const ORACLE: &str = include_str!("../golden/oracle_4_0.tsv");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn direction(case: &Case) -> &'static str {
    match case.direction {
        Direction::Request => "request",
        Direction::Response => "response",
    }
}

fn frame(case: &Case) -> Bytes {
    smallest_frame(case.info.key, case.direction, case.version).unwrap_or_default()
}

fn golden_table() -> String {
    let mut table = String::from("api_key\tname\tkind\tversion\tsize\tframe_hex\n");
    for case in cases() {
        let frame = frame(&case);
        let (key, name, version) = (case.info.key.0, case.table.name, case.version);
        let _ = writeln!(
            table,
            "{key}\t{name}\t{}\t{version}\t{}\t{}",
            direction(&case),
            frame.len(),
            hex(&frame)
        );
    }
    table
}

#[test]
fn the_golden_file_is_what_the_tables_give() {
    let table = golden_table();
    for (line, (ours, golden)) in table.lines().zip(GOLDEN.lines()).enumerate() {
        assert_eq!(ours, golden, "line {}", line + 1);
    }
    assert_eq!(table.lines().count(), GOLDEN.lines().count());
}

#[test]
#[ignore = "writes the golden file anew: run it when the schemas change, and read the difference"]
#[expect(clippy::disallowed_methods, reason = "a tool for the developer, not a test")]
fn write_the_golden_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden_data/smallest_frames.tsv");
    std::fs::write(path, golden_table()).unwrap();
}

#[test]
fn the_typed_codec_gives_back_every_frame() {
    for case in cases() {
        let whole = frame(&case);
        let (left, body, _) = recode_frame(&case, &whole).unwrap();
        assert_eq!(left, 0, "{case:?}");
        assert_eq!(body, whole[whole.len() - body.len()..], "{case:?}");
        let header = whole.len() - body.len();
        assert!((8..=15).contains(&header), "{case:?}");
    }
}

#[test]
fn the_seed_sizes() {
    let size = |name: &str, version: i16| -> Vec<usize> {
        let cases = cases().filter(|case| case.info.name == name && case.version == version);
        cases.map(|case| frame(&case).len()).collect()
    };
    assert_eq!(size("TxnOffsetCommit", 5), [56, 25]);
    assert_eq!(size("AddOffsetsToTxn", 4), [28, 16]);
}

/// Every row of the independent encoder's file agrees, except for versions that Kafka has removed since and one that
/// changed while it was unstable.
#[test]
fn the_independent_encoder_agrees() {
    let ours: BTreeMap<(i16, &str, i16), String> =
        cases().map(|case| ((case.info.key.0, direction(&case), case.version), hex(&frame(&case)))).collect();
    let (mut agree, mut gone, mut differ) = (0, 0, Vec::new());
    for row in ORACLE.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let key = (columns[0].parse().unwrap(), columns[2], columns[3].parse().unwrap());
        match ours.get(&key) {
            None => gone += 1,
            Some(frame) if frame == columns[5] => agree += 1,
            Some(_) => differ.push(format!("{} {}", columns[1], columns[3])),
        }
    }
    assert_eq!((agree, gone), (535, 118));
    assert_eq!(differ, ["ReadShareGroupStateSummaryResponse 0"]);
}

/// Pseudo-random frames that Apache Kafka's own classes wrote: `cargo xtask schemas vectors`.
const VECTORS: &str = include_str!("../golden/vectors.tsv");

#[test]
fn frames_of_a_second_implementation_come_back() {
    let mut seen = 0;
    for row in VECTORS.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let request = columns[2] == "request";
        let case = cases().find(|case| {
            case.info.key.0.to_string() == columns[0]
                && case.version.to_string() == columns[3]
                && (case.direction == Direction::Request) == request
        });
        let case = case.unwrap_or_else(|| panic!("no such API and version: {}", &row[..60]));
        let digits: Vec<u8> =
            columns[7].chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        let frame: Bytes = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let (left, body, _) = recode_frame(&case, &frame).unwrap_or_else(|why| panic!("{case:?}: {why}"));
        assert_eq!(left, 0, "{case:?}");
        assert_eq!(body, frame.slice(frame.len() - body.len()..), "{case:?}");
        seen += 1;
    }
    assert_eq!(seen, cases().count());
}
