//! The tree of a frame: nodes, values, notes and faults.

use crate::ApiKey;
use crate::tables::Type;
use bytes::Bytes;
use std::fmt;

/// The part of a frame that a byte belongs to. Each part has a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// The size field.
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

/// The type of a node, as the type column shows it.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Nothing.
    Blank,
    /// `message v5`.
    Message(i16),
    /// The version of a header or a batch: `v2`.
    Version(i16),
    /// A wire type without a schema field, or the name of a struct.
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

/// The encoding of a length in front of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// An unsigned varint of length + 1; 0 for null.
    Compact,
    /// Two bytes; -1 for null.
    Int16,
    /// Four bytes; -1 for null.
    Int32,
    /// A zigzag varint, in records; -1 for null.
    Varint,
    /// One byte: whether a struct is present.
    Marker,
    /// No length: the content fills its parent.
    Rest,
}

/// The value of a node's bytes.
///
/// The content of texts and bytes is the last `length` bytes of the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// No value of its own; the children have the values.
    None,
    /// The fields are the children.
    Struct,
    /// Null.
    Null(Prefix),
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// A uuid: the sixteen bytes of the node.
    Uuid,
    /// A string.
    Text {
        /// The bytes of its content.
        length: u32,
        /// The encoding of the length.
        prefix: Prefix,
    },
    /// Bytes. The children explain the content, if there are any.
    Bytes {
        /// The number of bytes.
        length: u32,
        /// The encoding of the length.
        prefix: Prefix,
    },
    /// An array with this many elements. Its first child is the length.
    Elements(u32),
    /// The count in front of an array, as it is encoded.
    Count {
        /// The number on the wire.
        written: u32,
        /// Its encoding.
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
    /// The type of a control record.
    Control(i16),
    /// Compressed bytes. The decompressed bytes are another source.
    Compressed {
        /// The number of compressed bytes.
        from: u32,
        /// The number of decompressed bytes.
        to: u32,
    },
}

/// A remark about a node that is not a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A variable-length number takes more bytes than it needs.
    Overlong,
    /// A boolean that is neither 0 nor 1.
    NotZeroOrOne,
    /// A string that is not UTF-8.
    NotUtf8,
    /// A tag that the schema does not know.
    UnknownTag,
    /// A tag that is not greater than the one before it.
    TagOrder,
    /// A presence marker other than 1 and -1.
    Marker,
    /// The checksum does not match the bytes.
    Crc,
    /// The end of a record set that a size limit truncated.
    Cut,
}

impl Note {
    /// The note as text.
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

/// A node of the tree: a field, or a group of fields.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The name in the schema, or Ottla's own name for parts without a schema.
    pub name: &'static str,
    /// The index in its array.
    pub index: Option<u32>,
    /// The type of a node, as the type column shows it.
    pub kind: Kind,
    /// The value of its bytes.
    pub value: Value,
    /// The meaning; may be empty.
    pub about: &'static str,
    /// The buffer that contains it: 0 is the frame, others are decompressed data.
    pub source: u16,
    /// The position of its first byte in the buffer.
    pub at: u32,
    /// The number of its bytes.
    pub size: u32,
    /// The part of the frame that it belongs to.
    pub region: Region,
    /// The number of its ancestors.
    pub depth: u8,
    /// The index of the node after its last descendant.
    pub end: u32,
    /// A remark, if there is one.
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
        "expected a variable-length number of at most {most} bytes, found one that is longer or does not fit"
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
    /// Bytes after the end.
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
    /// Compressed bytes that cannot be decompressed.
    #[error("expected compressed records, found {0}")]
    Codec(String),
    /// Structs nested too deeply.
    #[error("expected at most {0} structs in one another")]
    Deep(u8),
}

/// A position where the bytes break the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The buffer: 0 is the frame.
    pub source: u16,
    /// The position in the buffer.
    pub at: u32,
    /// The message, or another part of a frame.
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

/// The header of a frame, as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The API.
    pub key: ApiKey,
    /// The version of the message.
    pub version: i16,
    /// The number that assigns a response to its request.
    pub correlation_id: i32,
    /// The name that the client gave itself, in requests.
    pub client_id: Option<String>,
}

/// The explanation of a frame: its buffers, nodes and faults.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub(super) sources: Vec<Bytes>,
    pub(super) nodes: Vec<Node>,
    pub(super) faults: Vec<Fault>,
    pub(super) head: Option<FrameHeader>,
    pub(super) cut: bool,
}

impl Explanation {
    /// Every node in preorder: a node comes before its children; the first one is the root.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The children of a node, in order.
    pub fn children(&self, id: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.nodes.get(id).map_or(0, |node| node.end as usize);
        let mut next = id + 1;
        std::iter::from_fn(move || {
            let this = next;
            next = self.nodes.get(this).filter(|_| this < end)?.end as usize;
            Some(this)
        })
    }

    /// A buffer: 0 is the frame, others are decompressed data, in the order of the frame.
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

    /// The faults, in the order in which the walk found them.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The header; `None` if it could not be read, or there is none.
    pub fn head(&self) -> Option<&FrameHeader> {
        self.head.as_ref()
    }

    /// Whether nodes were left out because of the limit on nodes.
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}
