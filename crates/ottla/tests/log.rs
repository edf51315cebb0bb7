//! `ottla log` on folders that the tests build record by record, so that they are always equal.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

#[path = "log/folder.rs"]
mod folder;
#[path = "log/salvage.rs"]
mod salvage;

use folder::{CommandResult, copy, extents, make, ottla_log, ottla_log_once};
use ottla::Broker;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_running_broker_refuses_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on_folder(folder.path()).start().unwrap();
    for command in ["dump", "verify"] {
        let ended = ottla_log_once(&[command], folder.path());
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{ended:?}");
        let owner = format!("in use by process {}: stop it", std::process::id());
        assert!(ended.err.contains(&owner), "{ended:?}");
    }
    broker.stop().unwrap();
    assert_eq!(ottla_log(&["verify"], folder.path()).status, 0);
}

#[test]
fn what_is_no_data_folder_is_said_and_not_made_one() {
    let folder = tempfile::tempdir().unwrap();
    let ended = ottla_log(&["verify"], folder.path());
    assert_eq!(ended.status, 2);
    assert!(ended.err.contains("identity is missing"), "{ended:?}");
    let nowhere = folder.path().join("nowhere");
    let ended = ottla_log(&["verify"], &nowhere);
    assert!(ended.status == 2 && ended.err.contains("nowhere"), "{ended:?}");
    assert!(!nowhere.exists());
}

/// Compares with a golden file; with OTTLA_GOLDEN set, the file is written.
#[test]
fn everything_is_shown_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), 1);
    let shown = [
        ("lines.txt", &["dump"][..]),
        ("records.txt", &["dump", "--records", "--kind", "batchappended"]),
        ("tree.txt", &["dump", "--tree"]),
        ("hex.txt", &["dump", "--hex", "--topic", "orders"]),
        ("lines.json", &["dump", "--json"]),
        ("partition.txt", &["dump", "--topic", "letters", "--partition", "1", "--from", "2"]),
        ("verify.txt", &["verify"]),
        ("verify.json", &["verify", "--json"]),
    ];
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/log/golden");
    for (name, flags) in shown {
        let ended = ottla_log(flags, folder.path());
        assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{name}");
        if std::env::var_os("OTTLA_GOLDEN").is_some() {
            fs::write(golden.join(name), &ended.out).unwrap();
        }
        assert_eq!(ended.out, fs::read_to_string(golden.join(name)).unwrap(), "{name}");
    }
}

#[test]
fn runs_are_shown_part_by_part() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), 3);
    let flags = ["dump", "--topic", "letters", "--partition", "1", "--from", "4", "--records"];
    let shown = ottla_log(&flags, folder.path());
    let lines: Vec<&str> = shown.out.lines().skip_while(|line| !line.starts_with("run-")).collect();
    let [part, batch, first, second] = lines.as_slice() else { panic!("{shown:?}") };
    assert!(part.starts_with("run-000000000001:0x000011"), "{part}");
    assert!(part.contains("part letters-1 offsets 0 to 5, 303 bytes, directory at 0x"), "{part}");
    assert_eq!(*batch, "  offsets 4 to 5, 2 records, 101 bytes");
    assert!(first.contains("@4 ") && second.contains("value=\"letters-1@5\""), "{shown:?}");
}

/// The rows of the trees have the location of each field: together they cover every used byte of the log once.
#[test]
fn the_tree_covers_every_byte_of_the_log_once() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), 3);
    let tree = ottla_log(&["dump", "--tree"], folder.path()).out;
    // The innermost rows of each tree: the next row is not deeper.
    let rows: Vec<(usize, u64, u64)> = tree.lines().filter_map(row).collect();
    let mut covered: Vec<(u64, u64)> = Vec::new();
    for (here, next) in rows.iter().zip(rows.iter().skip(1).map(Some).chain([None])) {
        if next.is_none_or(|next| next.0 <= here.0) && here.2 > 0 {
            covered.push((here.1, here.2));
        }
    }
    let mut expected: u64 = extents(folder.path()).iter().map(|extent| extent.len).sum();
    let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    for file in files {
        let name = file.file_name().into_string().unwrap();
        expected += match name.as_str() {
            name if name.starts_with("segment-") && segment_begun(folder.path(), name) => 4096,
            name if name.starts_with("snapshot-") || name == "identity" => file.metadata().unwrap().len(),
            _ => 0,
        };
    }
    assert_eq!(covered.iter().map(|(_, size)| size).sum::<u64>(), expected);
}

fn segment_begun(folder: &Path, name: &str) -> bool {
    extents(folder).iter().any(|extent| extent.file == name)
}

/// Depth, offset and size of a row of a tree, unless it lies in decompressed bytes.
fn row(line: &str) -> Option<(usize, u64, u64)> {
    let (head, place) = line.split_once("[0x")?;
    let (offset, rest) = place.split_once(", ")?;
    let (size, _) = rest.split_once("B]")?;
    let depth = head.find("+-- ").map_or(0, |at| at / 4 + 1);
    Some((depth, u64::from_str_radix(offset, 16).ok()?, size.parse().ok()?))
}

/// True if a line of `ottla log verify` names a location in this range of the file.
fn names(ended: &CommandResult, file: &str, from: u64, to: u64) -> bool {
    ended.out.lines().any(|line| {
        let Some((name, rest)) = line.split_once(":0x") else { return false };
        let offset = rest.split_once(' ').and_then(|(offset, _)| u64::from_str_radix(offset, 16).ok());
        name == file && offset.is_some_and(|offset| (from..to).contains(&offset))
    })
}

#[test]
fn a_flipped_byte_anywhere_is_named_by_file_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), 5);
    let whole = ottla_log(&["verify"], folder.path());
    assert_eq!((whole.status, whole.err.as_str()), (0, ""), "{whole:?}");
    let extents = extents(folder.path());
    let last = extents.last().unwrap().clone();
    let mut flipped = 0;
    for extent in &extents {
        let places = (0..64).step_by(7).chain((64..extent.len).step_by(911)).chain([extent.len - 1]);
        for at in places {
            let ended = verify_flipped(folder.path(), &extent.file, extent.offset + at);
            let (from, to) = (extent.offset, extent.offset + extent.len);
            assert!(
                names(&ended, &extent.file, from, to),
                "{} at {at} of {extent:?}: {ended:?}",
                extent.file
            );
            // A torn last group is no damage.
            let torn = extent == &last && at < 64;
            assert!(ended.status == 1 || torn, "{extent:?} at {at}: {ended:?}");
            flipped += 1;
        }
    }
    for file in fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let len = match name.as_str() {
            "identity" => 32,
            name if name.starts_with("snapshot-") => file.metadata().unwrap().len(),
            name if segment_begun(folder.path(), name) => 4096,
            // The first block of a run has its header; zeros pad its end.
            name if name.starts_with("run-") => file.metadata().unwrap().len(),
            _ => continue,
        };
        for at in (0..len.min(64)).step_by(5).chain((64..len).step_by(197)) {
            if name.starts_with("run-") && fs::read(file.path()).unwrap()[at as usize] == 0 {
                // No checksum covers the zeros that pad a run, and no reader reads them.
                continue;
            }
            let ended = verify_flipped(folder.path(), &name, at);
            assert!(ended.status == 1 && names(&ended, &name, 0, at + 1), "{name} at {at}: {ended:?}");
            flipped += 1;
        }
    }
    assert!(flipped > 300, "{flipped} bytes were flipped");
    assert_eq!(ottla_log(&["verify"], folder.path()).out, whole.out);
}

/// The result of verify while one byte is changed.
fn verify_flipped(folder: &Path, file: &str, at: u64) -> CommandResult {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().read(true).write(true).open(folder.join(file)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    let ended = ottla_log(&["verify"], folder);
    file.write_all_at(&byte, at).unwrap();
    ended
}

#[test]
fn verify_says_what_a_start_would_do_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), 6);
    let groups = extents(folder.path());
    let middle = groups[groups.len() - 5].clone();
    folder::flip(folder.path(), &middle.file, middle.offset + 70);
    let before = folder::contents(folder.path());
    let ended = ottla_log(&["verify"], folder.path());
    assert!(ended.out.contains("a start would refuse: "), "{ended:?}");
    assert!(
        ended.out.contains(&format!("{} is damaged at offset {}", middle.file, middle.offset)),
        "{ended:?}"
    );
    assert_eq!(folder::contents(folder.path()), before);
    assert!(Broker::on_folder(folder.path()).start().unwrap_err().to_string().contains(&middle.file));

    let torn = tempfile::tempdir().unwrap();
    copy(folder.path(), torn.path());
    folder::flip(torn.path(), &middle.file, middle.offset + 70);
    let end = groups.last().unwrap().clone();
    folder::flip(torn.path(), &end.file, end.offset + 1);
    let ended = ottla_log(&["verify"], torn.path());
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.out.contains("a torn group that was never acknowledged"), "{ended:?}");
    assert!(ended.out.contains("a start would serve"), "{ended:?}");
    assert!(Broker::on_folder(torn.path()).start().is_ok());
}

#[test]
fn the_example_of_the_format_is_what_is_shown() {
    let page = include_str!("../../../docs/internals/format.md");
    let (_, example) = page.split_once("## An example, byte by byte").unwrap();
    let example: Vec<_> = example.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let tree = include_str!("log/golden/tree.txt");
    assert!(example.len() > 20 && tree.contains(&example.join("\n")), "{example:#?}");
}

#[test]
fn wrong_usage_is_said() {
    let run = |flags: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_ottla")).arg("log").args(flags).output().unwrap();
        (ended.status.code().unwrap(), String::from_utf8(ended.stderr).unwrap())
    };
    let (status, said) = run(&["dump", "--kind", "Nothing"]);
    assert!(status == 2 && said.contains("BatchAppended"), "{said}");
    assert_eq!(run(&["dump", "--partition", "1"]).0, 2);
    assert_eq!(run(&["dump", "--tree", "--json"]).0, 2);
}
