//! The operations of a medium: a flat folder of named files. The other modules use only these, so that a medium with
//! faults can fail between any two of them.

#[cfg(unix)]
mod disk;
mod memory;

#[cfg(unix)]
pub use disk::DiskMedium;
pub use memory::MemoryMedium;

use std::io;
use std::sync::Arc;

/// A flat folder of files.
///
/// After a crash a name has the state of some moment between the last [`Medium::sync_names`] and the crash.
pub trait Medium: Send + Sync + 'static {
    /// The names in the folder, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>>;
    /// Makes an empty file, in place of one with that name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>>;
    /// Renames a file, in place of one with the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Renames a file; fails with `AlreadyExists` if a file has the new name.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        match self.list()?.iter().any(|name| name == to) {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => self.rename(from, to),
        }
    }
    /// Removes a file; open handles still read it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable as they are now.
    fn sync_names(&self) -> io::Result<()>;
    /// Bytes that can still be written, as far as known.
    fn free_space(&self) -> io::Result<u64>;
    /// Bytes that fit on the medium, used or not, if that is known.
    fn capacity(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// A short description for a log line.
    fn describe(&self) -> String;
}

/// A file of a medium. All methods work by offset, so that one handle serves many threads.
///
/// After a crash every 512-byte sector has the state of some moment between the last [`MediumFile::sync`] and the
/// crash.
pub trait MediumFile: Send + Sync {
    /// Reads into `buf` from `offset`; fewer bytes than asked for means that the file ends there.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Fills `buf` from `offset` if that needs no wait, and returns whether it did. If not, the content of `buf` is
    /// undefined. A medium that cannot know returns false.
    fn read_at_once(&self, _buf: &mut [u8], _offset: u64) -> bool {
        false
    }
    /// Writes all of `buf` at `offset`; the file grows as needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes everything written durable.
    fn sync(&self) -> io::Result<()>;
    /// Bytes in the file.
    fn size(&self) -> io::Result<u64>;
    /// Reserves space for `len` bytes from the start, so that writing them cannot fail for lack of space; the size
    /// stays.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Gives back the space of `len` bytes from `offset` on, which read as zeros from now on; the size stays. A medium
    /// that cannot do that does nothing.
    fn punch(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a read may wait for the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// The read fails with `WouldBlock` if it would have to wait, so that the calling thread can do other work.
    NonBlocking,
    /// The read waits.
    Blocking,
}

/// True for errors that pass when resources are freed: no space, quota, too many open files.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    const TOO_MANY_OPEN_FILES: [i32; 2] = [23, 24];
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        || error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN_FILES.contains(&code))
}

pub(crate) fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{name} does not exist"))
}
