//! Recovery over a whole folder that was damaged in many ways.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_layout::{peek_group, seal_group};
use ottla_store::inspect::{Folder, LogItem, SalvageItem};
use ottla_store::testing::FaultMedium;
use ottla_store::{Callbacks, Log, Medium, OpenError, Options, ReplayItem};
use ottla_types::record::{GroupRecord, GroupDeleted, LogRecord};
use std::sync::{Arc, LazyLock};

/// A folder with three openings, several segments, two snapshots and a clean end.
static WHOLE: LazyLock<FaultMedium> = LazyLock::new(|| {
    let medium = FaultMedium::new(1);
    for opening in 0..3 {
        let mut log = Log::open(Arc::new(medium.clone()), options(), Callbacks::none(), &mut |_| {}).unwrap().log;
        for number in 0..9 {
            let length = if number % 3 == 0 { 9000 } else { 300 };
            log.append(&record(opening * 10 + number, length)).unwrap();
            if number % 2 == 0 {
                log.flush().unwrap();
            }
        }
        log.flush().unwrap();
        if opening > 0 {
            let rows = &mut (0..5).map(|row| record(row, 20));
            log.snapshotter().write(log.end(), rows).unwrap();
        }
        log.append(&record(opening, 10)).unwrap();
        log.close().unwrap();
    }
    medium
});

fn options() -> Options {
    Options { segment_size: 64 << 10, threads: false, log_id: Some(0x1234), recent: 0, ..Options::disk() }
}

fn record(number: u32, length: usize) -> LogRecord {
    LogRecord::Groups(GroupRecord::Deleted(GroupDeleted { group_id: format!("{number:0length$}") }))
}

fuzz_target!(|data: &[u8]| {
    let medium = WHOLE.fork(7);
    let files = medium.files();
    for change in data.chunks_exact(8).take(12) {
        let (name, _) = &files[usize::from(change[0]) % files.len()];
        // An earlier change may have cut it off.
        let size = medium.contents(name).len();
        if size > 0 && name != "lock" {
            damage(&medium, name, size, change);
        }
    }
    look(&medium);
});

/// Changes a file: turns a byte, zeroes or moves a block, cuts a file off, or gives a group a checksum that fits again.
fn damage(medium: &FaultMedium, name: &str, size: usize, change: &[u8]) {
    let at = u32::from_le_bytes([change[1], change[2], change[3], 0]) as usize % size;
    let bytes = medium.contents(name);
    let block = at / 4096 * 4096;
    match change[4] % 6 {
        0 | 1 => medium.damage(name, at, &[bytes[at] ^ change[5]]),
        2 => medium.damage(name, at, &vec![0; usize::from(change[5]) * 16]),
        3 => {
            let from = usize::from(change[6]) * 4096 % size;
            let piece = bytes[from..size.min(from + 4096)].to_vec();
            medium.damage(name, block, &piece);
        }
        4 => {
            // A header or length that lies under a checksum that fits.
            let mut group = bytes[block..].to_vec();
            let within = usize::from(change[5]) % 96;
            if let Some(byte) = group.get_mut(within) {
                *byte ^= change[6];
            }
            if let Ok(header) = peek_group(&group) {
                let len = header.len() as usize;
                if let Some(whole) = group.get_mut(..len) {
                    seal_group(&header, whole);
                    medium.damage(name, block, whole);
                }
            }
        }
        _ => {
            let file = medium.create(name).unwrap();
            file.write_at(&bytes[..at], 0).unwrap();
        }
    }
}

fn look(medium: &FaultMedium) {
    let shared: Arc<dyn Medium> = Arc::new(medium.clone());
    let mut looked = Vec::new();
    let mut damaged = false;
    let mut past = Vec::new();
    let start = match Folder::open(Arc::clone(&shared)) {
        Err(error) => Err(error),
        Ok(folder) => {
            let mut groups = 0_u64;
            let walked = folder.walk::<OpenError>(&mut |found| {
                groups += u64::from(matches!(found, LogItem::Group { .. }));
                Ok(())
            });
            walked.unwrap();
            folder.replay(&mut |one| match one {
                SalvageItem::Replayed(replayed) => past.push(replayed),
                SalvageItem::Damage { from, to } => {
                    folder.fragments(from, to).unwrap();
                    damaged = true;
                }
                SalvageItem::Unreadable(_) => damaged = true,
            })
            .unwrap();
            folder.start(&mut |one| looked.push(one))
        }
    };
    let mut opened: Vec<ReplayItem> = Vec::new();
    let open = Log::open(shared, options(), Callbacks::none(), &mut |one| opened.push(one));
    match (start, open) {
        (Ok(_), Ok(_)) => {
            assert!(!damaged, "a start serves what is damaged when it is read past that");
            assert_eq!(looked, opened);
            assert_eq!(past, opened);
        }
        (Err(look), Err(open)) => assert_eq!(look.to_string(), open.to_string()),
        // Without an identity and data a folder is new.
        (Err(OpenError::Missing { .. }), Ok(_)) => assert!(opened.is_empty()),
        (look, open) => panic!("a look says {look:?}, opening says {:?}", open.map(|opened| opened.recovery)),
    }
}
