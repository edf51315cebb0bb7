//! Capture files: any bytes as one, and any bytes as what was said on two connections of one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_fuzz::captured;
use ottla_microscope::capture::exercise;

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0, said)) => exercise(&captured(said)),
        _ => exercise(data),
    };
});
