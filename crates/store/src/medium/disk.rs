//! A folder on a disk, through the standard library: O_DIRECT where the file system allows it, and one process at a
//! time.

use super::{Medium, MediumFile};
use crate::error::OpenError;
use ottla_layout::BLOCK;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK: &str = "lock";
/// Writes of at least this many bytes to segments bypass the page cache, even in a medium that uses it: the copy into
/// the cache and its later write-back cost more than the wait for the disk.
const LARGE_WRITE: usize = 256 << 10;

/// A data folder, locked for this process as long as the medium or one of its files exists.
#[derive(Debug)]
pub struct DiskMedium {
    folder: PathBuf,
    /// Why files are not written with O_DIRECT, if they are not: at the caller's request, or because the file system
    /// refused.
    buffered: Option<String>,
    /// With `buffered`: large writes to segments bypass the page cache nevertheless.
    large_direct: bool,
    /// Whether files are opened for reading only.
    read_only: bool,
    lock: Arc<File>,
}

impl DiskMedium {
    /// Opens `folder`, makes it if it does not exist, and locks it.
    pub fn open(folder: &Path) -> Result<DiskMedium, OpenError> {
        let name = folder.display().to_string();
        make_folder(folder).map_err(OpenError::medium(&name, "making the data folder"))?;
        let path = folder.join(LOCK);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(OpenError::medium(&path.display().to_string(), "opening the lock file"))?;
        take_lock(&lock, name)?;
        write_pid(&lock).map_err(OpenError::medium(&path.display().to_string(), "writing the lock file"))?;
        let buffered = open_direct(&path).err().map(|error| format!("O_DIRECT says: {error}"));
        Ok(DiskMedium {
            folder: folder.to_owned(),
            buffered,
            large_direct: false,
            read_only: false,
            lock: Arc::new(lock),
        })
    }

    /// Opens `folder` for reading only, and locks it: nothing in it is changed, and no broker can start on it
    /// meanwhile.
    ///
    /// # Errors
    /// There is no such folder, or another process uses it.
    pub fn open_to_read(folder: &Path) -> Result<DiskMedium, OpenError> {
        let name = folder.display().to_string();
        std::fs::read_dir(folder).map_err(OpenError::medium(&name, "reading the data folder"))?;
        let lock = lock_file(folder).map_err(OpenError::medium(&name, "opening the lock file"))?;
        take_lock(&lock, name)?;
        // A process that finds the folder locked reads our process id, if the lock file can be written.
        let _ = write_pid(&lock);
        let buffered = Some("it is only read".to_owned());
        Ok(DiskMedium {
            folder: folder.to_owned(),
            buffered,
            large_direct: false,
            read_only: true,
            lock: Arc::new(lock),
        })
    }

    /// The same folder, written through the page cache: a write does not wait for the disk, a sync does. Large writes
    /// to segments still bypass the cache where the file system allows that, because they are faster then.
    #[must_use]
    pub fn through_page_cache(self) -> DiskMedium {
        let large_direct = self.buffered.is_none();
        DiskMedium { buffered: Some("that is asked for".to_owned()), large_direct, ..self }
    }

    fn file(&self, name: &str, plain: File) -> Arc<dyn MediumFile> {
        // Only what is written in whole blocks gains from O_DIRECT.
        let in_blocks = ["segment-", "run-"].iter().any(|prefix| name.starts_with(prefix));
        let large_only = self.large_direct && name.starts_with("segment-");
        let wanted = (self.buffered.is_none() && in_blocks) || large_only;
        let direct = wanted.then(|| open_direct(&self.folder.join(name)).ok()).flatten();
        Arc::new(DiskFile { plain, direct, large_only, _lock: Arc::clone(&self.lock) })
    }
}

/// The lock file. A copy of a folder may lack it, and a folder that cannot be written to has no writer to exclude:
/// then the folder itself is locked.
fn lock_file(folder: &Path) -> io::Result<File> {
    let path = folder.join(LOCK);
    let writable = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    writable.or_else(|_| File::open(&path)).or_else(|_| File::open(folder))
}

fn take_lock(lock: &File, folder: String) -> Result<(), OpenError> {
    match lock.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { folder, pid: read_pid(lock) }),
        Err(TryLockError::Error(source)) => {
            Err(OpenError::Medium { file: folder, doing: "locking the data folder", source })
        }
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

fn read_pid(mut lock: &File) -> Option<u32> {
    let mut text = String::new();
    lock.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Writes the process id to the lock file, for the error message of a second process.
fn write_pid(lock: &File) -> io::Result<()> {
    lock.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0)
}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> io::Result<File> {
    let flag = rustix::fs::OFlags::DIRECT.bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flag).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_path: &Path) -> io::Result<File> {
    let _ = OpenOptions::custom_flags;
    Err(ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system cannot do it in one step.
        Err(Errno::INVAL | Errno::NOSYS) => rename_if_absent(from, to),
        other => Ok(other?),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    rename_if_absent(from, to)
}

/// The lock on the folder keeps other processes from making the file between the two steps.
fn rename_if_absent(from: &Path, to: &Path) -> io::Result<()> {
    match to.try_exists()? {
        true => Err(ErrorKind::AlreadyExists.into()),
        false => std::fs::rename(from, to),
    }
}

impl Medium for DiskMedium {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let plain = OpenOptions::new().read(true).write(!self.read_only).open(self.folder.join(name))?;
        Ok(self.file(name, plain))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let plain = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.folder.join(name))?;
        Ok(self.file(name, plain))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.folder.join(from), self.folder.join(to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        rename_new(&self.folder.join(from), &self.folder.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.folder.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    fn free_space(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        let stat = rustix::fs::statvfs(&self.folder)?;
        Ok(Some(stat.f_blocks.saturating_mul(stat.f_frsize)))
    }

    fn describe(&self) -> String {
        let how = match &self.buffered {
            None => "O_DIRECT".to_owned(),
            Some(why) => format!("buffered, because {why}"),
        };
        format!("{} ({how})", self.folder.display())
    }
}

/// A file with a buffered handle and, where that is possible, one with O_DIRECT.
#[derive(Debug)]
struct DiskFile {
    plain: File,
    direct: Option<File>,
    /// Only large writes bypass the page cache.
    large_only: bool,
    _lock: Arc<File>,
}

impl DiskFile {
    /// The handle for an access: O_DIRECT if address, length and offset are multiples of a block.
    fn handle(&self, bytes: &[u8], offset: u64) -> &File {
        let numbers = [bytes.as_ptr().addr() as u64, bytes.len() as u64, offset];
        match &self.direct {
            Some(direct) if numbers.iter().all(|number| number.is_multiple_of(BLOCK)) => direct,
            _ => &self.plain,
        }
    }

    /// True for the error of a file system that opens files with O_DIRECT, but requires larger blocks or refuses the
    /// access.
    fn wants_plain(error: &io::Error) -> bool {
        error.kind() == ErrorKind::InvalidInput
    }

    fn read_some(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let handle = if self.large_only { &self.plain } else { self.handle(buf, offset) };
        match handle.read_at(buf, offset) {
            Err(error) if Self::wants_plain(&error) => self.plain.read_at(buf, offset),
            other => other,
        }
    }

    fn write_some(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let is_small = self.large_only && buf.len() < LARGE_WRITE;
        let handle = if is_small { &self.plain } else { self.handle(buf, offset) };
        match handle.write_at(buf, offset) {
            Err(error) if Self::wants_plain(&error) => self.plain.write_at(buf, offset),
            other => other,
        }
    }
}

impl MediumFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_some(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read_at_once(&self, buf: &mut [u8], offset: u64) -> bool {
        read_cached(&self.plain, buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.write_some(&buf[done..], offset + done as u64) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.plain.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.plain.metadata()?.len())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        allocate(&self.plain, len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        punch(&self.plain, offset, len)
    }
}

/// Reads what lies in the page cache.
#[cfg(target_os = "linux")]
fn read_cached(file: &File, buf: &mut [u8], offset: u64) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};
    let len = buf.len();
    let found = preadv2(file, &mut [io::IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT);
    found.is_ok_and(|found| found == len)
}

#[cfg(not(target_os = "linux"))]
fn read_cached(_file: &File, _buf: &mut [u8], _offset: u64) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, len: u64) -> io::Result<()> {
    use rustix::io::Errno;
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, len) {
        // Such a file system cannot reserve space: the write reports the shortage.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(target_os = "linux")]
fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    use rustix::io::Errno;
    if len == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn punch(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &File, _len: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_and_the_second_is_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let first = DiskMedium::open(folder.path()).unwrap();
        let error = DiskMedium::open(folder.path()).unwrap_err().to_string();
        let owner = format!("is in use by process {}: stop it", std::process::id());
        assert!(error.contains(&owner), "{error}");
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
        drop(first);
        DiskMedium::open(folder.path()).unwrap();
    }

    #[test]
    fn reads_what_was_written_aligned_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let medium = DiskMedium::open(folder.path()).unwrap();
        let file = medium.create("segment-1").unwrap();
        file.allocate(1 << 20).unwrap();
        assert_eq!(file.size().unwrap(), 0);
        let mut block = crate::buffer::Pool::new(0).take(8192);
        block.resize(8192);
        block.as_mut().fill(7);
        file.write_at(block.as_ref(), 4096).unwrap();
        file.write_at(b"odd", 100).unwrap();
        file.sync().unwrap();
        let mut back = vec![0; 20_000];
        assert_eq!(file.read_at(&mut back, 0).unwrap(), 12_288);
        assert_eq!(&back[100..103], b"odd");
        assert_eq!(back[4096..12_288], [7; 8192]);
        medium.sync_names().unwrap();
        assert!(medium.list().unwrap().contains(&"segment-1".to_owned()));
        assert!(medium.free_space().unwrap() > 0);
    }

    #[test]
    fn small_and_large_writes_of_a_medium_with_page_cache_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let medium = DiskMedium::open(folder.path()).unwrap().through_page_cache();
        let file = medium.create("segment-1").unwrap();
        let mut large = crate::buffer::Pool::new(0).take(LARGE_WRITE);
        large.resize(LARGE_WRITE);
        large.as_mut().fill(7);
        file.write_at(&[1; 8192], 0).unwrap();
        file.write_at(large.as_ref(), 8192).unwrap();
        file.write_at(&[2; 4096], 8192 + LARGE_WRITE as u64).unwrap();
        let mut back = vec![0; LARGE_WRITE + 12_288];
        assert_eq!(file.read_at(&mut back, 0).unwrap(), back.len());
        assert!(back[..8192].iter().all(|byte| *byte == 1));
        assert!(back[8192..8192 + LARGE_WRITE].iter().all(|byte| *byte == 7));
        assert!(back[8192 + LARGE_WRITE..].iter().all(|byte| *byte == 2));
    }
}
