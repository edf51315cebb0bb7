//! Reads segments from start to end in large aligned pieces. A thread reads the next pieces while the caller works on
//! the last one.
//!
//! ```text
//!   buffer   │ copied: the end of the piece before │ a piece of the file │
//!                             ▲ the window begins here, so that a group that lies in two pieces lies in one buffer
//! ```

use super::files::SegmentFiles;
use crate::buffer::{Buffer, Pool};
use crate::error::OpenError;
use crate::medium::MediumFile;
use crate::names::segment_name;
use ottla_layout::BLOCK;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Bytes that are read at once, unless the file is smaller. As many may be copied from the piece before: the size of a
/// large group.
const PIECE: usize = 2 << 20;
/// Pieces that are read ahead, at most.
const AHEAD: usize = 2;

/// The segments of a log, read by position.
pub(crate) struct SegmentReader {
    pool: Arc<Pool>,
    threads: bool,
    open: Option<(u64, FileWindow)>,
}

impl SegmentReader {
    /// With `threads`, a thread reads ahead.
    pub(crate) fn new(threads: bool) -> SegmentReader {
        SegmentReader { pool: Pool::new((AHEAD + 1) * 3 * PIECE), threads, open: None }
    }

    /// The bytes at a position of the log; fewer, or none, where there is no file.
    pub(crate) fn bytes(&mut self, files: &SegmentFiles, place: u64, len: usize) -> Result<&[u8], OpenError> {
        let geometry = files.identity.geometry;
        let number = geometry.segment_of(place);
        if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
            if !files.is_live(number) {
                return Ok(&[]);
            }
            let open = |source| OpenError::medium(&segment_name(number), "opening")(source);
            let file = files.segment(number).map_err(open)?;
            self.open = Some((number, FileWindow::over(file, Arc::clone(&self.pool), self.threads)));
        }
        match &mut self.open {
            Some((_, window)) => {
                let bytes = window.at(geometry.offset_of(place), len);
                bytes.map_err(|source| OpenError::medium(&segment_name(number), "reading")(source))
            }
            None => Ok(&[]),
        }
    }
}

/// A window over a file that moves forward.
pub(crate) struct FileWindow {
    file: Arc<dyn MediumFile>,
    pool: Arc<Pool>,
    threads: bool,
    source: Option<PieceSource>,
    /// Bytes of a piece, and the most bytes that are copied from the piece before.
    piece: usize,
    /// The window: the bytes of the file from `start` to `end`, which lie in the buffer from `from` on.
    buffer: Buffer,
    from: usize,
    start: u64,
    end: u64,
    /// The file ends at `end`.
    ended: bool,
    /// Bytes outside the window that were read last, and their offset.
    outside: Option<(u64, Buffer)>,
}

/// The source of the next piece.
enum PieceSource {
    Here,
    Thread { pieces: Receiver<io::Result<Piece>>, empty: Sender<Buffer> },
}

/// A buffer that holds `found` bytes of the file, after the space for copied bytes.
struct Piece {
    buffer: Buffer,
    found: usize,
}

impl FileWindow {
    pub(crate) fn over(file: Arc<dyn MediumFile>, pool: Arc<Pool>, threads: bool) -> FileWindow {
        let buffer = pool.take(0);
        FileWindow {
            file,
            pool,
            threads,
            source: None,
            piece: 0,
            buffer,
            from: 0,
            start: 0,
            end: 0,
            ended: false,
            outside: None,
        }
    }

    /// The `len` bytes at `offset`, a multiple of a block; fewer where the file ends.
    pub(crate) fn at(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        if self.source.is_none() {
            // The header block is read after the first group.
            self.begin(if offset <= BLOCK { 0 } else { offset })?;
        }
        let until = offset + len as u64;
        while !self.ended && until > self.end && self.end.saturating_sub(offset) <= self.piece as u64 {
            self.advance(offset)?;
        }
        let here = self.start..=self.end;
        if offset >= self.start && (until <= self.end || self.ended) {
            let end = until.clamp(offset.min(self.end), self.end);
            let place = |at: u64| self.from + (at.clamp(*here.start(), *here.end()) - self.start) as usize;
            return Ok(&self.buffer.as_ref()[place(offset)..place(end)]);
        }
        self.read_outside(offset, len)
    }

    fn begin(&mut self, offset: u64) -> io::Result<()> {
        let size = ottla_layout::align_up(self.file.size()?);
        self.piece = usize::try_from(size).unwrap_or(PIECE).clamp(BLOCK as usize, PIECE);
        (self.start, self.end) = (offset, offset);
        self.source = Some(if self.threads {
            self.spawn(offset).unwrap_or(PieceSource::Here)
        } else {
            PieceSource::Here
        });
        Ok(())
    }

    /// None if the system cannot start a thread.
    fn spawn(&self, offset: u64) -> Option<PieceSource> {
        let (empty, to_fill) = channel::<Buffer>();
        let (filled, pieces) = channel();
        let (file, piece) = (Arc::clone(&self.file), self.piece);
        let read = move || read_ahead(file.as_ref(), offset, piece, &to_fill, &filled);
        std::thread::Builder::new().name("ottla-read-ahead".to_owned()).spawn(read).ok()?;
        for _ in 0..AHEAD {
            empty.send(self.pool.take(2 * self.piece)).ok()?;
        }
        Some(PieceSource::Thread { pieces, empty })
    }

    /// Takes the next piece, and copies the bytes of the last one from `offset` on in front of it.
    fn advance(&mut self, offset: u64) -> io::Result<()> {
        let Piece { mut buffer, found } = self.next_piece()?;
        let kept = self.end.saturating_sub(offset.max(self.start)) as usize;
        let old = self.from + (self.end - self.start) as usize;
        let space = self.piece;
        buffer.as_mut()[space - kept..space].copy_from_slice(&self.buffer.as_ref()[old - kept..old]);
        let old = std::mem::replace(&mut self.buffer, buffer);
        if let Some(PieceSource::Thread { empty, .. }) = &self.source {
            // The thread has ended with the file.
            let _ = empty.send(old);
        }
        self.from = space - kept;
        self.start = self.end - kept as u64;
        self.end += found as u64;
        self.ended = found < self.piece;
        Ok(())
    }

    fn next_piece(&mut self) -> io::Result<Piece> {
        match &self.source {
            Some(PieceSource::Thread { pieces, .. }) => pieces.recv().map_err(io::Error::other)?,
            Some(PieceSource::Here) | None => {
                let buffer = self.pool.take(2 * self.piece);
                read_piece(self.file.as_ref(), self.end, self.piece, buffer)
            }
        }
    }

    /// Reads bytes before the window, or more bytes than it can hold.
    fn read_outside(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let known = |kept: &(u64, Buffer)| kept.0 == offset && kept.1.len() >= len;
        if !self.outside.as_ref().is_some_and(known) {
            let rest = usize::try_from(self.file.size()?.saturating_sub(offset)).unwrap_or(usize::MAX);
            let mut buffer = self.pool.take(len);
            buffer.resize_for_read(ottla_layout::align_up(len.min(rest) as u64) as usize);
            let found = self.file.read_at(buffer.as_mut(), offset)?;
            buffer.resize_for_read(found);
            self.outside = Some((offset, buffer));
        }
        let bytes = self.outside.as_ref().map_or(&[][..], |(_, buffer)| buffer.as_ref());
        Ok(&bytes[..len.min(bytes.len())])
    }
}

/// Fills each buffer with the next piece, until the file ends or the receiver is dropped.
fn read_ahead(
    file: &dyn MediumFile,
    mut offset: u64,
    size: usize,
    to_fill: &Receiver<Buffer>,
    filled: &Sender<io::Result<Piece>>,
) {
    for buffer in to_fill {
        let piece = read_piece(file, offset, size, buffer);
        let found = piece.as_ref().map_or(0, |piece| piece.found);
        offset += found as u64;
        if filled.send(piece).is_err() || found < size {
            return;
        }
    }
}

/// Reads a piece of `size` bytes, or the rest of the file, into a buffer after `size` bytes of space.
fn read_piece(file: &dyn MediumFile, offset: u64, size: usize, mut buffer: Buffer) -> io::Result<Piece> {
    let rest = usize::try_from(file.size()?.saturating_sub(offset)).unwrap_or(usize::MAX);
    let want = ottla_layout::align_up(size.min(rest) as u64) as usize;
    buffer.resize_for_read(size + want);
    let bytes = buffer.as_mut();
    let found = if rest == 0 { 0 } else { file.read_at(&mut bytes[size..], offset)? };
    Ok(Piece { buffer, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryMedium;
    use crate::medium::Medium;

    /// A file of `len` bytes; each byte is the number of its block modulo 251.
    fn file(len: usize) -> (Arc<dyn MediumFile>, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|at| (at / 4096 % 251) as u8).collect();
        let file = MemoryMedium::new().create("segment-000000000000").unwrap();
        file.write_at(&bytes, 0).unwrap();
        (file, bytes)
    }

    #[test]
    fn groups_of_any_size_lie_in_one_piece_in_any_order() {
        let (file, bytes) = file((9 << 20) + 100);
        for threads in [false, true] {
            let mut window = FileWindow::over(Arc::clone(&file), Pool::new(1 << 24), threads);
            let mut offset = 4096;
            for len in [64, 4096, 3 << 19, 2 << 20, 64, 5 << 20, 100, 1 << 20].into_iter().cycle().take(40) {
                let end = (offset + len).min(bytes.len());
                assert!(window.at(offset as u64, len).unwrap() == &bytes[offset..end], "{len} at {offset}");
                // The header block, and a group that is read again.
                assert!(window.at(0, 4096).unwrap() == &bytes[..4096]);
                assert!(window.at(offset as u64, len).unwrap() == &bytes[offset..end], "{len} at {offset}");
                offset = (offset + len.min(3 << 18)).next_multiple_of(4096).min(bytes.len() / 4096 * 4096);
            }
            assert!(window.at(16 << 20, 64).unwrap().is_empty(), "there is nothing behind the end");
        }
    }
}
