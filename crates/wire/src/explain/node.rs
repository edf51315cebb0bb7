//! What a frame comes apart into.

use crate::ApiKey;
use crate::tables::Type;
use bytes::Bytes;
use std::fmt;

/// The kind of place a byte stands in; one colour each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// The size in front.
    Frame,
    /// The header of the request or response.
    Header,
    /// The message.
    Body,
    /// The header of a record batch, or an entry of an old message set.
    RecordBatch,
    /// A record.
    Record,
    /// The tagged section of a struct.
    Tagged,
}

impl Region {
    /// Every region, in the order of a legend.
    pub const ALL: [Region; 6] =
        [Region::Frame, Region::Header, Region::Body, Region::RecordBatch, Region::Record, Region::Tagged];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Region::Frame => "frame",
            Region::Header => "rpc header",
            Region::Body => "body",
            Region::RecordBatch => "RecordBatch",
            Region::Record => "Record",
            Region::Tagged => "tagged_fields",
        }
    }
}

/// What the type column says.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Nothing.
    Blank,
    /// `message v5`.
    Message(i16),
    /// The version of a header or a batch: `v2`.
    Version(i16),
    /// A type of the wire that no schema names, or the name of a struct.
    Word(&'static str),
    /// The type of a field.
    Field(Type),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Blank => Ok(()),
            Kind::Message(version) => write!(f, "message v{version}"),
            Kind::Version(version) => write!(f, "v{version}"),
            Kind::Word(word) => f.write_str(word),
            Kind::Field(ty) => write!(f, "{ty}"),
        }
    }
}

/// How a length is written in front of what it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// A varint of the length and one more; 0 for null.
    Compact,
    /// Two bytes; -1 for null.
    Int16,
    /// Four bytes; -1 for null.
    Int32,
    /// A zigzag varint, in records; -1 for null.
    Varint,
    /// One byte that says whether a struct is there.
    Marker,
    /// None: the content fills what is around it.
    Rest,
}

/// What a node's bytes say.
///
/// The content of texts and bytes is the end of the node's own bytes: `length` of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Nothing of its own: the children say it.
    None,
    /// The fields are the children.
    Struct,
    /// Null.
    Null(Prefix),
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// Sixteen bytes, the node's own.
    Uuid,
    /// A string.
    Text {
        /// The bytes of its content.
        length: u32,
        /// How the length is written.
        prefix: Prefix,
    },
    /// Bytes; opened in the children if there are some.
    Bytes {
        /// How many.
        length: u32,
        /// How the length is written.
        prefix: Prefix,
    },
    /// An array of so many elements; the first child is its length.
    Elements(u32),
    /// The count in front of an array: the number as it is written.
    Count {
        /// The number on the wire.
        written: u32,
        /// How it is written.
        prefix: Prefix,
    },
    /// The number of an API.
    Api(i16),
    /// The code of an error.
    Error(i16),
    /// Milliseconds since 1970.
    Timestamp(i64),
    /// A checksum.
    Crc(u32),
    /// Codec and flags of a batch or old message.
    Attributes(i16),
    /// What a control record says.
    Control(i16),
    /// Compressed bytes and what came out of them, which is another source.
    Compressed {
        /// The compressed bytes.
        from: u32,
        /// The bytes that came out.
        to: u32,
    },
}

/// Something worth knowing about a node that is no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A variable-length number takes more bytes than it needs.
    Overlong,
    /// A truth value that is neither 0 nor 1.
    NotZeroOrOne,
    /// A string that is not UTF-8.
    NotUtf8,
    /// A tag that the schema does not know.
    UnknownTag,
    /// A tag that does not come after the one before it.
    TagOrder,
    /// A presence marker other than 1 and -1.
    Marker,
    /// The checksum is not that of the bytes.
    Crc,
    /// The end of a record set that was cut by a size limit.
    Cut,
}

impl Note {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Note::Overlong => "takes more bytes than it needs",
            Note::NotZeroOrOne => "neither 0 nor 1",
            Note::NotUtf8 => "not UTF-8",
            Note::UnknownTag => "a tag that the schema does not know",
            Note::TagOrder => "tags should ascend",
            Note::Marker => "a marker other than 1 and -1",
            Note::Crc => "not the checksum of the bytes",
            Note::Cut => "cut off by a size limit, readers drop it",
        }
    }
}

/// A piece of a frame: a field, or something made of fields.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The name in the schema, or ours where no schema names it.
    pub name: &'static str,
    /// The place in its array.
    pub index: Option<u32>,
    /// What the type column says.
    pub kind: Kind,
    /// What the bytes say.
    pub value: Value,
    /// What it means, or an empty text.
    pub about: &'static str,
    /// The buffer it lies in: 0 is the frame, others were decompressed.
    pub source: u16,
    /// The first byte in its source.
    pub at: u32,
    /// Its bytes.
    pub size: u32,
    /// The place it stands in.
    pub region: Region,
    /// How many nodes are above it.
    pub depth: u8,
    /// The node after its last descendant.
    pub end: u32,
    /// Something worth knowing.
    pub note: Option<Note>,
}

/// What is wrong with bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Too few bytes.
    #[error("expected {needed} bytes, found {left}")]
    Short {
        /// The bytes needed.
        needed: u64,
        /// The bytes left.
        left: u64,
    },
    /// A negative length.
    #[error("expected a length of -1 or more, found {0}")]
    Negative(i64),
    /// Null where it is not allowed.
    #[error("expected a value, found null, which this version does not allow")]
    Null,
    /// A string that is too long.
    #[error("expected a string of at most 32767 bytes, found {0}")]
    LongText(u64),
    /// A varint that does not end.
    #[error(
        "expected a variable-length number of at most {most} bytes, found one that goes on or does not fit"
    )]
    Varint {
        /// The bytes it may take.
        most: u32,
    },
    /// More elements than bytes.
    #[error("expected at most {left} elements in the bytes that are left, found a count of {count}")]
    Count {
        /// The count.
        count: u64,
        /// The bytes left.
        left: u64,
    },
    /// A tag in a version that does not have it.
    #[error("expected a tag of version {version}, found tag {tag} of another version")]
    TagVersion {
        /// The tag.
        tag: u32,
        /// The version.
        version: i16,
    },
    /// A tag that does not ascend.
    #[error("expected a tag above {before}, found {tag}")]
    TagOrder {
        /// The tag.
        tag: u32,
        /// The tag before it.
        before: u32,
    },
    /// Bytes behind the end.
    #[error("expected the end, found {0} more bytes")]
    TrailingBytes(u64),
    /// A size that does not fit the frame.
    #[error("expected a size of {found} in front of as many bytes, found {stated}")]
    Size {
        /// What the frame says.
        stated: i32,
        /// The bytes there are.
        found: u64,
    },
    /// No such API.
    #[error("expected the number of an API, found {0}")]
    Api(i16),
    /// No such version.
    #[error("expected a version of {api}, {valid}, found {version}")]
    Version {
        /// The API or message.
        api: &'static str,
        /// The versions there are.
        valid: crate::Versions,
        /// The one found.
        version: i16,
    },
    /// A record format that does not exist.
    #[error("expected record format 0, 1 or 2, found {0}")]
    Magic(i8),
    /// A checksum that does not fit.
    #[error("expected the checksum {found:08x} of the bytes, found {stated:08x}")]
    Crc {
        /// What is written.
        stated: u32,
        /// What the bytes give.
        found: u32,
    },
    /// Compressed bytes that do not come apart.
    #[error("expected compressed records, found {0}")]
    Codec(String),
    /// Structs in structs without end.
    #[error("expected at most {0} structs in one another")]
    Deep(u8),
}

/// A place where the bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The buffer: 0 is the frame.
    pub source: u16,
    /// The byte in it.
    pub at: u32,
    /// The message, or the part of a frame.
    pub message: &'static str,
    /// The field.
    pub field: &'static str,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {0} (0x{0:04x})", self.at)?;
        if self.source != 0 {
            write!(f, " of decompressed block {}", self.source)?;
        }
        write!(f, ", {}.{}: {}", self.message, self.field, self.problem)
    }
}

/// What the header of a frame says, as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The API.
    pub key: ApiKey,
    /// The version of the message.
    pub version: i16,
    /// The number that ties a response to its request.
    pub correlation_id: i32,
    /// What the client calls itself, in requests; null is none.
    pub client_id: Option<String>,
}

/// A frame taken apart.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub(super) sources: Vec<Bytes>,
    pub(super) nodes: Vec<Node>,
    pub(super) faults: Vec<Fault>,
    pub(super) head: Option<FrameHeader>,
    pub(super) cut: bool,
}

impl Explanation {
    /// Every node in preorder: a node stands before its children; the first one is the root.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes right below that one, in order.
    pub fn children(&self, id: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.nodes.get(id).map_or(0, |node| node.end as usize);
        let mut next = id + 1;
        std::iter::from_fn(move || {
            let this = next;
            next = self.nodes.get(this).filter(|_| this < end)?.end as usize;
            Some(this)
        })
    }

    /// A buffer: 0 is the frame, others hold what was decompressed, in the order in which they were met.
    pub fn source(&self, number: u16) -> &Bytes {
        static NOTHING: Bytes = Bytes::new();
        self.sources.get(usize::from(number)).unwrap_or(&NOTHING)
    }

    /// The bytes of a node.
    pub fn bytes(&self, node: &Node) -> &[u8] {
        let (from, size) = (node.at as usize, node.size as usize);
        self.source(node.source).get(from..from + size).unwrap_or_default()
    }

    /// The content of a text or bytes node, without its length.
    pub fn content(&self, node: &Node) -> &[u8] {
        match node.value {
            Value::Text { length, .. } | Value::Bytes { length, .. } => {
                let bytes = self.bytes(node);
                bytes.get(bytes.len().saturating_sub(length as usize)..).unwrap_or_default()
            }
            _ => self.bytes(node),
        }
    }

    /// What is wrong, in the order in which it was met.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// What the header says; `None` if it could not be read, or there was none.
    pub fn head(&self) -> Option<&FrameHeader> {
        self.head.as_ref()
    }

    /// Whether nodes were left out because there would have been too many.
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}
