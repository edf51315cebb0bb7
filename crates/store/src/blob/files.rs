//! Blobs as files of a medium: written under a temporary name, renamed when their bytes are durable.

use super::{Blob, BlobStore, BlobWriter, Existing};
use crate::medium::{Medium, MediumFile};
use crate::names::{is_temporary, temporary};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The blobs in a folder.
pub(crate) struct FileBlobs {
    medium: Arc<dyn Medium>,
}

impl FileBlobs {
    pub(crate) fn new(medium: Arc<dyn Medium>) -> FileBlobs {
        FileBlobs { medium }
    }
}

impl BlobStore for FileBlobs {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.medium.list()?;
        names.retain(|name| !is_temporary(name));
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn BlobWriter>> {
        let file = self.medium.create(&temporary(name))?;
        let medium = Arc::clone(&self.medium);
        let leftover = Some(temporary(name));
        Ok(Box::new(FileBlobWriter { medium, name: name.to_owned(), file, size: 0, leftover }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Blob>> {
        Ok(file_blob(self.medium.open(name)?))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.medium.remove(name)
    }
}

struct FileBlobWriter {
    medium: Arc<dyn Medium>,
    name: String,
    file: Arc<dyn MediumFile>,
    /// Bytes written.
    size: u64,
    /// The file to remove if the blob is not published.
    leftover: Option<String>,
}

impl BlobWriter for FileBlobWriter {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(bytes, self.size)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn seal(&mut self) -> io::Result<Arc<dyn Blob>> {
        self.file.sync()?;
        Ok(file_blob(Arc::clone(&self.file)))
    }

    fn publish(&mut self, existing: Existing) -> io::Result<()> {
        let temporary = temporary(&self.name);
        match existing {
            Existing::Keep => {
                self.medium.rename_new(&temporary, &self.name)?;
                self.leftover = Some(self.name.clone());
            }
            Existing::Replace => {
                self.medium.rename(&temporary, &self.name)?;
                self.leftover = None;
            }
        }
        self.medium.sync_names()?;
        self.leftover = None;
        Ok(())
    }
}

impl Drop for FileBlobWriter {
    fn drop(&mut self) {
        if let Some(name) = self.leftover.take() {
            // If this fails, the next start removes the file.
            let _ = self.medium.remove(&name);
        }
    }
}

/// A file as a blob.
pub(crate) fn file_blob(file: Arc<dyn MediumFile>) -> Arc<dyn Blob> {
    Arc::new(FileBlob(file))
}

struct FileBlob(Arc<dyn MediumFile>);

impl Blob for FileBlob {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn try_read_at(&self, buf: &mut [u8], offset: u64) -> bool {
        self.0.read_at_once(buf, offset)
    }

    fn free_range(&self, range: Range<u64>) -> io::Result<()> {
        self.0.punch(range.start, range.end.saturating_sub(range.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryMedium;

    #[test]
    fn a_blob_is_visible_once_it_is_published_and_put_only_if_absent() {
        let medium = MemoryMedium::new();
        let blobs = FileBlobs::new(Arc::new(medium.clone()));
        let put = |bytes: &[u8], existing| {
            let mut writer = blobs.create("run-1")?;
            writer.append(bytes)?;
            assert_eq!(writer.seal()?.size()?, bytes.len() as u64);
            writer.publish(existing)
        };
        let mut unfinished = blobs.create("run-1").unwrap();
        unfinished.append(b"lost").unwrap();
        assert!(blobs.list().unwrap().is_empty());
        drop(unfinished);
        assert!(medium.list().unwrap().is_empty(), "nothing remains of a blob that was not published");
        put(b"one", Existing::Keep).unwrap();
        let error = put(b"other", Existing::Keep).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(blobs.open("run-1").unwrap().size().unwrap(), 3);
        put(b"other", Existing::Replace).unwrap();
        assert_eq!(blobs.open("run-1").unwrap().size().unwrap(), 5);
        assert_eq!(blobs.list().unwrap(), ["run-1"]);
        blobs.delete("run-1").unwrap();
        assert!(medium.list().unwrap().is_empty());
    }
}
