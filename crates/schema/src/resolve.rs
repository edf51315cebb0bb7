//! The fields of each struct in each version, from which code and tables are generated.

use crate::model::{Default, Field, FieldType, Kind, Schema, Versions};

/// A message with its structs in the order of first use, the root first.
#[derive(Clone, Debug)]
pub struct Message {
    /// The message's name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The number of its API.
    pub api_key: Option<i16>,
    /// The listeners that serve it.
    pub listeners: Vec<String>,
    /// Whether the highest version is unstable.
    pub latest_version_unstable: bool,
    /// The versions that exist.
    pub valid: Versions,
    /// The flexible versions.
    pub flexible: Versions,
    /// The structs; the first is the root. Empty when no version is valid.
    pub structs: Vec<Struct>,
}

/// A struct and its fields in the order of the wire.
#[derive(Clone, Debug)]
pub struct Struct {
    /// The struct's name.
    pub name: String,
    /// The valid versions in which the struct can occur.
    pub versions: Versions,
    /// The fields that at least one of these versions has.
    pub members: Vec<Member>,
}

/// A field, with version ranges limited to the versions of its struct.
#[derive(Clone, Debug)]
pub struct Member {
    /// The field's name in the schema.
    pub name: String,
    /// The type.
    pub ty: FieldType,
    /// The versions that have it.
    pub versions: Versions,
    /// The versions in which it may be null.
    pub nullable: Versions,
    /// The versions in which it is tagged.
    pub tagged: Versions,
    /// Its tag.
    pub tag: Option<u32>,
    /// The versions in which the lengths of this field are compact, if they differ from those of the message.
    pub flexible: Option<Versions>,
    /// The explicit or implied default.
    pub default: Default,
    /// Whether encoding drops the value silently in versions that lack the field.
    pub ignorable: bool,
    /// Whether it is part of its array's key.
    pub map_key: bool,
    /// The kind of name or id that the field holds.
    pub entity_type: Option<String>,
    /// The description in the schema file.
    pub about: Option<String>,
}

impl Message {
    /// Resolves the structs of a schema.
    pub fn resolve(schema: &Schema) -> Message {
        let flexible = schema.flexible.unwrap_or(Versions::NONE).and(schema.valid);
        let mut message = Message {
            name: schema.name.clone(),
            kind: schema.kind,
            api_key: schema.api_key,
            listeners: schema.listeners.clone(),
            latest_version_unstable: schema.latest_version_unstable,
            valid: schema.valid,
            flexible,
            structs: Vec::new(),
        };
        if !schema.valid.is_empty() {
            message.add(schema, &schema.name, schema.valid, &schema.fields);
        }
        message
    }

    /// The struct of that name.
    pub fn find(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|s| s.name == name)
    }

    fn add(&mut self, schema: &Schema, name: &str, versions: Versions, fields: &[Field]) {
        if self.find(name).is_some() {
            return;
        }
        let members: Vec<_> = fields.iter().filter_map(|field| member(field, versions)).collect();
        self.structs.push(Struct { name: name.to_owned(), versions, members });
        for field in fields {
            let inner = field.versions.and(versions);
            let Some(name) = field.ty.struct_name().filter(|_| !inner.is_empty()) else { continue };
            match schema.common_structs.iter().find(|spec| spec.name == name) {
                Some(spec) => self.add(schema, name, spec.versions.and(schema.valid), &spec.fields),
                None => self.add(schema, name, inner, &field.fields),
            }
        }
    }

    /// The smallest encoded size of a value of this type, over all the given versions.
    pub fn smallest(&self, ty: &FieldType, versions: Versions) -> usize {
        let sizes = (versions.min..=versions.max).map(|version| self.size(ty, version));
        sizes.min().unwrap_or(0)
    }

    fn size(&self, ty: &FieldType, version: i16) -> usize {
        let flexible = self.flexible.contains(version);
        match ty {
            FieldType::Bool | FieldType::Int8 => 1,
            FieldType::Int16 | FieldType::Uint16 => 2,
            FieldType::Int32 | FieldType::Uint32 => 4,
            FieldType::Int64 | FieldType::Float64 => 8,
            FieldType::Uuid => 16,
            FieldType::String | FieldType::Bytes | FieldType::Records | FieldType::Array(_) if flexible => 1,
            FieldType::String => 2,
            FieldType::Bytes | FieldType::Records | FieldType::Array(_) => 4,
            FieldType::Struct(name) => {
                let members = self.find(name).map_or(&[][..], |s| &s.members);
                let plain = members.iter().filter(|m| m.plain().contains(version));
                let fields: usize = plain
                    .map(|m| if m.nullable_struct(version) { 1 } else { self.size(&m.ty, version) })
                    .sum();
                fields + usize::from(flexible)
            }
        }
    }
}

impl Member {
    /// The versions that encode the field in place, not as a tagged field.
    pub fn plain(&self) -> Versions {
        if self.tagged.is_empty() {
            return self.versions;
        }
        self.versions.and(Versions { min: 0, max: self.tagged.min - 1 })
    }

    fn nullable_struct(&self, version: i16) -> bool {
        matches!(self.ty, FieldType::Struct(_)) && self.nullable.contains(version)
    }
}

fn member(field: &Field, inside: Versions) -> Option<Member> {
    let versions = field.versions.and(inside);
    if versions.is_empty() {
        return None;
    }
    Some(Member {
        name: field.name.clone(),
        ty: field.ty.clone(),
        versions,
        nullable: field.nullable.and(versions),
        tagged: field.tagged.and(versions),
        tag: field.tag,
        flexible: field.flexible,
        default: field.default.clone().unwrap_or_else(|| implied(&field.ty)),
        ignorable: field.ignorable,
        map_key: field.map_key,
        entity_type: field.entity_type.clone(),
        about: field.about.clone(),
    })
}

/// The default of a field whose schema has none: null for records, else zero or empty.
fn implied(ty: &FieldType) -> Default {
    match ty {
        FieldType::Bool => Default::Bool(false),
        FieldType::Float64 => Default::Float(0.0),
        FieldType::String => Default::Text(String::new()),
        FieldType::Uuid => Default::Uuid([0; 16]),
        FieldType::Records => Default::Null,
        FieldType::Bytes | FieldType::Struct(_) | FieldType::Array(_) => Default::Empty,
        _ => Default::Int(0),
    }
}
