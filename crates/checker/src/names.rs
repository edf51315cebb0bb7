//! Names as small numbers: histories are long and their names repeat.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Names, each with the number it was given when it was first met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    numbers: BTreeMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Names {
    /// The number of a name, given now if it is new.
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        number
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("?", |name| name)
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}
