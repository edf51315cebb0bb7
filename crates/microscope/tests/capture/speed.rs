//! How fast a capture goes through.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a measurement needs a clock, a file and a place to say what it saw"
)]

use crate::support::{connection, pong, request};
use ottla_microscope::capture::{CaptureReader, PcapngWriter, Settings};
use ottla_microscope::conversation::{Event, Time};
use ottla_wire::Text;
use ottla_wire::messages::HeartbeatRequest;
use ottla_wire::tables::Direction;
use std::time::Instant;

/// The peak of this process's memory, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// `cargo test --release -p ottla-microscope --test capture speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement: run it alone, in release"]
fn speed_of_a_200_mib_capture() {
    let path = std::env::temp_dir().join(format!("speed-{}.pcapng", std::process::id()));
    let size = write(&path);
    let mib = size as f64 / (1 << 20) as f64;
    let before = peak();
    for round in 0..3 {
        let started = Instant::now();
        let mut read = 0;
        each(&path, &mut |chunk| read += chunk.iter().step_by(64).map(|b| usize::from(*b)).sum::<usize>());
        let plain = started.elapsed().as_secs_f64();
        let (mut reading, mut frames, mut bytes) = (CaptureReader::new(Settings::default()), 0, 0);
        let mut sink = |_: &_, _: &_, _, event| {
            if let Event::Frame(frame) = event {
                frames += 1;
                bytes += frame.bytes.len();
            }
        };
        let started = Instant::now();
        each(&path, &mut |chunk| reading.push(chunk, &mut sink).unwrap());
        reading.finish(&mut sink).unwrap();
        let taken = started.elapsed().as_secs_f64();
        println!(
            "round {round}: {mib:.0} MiB, {frames} frames of {bytes} bytes: {:.0} MiB/s; a plain read {:.0} MiB/s: ratio {:.1}; \
             memory grew by {} KiB ({read})",
            mib / taken,
            mib / plain,
            taken / plain,
            peak() - before
        );
    }
    std::fs::remove_file(path).unwrap();
}

fn each(path: &std::path::Path, take: &mut dyn FnMut(&[u8])) {
    use std::io::Read;
    let mut file = std::fs::File::open(path).unwrap();
    let mut chunk = vec![0; 256 << 10];
    loop {
        match file.read(&mut chunk).unwrap() {
            0 => return,
            read => take(&chunk[..read]),
        }
    }
}

/// Twenty connections in turn: frames of 100 bytes to 300 KiB in packets of an ethernet's size, each answered.
fn write(path: &std::path::Path) -> usize {
    use std::io::Write;
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut writer = PcapngWriter::new();
    let (mut size, mut id) = (0, 0);
    let mut put = |bytes: Vec<u8>| {
        size += bytes.len();
        file.write_all(&bytes).unwrap();
        size
    };
    let mut size = put(writer.header());
    while size < 200 << 20 {
        for number in 0..20 {
            id += 1;
            let length = [60, 1_000, 4_000, 30_000][id as usize % 4];
            let member_id = Text::from("m".repeat(length));
            let frame = request(&HeartbeatRequest { member_id, ..Default::default() }, 4, id);
            let time = Time(i64::from(id) * 1_000);
            for part in frame.chunks(1_448) {
                put(writer.data(&connection(number), Direction::Request, time, part));
            }
            size = put(writer.data(&connection(number), Direction::Response, time, &pong(id)));
        }
    }
    size
}
