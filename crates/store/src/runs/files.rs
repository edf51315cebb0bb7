//! The runs of a folder as files: which exist, what of them was freed, and a bounded number of open handles.

use crate::buffer::Pool;
use crate::medium::{Medium, MediumFile};
use crate::read_ahead::{ReadAhead, Source};
use crate::runs::access_counts::AccessCounts;
use crate::runs::error::RunError;
use crate::runs::pages::Pages;
use ottla_layout::BLOCK;
use ottla_layout::Identity;
use ottla_layout::run::{RunFault, RunFooter, RunId};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open handles that are kept.
const HANDLES: usize = 64;

pub(crate) fn run_name(number: u64) -> String {
    format!("run-{number:012}")
}

/// An open run whose ends were checked.
#[derive(Clone)]
pub(crate) struct OpenRun {
    pub(crate) id: RunId,
    pub(crate) file: Arc<dyn MediumFile>,
    pub(crate) footer: RunFooter,
    /// Reads that would have to wait for the medium fail with `WouldBlock`.
    pub(crate) at_once: bool,
}

impl OpenRun {
    pub(crate) fn name(&self) -> String {
        run_name(self.id.run)
    }

    pub(crate) fn damaged(&self, offset: u64, what: impl ToString) -> RunError {
        RunError::Damaged { file: self.name(), offset, what: what.to_string() }
    }

    /// Fills `buf` from `offset`.
    pub(crate) fn fill(&self, buf: &mut [u8], offset: u64) -> Result<(), RunError> {
        let found = match self.at_once {
            false => self.file.read_at(buf, offset),
            true if self.file.read_at_once(buf, offset) => Ok(buf.len()),
            true => Err(io::ErrorKind::WouldBlock.into()),
        };
        let found = found.map_err(|source| RunError::Medium { file: self.name(), offset, source })?;
        if found == buf.len() {
            return Ok(());
        }
        Err(self.damaged(offset + found as u64, "the file ends here"))
    }
}

#[derive(Default)]
struct RunState {
    open: Option<OpenRun>,
    /// When the handle was last used.
    used: u64,
    /// What was freed of it since the folder was opened: nothing refers to it, but a plan may be older.
    holes: Vec<Range<u64>>,
}

/// What is known of the runs.
#[derive(Default)]
struct Table {
    live: BTreeMap<u64, RunState>,
    /// Runs that are being written.
    writing: BTreeSet<u64>,
    /// The largest number that was ever seen.
    last: u64,
    clock: u64,
}

/// The runs of a folder.
pub(crate) struct RunFiles {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) identity: Identity,
    pub(crate) pages: Pages,
    pub(crate) access_counts: AccessCounts,
    pub(crate) read_ahead: ReadAhead,
    table: Mutex<Table>,
}

impl RunFiles {
    pub(crate) fn new(medium: Arc<dyn Medium>, identity: Identity, numbers: &BTreeSet<u64>) -> RunFiles {
        let table = Table {
            live: numbers.iter().map(|number| (*number, RunState::default())).collect(),
            last: numbers.last().copied().unwrap_or(0),
            ..Table::default()
        };
        RunFiles {
            medium,
            identity,
            pages: Pages::default(),
            access_counts: AccessCounts::new(),
            read_ahead: ReadAhead::new(identity.geometry.segment_size()),
            table: Mutex::new(table),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has what follows a read be read too, if its reader goes forward: by the log's thread for that, or here if it has none.
    pub(crate) fn note_read(&self, source: Source, range: &Range<u64>, pool: &Arc<Pool>) {
        if self.read_ahead.note(source, range) && !self.read_ahead.is_run() {
            self.read_ahead.read_next(pool);
        }
    }

    /// Numbers of the runs, in order.
    pub(crate) fn list(&self) -> Vec<u64> {
        self.table().live.keys().copied().collect()
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.table().last + 1
    }

    /// Marks a number as being written; false if it has a file already, or will have.
    pub(crate) fn begin(&self, number: u64) -> bool {
        let mut table = self.table();
        table.last = table.last.max(number);
        !table.live.contains_key(&number) && table.writing.insert(number)
    }

    /// The run is not being written any more; it is there if `written`.
    pub(crate) fn end(&self, number: u64, written: bool) {
        let mut table = self.table();
        table.writing.remove(&number);
        if written {
            table.live.insert(number, RunState::default());
        }
    }

    /// Opens a run and checks that it is the one and whole, as far as its first and last block tell.
    pub(crate) fn open(&self, number: u64) -> Result<OpenRun, RunError> {
        {
            let mut table = self.table();
            table.clock += 1;
            let clock = table.clock;
            let gone = || RunError::Freed { file: run_name(number) };
            let state = table.live.get_mut(&number).ok_or_else(gone)?;
            state.used = clock;
            if let Some(open) = &state.open {
                return Ok(open.clone());
            }
        }
        let open = self.open_file(number)?;
        self.table().keep(number, &open);
        Ok(open)
    }

    /// The run, if it is open and was checked, for reads that do not wait.
    pub(crate) fn open_at_once(&self, number: u64) -> Result<OpenRun, RunError> {
        let table = self.table();
        let gone = || RunError::Freed { file: run_name(number) };
        let open = table.live.get(&number).ok_or_else(gone)?.open.clone();
        open.map(|open| OpenRun { at_once: true, ..open }).ok_or_else(|| RunError::Medium {
            file: run_name(number),
            offset: 0,
            source: io::ErrorKind::WouldBlock.into(),
        })
    }

    fn open_file(&self, number: u64) -> Result<OpenRun, RunError> {
        let id = RunId::of(&self.identity, number);
        let file = run_name(number);
        let medium = |source: io::Error| match source.kind() {
            // A file that went behind our back is no reason to plan again.
            io::ErrorKind::NotFound if !self.table().live.contains_key(&number) => {
                RunError::Freed { file: run_name(number) }
            }
            _ => RunError::Medium { file: run_name(number), offset: 0, source },
        };
        let damaged = |offset| {
            move |fault: RunFault| RunError::Damaged {
                file: run_name(number),
                offset,
                what: fault.to_string(),
            }
        };
        let handle = self.medium.open(&file).map_err(medium)?;
        let size = handle.size().map_err(medium)?;
        let mut block = vec![0; BLOCK as usize];
        let found = handle.read_at(&mut block, 0).map_err(medium)?;
        id.check_header(&block[..found]).map_err(damaged(0))?;
        let last = size.saturating_sub(BLOCK);
        let found = handle.read_at(&mut block, last).map_err(medium)?;
        let footer = id.check_footer(&block[..found], size).map_err(damaged(last))?;
        Ok(OpenRun { id, file: handle, footer, at_once: false })
    }

    /// Opens a run whatever its first and last block say.
    pub(crate) fn open_past(&self, number: u64) -> Result<OpenRun, RunError> {
        let id = RunId::of(&self.identity, number);
        let medium = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => RunError::Freed { file: run_name(number) },
            _ => RunError::Medium { file: run_name(number), offset: 0, source },
        };
        let file = self.medium.open(&run_name(number)).map_err(medium)?;
        let length = file.size().map_err(medium)?;
        let footer = RunFooter { length, table: length, parts: 0, checksum: 0 };
        Ok(OpenRun { id, file, footer, at_once: false })
    }

    /// Takes a run out of use: readers that have it open may go on.
    pub(crate) fn retire(&self, number: u64) -> io::Result<()> {
        if self.table().live.remove(&number).is_none() {
            return Ok(());
        }
        self.pages.forget(number, 0..u64::MAX);
        self.medium.remove(&run_name(number))
    }

    /// Frees a range of a run. Lack of support or of room is no error: the range goes with the run.
    pub(crate) fn punch(&self, number: u64, range: &Range<u64>) -> io::Result<()> {
        let open = match self.open(number) {
            Ok(open) => open,
            Err(RunError::Medium { source, .. }) if !crate::medium::is_shortage(&source) => {
                return Err(source);
            }
            // Gone, or damaged: whoever reads it is told.
            Err(_) => return Ok(()),
        };
        if let Some(state) = self.table().live.get_mut(&number) {
            // A hole that grows is freed again with what it grew by.
            state.holes.retain(|hole| hole.start < range.start || range.end < hole.end);
            state.holes.push(range.clone());
        }
        self.pages.forget(number, range.clone());
        match open.file.punch(range.start, range.end.saturating_sub(range.start)) {
            Err(error) if !crate::medium::is_shortage(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether nothing of `range` was freed.
    pub(crate) fn is_live(&self, number: u64, range: &Range<u64>) -> bool {
        let overlaps = |hole: &Range<u64>| hole.start < range.end && range.start < hole.end;
        self.table().live.get(&number).is_some_and(|state| !state.holes.iter().any(overlaps))
    }
}

impl Table {
    fn keep(&mut self, number: u64, open: &OpenRun) {
        if let Some(state) = self.live.get_mut(&number) {
            state.open = Some(open.clone());
        }
        let open = self.live.values_mut().filter(|state| state.open.is_some());
        let (count, oldest) =
            open.fold((0, None), |(count, oldest): (usize, Option<&mut RunState>), state| {
                let older = oldest.as_ref().is_none_or(|oldest| state.used < oldest.used);
                (count + 1, if older { Some(state) } else { oldest })
            });
        if count > HANDLES
            && let Some(oldest) = oldest
        {
            oldest.open = None;
        }
    }
}
