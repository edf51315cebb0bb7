//! The walk over a frame: its size field, its header, and the nodes that the walk adds. The fields of the message are
//! in `fields`, single values in `values`.

use super::cursor::SourceCursor;
use super::values::{int, text};
use super::{Explanation, Fault, FrameHeader, Kind, Node, Note, Options, Prefix, Problem, Region, Value};
use crate::smallest_frame_of;
use crate::tables::{Direction, MessageTable, TableSet};
use crate::{ApiInfo, ApiKey};
use bytes::Bytes;

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

/// The state of a walk.
pub(super) struct Walk<'o> {
    pub(super) set: &'o TableSet,
    pub(super) options: &'o Options,
    pub(super) out: Explanation,
    pub(super) region: Region,
    pub(super) message: &'static str,
    pub(super) depth: u8,
    /// The nodes that are not closed yet.
    open_nodes: Vec<usize>,
    pub(super) sample: bool,
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
}
