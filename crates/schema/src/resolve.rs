//! Which struct has which field in which version: what code and tables are generated from.

use crate::model::{Default, Field, FieldType, Kind, Schema, Versions};

/// A message with its structs in the order of first use, the root first.
#[derive(Clone, Debug)]
pub struct Message {
    /// The message's name.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// The number of its API.
    pub api_key: Option<i16>,
    /// The listeners that answer it.
    pub listeners: Vec<String>,
    /// Whether the highest version is unstable.
    pub latest_version_unstable: bool,
    /// The versions that exist.
    pub valid: Versions,
    /// The flexible ones among them.
    pub flexible: Versions,
    /// The structs; the first is the root. Empty when no version is valid.
    pub structs: Vec<Struct>,
}

/// A struct and its fields in the order of the wire.
#[derive(Clone, Debug)]
pub struct Struct {
    /// The struct's name.
    pub name: String,
    /// The valid versions it can occur in.
    pub versions: Versions,
    /// The fields that occur in at least one of them.
    pub members: Vec<Member>,
}

/// A field, its ranges cut to the versions of its struct.
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
    /// The versions in which its own lengths are compact, where that differs from the message's.
    pub flexible: Option<Versions>,
    /// The default, worked out.
    pub default: Default,
    /// Whether its value is dropped in silence where the field is absent.
    pub ignorable: bool,
    /// Whether it is part of its array's key.
    pub map_key: bool,
    /// What kind of name or id it holds.
    pub entity_type: Option<String>,
    /// What the schema file itself says about it.
    pub about: Option<String>,
}

impl Message {
    /// Works out the structs of a schema.
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

    /// The fewest bytes an element of this type takes in any version the struct around it can occur in.
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
    /// The versions in which the field is written in its place rather than as a tag.
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

/// What a field is when its schema names no default: null for records, else zero or empty.
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
