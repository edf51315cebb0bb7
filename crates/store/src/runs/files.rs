//! The runs of a log: which exist, what of them was freed, and a bounded number of open handles.
//!
//! ```text
//!              begin                    end(written)                       retire
//!   (absent) ─────────▶ being written ───────────────▶ live ─────────────────────────────▶ (absent)
//!                            │ end(not written)         │ punch: a range is freed, the rest stays live
//!                            └──────────▶ (absent)      └ readers that have it open may continue after retire
//! ```

use crate::blob::BlobStore;
use crate::names::run_name;
use crate::read_ahead::ReadAhead;
use crate::runs::error::RunError;
use crate::runs::open_run::OpenRun;
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

#[derive(Default)]
struct RunState {
    open: Option<OpenRun>,
    /// When the handle was last used.
    used: u64,
    /// What was freed of it since the log was opened. Nothing refers to it, but an older plan may still read it.
    holes: Vec<Range<u64>>,
}

/// Which runs exist, by number.
#[derive(Default)]
struct RunTable {
    live: BTreeMap<u64, RunState>,
    /// Runs that are being written.
    writing: BTreeSet<u64>,
    /// The largest number that any run has had.
    last: u64,
    /// Counts uses of handles.
    clock: u64,
}

/// The runs of a log.
pub(crate) struct RunFiles {
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) identity: Identity,
    pub(crate) pages: Pages,
    pub(crate) read_ahead: Arc<ReadAhead>,
    table: Mutex<RunTable>,
}

impl RunFiles {
    pub(crate) fn new(
        blobs: Arc<dyn BlobStore>,
        identity: Identity,
        read_ahead: Arc<ReadAhead>,
        numbers: &BTreeSet<u64>,
    ) -> RunFiles {
        let table = RunTable {
            live: numbers.iter().map(|number| (*number, RunState::default())).collect(),
            last: numbers.last().copied().unwrap_or(0),
            ..RunTable::default()
        };
        RunFiles { blobs, identity, pages: Pages::default(), read_ahead, table: Mutex::new(table) }
    }

    fn table(&self) -> MutexGuard<'_, RunTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers of the runs, in order.
    pub(crate) fn list(&self) -> Vec<u64> {
        self.table().live.keys().copied().collect()
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.table().last + 1
    }

    /// Marks a number as being written; false if a run has it already, or will have it.
    pub(crate) fn begin(&self, number: u64) -> bool {
        let mut table = self.table();
        table.last = table.last.max(number);
        !table.live.contains_key(&number) && table.writing.insert(number)
    }

    /// Ends the writing of a run. It is live from now on if `written`.
    pub(crate) fn end(&self, number: u64, written: bool) {
        let mut table = self.table();
        table.writing.remove(&number);
        if written {
            table.live.insert(number, RunState::default());
        }
    }

    /// Opens a run and checks its header and footer.
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
    pub(crate) fn open_non_blocking(&self, number: u64) -> Result<OpenRun, RunError> {
        let table = self.table();
        let gone = || RunError::Freed { file: run_name(number) };
        let open = table.live.get(&number).ok_or_else(gone)?.open.clone();
        open.map(|open| OpenRun { non_blocking: true, ..open }).ok_or_else(|| RunError::Medium {
            file: run_name(number),
            offset: 0,
            source: io::ErrorKind::WouldBlock.into(),
        })
    }

    fn open_file(&self, number: u64) -> Result<OpenRun, RunError> {
        let id = RunId::of(&self.identity, number);
        let file = run_name(number);
        let medium = |source: io::Error| match source.kind() {
            // A file that was removed by another process is damage, not a reason to plan again.
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
        let blob = self.blobs.open(&file).map_err(medium)?;
        let size = blob.size().map_err(medium)?;
        let mut block = vec![0; BLOCK as usize];
        let found = blob.read_at(&mut block, 0).map_err(medium)?;
        id.check_header(&block[..found]).map_err(damaged(0))?;
        let last = size.saturating_sub(BLOCK);
        let found = blob.read_at(&mut block, last).map_err(medium)?;
        let footer = id.check_footer(&block[..found], size).map_err(damaged(last))?;
        Ok(OpenRun { id, blob, footer, non_blocking: false })
    }

    /// Opens a run without a check of its header and footer, to salvage what it holds.
    pub(crate) fn open_unchecked(&self, number: u64) -> Result<OpenRun, RunError> {
        let id = RunId::of(&self.identity, number);
        let medium = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => RunError::Freed { file: run_name(number) },
            _ => RunError::Medium { file: run_name(number), offset: 0, source },
        };
        let blob = self.blobs.open(&run_name(number)).map_err(medium)?;
        let length = blob.size().map_err(medium)?;
        let footer = RunFooter { length, table: length, parts: 0, checksum: 0 };
        Ok(OpenRun { id, blob, footer, non_blocking: false })
    }

    /// Takes a run out of use. Readers that have it open may continue.
    pub(crate) fn retire(&self, number: u64) -> io::Result<()> {
        if self.table().live.remove(&number).is_none() {
            return Ok(());
        }
        self.pages.forget(number, 0..u64::MAX);
        self.blobs.delete(&run_name(number))
    }

    /// Frees a range of a run. Lack of support or of space is no error: the range is freed with the run then.
    pub(crate) fn punch(&self, number: u64, range: &Range<u64>) -> io::Result<()> {
        let open = match self.open(number) {
            Ok(open) => open,
            Err(RunError::Medium { source, .. }) if !crate::medium::is_shortage(&source) => {
                return Err(source);
            }
            // Freed, or damaged: a reader gets that error.
            Err(_) => return Ok(()),
        };
        if let Some(state) = self.table().live.get_mut(&number) {
            // A hole that grows is freed again with what it grew by.
            state.holes.retain(|hole| hole.start < range.start || range.end < hole.end);
            state.holes.push(range.clone());
        }
        self.pages.forget(number, range.clone());
        match open.blob.free_range(range.clone()) {
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

impl RunTable {
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
