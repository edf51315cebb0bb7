//! System calls that fail or do only a part: the broker either continues, or exits with the reason and has everything
//! acknowledged after a restart. strace injects errors; a library that is loaded before libc shortens calls.

use crate::binary::{ExitedBroker, Ottla, data};
use crate::work;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How often the broker reacted in each way.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Outcomes {
    /// Everything was acknowledged.
    untouched: u32,
    /// Something was refused, and the broker continued.
    refused: u32,
    /// It exited.
    ended: u32,
    /// It did not start.
    not_started: u32,
    /// No thread made so many calls, so nothing failed.
    missed: u32,
}

/// Fails the first, second, ... call of each thread, in all ways given.
async fn inject(call: &str, errors: &[&str], most: u32) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("strace").display().to_string();
    for error in errors {
        for nth in 1..=most {
            let (trace, inject) =
                (format!("trace={call}"), format!("inject={call}:error={error}:when={nth}"));
            let words = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", &log, "-e", &trace, "-e", &inject];
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            run(&words, &format!("{call} {error} {nth}"), &mut outcomes).await;
            let hit = fs::read_to_string(&log).unwrap().contains("(INJECTED)");
            outcomes.missed += u32::from(!hit);
        }
    }
    println!("{call}: {outcomes:?}");
    outcomes
}

/// The result if the broker exited; none if it answers. After a failed sync one of the two happens eventually.
async fn end_or_answer(ottla: &mut Ottla) -> Option<ExitedBroker> {
    let patience = Duration::from_secs(1);
    for _ in 0..60 {
        if let Some(ended) = ottla.ended() {
            return Some(ended);
        }
        if let Ok(client) = work::client(&ottla.address, patience).await
            && client.topics().await.is_ok()
        {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    unreachable!("the broker neither ends nor answers; it said: {}", ottla.said())
}

/// Runs the broker with a fault and then without, and checks that everything acknowledged by the first run is there.
async fn run(words: &[String], case: &str, outcomes: &mut Outcomes) {
    let (_folder, data) = data();
    let mut seen = work::AcknowledgedWrites::default();
    match Ottla::start_within(words, &data) {
        Err(ended) => {
            ended.assert_has_reason(case);
            outcomes.not_started += 1;
        }
        Ok(mut ottla) => {
            seen = work::run(&ottla.address).await;
            match end_or_answer(&mut ottla).await {
                Some(ended) => {
                    ended.assert_has_reason(case);
                    outcomes.ended += 1;
                }
                None => {
                    // It runs, so it serves; its exit may still report that the last sync failed.
                    work::check(&ottla.address, &seen, case).await;
                    let slot = if seen.is_all() { &mut outcomes.untouched } else { &mut outcomes.refused };
                    *slot += 1;
                    let ended = ottla.stop();
                    if !ended.status.success() {
                        ended.assert_has_reason(case);
                    }
                }
            }
        }
    }
    let ottla = Ottla::start(&data);
    work::check(&ottla.address, &seen, case).await;
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask faults"]
async fn a_failed_write_ends_the_broker_or_is_tried_again() {
    let outcomes = inject("pwrite64", &["EIO", "ENOSPC", "EINTR"], 9).await;
    assert!(outcomes.ended > 0 && outcomes.untouched > 0, "{outcomes:?}");
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask faults"]
async fn a_failed_sync_ends_the_broker() {
    let outcomes = inject("fdatasync", &["EIO", "ENOSPC"], 9).await;
    assert!(outcomes.ended > 0, "{outcomes:?}");
    inject("fsync", &["EIO"], 3).await;
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask faults"]
async fn room_that_cannot_be_reserved_is_no_reason_to_lose_anything() {
    inject("fallocate", &["EIO", "ENOSPC", "EINTR"], 2).await;
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask faults"]
async fn a_file_that_cannot_be_opened_is_said() {
    inject("openat", &["EIO", "EMFILE", "ENOSPC"], 16).await;
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask faults"]
async fn a_failed_rename_is_said() {
    let outcomes = inject("rename,renameat2", &["EIO", "ENOSPC"], 2).await;
    assert!(outcomes.not_started > 0, "{outcomes:?}");
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask faults"]
async fn a_failed_read_is_said() {
    inject("pread64", &["EIO", "EINTR"], 6).await;
}

#[tokio::test]
#[ignore = "needs strace: cargo xtask faults"]
async fn connections_that_cannot_be_accepted_come_later() {
    let outcomes = inject("accept4", &["EMFILE", "ENFILE", "EINTR", "ECONNABORTED"], 5).await;
    assert_eq!(outcomes, Outcomes { untouched: 20, ..Outcomes::default() });
}

/// Builds the library that shortens calls.
fn library(folder: &Path) -> String {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/halves.c");
    let library = folder.join("halves.so").display().to_string();
    let status =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", &library, source, "-ldl"]).status();
    assert!(status.unwrap().success(), "cc cannot build {source}");
    library
}

#[tokio::test]
#[ignore = "needs a C compiler: cargo xtask faults"]
async fn calls_that_do_half_of_it_are_finished() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let mut outcomes = Outcomes::default();
    for call in ["pwrite64", "pread64"] {
        for nth in [1, 2, 3, 7] {
            let words = ["env".to_owned(), format!("LD_PRELOAD={library}"), format!("HALVES={call}:{nth}")];
            run(&words, &format!("half of every {nth} {call}"), &mut outcomes).await;
        }
    }
    assert_eq!(outcomes, Outcomes { untouched: 8, ..Outcomes::default() });
}
