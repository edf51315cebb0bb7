//! Tagged fields that a schema does not know.

use bytes::Bytes;

/// Unknown tagged fields in the order of the wire. The value is one pointer, which is null when there are none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tags(Option<Box<List>>);

#[derive(Clone, Default, PartialEq, Eq)]
struct List {
    fields: Vec<(u32, Bytes)>,
}

impl Tags {
    /// Whether there are no unknown tagged fields.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The number of unknown tagged fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Adds a field at the end. Tags must ascend, else encoding fails.
    pub fn push(&mut self, tag: u32, value: Bytes) {
        self.0.get_or_insert_default().fields.push((tag, value));
    }

    /// The fields: tag and undecoded value.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Bytes)> {
        self.as_slice().iter().map(|(tag, value)| (*tag, value))
    }

    /// A cursor for merging them with known fields.
    pub fn cursor(&self) -> TagCursor<'_> {
        TagCursor { rest: self.as_slice(), last: None }
    }

    fn as_slice(&self) -> &[(u32, Bytes)] {
        self.0.as_ref().map_or(&[], |list| &list.fields)
    }
}

impl std::fmt::Debug for Tags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The position of the writer in a list of unknown tags.
pub struct TagCursor<'a> {
    pub(crate) rest: &'a [(u32, Bytes)],
    pub(crate) last: Option<u32>,
}
