//! A part that is being read: its directory, and stretches of its batches, checked.

use crate::buffer::Pool;
use crate::medium::ReadMode;
use crate::read_ahead::{ReadSource, ReadTarget, SHIFT};
use crate::runs::error::RunError;
use crate::runs::files::RunFiles;
use crate::runs::open_run::OpenRun;
use bytes::Bytes;
use ottla_layout::run::{BatchHead, DirectoryPage, PAGE, SMALL_DIRECTORY, Stretch, walk_stretch};
use ottla_layout::{BLOCK, align_up};
use ottla_types::record::RunPart;
use std::ops::Range;
use std::sync::Arc;

/// After this many reads a range is in the page cache, if anything is.
const FILLED: u32 = 2;

/// The bytes of a part in its file, directory included, but for that of a small part.
pub(crate) fn extent(part: &RunPart) -> Range<u64> {
    let directory = match part.pages {
        0 => 0,
        pages => u64::from(pages) * PAGE as u64,
    };
    part.data..part.directory.saturating_add(directory)
}

/// An open part.
pub(crate) struct PartView {
    files: Arc<RunFiles>,
    pool: Arc<Pool>,
    run: OpenRun,
    part: RunPart,
    /// A small part is read whole, with its only page.
    small: Option<(Bytes, Arc<DirectoryPage>)>,
}

/// The position of a reader in a directory: before a stretch.
#[derive(Clone)]
pub(crate) struct Cursor {
    page: Option<Arc<DirectoryPage>>,
    page_index: u32,
    index: usize,
}

/// Stretches that follow each other, and their bytes.
pub(crate) struct StretchWindow {
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) bytes: Bytes,
}

/// How a read accesses the medium.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPath {
    /// Through the page cache.
    PageCache,
    /// In whole blocks, bypassing the page cache where that is possible: no other reader will need the bytes soon.
    Direct,
    /// A large read bypasses the page cache for the first reader of a range and goes through it for the second one.
    /// Sequential reads are read ahead.
    Adaptive,
}

impl PartView {
    pub(crate) fn open(
        files: &Arc<RunFiles>,
        pool: &Arc<Pool>,
        part: &RunPart,
        mode: ReadMode,
    ) -> Result<PartView, RunError> {
        let run = match mode {
            ReadMode::NonBlocking => files.open_non_blocking(part.run)?,
            ReadMode::Blocking => files.open(part.run)?,
        };
        let mut view =
            PartView { files: Arc::clone(files), pool: Arc::clone(pool), run, part: *part, small: None };
        view.check_extent()?;
        if part.pages == 0 {
            view.small = Some(view.read_small()?);
        }
        Ok(view)
    }

    /// Opens a part whose run may have a damaged header or footer, to salvage it. A small part has no directory then.
    pub(crate) fn open_unchecked(
        files: &Arc<RunFiles>,
        pool: &Arc<Pool>,
        part: &RunPart,
    ) -> Result<PartView, RunError> {
        let run = files.open_unchecked(part.run)?;
        Ok(PartView { files: Arc::clone(files), pool: Arc::clone(pool), run, part: *part, small: None })
    }

    pub(crate) fn part(&self) -> &RunPart {
        &self.part
    }

    fn check_extent(&self) -> Result<(), RunError> {
        let part = &self.part;
        let end = part.data.checked_add(part.bytes);
        let fits = end.is_some_and(|end| end <= part.directory)
            && part.data >= BLOCK
            && extent(part).end + BLOCK <= self.run.footer.length;
        if fits {
            Ok(())
        } else {
            Err(self.damaged(part.data, "the log knows a part here that does not fit"))
        }
    }

    /// The error, or [`RunError::Freed`] if the part was freed, because freed bytes are undefined.
    pub(crate) fn or_freed(&self, error: RunError) -> RunError {
        if self.files.is_live(self.part.run, &extent(&self.part)) {
            return error;
        }
        RunError::Freed { file: self.run.name() }
    }

    pub(crate) fn damaged(&self, offset: u64, what: impl ToString) -> RunError {
        self.or_freed(self.run.damaged(offset, what))
    }

    fn would_block(&self, offset: u64) -> RunError {
        let source = std::io::ErrorKind::WouldBlock.into();
        self.or_freed(RunError::Medium { file: self.run.name(), offset, source })
    }

    fn read_small(&self) -> Result<(Bytes, Arc<DirectoryPage>), RunError> {
        let place = self.part.directory;
        let len = place + SMALL_DIRECTORY as u64 - self.part.data;
        let all = self.read(self.part.data..self.part.data + len, ReadPath::PageCache)?;
        let at = (place - self.part.data) as usize;
        let page = DirectoryPage::check(&self.run.id, place, 0, &all[at..]);
        let page = page.map_err(|fault| self.damaged(place, fault))?;
        self.check_page(&page, place)?;
        Ok((all, Arc::new(page)))
    }

    fn pages(&self) -> u32 {
        self.part.pages.max(1)
    }

    pub(crate) fn page(&self, index: u32, in_turn: bool) -> Result<Arc<DirectoryPage>, RunError> {
        if let Some((_, page)) = &self.small {
            return Ok(Arc::clone(page));
        }
        let pages = &self.files.pages;
        let page = match in_turn {
            true => pages.page_in_turn(&self.run, &self.part, index),
            false => pages.page(&self.run, &self.part, index),
        };
        let page = page.map_err(|error| self.or_freed(error))?;
        self.check_page(&page, self.part.directory + u64::from(index) * PAGE as u64)?;
        Ok(page)
    }

    fn check_page(&self, page: &DirectoryPage, place: u64) -> Result<(), RunError> {
        let first = page.stretch(0).map_or(0, |stretch| stretch.place);
        if first >= self.part.data && page.end() <= self.part.data + self.part.bytes {
            return Ok(());
        }
        Err(self.damaged(place, "the directory page tells of bytes outside its part"))
    }

    /// Finds the first stretch that `wanted` holds for. It must hold for all that follow one it holds for, and for a
    /// page if it holds for its last stretch.
    pub(crate) fn seek(&self, wanted: impl Fn(&Stretch) -> bool) -> Result<Cursor, RunError> {
        let (mut low, mut high) = (0, self.pages());
        while low < high {
            let middle = u32::midpoint(low, high);
            let page = self.page(middle, false)?;
            let last = page.stretch(page.count().saturating_sub(1));
            if last.is_some_and(|last| wanted(&last)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let mut cursor = Cursor { page: None, page_index: low, index: 0 };
        if low < self.pages() {
            let page = self.page(low, true)?;
            cursor.index = page.first(wanted).unwrap_or(page.count());
            cursor.page = Some(page);
        }
        Ok(cursor)
    }

    pub(crate) fn begin(&self) -> Cursor {
        Cursor { page: None, page_index: 0, index: 0 }
    }

    /// Moves the cursor after everything.
    pub(crate) fn end(&self, cursor: &mut Cursor) {
        *cursor = Cursor { page: None, page_index: self.pages(), index: 0 };
    }

    /// Moves a cursor that did not get beyond `before` past the page that cannot be read.
    pub(crate) fn skip_if_at(&self, cursor: &mut Cursor, before: &Cursor) {
        let stuck =
            cursor.page.is_none() || (cursor.page_index, cursor.index) == (before.page_index, before.index);
        if stuck {
            *cursor = Cursor { page: None, page_index: cursor.page_index + 1, index: 0 };
        }
    }

    /// The stretch after the cursor.
    pub(crate) fn peek(&self, cursor: &mut Cursor) -> Result<Option<Stretch>, RunError> {
        loop {
            if cursor.page_index >= self.pages() {
                return Ok(None);
            }
            if cursor.page.is_none() {
                cursor.page = Some(self.page(cursor.page_index, true)?);
                cursor.index = 0;
            }
            if let Some(stretch) = cursor.page.as_ref().and_then(|page| page.stretch(cursor.index)) {
                return Ok(Some(stretch));
            }
            cursor.page = None;
            cursor.page_index += 1;
        }
    }

    /// Reads stretches from the cursor on that `wanted` holds for: as many as fit into `max_bytes`, but one at least.
    /// Nothing if there is none.
    pub(crate) fn window(
        &self,
        cursor: &mut Cursor,
        max_bytes: u64,
        path: ReadPath,
        wanted: impl Fn(&Stretch) -> bool,
    ) -> Result<Option<StretchWindow>, RunError> {
        let mut stretches: Vec<Stretch> = Vec::new();
        loop {
            let stretch = match self.peek(cursor) {
                Ok(Some(stretch)) => stretch,
                Err(error) if stretches.is_empty() => return Err(error),
                // The stretches before the damage are returned first.
                Ok(None) | Err(_) => break,
            };
            let fits = stretches.first().is_none_or(|first| stretch.end - first.place <= max_bytes);
            if !fits || !wanted(&stretch) {
                break;
            }
            if stretches.last().is_some_and(|last| last.end != stretch.place) {
                return Err(self.damaged(stretch.place, "the directory leaves a gap before this place"));
            }
            stretches.push(stretch);
            cursor.index += 1;
        }
        let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else {
            return Ok(None);
        };
        let bytes = self.read(first.place..last.end, path)?;
        Ok(Some(StretchWindow { stretches, bytes }))
    }

    pub(crate) fn read(&self, range: Range<u64>, path: ReadPath) -> Result<Bytes, RunError> {
        if let Some((all, _)) = &self.small {
            let at = |place: u64| (place - self.part.data) as usize;
            return Ok(all.slice(at(range.start)..at(range.end)));
        }
        match path {
            ReadPath::Adaptive if range.end - range.start >= self.files.read_ahead.large => {
                self.read_forward(range)
            }
            ReadPath::PageCache | ReadPath::Adaptive => self.read_medium(range, false),
            ReadPath::Direct => self.read_medium(range, true),
        }
    }

    /// A large read, whose reader may be sequential.
    fn read_forward(&self, range: Range<u64>) -> Result<Bytes, RunError> {
        let (key, counts) = (self.part.run, &self.files.read_ahead.access_counts);
        let non_blocking = self.run.non_blocking;
        if non_blocking && counts.count(key, &range) >= FILLED {
            return self.read_medium(range, false);
        }
        let fetched = self.files.read_ahead.find(key, &range, !non_blocking);
        if fetched.is_none() && non_blocking {
            return Err(self.would_block(range.start));
        }
        let cached = counts.add(key, &range) > 0;
        let bytes = match fetched {
            Some(bytes) => bytes,
            None => self.read_medium(range.clone(), !cached)?,
        };
        let end = align_up(self.part.data + self.part.bytes);
        let target = ReadTarget::Run(key, Arc::clone(&self.run.blob));
        self.files.read_ahead.note_read(ReadSource { target, end, cached }, &range, &self.pool);
        Ok(bytes)
    }

    fn read_medium(&self, range: Range<u64>, blocks: bool) -> Result<Bytes, RunError> {
        let wide = if blocks { range.start / BLOCK * BLOCK..align_up(range.end) } else { range.clone() };
        // A buffer that does not begin with a block keeps a read that happens to be in whole blocks in the page cache.
        let shift = if !blocks && range.start.is_multiple_of(BLOCK) { SHIFT } else { 0 };
        let len = shift + (wide.end - wide.start) as usize;
        let mut buffer = self.pool.take(len);
        buffer.resize_for_read(len);
        let target = buffer.as_mut().get_mut(shift..).unwrap_or_default();
        self.run.fill(target, wide.start).map_err(|error| self.or_freed(error))?;
        let from = shift + (range.start - wide.start) as usize;
        Ok(Bytes::from_owner(buffer).slice(from..from + (range.end - range.start) as usize))
    }

    /// Checks a window and passes its batches to `sink`: where each begins in the window's bytes, and its head; as long
    /// as `sink` returns true at the end of a stretch.
    pub(crate) fn walk(
        &self,
        window: &StretchWindow,
        mut sink: impl FnMut(usize, &BatchHead) -> bool,
    ) -> Result<(), RunError> {
        let base = window.stretches.first().map_or(0, |first| first.place);
        for stretch in &window.stretches {
            let at = (stretch.place - base) as usize;
            let bytes = window.bytes.get(at..(stretch.end - base) as usize).unwrap_or_default();
            let mut wanted = true;
            let walked = walk_stretch(stretch, bytes, |offset, head| wanted &= sink(at + offset, head));
            walked.map_err(|(offset, what)| self.damaged(stretch.place + offset as u64, what))?;
            if !wanted {
                break;
            }
        }
        // Bytes that were freed during the read are undefined.
        if self.files.is_live(self.part.run, &extent(&self.part)) {
            return Ok(());
        }
        Err(RunError::Freed { file: self.run.name() })
    }
}
