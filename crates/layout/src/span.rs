//! Named ranges of bytes: what [`crate::explain`] returns, and the trace in which the record reader collects them.

use ottla_types::TopicId;

/// What the bytes of a span say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// Nothing of their own: the spans in it say it, or nobody does.
    Nothing,
    /// A whole number.
    Number(i128),
    /// A number that has a name.
    Named(i64, &'static str),
    /// A truth value.
    Bool(bool),
    /// Milliseconds since 1970.
    Time(i64),
    /// A checksum, or a number by chance.
    Hex(u64),
    /// Text, behind its length unless it is a mark.
    Text(String),
    /// So many bytes, at the end of the span.
    Bytes(usize),
    /// So many elements.
    Elements(u32),
    /// The id of a topic.
    Topic(TopicId),
}

/// A span of something that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpan {
    /// Its name: that of a field.
    pub name: &'static str,
    /// Its place in a list.
    pub index: Option<u32>,
    /// What kind of field it is.
    pub word: &'static str,
    /// What its bytes say.
    pub value: FieldValue,
    /// The first byte, counted from the start of what is explained.
    pub at: usize,
    /// Its bytes.
    pub size: usize,
    /// How many spans it lies in.
    pub depth: usize,
    /// What it means, or an empty text.
    pub about: &'static str,
}

/// Gathers spans while a record is read.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) spans: Vec<FieldSpan>,
    open: Vec<usize>,
}

impl Trace {
    pub(crate) fn begin(&mut self, name: &'static str, index: Option<u32>, word: &'static str, at: usize) {
        self.open.push(self.spans.len());
        let depth = self.open.len() - 1;
        self.spans.push(FieldSpan {
            name,
            index,
            word,
            value: FieldValue::Nothing,
            at,
            size: 0,
            depth,
            about: "",
        });
    }

    pub(crate) fn end(&mut self, end: usize) {
        if let Some(span) = self.open.pop().and_then(|id| self.spans.get_mut(id)) {
            span.size = end - span.at;
        }
    }

    /// What the innermost span that is not ended says.
    pub(crate) fn set_value(&mut self, value: FieldValue) {
        if let Some(span) = self.open.last().and_then(|id| self.spans.get_mut(*id)) {
            span.value = value;
        }
    }
}
