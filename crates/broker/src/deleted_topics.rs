//! Names of topics that were deleted a short while ago. A client that requested the metadata of such a topic by name
//! sees it gone once before it is created again, as with Kafka, where a creation takes a moment.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Names that are kept; any one goes when there are more.
const MOST_NAMES: usize = 1000;

/// The names; copies share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeletedTopics(Arc<Mutex<BTreeSet<String>>>);

impl DeletedTopics {
    /// Keeps the name of a topic that was deleted.
    pub(crate) fn insert(&self, name: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MOST_NAMES {
            names.pop_first();
        }
        names.insert(name.to_owned());
    }

    /// Forgets a name; whether it was kept.
    pub(crate) fn remove(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }
}
