//! Named ranges of bytes: what [`crate::explain`] returns, and the trace in which the record reader collects them.

use ottla_types::TopicId;

/// The value of the bytes of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// No value of their own: the spans in it have values, or there is none.
    Nothing,
    /// A whole number.
    Number(i128),
    /// A number that has a name.
    Named(i64, &'static str),
    /// A boolean.
    Bool(bool),
    /// Milliseconds since 1970.
    Time(i64),
    /// A checksum or a random number.
    Hex(u64),
    /// Text, after its length unless it is a mark.
    Text(String),
    /// This many bytes, at the end of the span.
    Bytes(usize),
    /// A list with this many elements.
    Elements(u32),
    /// The id of a topic.
    Topic(TopicId),
}

/// A named range of the bytes of a header or an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpan {
    /// Name of the field.
    pub name: &'static str,
    /// Index in a list, if it is an element.
    pub index: Option<u32>,
    /// Type of the field, in a word.
    pub word: &'static str,
    /// Value of the bytes.
    pub value: FieldValue,
    /// Offset of the first byte from the start of the explained bytes.
    pub at: usize,
    /// Number of bytes.
    pub size: usize,
    /// Number of spans that contain it.
    pub depth: usize,
    /// Meaning of the field, or an empty text.
    pub about: &'static str,
}

/// Collects spans while a record is read.
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

    /// Sets the value of the innermost span that has not ended.
    pub(crate) fn set_value(&mut self, value: FieldValue) {
        if let Some(span) = self.open.last().and_then(|id| self.spans.get_mut(*id)) {
            span.value = value;
        }
    }
}
