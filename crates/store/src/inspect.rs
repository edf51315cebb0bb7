//! Reads the data folder of a stopped broker completely for `ottla log`, and skips damage. It changes nothing.
//!
//! A broker reads the log from the newest snapshot on, and refuses to start at the first damage. This module reads
//! every segment. After damage it continues with the next group that belongs to the log.

mod fragments;
mod snapshot;
mod walk;

pub use crate::recovery::SalvageItem;
pub use snapshot::SnapshotItem;
pub use walk::{Damage, LogEnd, LogItem};

use crate::blob::{BlobStore, FileBlobs};
use crate::buffer::Pool;
use crate::error::OpenError;
use crate::medium::Medium;
use crate::names::{IDENTITY, Listing, run_name, segment_name, snapshot_name, temporary};
use crate::read_ahead::ReadAhead;
use crate::recovery::{RecoveryReport, ReplayItem, dry_run, list, read_identity, replay_past_damage};
use crate::runs::{PartBatch, RunError, RunFiles, Runs, salvage_part};
use crate::segments::SegmentFiles;
use ottla_layout::{BLOCK, Geometry, Identity, SegmentHeader};
use ottla_types::Offset;
use ottla_types::record::RunPart;
use std::io;
use std::sync::Arc;

/// The data folder of a stopped broker.
pub struct Folder {
    files: SegmentFiles,
    runs: Arc<RunFiles>,
    blobs: Arc<dyn BlobStore>,
    identity_fault: Option<OpenError>,
    listing: Listing,
    medium: Arc<dyn Medium>,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("listing", &self.listing).finish_non_exhaustive()
    }
}

impl Folder {
    /// Lists the files of a folder and reads its identity.
    ///
    /// # Errors
    /// The medium fails, or neither the identity nor a segment header says how to read the folder.
    pub fn open(medium: Arc<dyn Medium>) -> Result<Folder, OpenError> {
        let blobs: Arc<dyn BlobStore> = Arc::new(FileBlobs::new(Arc::clone(&medium)));
        let listing = list(medium.as_ref(), &*blobs)?;
        let (identity, identity_fault) = match identity(medium.as_ref(), &listing) {
            Ok(identity) => (identity, None),
            Err(error) => match identity_of_segments(medium.as_ref(), &listing) {
                Some(identity) => (identity, Some(error)),
                None => return Err(error),
            },
        };
        let files = SegmentFiles::new(Arc::clone(&medium), identity, &listing);
        let read_ahead = Arc::new(ReadAhead::new(identity.geometry.segment_size()));
        let runs = Arc::new(RunFiles::new(Arc::clone(&blobs), identity, read_ahead, &listing.runs));
        Ok(Folder { files, runs, blobs, identity_fault, listing, medium })
    }

    /// The identity.
    pub fn identity(&self) -> Identity {
        self.files.identity
    }

    /// Why the identity file cannot be used, if it cannot. The identity then comes from the segment headers.
    pub fn identity_fault(&self) -> Option<&OpenError> {
        self.identity_fault.as_ref()
    }

    /// Numbers of the segments, in order.
    pub fn segments(&self) -> Vec<u64> {
        self.files.segments()
    }

    /// The runs. They can be read only.
    pub fn runs(&self) -> Runs {
        Runs::new(Arc::clone(&self.runs), Pool::new(4 << 20), None)
    }

    /// The name of a run's file.
    pub fn run_name(number: u64) -> String {
        run_name(number)
    }

    /// Positions of the snapshots, oldest first.
    pub fn snapshots(&self) -> Vec<u64> {
        self.listing.snapshots.iter().copied().collect()
    }

    /// Incomplete files, which a start of the broker removes.
    pub fn temporary(&self) -> &[String] {
        &self.listing.temporary
    }

    /// The name of a segment's file.
    pub fn segment_name(number: u64) -> String {
        segment_name(number)
    }

    /// The name of a snapshot's file.
    pub fn snapshot_name(position: u64) -> String {
        snapshot_name(position)
    }

    /// The segment in which replay begins, according to the name of the newest snapshot. Earlier segments are kept only
    /// for their batches.
    pub fn replay_segment(&self) -> u64 {
        let newest = self.listing.snapshots.last().copied().unwrap_or(0);
        self.identity().geometry.replay_segment(newest)
    }

    /// Replays the log as a start of the broker does, and fails where a start refuses.
    ///
    /// # Errors
    /// Those with which a start would refuse.
    pub fn start(&self, replay: &mut dyn FnMut(ReplayItem)) -> Result<RecoveryReport, OpenError> {
        identity(self.medium.as_ref(), &self.listing)?;
        dry_run(Arc::clone(&self.medium), self.identity(), &self.listing, replay)
    }

    /// Replays the log as [`Folder::start`] does, but skips damage.
    ///
    /// # Errors
    /// The medium fails.
    pub fn replay(&self, visit: &mut dyn FnMut(SalvageItem)) -> Result<(), OpenError> {
        replay_past_damage(Arc::clone(&self.medium), self.identity(), &self.listing, visit)
    }

    /// Reads fragments: the entries that can be read between two positions where no valid group is. Returns the
    /// position and the bytes of each entry. No checksum proves that the bytes are those that were written.
    ///
    /// # Errors
    /// The medium fails.
    pub fn fragments(&self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, OpenError> {
        fragments::between(self, from, to)
    }

    /// Reads every segment from start to end and passes its items to `visit`, in log order.
    ///
    /// # Errors
    /// The medium fails, or what `visit` returns.
    pub fn walk<E: From<OpenError>>(
        &self,
        visit: &mut dyn FnMut(LogItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        walk::walk(&self.files, self.replay_segment(), visit)
    }

    /// Reads a snapshot from its start to the first damage.
    ///
    /// # Errors
    /// The medium fails, or what `visit` returns.
    pub fn snapshot<E: From<OpenError>>(
        &self,
        position: u64,
        visit: &mut dyn FnMut(SnapshotItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let name = snapshot_name(position);
        let blob = self.blobs.open(&name).map_err(OpenError::medium(&name, "opening"))?;
        snapshot::read(blob.as_ref(), &name, &self.identity(), position, visit)
    }

    /// Reads a part and skips damage: passes intact batches to `sink`, in order. Returns the ranges (first and last
    /// offset) in which batches are lost.
    ///
    /// # Errors
    /// The medium fails, or what `sink` returns.
    pub fn salvage_part(
        &self,
        part: &RunPart,
        sink: &mut dyn FnMut(PartBatch) -> Result<(), RunError>,
    ) -> Result<Vec<(Offset, Offset)>, RunError> {
        salvage_part(&self.runs, &Pool::new(0), part, sink)
    }

    /// Copies the file of a run as it is, and makes it durable.
    ///
    /// # Errors
    /// One of the media fails.
    pub fn copy_run(&self, number: u64, to: &dyn Medium) -> io::Result<()> {
        let name = run_name(number);
        let from = self.medium.open(&name)?;
        let file = to.create(&temporary(&name))?;
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            let found = from.read_at(&mut buffer, at)?;
            if found == 0 {
                break;
            }
            file.write_at(&buffer[..found], at)?;
            at += found as u64;
        }
        file.sync()?;
        to.rename(&temporary(&name), &name)?;
        to.sync_names()
    }

    /// The `len` bytes at a position of the log, inside one segment: fewer if the file ends before, none if there is no
    /// file.
    ///
    /// # Errors
    /// The medium fails.
    pub fn read(&self, position: u64, len: usize) -> Result<Vec<u8>, OpenError> {
        let geometry = self.identity().geometry;
        let number = geometry.segment_of(position);
        if !self.files.is_live(number) {
            return Ok(Vec::new());
        }
        let name = segment_name(number);
        let read = || -> io::Result<Vec<u8>> {
            let file = self.files.segment(number)?;
            let offset = geometry.offset_of(position);
            let rest = geometry.segment_size().min(file.size()?).saturating_sub(offset);
            let mut bytes = vec![0; len.min(usize::try_from(rest).unwrap_or(usize::MAX))];
            let found = file.read_at(&mut bytes, offset)?;
            bytes.truncate(found);
            Ok(bytes)
        };
        read().map_err(OpenError::medium(&name, "reading"))
    }

    /// The first block of a file of this folder, or less if the file ends before. The block holds the file's header.
    ///
    /// # Errors
    /// The medium fails.
    pub fn head(&self, name: &str) -> Result<Vec<u8>, OpenError> {
        let read = || -> io::Result<Vec<u8>> {
            let file = self.medium.open(name)?;
            let mut bytes = vec![0; BLOCK as usize];
            let found = file.read_at(&mut bytes, 0)?;
            bytes.truncate(found);
            Ok(bytes)
        };
        read().map_err(OpenError::medium(name, "reading"))
    }
}

fn identity(medium: &dyn Medium, listing: &Listing) -> Result<Identity, OpenError> {
    if listing.identity {
        return read_identity(medium, 0);
    }
    let why = "the folder holds no log, or only the identity says how to read it".to_owned();
    Err(OpenError::Missing { file: IDENTITY.to_owned(), why })
}

/// The identity that segment headers repeat, if one of them is whole.
fn identity_of_segments(medium: &dyn Medium, listing: &Listing) -> Option<Identity> {
    let headers = listing.segments.iter().filter_map(|number| {
        let file = medium.open(&segment_name(*number)).ok()?;
        let mut block = [0; BLOCK as usize];
        let found = file.read_at(&mut block, 0).ok()?;
        SegmentHeader::decode(&block[..found]).ok().filter(|header| header.number == *number)
    });
    let identities = headers.filter_map(|header| {
        let geometry = Geometry::new(header.segment_size).ok()?;
        Some(Identity { log_id: header.log_id, shard: header.shard, geometry })
    });
    let mut identities = identities.collect::<Vec<_>>().into_iter();
    let first = identities.next()?;
    identities.all(|other| other == first).then_some(first)
}
