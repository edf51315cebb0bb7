//! The storage interface of snapshots and runs: immutable blobs, found by name.
//!
//! ```text
//!   create ──▶ append, sync … ──▶ seal ──▶ publish ──▶ open, read ranges, free ranges ──▶ delete
//!              not visible        durable   visible under its name
//! ```
//! A store of files on a [`crate::Medium`] is in `blob/files.rs`. An object store can implement the same traits:
//! `append` fills the parts of an upload, `seal` ends the upload, and the name is put only if it is absent.

mod files;

pub(crate) use files::FileBlobs;
#[cfg(test)]
pub(crate) use files::file_blob;

use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A store of immutable blobs.
pub(crate) trait BlobStore: Send + Sync {
    /// The names of all published blobs, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Begins a blob that will have this name.
    fn create(&self, name: &str) -> io::Result<Box<dyn BlobWriter>>;
    /// Opens a published blob; `NotFound` if there is none with this name.
    fn open(&self, name: &str) -> io::Result<Arc<dyn Blob>>;
    /// Deletes a published blob. Open handles may continue to read it.
    fn delete(&self, name: &str) -> io::Result<()>;
}

/// A blob that is being written. If it is dropped before it is published, nothing remains of it.
pub(crate) trait BlobWriter: Send {
    /// Appends bytes. Large aligned pieces are the fastest.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was appended durable, so that sealing has less to do. A store that has no use for it does nothing.
    fn sync(&mut self) -> io::Result<()>;
    /// Ends the blob and makes its bytes durable. Returns it, to be read back before it is published.
    fn seal(&mut self) -> io::Result<Arc<dyn Blob>>;
    /// Makes the sealed blob visible under its name, durably.
    fn publish(&mut self, existing: Existing) -> io::Result<()>;
}

/// What happens to a blob that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and publishing fails with `AlreadyExists`: put if absent.
    Keep,
    /// It is replaced.
    Replace,
}

/// A blob that can be read.
pub(crate) trait Blob: Send + Sync {
    /// Bytes of the blob.
    fn size(&self) -> io::Result<u64>;
    /// Reads into `buf` from `offset`; fewer bytes than asked for mean that the blob ends there.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Fills `buf` from `offset` if that needs no wait for the store, and returns whether it did. If not, the content
    /// of `buf` is undefined.
    fn try_read_at(&self, buf: &mut [u8], offset: u64) -> bool;
    /// Gives back the space of a range, which is never read again. A store that cannot do that does nothing.
    fn free_range(&self, range: Range<u64>) -> io::Result<()>;
}
