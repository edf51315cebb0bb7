//! The fields of messages: plain fields, arrays and tagged sections, read by the tables of the schema.

use super::cursor::SourceCursor;
use super::values::{bytes, length, marker, scalar, text, unsigned, word};
use super::walk::{Step, Walk};
use super::{Kind, Note, Prefix, Problem, Region, Value};
use crate::tables::{FieldTable, MessageTable, StructTable, Type};

/// The deepest nesting of structs. Kafka's schemas nest far less.
const MAX_DEPTH: u8 = 64;

/// The message and version whose fields are being read.
#[derive(Clone, Copy)]
pub(super) struct MessageVersion {
    table: &'static MessageTable,
    version: i16,
}

impl MessageVersion {
    fn flexible(self) -> bool {
        self.table.flexible.contains(self.version)
    }
}

impl Walk<'_> {
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
    pub(super) fn tagged(
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
