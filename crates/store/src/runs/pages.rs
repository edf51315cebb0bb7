//! A cache of directory pages: at most 8 MiB, the least recently used are dropped first.

use crate::runs::error::RunError;
use crate::runs::open_run::OpenRun;
use ottla_layout::run::{DirectoryPage, PAGE};
use ottla_types::record::RunPart;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pages that are kept.
const KEPT: usize = (8 << 20) / PAGE;
/// Pages that a sequential reader of a part reads at once.
const AHEAD: u32 = 8;

/// Number of a run, and offset in it.
type Key = (u64, u64);

#[derive(Default)]
pub(crate) struct Pages {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    pages: BTreeMap<Key, (Arc<DirectoryPage>, u64)>,
    /// Keys by when they were last used.
    order: BTreeMap<u64, Key>,
    clock: u64,
}

impl Cache {
    fn get(&mut self, key: Key) -> Option<Arc<DirectoryPage>> {
        let (page, used) = self.pages.get_mut(&key)?;
        self.clock += 1;
        self.order.remove(used);
        *used = self.clock;
        self.order.insert(self.clock, key);
        Some(Arc::clone(page))
    }

    fn put(&mut self, key: Key, page: Arc<DirectoryPage>) {
        self.clock += 1;
        if let Some((_, used)) = self.pages.insert(key, (page, self.clock)) {
            self.order.remove(&used);
        }
        self.order.insert(self.clock, key);
        if self.pages.len() > KEPT
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.pages.remove(&oldest);
        }
    }

    fn forget(&mut self, run: u64, range: Range<u64>) {
        let gone: Vec<Key> =
            self.pages.range((run, range.start)..(run, range.end)).map(|(key, _)| *key).collect();
        for key in gone {
            if let Some((_, used)) = self.pages.remove(&key) {
                self.order.remove(&used);
            }
        }
    }
}

impl Pages {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self, run: u64, range: Range<u64>) {
        self.cache().forget(run, range);
    }

    /// Page `index` of a part that has pages.
    pub(crate) fn page(
        &self,
        run: &OpenRun,
        part: &RunPart,
        index: u32,
    ) -> Result<Arc<DirectoryPage>, RunError> {
        self.load(run, part, index, 1)
    }

    /// As [`Pages::page`], for a reader that needs the following pages next.
    pub(crate) fn page_in_turn(
        &self,
        run: &OpenRun,
        part: &RunPart,
        index: u32,
    ) -> Result<Arc<DirectoryPage>, RunError> {
        self.load(run, part, index, AHEAD)
    }

    fn load(
        &self,
        run: &OpenRun,
        part: &RunPart,
        index: u32,
        count: u32,
    ) -> Result<Arc<DirectoryPage>, RunError> {
        let place = |index: u32| part.directory + u64::from(index) * PAGE as u64;
        if let Some(page) = self.cache().get((part.run, place(index))) {
            return Ok(page);
        }
        let count = count.min(part.pages.saturating_sub(index)).max(1);
        let mut bytes = vec![0; count as usize * PAGE];
        run.fill(&mut bytes, place(index))?;
        let mut first = None;
        for (number, bytes) in (index..).zip(bytes.chunks_exact(PAGE)) {
            let at = place(number);
            match DirectoryPage::check(&run.id, at, number, bytes) {
                Ok(page) => {
                    let page = Arc::new(page);
                    first.get_or_insert_with(|| Arc::clone(&page));
                    self.cache().put((part.run, at), page);
                }
                Err(fault) if number == index => return Err(run.damaged(at, fault)),
                // A reader that needs that page gets the error.
                Err(_) => break,
            }
        }
        first.ok_or_else(|| run.damaged(place(index), "the part has no such directory page"))
    }
}
