//! The walk over a frame by the tables of its message.

use super::cursor::SourceCursor;
use super::{Explanation, Fault, FrameHeader, Kind, Node, Note, Options, Prefix, Problem, Region, Value};
use crate::smallest_frame_of;
use crate::tables::{Direction, FieldTable, MessageTable, StructTable, TableSet, Type};
use crate::{ApiInfo, ApiKey};
use bytes::Bytes;

/// The deepest nesting of structs. Kafka's schemas nest far less.
const MAX_DEPTH: u8 = 64;
/// The longest string in bytes.
const MAX_STRING_LENGTH: u64 = crate::text::MAX_STRING_LENGTH as u64;

/// A fault was recorded. The walk continues after the innermost enclosing part with a length of its own.
pub(super) struct Stop;

pub(super) type Step<T = ()> = Result<T, Stop>;

/// Explains a request frame, including its size field.
pub fn request(set: &TableSet, frame: &Bytes, options: &Options) -> Explanation {
    let mut walk = Walk::new(set, options, frame);
    walk.frame(frame, Walk::request);
    walk.finish()
}

/// Explains the response frame to a request of that API and version, including its size field.
pub fn response(set: &TableSet, key: ApiKey, version: i16, frame: &Bytes, options: &Options) -> Explanation {
    let mut walk = Walk::new(set, options, frame);
    walk.frame(frame, |walk, cur| walk.response(cur, key, version));
    walk.finish()
}

/// Explains a message without size field and header.
pub fn message(table: &'static MessageTable, version: i16, bytes: &Bytes, options: &Options) -> Explanation {
    let mut walk = Walk::new(TableSet::built_in(), options, bytes);
    let mut cur = SourceCursor::new(0, bytes.clone());
    let id = walk.open(&cur, table.name, Kind::Message(version));
    let _ = walk.read_all(&mut cur, |walk, cur| walk.body(cur, table, version));
    walk.close(id, &cur);
    walk.finish()
}

/// Explains consecutive record batches.
pub fn records(bytes: &Bytes, options: &Options) -> Explanation {
    let mut walk = Walk::new(TableSet::built_in(), options, bytes);
    let mut cur = SourceCursor::new(0, bytes.clone());
    let id = walk.open(&cur, "records", Kind::Blank);
    walk.records(&mut cur, id);
    walk.close(id, &cur);
    walk.finish()
}

/// The explanation of the smallest legal frame of an API and version, as a reference page shows it. `None` if there is
/// no such version.
pub fn sample(set: &TableSet, info: &ApiInfo, direction: Direction, version: i16) -> Option<Explanation> {
    let frame = smallest_frame_of(info, direction, version)?;
    let options = Options::default();
    let mut walk = Walk::new(set, &options, &frame);
    walk.sample = true;
    match direction {
        Direction::Request => walk.frame(&frame, Walk::request),
        Direction::Response => walk.frame(&frame, |walk, cur| walk.response(cur, info.key, version)),
    }
    Some(walk.finish())
}

/// The message and version whose fields are being read.
#[derive(Clone, Copy)]
pub(super) struct MessageVersion {
    pub(super) table: &'static MessageTable,
    pub(super) version: i16,
}

impl MessageVersion {
    fn flexible(self) -> bool {
        self.table.flexible.contains(self.version)
    }
}

/// The state of a walk.
pub(super) struct Walk<'o> {
    pub(super) set: &'o TableSet,
    pub(super) options: &'o Options,
    pub(super) out: Explanation,
    pub(super) region: Region,
    pub(super) message: &'static str,
    depth: u8,
    /// The nodes that are not closed yet.
    open_nodes: Vec<usize>,
    sample: bool,
    /// The number of decompressed bytes so far.
    pub(super) decompressed_bytes: usize,
    /// The last topic name in the message.
    pub(super) topic: Option<String>,
    /// The protocol type of the group, if the message contains it.
    pub(super) protocol: Option<String>,
}

impl<'o> Walk<'o> {
    fn new(set: &'o TableSet, options: &'o Options, bytes: &Bytes) -> Walk<'o> {
        let nodes = Vec::with_capacity(64);
        let sources = vec![bytes.clone()];
        Walk {
            set,
            options,
            out: Explanation { sources, nodes, faults: Vec::new(), head: None, cut: false },
            region: Region::Body,
            message: "",
            depth: 0,
            open_nodes: Vec::new(),
            sample: false,
            decompressed_bytes: 0,
            topic: None,
            protocol: None,
        }
    }

    fn finish(self) -> Explanation {
        self.out
    }

    /// Opens a node that has children.
    pub(super) fn open(&mut self, cur: &SourceCursor, name: &'static str, kind: Kind) -> usize {
        let id = self.push(cur, name, kind, Value::None);
        self.depth = self.depth.saturating_add(1);
        self.open_nodes.push(id);
        id
    }

    /// Closes a node at the position of the cursor.
    pub(super) fn close(&mut self, id: usize, cur: &SourceCursor) {
        self.depth = self.depth.saturating_sub(1);
        self.open_nodes.pop();
        self.end(id, cur);
    }

    fn end(&mut self, id: usize, cur: &SourceCursor) {
        let end = self.out.nodes.len() as u32;
        if let Some(node) = self.out.nodes.get_mut(id) {
            node.size = (cur.at as u32).saturating_sub(node.at);
            node.end = end;
        }
    }

    /// Changes the depth of the following nodes.
    pub(super) fn change_depth(&mut self, by: i8) {
        self.depth = self.depth.saturating_add_signed(by);
    }

    /// Changes an existing node.
    pub(super) fn edit(&mut self, id: usize, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.out.nodes.get_mut(id) {
            change(node);
        }
    }

    fn push(&mut self, cur: &SourceCursor, name: &'static str, kind: Kind, value: Value) -> usize {
        let id = self.out.nodes.len();
        if id >= self.options.max_nodes {
            self.out.cut = true;
            return usize::MAX;
        }
        self.out.nodes.push(Node {
            name,
            index: None,
            kind,
            value,
            about: "",
            source: cur.source,
            at: cur.at as u32,
            size: 0,
            region: self.region,
            depth: self.depth,
            end: id as u32 + 1,
            note: None,
        });
        id
    }

    /// Adds a node without children. `read` reads its value.
    pub(super) fn leaf<T>(
        &mut self,
        cur: &mut SourceCursor,
        (name, kind, about): (&'static str, Kind, &'static str),
        read: impl FnOnce(&mut SourceCursor) -> Result<(T, Value, Option<Note>), Problem>,
    ) -> Step<T> {
        let from = cur.at;
        match read(cur) {
            Ok((found, value, note)) => {
                let to = std::mem::replace(&mut cur.at, from);
                let id = self.push(cur, name, kind, value);
                cur.at = to;
                self.edit(id, |node| {
                    node.about = about;
                    node.note = note;
                    node.size = (to - from) as u32;
                });
                Ok(found)
            }
            Err(problem) => {
                cur.at = from;
                Err(self.fault(cur, name, problem))
            }
        }
    }

    /// Records a fault.
    pub(super) fn fault(&mut self, cur: &SourceCursor, field: &'static str, problem: Problem) -> Stop {
        let at = cur.at as u32;
        self.out.faults.push(Fault { source: cur.source, at, message: self.message, field, problem });
        Stop
    }

    /// Reads the range of the cursor to its end. Bytes that remain, after a fault or without one, become a node of
    /// their own.
    pub(super) fn read_all(
        &mut self,
        cur: &mut SourceCursor,
        read: impl FnOnce(&mut Walk<'o>, &mut SourceCursor) -> Step,
    ) -> Step {
        let (depth, region, message) = (self.depth, self.region, self.message);
        let open_nodes = self.open_nodes.len();
        let mut step = read(self, cur);
        // After a fault the enclosing nodes are still open.
        while let Some(id) = self.open_nodes.len().checked_sub(1).filter(|last| *last >= open_nodes) {
            let id = self.open_nodes.swap_remove(id);
            self.end(id, cur);
        }
        (self.depth, self.region, self.message) = (depth, region, message);
        let left = cur.left();
        if step.is_ok() && left > 0 {
            step = Err(self.fault(cur, "end", Problem::TrailingBytes(left as u64)));
        }
        self.undecoded(cur);
        step
    }

    /// Adds one node for the rest of the cursor.
    pub(super) fn undecoded(&mut self, cur: &mut SourceCursor) {
        let left = cur.left();
        if left > 0 {
            let what = ("undecoded", Kind::Blank, "");
            let value = Value::Bytes { length: left as u32, prefix: Prefix::Rest };
            let _ = self.leaf(cur, what, |cur| cur.take(left).map(|_| ((), value, None)));
        }
    }

    fn frame(&mut self, frame: &Bytes, read: impl FnOnce(&mut Walk<'o>, &mut SourceCursor) -> Step) {
        let mut cur = SourceCursor::new(0, frame.clone());
        let root = self.open(&cur, "frame", Kind::Blank);
        let _ = self.read_all(&mut cur, |walk, cur| {
            walk.region = Region::Frame;
            walk.message = "Frame";
            let id = walk.open(cur, "Frame", Kind::Blank);
            walk.edit(id, |node| node.about = "length-delimited framing");
            let about = "number of bytes that follow, patched after encoding";
            let size = walk.leaf(cur, ("size", Kind::Word("int32"), about), int(SourceCursor::i32))?;
            walk.close(id, cur);
            if usize::try_from(size) != Ok(cur.left()) {
                let (stated, found) = (size as i32, cur.left() as u64);
                cur.at -= 4;
                walk.fault(cur, "size", Problem::Size { stated, found });
                cur.at += 4;
            }
            read(walk, cur)
        });
        self.close(root, &cur);
    }

    fn request(&mut self, cur: &mut SourceCursor) -> Step {
        (self.region, self.message) = (Region::Header, "RequestHeader");
        let id = self.open(cur, "RequestHeader", Kind::Blank);
        self.edit(id, |node| node.about = "common request header");
        let (info, version) = self.request_header(cur, id)?;
        self.close(id, cur);
        let Some(table) = info.request.filter(|table| table.versions.contains(version)) else {
            let valid = info.request_versions;
            return Err(self.fault(
                cur,
                "request_api_version",
                Problem::Version { api: info.name, valid, version },
            ));
        };
        self.message_in_frame(cur, table, version)
    }

    fn request_header(&mut self, cur: &mut SourceCursor, id: usize) -> Step<(&'static ApiInfo, i16)> {
        let about = "numeric id of the API being invoked";
        let key = self.leaf(cur, ("request_api_key", Kind::Word("int16"), about), |cur| {
            cur.i16().map(|key| (ApiKey(key), Value::Api(key), None))
        })?;
        let about = "version of the API being invoked";
        let version =
            self.leaf(cur, ("request_api_version", Kind::Word("int16"), about), int(SourceCursor::i16))?
                as i16;
        let about = "echoed back by the broker in the response";
        let correlation_id =
            self.leaf(cur, ("correlation_id", Kind::Word("int32"), about), int(SourceCursor::i32))? as i32;
        let mut head = FrameHeader { key, version, correlation_id, client_id: None };
        self.out.head = Some(head.clone());
        let Some(info) = self.set.api(key) else {
            return Err(self.fault(cur, "request_api_key", Problem::Api(key.0)));
        };
        let header = info.request_header_version(version);
        self.edit(id, |node| node.kind = Kind::Version(header));
        if header >= 1 {
            let about = "always a non-flexible int16-prefixed string";
            let what = ("client_id", Kind::Word("nullable_string"), about);
            let length = self.leaf(cur, what, |cur| text(cur, Prefix::Int16, true))?;
            head.client_id =
                length.map(|length| String::from_utf8_lossy(cur.last_bytes(length)).into_owned());
            self.out.head = Some(head);
        }
        if header >= 2 {
            self.tagged(cur, "number of tagged fields in the header", None)?;
        }
        Ok((info, version))
    }

    fn response(&mut self, cur: &mut SourceCursor, key: ApiKey, version: i16) -> Step {
        (self.region, self.message) = (Region::Header, "ResponseHeader");
        let info = self.set.api(key);
        let header = info.map_or(0, |info| info.response_header_version(version));
        let id = self.open(cur, "ResponseHeader", Kind::Version(header));
        self.edit(id, |node| node.about = "common response header");
        let about = "matches the correlation_id of the request";
        let correlation_id =
            self.leaf(cur, ("correlation_id", Kind::Word("int32"), about), int(SourceCursor::i32))? as i32;
        self.out.head = Some(FrameHeader { key, version, correlation_id, client_id: None });
        if header >= 1 {
            self.tagged(cur, "number of tagged fields in the header", None)?;
        }
        self.close(id, cur);
        let Some(info) = info else {
            return Err(self.fault(cur, "api_key", Problem::Api(key.0)));
        };
        let Some(table) = info.response.filter(|table| table.versions.contains(version)) else {
            let valid = info.response_versions;
            return Err(self.fault(cur, "version", Problem::Version { api: info.name, valid, version }));
        };
        self.message_in_frame(cur, table, version)
    }

    fn message_in_frame(
        &mut self,
        cur: &mut SourceCursor,
        table: &'static MessageTable,
        version: i16,
    ) -> Step {
        self.edit(0, |root| {
            root.name = table.name;
            root.kind = Kind::Message(version);
        });
        self.region = Region::Body;
        let id = self.open(cur, table.name, Kind::Word("struct"));
        self.edit(id, |node| {
            node.about = "message body";
            node.value = Value::Struct;
        });
        self.body(cur, table, version)?;
        self.close(id, cur);
        Ok(())
    }

    /// The fields of a message's root.
    pub(super) fn body(
        &mut self,
        cur: &mut SourceCursor,
        table: &'static MessageTable,
        version: i16,
    ) -> Step {
        let before = std::mem::replace(&mut self.message, table.name);
        if !table.versions.contains(version) {
            let problem = Problem::Version { api: table.name, valid: table.versions, version };
            return Err(self.fault(cur, "version", problem));
        }
        self.fields(cur, MessageVersion { table, version }, table.root)?;
        self.message = before;
        Ok(())
    }

    fn fields(&mut self, cur: &mut SourceCursor, place: MessageVersion, table: &'static StructTable) -> Step {
        if self.depth > MAX_DEPTH {
            return Err(self.fault(cur, table.name, Problem::Deep(MAX_DEPTH)));
        }
        for field in table.plain(place.version) {
            let flexible = field.has_compact_length(place.table, place.version);
            self.field(cur, place, (field, flexible, false))?;
        }
        if place.flexible() {
            self.tagged(cur, "number of tagged fields in this struct", Some((place, table)))?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        cur: &mut SourceCursor,
        place: MessageVersion,
        (field, flexible, tagged): (&'static FieldTable, bool, bool),
    ) -> Step {
        let nullable = field.nullable.contains(place.version);
        let what = (field.name, Kind::Field(field.ty), field.about);
        match field.ty {
            Type::Struct(table) => {
                let id = self.open(cur, field.name, Kind::Field(field.ty));
                self.edit(id, |node| node.about = field.about);
                self.optional_struct(cur, place, (id, table), nullable.then_some(tagged))?;
                self.close(id, cur);
                Ok(())
            }
            Type::Array(element) => self.array(cur, place, (field, element), (flexible, nullable)),
            Type::String => {
                let prefix = if flexible { Prefix::Compact } else { Prefix::Int16 };
                let found = self.leaf(cur, what, |cur| text(cur, prefix, nullable))?;
                self.keep_context(field, found.map(|length| cur.last_bytes(length)));
                Ok(())
            }
            Type::Bytes | Type::Records => {
                let prefix = if flexible { Prefix::Compact } else { Prefix::Int32 };
                self.blob(cur, field, (prefix, nullable))
            }
            Type::Uuid => {
                let id = self.leaf(cur, what, |cur| {
                    let bytes = cur.take(16)?;
                    Ok((crate::Uuid(bytes.try_into().unwrap_or_default()), Value::Uuid, None))
                })?;
                if field.name == "TopicId" {
                    self.topic = self.options.topics.get(&id).cloned();
                }
                Ok(())
            }
            ty => self.leaf(cur, what, |cur| scalar(cur, ty, field.name)),
        }
    }

    /// Keeps the values that the explanation of later fields depends on.
    fn keep_context(&mut self, field: &FieldTable, found: Option<&[u8]>) {
        let text = |found: &[u8]| String::from_utf8_lossy(found).into_owned();
        if field.entity_type == Some("topicName") {
            self.topic = found.map(text);
        } else if field.name == "ProtocolType" {
            self.protocol = found.map(text);
        }
    }

    fn optional_struct(
        &mut self,
        cur: &mut SourceCursor,
        place: MessageVersion,
        (id, table): (usize, &'static StructTable),
        nullable: Option<bool>,
    ) -> Step {
        let present = match nullable {
            None => true,
            Some(tagged) => {
                let word = Kind::Word(if tagged { "uvarint" } else { "int8" });
                let what = ("present", word, "1 if the struct is there, else null");
                self.leaf(cur, what, |cur| marker(cur, tagged))?
            }
        };
        self.edit(id, |node| node.value = if present { Value::Struct } else { Value::Null(Prefix::Marker) });
        if present { self.fields(cur, place, table) } else { Ok(()) }
    }

    fn array(
        &mut self,
        cur: &mut SourceCursor,
        place: MessageVersion,
        (field, element): (&'static FieldTable, &'static Type),
        (flexible, nullable): (bool, bool),
    ) -> Step {
        let prefix = if flexible { Prefix::Compact } else { Prefix::Int32 };
        let id = self.open(cur, field.name, Kind::Field(field.ty));
        self.edit(id, |node| node.about = field.about);
        let word = Kind::Word(if flexible { "uvarint" } else { "int32" });
        let about = if self.sample { "one sample element follows" } else { "number of elements" };
        let count = self.leaf(cur, ("length", word, about), |cur| {
            let (count, written, note) = length(cur, prefix, nullable)?;
            let left = cur.left() as u64;
            if count.is_some_and(|count| u64::from(count) > left) {
                return Err(Problem::Count { count: count.unwrap_or(0).into(), left });
            }
            Ok((count, Value::Count { written, prefix }, note))
        })?;
        self.edit(id, |node| node.value = count.map_or(Value::Null(prefix), Value::Elements));
        for index in 0..count.unwrap_or(0) {
            self.element(cur, place, (field, *element), (index, flexible))?;
        }
        self.close(id, cur);
        Ok(())
    }

    fn element(
        &mut self,
        cur: &mut SourceCursor,
        place: MessageVersion,
        (field, ty): (&'static FieldTable, Type),
        (index, flexible): (u32, bool),
    ) -> Step {
        let id = self.out.nodes.len();
        match ty {
            Type::Struct(table) => {
                let id = self.open(cur, table.name, Kind::Field(ty));
                self.edit(id, |node| {
                    node.value = Value::Struct;
                    node.index = Some(index);
                });
                self.fields(cur, place, table)?;
                self.close(id, cur);
            }
            Type::String => {
                let prefix = if flexible { Prefix::Compact } else { Prefix::Int16 };
                let name = self.leaf(cur, ("string", Kind::Field(ty), ""), |cur| text(cur, prefix, false))?;
                self.keep_context(field, name.map(|length| cur.last_bytes(length)));
            }
            Type::Bytes | Type::Records => {
                let prefix = if flexible { Prefix::Compact } else { Prefix::Int32 };
                self.leaf(cur, ("bytes", Kind::Field(ty), ""), |cur| bytes(cur, prefix, false))?;
            }
            ty => self.leaf(cur, (word(ty), Kind::Field(ty), ""), |cur| scalar(cur, ty, field.name))?,
        }
        self.edit(id, |node| node.index = Some(index));
        Ok(())
    }

    fn blob(
        &mut self,
        cur: &mut SourceCursor,
        field: &'static FieldTable,
        (prefix, nullable): (Prefix, bool),
    ) -> Step {
        let id = self.out.nodes.len();
        let what = (field.name, Kind::Field(field.ty), field.about);
        let Some(length) = self.leaf(cur, what, |cur| bytes(cur, prefix, nullable))? else { return Ok(()) };
        if length == 0 || id >= self.out.nodes.len() {
            return Ok(());
        }
        let mut inner = cur.clone();
        (inner.at, inner.end) = (cur.at - length, cur.at);
        self.depth += 1;
        match field.ty {
            Type::Records if self.options.records => self.records(&mut inner, id),
            Type::Bytes if self.options.nested => self.nested(&mut inner, id, field),
            _ => {}
        }
        self.depth -= 1;
        let end = self.out.nodes.len() as u32;
        self.edit(id, |node| node.end = end);
        Ok(())
    }

    /// The tagged section. Without a struct, every tag is unknown.
    fn tagged(
        &mut self,
        cur: &mut SourceCursor,
        about: &'static str,
        of: Option<(MessageVersion, &'static StructTable)>,
    ) -> Step {
        let region = std::mem::replace(&mut self.region, Region::Tagged);
        let id = self.out.nodes.len();
        let what = ("tagged_fields", Kind::Word("uvarint"), about);
        let count = self.leaf(cur, what, unsigned)?;
        if count > 0 {
            let from = cur.at;
            self.depth += 1;
            let step = self.tags(cur, count, of);
            self.depth -= 1;
            let end = self.out.nodes.len() as u32;
            self.edit(id, |node| {
                node.size += (cur.at - from) as u32;
                node.end = end;
            });
            step?;
        }
        self.region = region;
        Ok(())
    }

    /// The fields of a tagged section.
    fn tags(
        &mut self,
        cur: &mut SourceCursor,
        count: u32,
        of: Option<(MessageVersion, &'static StructTable)>,
    ) -> Step {
        let mut before = None;
        for _ in 0..count {
            let (tag, size, note) = self.tag_head(cur, before)?;
            before = Some(tag);
            let mut value = cur.split(size as usize).map_err(|problem| self.fault(cur, "size", problem))?;
            let known = of.and_then(|(place, table)| Some((place, table.tagged(tag, place.version)?)));
            match known {
                Some((place, field)) => {
                    let id = self.out.nodes.len();
                    let _ =
                        self.read_all(&mut value, |walk, cur| walk.field(cur, place, (field, true, true)));
                    if self.out.nodes.get(id).is_some_and(|node| node.size == size) {
                        self.edit(id, |node| node.note = node.note.or(note));
                    }
                }
                None => {
                    if let Some(problem) = tag_of_other_version(of, tag) {
                        self.fault(&value, "tag", problem);
                    }
                    let what = ("unknown tag", Kind::Word("bytes"), "");
                    let length = size;
                    let note = Some(note.unwrap_or(Note::UnknownTag));
                    let _ = self.leaf(&mut value, what, |cur| {
                        cur.take(length as usize)?;
                        Ok(((), Value::Bytes { length, prefix: Prefix::Rest }, note))
                    });
                }
            }
        }
        Ok(())
    }

    fn tag_head(&mut self, cur: &mut SourceCursor, before: Option<u32>) -> Step<(u32, u32, Option<Note>)> {
        let from = cur.clone();
        let tag = self.leaf(cur, ("tag", Kind::Word("uvarint"), "which tagged field follows"), unsigned)?;
        let size = self.leaf(cur, ("size", Kind::Word("uvarint"), "number of bytes it takes"), unsigned)?;
        let before = before.filter(|before| *before >= tag);
        if let Some(before) = before {
            self.fault(&from, "tag", Problem::TagOrder { tag, before });
        }
        Ok((tag, size, before.map(|_| Note::TagOrder)))
    }
}

/// The problem of a tag that the struct has only in other versions.
fn tag_of_other_version(of: Option<(MessageVersion, &'static StructTable)>, tag: u32) -> Option<Problem> {
    let (place, table) = of?;
    let known = table.fields.iter().any(|field| field.tag == Some(tag));
    known.then_some(Problem::TagVersion { tag, version: place.version })
}

pub(super) type ReadResult<T> = Result<(T, Value, Option<Note>), Problem>;

/// Reads an integer as the value of a node.
pub(super) fn int<T: Into<i64>>(
    read: impl FnOnce(&mut SourceCursor) -> Result<T, Problem>,
) -> impl FnOnce(&mut SourceCursor) -> ReadResult<i64> {
    |cur| {
        let value = read(cur)?.into();
        Ok((value, Value::Int(value), None))
    }
}

fn unsigned(cur: &mut SourceCursor) -> ReadResult<u32> {
    let (value, note) = cur.uvarint()?;
    Ok((value, Value::Int(value.into()), note))
}

fn marker(cur: &mut SourceCursor, tagged: bool) -> ReadResult<bool> {
    if tagged {
        let (value, note) = cur.uvarint()?;
        let note = note.or((value > 1).then_some(Note::Marker));
        return Ok((value != 0, Value::Int(value.into()), note));
    }
    let value = cur.i8()?;
    let note = (value != 1 && value != -1).then_some(Note::Marker);
    Ok((value >= 0, Value::Int(value.into()), note))
}

/// A length: the number of bytes or elements, `None` for null; and the number as it is encoded.
fn length(
    cur: &mut SourceCursor,
    prefix: Prefix,
    nullable: bool,
) -> Result<(Option<u32>, u32, Option<Note>), Problem> {
    let (value, written, note) = match prefix {
        Prefix::Compact => {
            let (written, note) = cur.uvarint()?;
            (i64::from(written) - 1, written, note)
        }
        Prefix::Int16 => {
            let value = cur.i16()?;
            (value.into(), i32::from(value) as u32, None)
        }
        Prefix::Int32 => {
            let value = cur.i32()?;
            (value.into(), value as u32, None)
        }
        Prefix::Varint => {
            let (value, note) = cur.varint()?;
            (value.into(), value as u32, note)
        }
        Prefix::Marker | Prefix::Rest => (cur.left() as i64, cur.left() as u32, None),
    };
    match value {
        -1 if nullable => Ok((None, written, note)),
        -1 => Err(Problem::Null),
        value => match u32::try_from(value) {
            Ok(value) if i32::try_from(value).is_ok() => Ok((Some(value), written, note)),
            Ok(value) => Err(Problem::Count { count: value.into(), left: cur.left() as u64 }),
            Err(_) => Err(Problem::Negative(value)),
        },
    }
}

pub(super) fn text(cur: &mut SourceCursor, prefix: Prefix, nullable: bool) -> ReadResult<Option<usize>> {
    let (length, _, note) = length(cur, prefix, nullable)?;
    let Some(length) = length else { return Ok((None, Value::Null(prefix), note)) };
    if u64::from(length) > MAX_STRING_LENGTH {
        return Err(Problem::LongText(length.into()));
    }
    let bytes = cur.take(length as usize)?;
    let note = note.or(std::str::from_utf8(bytes).is_err().then_some(Note::NotUtf8));
    Ok((Some(length as usize), Value::Text { length, prefix }, note))
}

pub(super) fn bytes(cur: &mut SourceCursor, prefix: Prefix, nullable: bool) -> ReadResult<Option<usize>> {
    let (length, _, note) = length(cur, prefix, nullable)?;
    let Some(length) = length else { return Ok((None, Value::Null(prefix), note)) };
    cur.take(length as usize)?;
    Ok((Some(length as usize), Value::Bytes { length, prefix }, note))
}

fn scalar(cur: &mut SourceCursor, ty: Type, name: &str) -> ReadResult<()> {
    let value = match ty {
        Type::Bool => {
            let byte = cur.i8()?;
            let note = (byte != 0 && byte != 1).then_some(Note::NotZeroOrOne);
            return Ok(((), Value::Bool(byte != 0), note));
        }
        Type::Int16 if name.ends_with("ErrorCode") => {
            return cur.i16().map(|code| ((), Value::Error(code), None));
        }
        Type::Int8 => cur.i8()?.into(),
        Type::Int16 => cur.i16()?.into(),
        Type::Uint16 => cur.u16()?.into(),
        Type::Int32 => cur.i32()?.into(),
        Type::Uint32 => cur.u32()?.into(),
        Type::Float64 => return cur.f64().map(|value| ((), Value::Float(value), None)),
        Type::Uuid => return cur.take(16).map(|_| ((), Value::Uuid, None)),
        _ => cur.i64()?,
    };
    Ok(((), Value::Int(value), None))
}

fn word(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::Int8 => "int8",
        Type::Int16 => "int16",
        Type::Uint16 => "uint16",
        Type::Int32 => "int32",
        Type::Uint32 => "uint32",
        Type::Float64 => "float64",
        Type::Uuid => "uuid",
        _ => "int64",
    }
}
