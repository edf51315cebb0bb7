//! Bits that flip on the disk while the broker is stopped: it serves what was written, or refuses to start and names
//! file and offset. `a_flipped_bit_anywhere_is_harmless_or_named` in crates/store tests every byte without the binary;
//! this test some hundred with it.

use crate::binary::{Ottla, copy, data, flip};
use crate::work;
use std::fs;
use std::path::Path;

/// Offsets spread over a file, most of them where it has data.
fn places(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let written: Vec<u64> = (0..used).filter(|at| bytes[*at] != 0).map(|at| at as u64).collect();
    let step = (written.len() / 60).max(1);
    let mut places: Vec<u64> = written.iter().copied().step_by(step).collect();
    places.extend([used as u64 / 2, used as u64 / 3, used.saturating_sub(1) as u64]);
    places.retain(|at| *at < bytes.len() as u64);
    places
}

#[tokio::test]
async fn a_flipped_byte_is_harmless_or_named() {
    let (folder, data) = data();
    let ottla = Ottla::start(&data);
    let seen = work::run(&ottla.address).await;
    assert!(seen.is_all(), "{seen:?}");
    assert!(ottla.stop().status.success());
    let (mut refused, mut served) = (0, 0);
    for entry in fs::read_dir(&data).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        for at in places(&data.join(&name)) {
            let case = format!("{name} byte {at}");
            let rotten = folder.path().join("rotten");
            copy(&data, &rotten);
            flip(&rotten.join(&name), at, 1 << (at % 8));
            match Ottla::start_within(&[], &rotten) {
                Ok(ottla) => {
                    work::check(&ottla.address, &seen, &case).await;
                    served += 1;
                }
                Err(ended) => {
                    ended.assert_has_reason(&case);
                    assert!(ended.said.contains(&name), "{case}: {ended:?}");
                    assert!(ended.said.contains("offset") || name == "identity", "{case}: {ended:?}");
                    refused += 1;
                }
            }
            fs::remove_dir_all(&rotten).unwrap();
        }
    }
    assert!(refused > 30 && served > 0, "{refused} refused, {served} served");
}
