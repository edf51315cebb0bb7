//! Bytes fields and records that contain another message.

use super::cursor::SourceCursor;
use super::walk::{Step, Walk};
use super::{Kind, Region, Value};
use crate::tables::{FieldTable, MessageKind, MessageTable};

/// The format of a record's value, which its key determines.
#[derive(Clone, Copy)]
pub(super) enum ValueFormat {
    Plain,
    Control(i16),
    Internal(&'static MessageTable),
}

const GROUPS: &str = "__consumer_offsets";
const TRANSACTIONS: &str = "__transaction_state";
const SHARES: &str = "__share_group_state";

impl<'o> Walk<'o> {
    /// Runs `read` one level below an existing node. The nodes that it adds become children of that node.
    pub(super) fn with_children(&mut self, id: usize, read: impl FnOnce(&mut Walk<'o>)) {
        self.change_depth(1);
        read(self);
        self.change_depth(-1);
        let end = self.out.nodes.len() as u32;
        self.edit(id, |node| node.end = end);
    }

    /// The bytes of a field of a group message, if they are exactly one subscription or assignment.
    pub(super) fn nested(&mut self, cur: &mut SourceCursor, id: usize, field: &'static FieldTable) {
        let name = match (self.message, field.name) {
            ("JoinGroupRequest" | "JoinGroupResponse", "Metadata") => "ConsumerProtocolSubscription",
            ("DescribeGroupsResponse", "MemberMetadata") => "ConsumerProtocolSubscription",
            ("SyncGroupRequest" | "SyncGroupResponse", "Assignment") => "ConsumerProtocolAssignment",
            ("DescribeGroupsResponse", "MemberAssignment") => "ConsumerProtocolAssignment",
            _ => return,
        };
        if self.protocol.as_deref().is_some_and(|protocol| protocol != "consumer" && !protocol.is_empty()) {
            return;
        }
        let Some(table) = self.set.message(name) else { return };
        let (nodes, faults) = (self.out.nodes.len(), self.out.faults.len());
        self.with_children(id, |walk| walk.versioned(cur, table));
        if self.out.faults.len() > faults {
            // Other protocols have other content in this field, and the message does not say which. So the field stays
            // bytes.
            self.out.faults.truncate(faults);
            self.out.nodes.truncate(nodes);
            self.edit(id, |node| node.end = nodes as u32);
        }
    }

    /// A message after its version.
    fn versioned(&mut self, cur: &mut SourceCursor, table: &'static MessageTable) {
        let message = std::mem::replace(&mut self.message, table.name);
        let id = self.open(cur, table.name, Kind::Blank);
        self.edit(id, |node| {
            node.value = Value::Struct;
            node.about = table.about;
        });
        let _ = self.read_all(cur, |walk, cur| {
            let version =
                walk.number(cur, ("version", "int16", "version of what follows"), SourceCursor::i16)?;
            // Later versions only add at the end.
            let version = (version as i16).min(table.versions.max);
            walk.edit(id, |node| node.kind = Kind::Version(version));
            walk.body(cur, table, version)
        });
        self.close(id, cur);
        self.message = message;
    }

    /// Explains the key of a record that was just read.
    pub(super) fn open_key(
        &mut self,
        cur: &SourceCursor,
        length: Option<usize>,
        control: bool,
    ) -> ValueFormat {
        let Some(mut inner) = self.content(cur, length) else { return ValueFormat::Plain };
        let Some(kind) = inner.rest().get(..4).filter(|_| control) else { return self.internal_key(inner) };
        let kind = i16::from_be_bytes([kind[2], kind[3]]);
        let id = self.out.nodes.len().saturating_sub(1);
        self.with_children(id, |walk| {
            let _ = walk.read_all(&mut inner, |walk, cur| {
                walk.number(cur, ("version", "int16", "version of the key"), SourceCursor::i16)?;
                let what = ("type", Kind::Word("int16"), "what the control record says");
                walk.leaf(cur, what, |cur| cur.i16().map(|kind| ((), Value::Control(kind), None)))
            });
        });
        ValueFormat::Control(kind)
    }

    fn internal_key(&mut self, mut inner: SourceCursor) -> ValueFormat {
        let topic = self.topic.as_deref().unwrap_or_default();
        let (true, Some(kind)) =
            (matches!(topic, GROUPS | TRANSACTIONS | SHARES), inner.rest().first_chunk())
        else {
            return ValueFormat::Plain;
        };
        let kind = i16::from_be_bytes(*kind);
        let mine = |name: &str| match topic {
            TRANSACTIONS => name.starts_with("TransactionLog"),
            SHARES => name.starts_with("ShareSnapshot") || name.starts_with("ShareUpdate"),
            _ => {
                !name.starts_with("TransactionLog")
                    && !name.starts_with("ShareSnapshot")
                    && !name.starts_with("ShareUpdate")
            }
        };
        let mut keys = self.set.messages().iter().filter(|table| table.kind == MessageKind::CoordinatorKey);
        let table = keys.find(|table| table.api_key.is_some_and(|key| key.0 == kind) && mine(table.name));
        let Some(table) = table else { return ValueFormat::Plain };
        let id = self.out.nodes.len().saturating_sub(1);
        self.with_children(id, |walk| {
            let key = walk.open(&inner, table.name, Kind::Blank);
            let _ = walk.read_all(&mut inner, |walk, cur| {
                walk.number(cur, ("type", "int16", "which kind of record it is"), SourceCursor::i16)?;
                walk.body(cur, table, table.versions.max)
            });
            walk.close(key, &inner);
        });
        let value = table.name.strip_suffix("Key").map(|name| format!("{name}Value"));
        value.and_then(|name| self.set.message(&name)).map_or(ValueFormat::Plain, ValueFormat::Internal)
    }

    /// Explains the value of a record that was just read.
    pub(super) fn open_value(&mut self, cur: &SourceCursor, length: Option<usize>, form: ValueFormat) {
        let Some(mut inner) = self.content(cur, length) else { return };
        let id = self.out.nodes.len().saturating_sub(1);
        match form {
            ValueFormat::Plain => {}
            ValueFormat::Internal(table) => self.with_children(id, |walk| walk.versioned(&mut inner, table)),
            ValueFormat::Control(kind) => self.with_children(id, |walk| {
                let _ = walk.read_all(&mut inner, |walk, cur| walk.control_value(cur, kind));
            }),
        }
    }

    fn control_value(&mut self, cur: &mut SourceCursor, kind: i16) -> Step {
        let name = match kind {
            0 | 1 => {
                self.number(cur, ("version", "int16", "version of the value"), SourceCursor::i16)?;
                let about = "epoch of the coordinator that ended the transaction";
                self.number(cur, ("coordinator_epoch", "int32", about), SourceCursor::i32)?;
                // A later version may have more fields.
                self.undecoded(cur);
                return Ok(());
            }
            2 => "LeaderChangeMessage",
            3 => "SnapshotHeaderRecord",
            4 => "SnapshotFooterRecord",
            5 => "KRaftVersionRecord",
            6 => "VotersRecord",
            _ => {
                self.undecoded(cur);
                return Ok(());
            }
        };
        match self.set.message(name) {
            Some(table) => self.body(cur, table, table.versions.max),
            None => Ok(()),
        }
    }

    /// The content of the last node as a cursor of its own; none if it is empty or nodes are left out.
    fn content(&mut self, cur: &SourceCursor, length: Option<usize>) -> Option<SourceCursor> {
        let length = length.filter(|length| *length > 0 && self.options.nested && !self.out.cut)?;
        let mut inner = cur.clone();
        (inner.at, inner.end) = (cur.at - length, cur.at);
        self.region = Region::Record;
        Some(inner)
    }
}
