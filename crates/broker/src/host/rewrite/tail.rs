//! Rewriting of the tail: batches of the log go into runs. The log has them in the order of arrival, a run by
//! partition. So the job reads through the log, collects in memory as many of the next batches of the run as fit, and
//! then writes them in the run's order.

use super::error::JobError;
use super::job::{BatchToWrite, Job, JobResult, OpenPart, Output};
use crate::stored::marker_bytes;
use ottla_core::partitions::{Install, TailPlan, TailRange};
use ottla_store::{BatchHead, PartCutter};
use ottla_types::LogPosition;
use ottla_types::record::{BatchPlace, StoredBatch};

/// A gap between two batches that is no longer than this is read too, because a seek costs more.
const GAP: u64 = 256 << 10;

/// A batch and the number of its range.
type RangedBatch<'a> = (usize, &'a StoredBatch);

/// Batches in the order of the run.
#[derive(Default)]
struct Window {
    memory: Vec<u8>,
    /// Where each batch ends in the memory.
    ends: Vec<usize>,
}

/// Where a batch lies in the log, and where it belongs in the memory.
#[derive(Clone, Copy)]
struct Place {
    position: u64,
    size: usize,
    at: usize,
}

impl Place {
    fn end(&self) -> u64 {
        self.position + self.size as u64
    }
}

/// The range that is being written.
struct Open {
    number: usize,
    install: Install,
    part: OpenPart,
}

impl Job {
    pub(super) fn write_tail(&mut self, plan: &TailPlan) -> Result<JobResult, JobError> {
        let all = plan.ranges.iter().enumerate();
        let all: Vec<RangedBatch<'_>> =
            all.flat_map(|(number, range)| range.batches.iter().map(move |batch| (number, batch))).collect();
        let mut output = Output::new(self.runs.clone());
        let mut window = Window::default();
        let mut open: Option<Open> = None;
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(fitting(rest, self.buffer));
            self.gather(now, &mut window)?;
            for (index, (number, batch)) in now.iter().enumerate() {
                if open.as_ref().is_none_or(|open| open.number != *number) {
                    close(open.take(), &mut output)?;
                    open = plan
                        .ranges
                        .get(*number)
                        .map(|range| begin(*number, range, &mut output))
                        .transpose()?;
                }
                if let Some(open) = &mut open {
                    self.write(batch, window.get(index), open, &mut output)?;
                }
            }
            rest = later;
        }
        close(open, &mut output)?;
        output.finish()
    }

    fn write(
        &mut self,
        batch: &StoredBatch,
        bytes: &[u8],
        open: &mut Open,
        output: &mut Output,
    ) -> Result<(), JobError> {
        let marker;
        let bytes = match batch.place {
            BatchPlace::Log { position, .. } => {
                check(batch, bytes).map_err(|what| JobError::Damaged { position: position.0, what })?;
                bytes
            }
            BatchPlace::Marker(says) => {
                marker = marker_bytes(&says, batch.base_offset.0).unwrap_or_default();
                &marker
            }
        };
        let StoredBatch { base_offset, last_offset, max_timestamp, appended, .. } = *batch;
        let moved = BatchToWrite { bytes, base_offset, last_offset, max_timestamp, appended };
        output.push(&mut open.part, &mut open.install, moved)?;
        self.pace.step(bytes.len() as u64)
    }

    /// Fills the window with the batches that lie in the log.
    fn gather(&mut self, wanted: &[RangedBatch<'_>], window: &mut Window) -> Result<(), JobError> {
        let mut places = Vec::with_capacity(wanted.len());
        let mut at = 0;
        window.ends.clear();
        for (_, batch) in wanted {
            if let BatchPlace::Log { position, size } = batch.place {
                places.push(Place { position: position.0, size: size as usize, at });
                at += size as usize;
            }
            window.ends.push(at);
        }
        if window.memory.len() < at {
            // The old buffer is dropped first, and the new one is no larger than needed: both at once would take too
            // much memory.
            window.memory = Vec::new();
            window.memory = vec![0; at];
        }
        places.sort_unstable_by_key(|place| place.position);
        let reader = self.reader.clone();
        let segment = |place: &Place| reader.segment_of(LogPosition(place.position));
        let is_near =
            |one: &Place, next: &Place| next.position <= one.end() + GAP && segment(one) == segment(next);
        for near in places.chunk_by(is_near) {
            let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
            let (from, to) = (LogPosition(first.position), LogPosition(last.end()));
            let mut left = near;
            let (memory, pace) = (&mut window.memory, &mut self.pace);
            let mut stopped = Ok(());
            self.reader
                .scan(from, to, &mut |position, piece| {
                    left = copy(left, position.0, piece, memory);
                    stopped = pace.step(piece.len() as u64);
                    if stopped.is_err() { Err(std::io::ErrorKind::Interrupted.into()) } else { Ok(()) }
                })
                .or_else(|error| if stopped.is_err() { Ok(()) } else { Err(error) })?;
            stopped?;
        }
        Ok(())
    }
}

impl Window {
    /// The bytes of a batch; none for a batch without bytes in the log (a marker).
    fn get(&self, index: usize) -> &[u8] {
        let end = self.ends.get(index).copied().unwrap_or(0);
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.memory.get(start..end).unwrap_or_default()
    }
}

/// How many of the first batches fit into so many bytes; one at least.
fn fitting(batches: &[RangedBatch<'_>], most: u64) -> usize {
    let mut bytes = 0;
    let mut fits = |(_, batch): &RangedBatch<'_>| {
        bytes += match batch.place {
            BatchPlace::Log { size, .. } => u64::from(size),
            BatchPlace::Marker(_) => 0,
        };
        bytes <= most
    };
    batches.iter().take_while(|batch| fits(batch)).count().max(1)
}

/// Copies what a piece of the log has of these batches, which come in the order of the log; returns those that are not
/// complete.
fn copy<'a>(batches: &'a [Place], position: u64, piece: &[u8], memory: &mut [u8]) -> &'a [Place] {
    let end = position + piece.len() as u64;
    let mut left = batches;
    for (number, place) in batches.iter().enumerate() {
        if place.position >= end {
            break;
        }
        let from = place.position.max(position);
        let to = place.end().min(end);
        let target = place.at + (from - place.position) as usize;
        let source = piece.get((from - position) as usize..(to - position) as usize);
        if let (Some(source), Some(target)) = (source, memory.get_mut(target..target + (to - from) as usize))
        {
            target.copy_from_slice(source);
        }
        if place.end() <= end {
            left = batches.get(number + 1..).unwrap_or_default();
        }
    }
    left
}

/// Whether these are the bytes of the batch, whole.
fn check(batch: &StoredBatch, bytes: &[u8]) -> Result<(), String> {
    let head = BatchHead::read(bytes).map_err(|fault| fault.to_string())?;
    let is_it = head.size == bytes.len()
        && (head.base_offset, head.last_offset) == (batch.base_offset, batch.last_offset);
    if !is_it {
        return Err(format!("it has not the batch at offset {}", batch.base_offset.0));
    }
    if head.matches(bytes) { Ok(()) } else { Err("the checksum of a batch does not match".to_owned()) }
}

fn begin(number: usize, range: &TailRange, output: &mut Output) -> Result<Open, JobError> {
    let cutter = PartCutter::new(range.cut.bytes, range.cut.span);
    Ok(Open { number, install: range.install(), part: output.begin(range.class, cutter)? })
}

fn close(open: Option<Open>, output: &mut Output) -> Result<(), JobError> {
    if let Some(Open { mut install, mut part, .. }) = open {
        output.end(&mut part, &mut install)?;
        output.installs(install);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_put_together_from_pieces_in_which_they_lie_by_chance() {
        let log: Vec<u8> = (0..=255).collect();
        let places = [
            Place { position: 3, size: 10, at: 20 },
            Place { position: 13, size: 1, at: 0 },
            Place { position: 20, size: 19, at: 1 },
        ];
        for piece in 1..40 {
            let mut memory = vec![0; 30];
            let mut left = &places[..];
            for (number, bytes) in log[3..39].chunks(piece).enumerate() {
                left = copy(left, 3 + (number * piece) as u64, bytes, &mut memory);
            }
            assert!(left.is_empty());
            let expected: Vec<u8> = (13..14).chain(20..39).chain(3..13).collect();
            assert_eq!(memory, expected, "pieces of {piece}");
        }
    }
}
