//! The errors of decoding and encoding.

use crate::Versions;
use std::fmt;

/// The location of an error in the schema: message and field. The field is empty for the message as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub &'static str, pub &'static str);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            "" => f.write_str(self.0),
            field => write!(f, "{}.{field}", self.0),
        }
    }
}

/// Decoding failed: the field, the byte and the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(Box<DecodeDetail>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct DecodeDetail {
    at: At,
    offset: usize,
    problem: DecodeProblem,
}

/// What is wrong with a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeProblem {
    /// The frame, or the tagged field around it, ends before the value does.
    #[error("bytes needed: {needed}, bytes left: {left}")]
    Short {
        /// The least number of bytes that the value needs.
        needed: u64,
        /// The bytes that remain.
        left: u64,
    },
    /// A length or count below -1.
    #[error("a length of {0}")]
    NegativeLength(i32),
    /// Null where the version does not allow it.
    #[error("null is not allowed in this version")]
    Null,
    /// A string of more than 32767 bytes.
    #[error("a string of {0} bytes, 32767 are allowed")]
    LongString(u32),
    /// A string that is not UTF-8.
    #[error("the string is not UTF-8")]
    NotUtf8,
    /// A variable-length number with too many bytes or too large a value.
    #[error("a variable-length number that is too long")]
    Varint,
    /// Tags that do not ascend.
    #[error("tag {0} comes after tag {1}")]
    TagOrder(u32, u32),
    /// A tagged field that is shorter than its declared size.
    #[error("tag {tag} declares {left} bytes more than its value has")]
    TagSize {
        /// The tag.
        tag: u32,
        /// The bytes between the end of the value and the declared end.
        left: u64,
    },
    /// A tag that the schema knows, but not in this version.
    #[error("the tag is not valid in version {0}")]
    TagVersion(i16),
    /// Bytes after the end of the message.
    #[error("bytes behind the message: {0}")]
    TrailingBytes(u64),
    /// A version that the message does not have.
    #[error("version {version}, valid are {}", display(*valid))]
    Version {
        /// The requested version.
        version: i16,
        /// The valid versions.
        valid: Versions,
    },
    /// An API number that is not in the schemas.
    #[error("no API has the number {0}")]
    UnknownApi(i16),
    /// The elements of arrays need more memory than the reader allows, see [`crate::Reader::with_memory_limit`].
    #[error("the elements read so far take more than {0} bytes of memory")]
    MemoryLimit(u64),
    /// A presence marker or another number whose value is undefined.
    #[error("{0} is not a legal value")]
    Value(i64),
}

fn display(versions: Versions) -> String {
    versions.to_string()
}

impl DecodeError {
    /// An error at a field, `offset` bytes into the frame.
    #[cold]
    pub fn new(at: &At, offset: usize, problem: DecodeProblem) -> DecodeError {
        DecodeError(Box::new(DecodeDetail { at: *at, offset, problem }))
    }

    /// The error for a version that the message does not have.
    #[cold]
    pub(crate) fn version(at: &At, offset: usize, version: i16, valid: Versions) -> DecodeError {
        DecodeError::new(at, offset, DecodeProblem::Version { version, valid })
    }

    /// The message.
    pub fn message(&self) -> &'static str {
        self.0.at.0
    }

    /// The field; empty when it is the message as a whole.
    pub fn field(&self) -> &'static str {
        self.0.at.1
    }

    /// The byte at which the value starts. Readers made by [`crate::frame`] count from the size prefix, others from the
    /// start of their buffer.
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// What is wrong.
    pub fn problem(&self) -> DecodeProblem {
        self.0.problem
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.0.at, self.0.offset, self.0.problem)
    }
}

impl std::error::Error for DecodeError {}

/// Encoding failed: the field and the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError(Box<(At, EncodeProblem)>);

/// Why a value cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeProblem {
    /// A version that the message does not have.
    #[error("version {version}, valid are {}", display(*valid))]
    Version {
        /// The requested version.
        version: i16,
        /// The valid versions.
        valid: Versions,
    },
    /// The version has no such field, and the value is not the default.
    #[error("version {0} has no such field, and its value is not the default")]
    Absent(i16),
    /// Null where the version does not allow it.
    #[error("null is not allowed in version {0}")]
    Null(i16),
    /// A string of more than 32767 bytes, or anything of 2 GiB and more.
    #[error("a length of {0} is too long")]
    TooLong(usize),
    /// Tagged fields in a version that is not flexible.
    #[error("version {0} has no tagged fields")]
    NoTags(i16),
    /// An unknown tag that is out of order or that the schema knows.
    #[error("the unknown tag {0} is out of order or known")]
    Tag(u32),
}

impl EncodeError {
    /// An error at a field.
    #[cold]
    pub fn new(at: &At, problem: EncodeProblem) -> EncodeError {
        EncodeError(Box::new((*at, problem)))
    }

    /// The message.
    pub fn message(&self) -> &'static str {
        self.0.0.0
    }

    /// The field; empty when it is the message as a whole.
    pub fn field(&self) -> &'static str {
        self.0.0.1
    }

    /// Why the value cannot be encoded.
    pub fn problem(&self) -> EncodeProblem {
        self.0.1
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.0, self.0.1)
    }
}

impl std::error::Error for EncodeError {}
