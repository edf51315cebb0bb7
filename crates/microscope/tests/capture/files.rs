//! Kinds of files and links.

use crate::support::{SECOND, blocks, capture, packets, pcap, ping, pong, read, read_with};
use ottla_microscope::capture::{CaptureError, Settings};
use ottla_microscope::conversation::Time;
use ottla_wire::tables::Direction::{Request, Response};
use std::time::Duration;

fn small() -> Vec<u8> {
    capture(&[(Request, ping(1)), (Response, pong(1)), (Request, ping(2)), (Response, pong(2))])
}

fn is_small(file: &[u8], what: &str) {
    let told = read(file);
    assert!(told.end.as_ref().unwrap().is_ok(), "{what}: {:?}", told.end);
    assert_eq!(told.bytes(Request), [ping(1), ping(2)], "{what}");
    assert_eq!(told.bytes(Response), [pong(1), pong(2)], "{what}");
    assert_eq!(told.notices(), [], "{what}");
}

#[test]
fn every_chunk_size_tells_the_same() {
    let file = small();
    for chunk in (1..200).chain([file.len()]) {
        let told = read_with(Settings::default(), &file, chunk);
        assert_eq!(told.bytes(Response), [pong(1), pong(2)], "{chunk}");
        let summary = told.end.unwrap().unwrap();
        assert_eq!((summary.packets, summary.connections, summary.frames), (10, 1, 4));
    }
}

#[test]
fn pcap_in_both_byte_orders_and_resolutions() {
    let packets = packets(&small());
    for big_endian in [false, true] {
        for nanos in [false, true] {
            let file = pcap(&packets, 1, big_endian, nanos);
            is_small(&file, "pcap");
            let told = read(&file);
            let frames = told.frames();
            assert_eq!(frames[1].latency, Some(Duration::from_micros(1)));
            assert_eq!(told.events[1].1, Time(SECOND));
        }
    }
}

#[test]
fn every_kind_of_link() {
    let packets = packets(&small());
    let with = |head: &[u8]| -> Vec<(i64, Vec<u8>)> {
        packets.iter().map(|(time, bytes)| (*time, [head, &bytes[14..]].concat())).collect()
    };
    let vlan = [&[0_u8; 12][..], &[0x81, 0, 0, 7, 8, 0]].concat();
    let cooked = [&[0_u8; 14][..], &[8, 0]].concat();
    let cooked_2 = [&[8_u8, 0][..], &[0; 18]].concat();
    let kinds: [(u32, &[u8]); 7] = [
        (1, &vlan),
        (101, &[]),
        (228, &[]),
        (0, &[2, 0, 0, 0]),
        (108, &[0, 0, 0, 2]),
        (113, &cooked),
        (276, &cooked_2),
    ];
    for (link, head) in kinds {
        is_small(&pcap(&with(head), link, false, false), &format!("link type {link}"));
    }
    let told = read(&pcap(&with(&[]), 147, false, false));
    assert_eq!(told.end.unwrap().unwrap().unknown_links.get(&147), Some(&10));
}

#[test]
fn several_sections_interfaces_and_resolutions() {
    let file = small();
    let all = blocks(&file);
    let (section, packets) = (&all[0], &all[2..]);
    let interface = |resolution: Option<u8>, offset: i64| {
        let mut options = Vec::new();
        if let Some(resolution) = resolution {
            options.extend([9, 0, 1, 0, resolution, 0, 0, 0]);
        }
        options.extend([14, 0, 8, 0]);
        options.extend(offset.to_le_bytes());
        options.extend([0; 4]);
        let length = (20 + options.len() as u32).to_le_bytes();
        [&[1, 0, 0, 0][..], &length, &[1, 0, 0, 0], &[0; 4], &options, &length].concat()
    };
    let number = |block: &[u8], at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
    // The first half of the packets in nanoseconds from interface 1, the second in another section in 1/1024 s with an
    // offset.
    let mut out = [section.clone(), interface(None, 0), interface(Some(9), 0)].concat();
    for packet in &packets[..5] {
        let mut packet = packet.clone();
        packet[8] = 1;
        out.extend(packet);
    }
    // A block of an unknown kind.
    out.extend([99, 0, 0, 0, 16, 0, 0, 0, 1, 2, 3, 4, 16, 0, 0, 0]);
    out.extend([section.clone(), interface(Some(0x8a), 100)].concat());
    for packet in &packets[5..] {
        let mut packet = packet.clone();
        let time = u64::from(number(&packet, 12)) << 32 | u64::from(number(&packet, 16));
        let ticks = time / (SECOND as u64 / 1_024);
        packet[12..16].copy_from_slice(&((ticks >> 32) as u32).to_le_bytes());
        packet[16..20].copy_from_slice(&(ticks as u32).to_le_bytes());
        out.extend(packet);
    }
    is_small(&out, "sections");
    let told = read(&out);
    let last = told.events.iter().rfind(|(_, time, _)| time.0 > 50 * SECOND).unwrap();
    assert_eq!(last.1.0 / SECOND, 102);
}

#[test]
fn a_file_that_is_none_and_one_that_is_cut_are_said() {
    let told = read(b"PK\x03\x04 something else");
    assert_eq!(told.end, Some(Err(CaptureError::NotACapture(b"PK\x03\x04".to_vec()))));
    assert_eq!(read(b"").end, Some(Err(CaptureError::NotACapture(vec![]))));
    let file = small();
    for end in blocks(&file)[0].len() + 1..file.len() {
        match read(&file[..end]).end.unwrap() {
            Ok(_) | Err(CaptureError::Cut { .. }) => {}
            other => panic!("{end}: {other:?}"),
        }
    }
    let mut damaged = file.clone();
    let at = blocks(&file)[..3].concat().len();
    damaged[at + 4..at + 8].copy_from_slice(&[255; 4]);
    let Some(Err(CaptureError::Damaged { at: said, .. })) = read(&damaged).end else { panic!() };
    assert_eq!(said, at as u64);
}
