//! A medium in memory. Its files are lost when it is dropped, and it does not simulate crashes (see [`crate::testing`]
//! for that).

use super::{Medium, MediumFile, not_found};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

const CHUNK: usize = 64 << 10;

/// Files in memory, made of chunks that exist only where something other than zeros was written. Clones share the
/// files.
#[derive(Clone, Debug, Default)]
pub struct MemoryMedium {
    files: Arc<Mutex<BTreeMap<String, Arc<MemoryFile>>>>,
}

impl MemoryMedium {
    /// An empty medium.
    pub fn new() -> MemoryMedium {
        MemoryMedium::default()
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Arc<MemoryFile>>) -> T) -> T {
        act(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Medium for MemoryMedium {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.with(|files| files.keys().cloned().collect()))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let file = self.with(|files| files.get(name).cloned());
        file.map(|file| file as Arc<dyn MediumFile>).ok_or_else(|| not_found(name))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let file = Arc::new(MemoryFile::default());
        self.with(|files| files.insert(name.to_owned(), file.clone()));
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.with(|files| {
            let file = files.remove(from).ok_or_else(|| not_found(from))?;
            files.insert(to.to_owned(), file);
            Ok(())
        })
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.with(|files| {
            if files.contains_key(to) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let file = files.remove(from).ok_or_else(|| not_found(from))?;
            files.insert(to.to_owned(), file);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.with(|files| files.remove(name)).map(drop).ok_or_else(|| not_found(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_space(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

#[derive(Debug, Default)]
struct MemoryFile {
    content: RwLock<Content>,
}

#[derive(Debug, Default)]
struct Content {
    chunks: Vec<Option<Box<[u8]>>>,
    size: u64,
}

impl Content {
    /// Calls `act` with every piece of `offset..offset + len`: chunk number, range in the chunk, range in the caller's
    /// buffer.
    fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset as usize + done;
            let within = at % CHUNK;
            let take = (CHUNK - within).min(len - done);
            let piece = (at / CHUNK, within, done..done + take);
            done += take;
            (take > 0).then_some(piece)
        })
    }
}

impl MediumFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
        let len = (content.size.saturating_sub(offset)).min(buf.len() as u64) as usize;
        for (chunk, within, range) in Content::pieces(offset, len) {
            let target = &mut buf[range];
            match content.chunks.get(chunk) {
                Some(Some(bytes)) => target.copy_from_slice(&bytes[within..within + target.len()]),
                _ => target.fill(0),
            }
        }
        Ok(len)
    }

    fn read_at_once(&self, buf: &mut [u8], offset: u64) -> bool {
        self.read_at(buf, offset).is_ok_and(|found| found == buf.len())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        for (chunk, within, range) in Content::pieces(offset, buf.len()) {
            let source = &buf[range];
            if content.chunks.len() <= chunk {
                content.chunks.resize_with(chunk + 1, || None);
            }
            let place = &mut content.chunks[chunk];
            if place.is_none() && source.iter().all(|byte| *byte == 0) {
                continue;
            }
            let bytes = place.get_or_insert_with(|| vec![0; CHUNK].into_boxed_slice());
            bytes[within..within + source.len()].copy_from_slice(source);
        }
        content.size = content.size.max(offset + buf.len() as u64);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.content.read().unwrap_or_else(PoisonError::into_inner).size)
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        let len = content.size.saturating_sub(offset).min(len) as usize;
        for (chunk, within, range) in Content::pieces(offset, len) {
            let Some(place) = content.chunks.get_mut(chunk) else {
                break;
            };
            if range.len() == CHUNK {
                *place = None;
            } else if let Some(bytes) = place {
                bytes[within..within + range.len()].fill(0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_across_chunks() {
        let medium = MemoryMedium::new();
        let file = medium.create("a").unwrap();
        let data: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
        file.write_at(&data, 30_000).unwrap();
        assert_eq!(file.size().unwrap(), 230_000);
        let mut back = vec![9; 300_000];
        assert_eq!(file.read_at(&mut back, 0).unwrap(), 230_000);
        assert!(back[..30_000].iter().all(|byte| *byte == 0));
        assert_eq!(back[30_000..230_000], data);
        assert_eq!(file.read_at(&mut back, 230_000).unwrap(), 0);
    }

    #[test]
    fn a_freed_range_reads_as_zeros_and_takes_no_room() {
        let medium = MemoryMedium::new();
        let file = medium.create("a").unwrap();
        file.write_at(&[7; 4 * CHUNK], 0).unwrap();
        file.punch(100, 3 * CHUNK as u64).unwrap();
        file.punch(5 * CHUNK as u64, 10).unwrap();
        let mut back = vec![9; 4 * CHUNK];
        assert_eq!(file.read_at(&mut back, 0).unwrap(), 4 * CHUNK);
        assert!(
            back.iter().enumerate().all(|(at, byte)| *byte == 0 || !(100..100 + 3 * CHUNK).contains(&at))
        );
        assert_eq!(back.iter().filter(|byte| **byte == 7).count(), CHUNK);
        let files = medium.files.lock().unwrap();
        let content = files["a"].content.read().unwrap();
        assert_eq!(content.chunks.iter().filter(|chunk| chunk.is_some()).count(), 2);
    }

    #[test]
    fn names_move_and_open_handles_stay() {
        let medium = MemoryMedium::new();
        let file = medium.create("a").unwrap();
        file.write_at(b"x", 0).unwrap();
        medium.rename("a", "b").unwrap();
        assert!(medium.open("a").is_err());
        medium.remove("b").unwrap();
        let mut byte = [0];
        assert_eq!(file.read_at(&mut byte, 0).unwrap(), 1);
        assert_eq!(byte, *b"x");
    }
}
