//! Writes what fuzzing starts from into `corpus/`: the golden samples and frames, and batches of every codec.

use ottla_fuzz::{captured, chosen_by, unhex};
use ottla_wire::batch::{BatchBuilder, Header, NewRecord};
use ottla_wire::codec::{Compression, compress};
use ottla_wire::tables::TableSet;
use std::fs;
use std::path::Path;

const SAMPLES: &str = include_str!("../../crates/wire/tests/golden/samples.tsv");
const FRAMES: &str = include_str!("../../crates/wire/tests/golden/smallest_frames.tsv");

fn main() {
    for (number, row) in SAMPLES.lines().skip(1).enumerate() {
        let columns: Vec<&str> = row.split('\t').collect();
        let (name, version) = (columns[0], columns[2].parse().unwrap());
        let Some(mut seed) = chosen_by(name, version) else { continue };
        seed.extend(unhex(columns[3]));
        for target in ["frame", "explain", "json"] {
            put(target, &format!("sample-{number}"), &seed);
        }
        let table = TableSet::built_in().message(name).unwrap();
        let read = ottla_fuzz::as_json(table, version, seed[3..].to_vec());
        put("json", &format!("json-{number}"), &[&seed[..3], read.to_string().as_bytes()].concat());
    }
    for (number, row) in FRAMES.lines().skip(1).enumerate() {
        for column in row.split('\t').filter(|column| column.len() > 12).map(unhex) {
            if column.len() > 4 {
                put("frame", &format!("frame-{number}"), &column[4..]);
                put("explain", &format!("frame-{number}"), &[&[0, 0, 0, 0][..], &column].concat());
            }
        }
    }
    conversations();
    for codec in Compression::ALL {
        let mut batch = BatchBuilder::new(codec).producer(7, 1, 0).transactional(true);
        for value in [&b"one"[..], &[b'x'; 300]] {
            let headers = [Header { key: b"h", value: Some(b"v") }, Header { key: b"h", value: None }];
            batch.push(&NewRecord { timestamp: 5, key: Some(b"key"), value: Some(value), headers: &headers });
        }
        put("records", codec.name(), &batch.build().unwrap());
        let packed = compress(codec, b"some text, some text, some text").unwrap();
        put("records", &format!("{}-packed", codec.name()), &[&[codec.number()], &packed[..]].concat());
    }
}

/// Pairs of a request and its response, as turns and as capture files.
fn conversations() {
    let rows: Vec<Vec<&str>> = FRAMES.lines().skip(1).map(|row| row.split('\t').collect()).collect();
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| row[2] == "request").step_by(7) {
        let answer = rows.iter().find(|other| (other[0], other[2], other[3]) == (row[0], "response", row[3]));
        let mut said = Vec::new();
        for (turn, frame) in [(0, Some(row)), (1, answer)] {
            let Some(frame) = frame.map(|frame| unhex(frame[5])) else { continue };
            said.push(turn);
            said.extend_from_slice(&(frame.len() as u16).to_be_bytes());
            said.extend(frame);
        }
        put("pcap", &format!("said-{number}"), &[&[0], &said[..]].concat());
        put("pcap", &format!("file-{number}"), &captured(&said));
    }
}

fn put(target: &str, name: &str, seed: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), seed).unwrap();
}
