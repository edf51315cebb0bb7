//! The rules of the schema language about more than one attribute.

use crate::error::{SchemaError, error};
use crate::model::{Default, Field, FieldType, Kind, Schema, Versions};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn check(schema: &Schema) -> Result<(), SchemaError> {
    let place = &schema.name;
    if schema.valid.max == Versions::OPEN {
        return error(place, "validVersions needs an upper end");
    }
    let flexible = match schema.flexible {
        Some(flexible) if !flexible.is_empty() && flexible.max != Versions::OPEN => {
            return error(place, "flexibleVersions must be open-ended or none");
        }
        Some(flexible) => flexible,
        None if schema.valid.is_empty() => Versions::NONE,
        None => return error(place, "has no flexibleVersions"),
    };
    let rpc = matches!(schema.kind, Kind::Request | Kind::Response);
    if rpc && schema.api_key.is_none() {
        return error(place, "a request or response needs an apiKey");
    }
    if schema.kind != Kind::Request && (!schema.listeners.is_empty() || schema.latest_version_unstable) {
        return error(place, "only requests have listeners and latestVersionUnstable");
    }
    let mut structs = Structs { flexible, known: BTreeMap::new(), path: Vec::new() };
    for spec in &schema.common_structs {
        if structs.known.insert(&spec.name, &spec.fields).is_some() {
            return error(place, format!("struct {} is defined twice", spec.name));
        }
    }
    collect(place, &schema.fields, &mut structs.known)?;
    for spec in &schema.common_structs {
        collect(&format!("{place}.{}", spec.name), &spec.fields, &mut structs.known)?;
    }
    structs.fields(place, &schema.fields, true)?;
    for spec in &schema.common_structs {
        structs.fields(&format!("{place}.{}", spec.name), &spec.fields, false)?;
    }
    structs.no_loops(place, &schema.fields)
}

/// Collects the structs that fields define. A name may be defined once in a message.
fn collect<'a>(
    place: &str,
    fields: &'a [Field],
    known: &mut BTreeMap<&'a str, &'a [Field]>,
) -> Result<(), SchemaError> {
    for field in fields.iter().filter(|field| !field.fields.is_empty()) {
        let Some(name) = field.ty.struct_name() else {
            return error(&format!("{place}.{}", field.name), "has fields but is no struct");
        };
        if known.insert(name, &field.fields).is_some() {
            return error(place, format!("struct {name} is defined twice"));
        }
        collect(&format!("{place}.{}", field.name), &field.fields, known)?;
    }
    Ok(())
}

struct Structs<'a> {
    flexible: Versions,
    known: BTreeMap<&'a str, &'a [Field]>,
    path: Vec<&'a str>,
}

impl<'a> Structs<'a> {
    fn fields(&self, place: &str, fields: &[Field], root: bool) -> Result<(), SchemaError> {
        let mut names = BTreeSet::new();
        let mut tags = BTreeSet::new();
        for field in fields {
            let here = format!("{place}.{}", field.name);
            let word = field.name.starts_with(|c: char| c.is_ascii_alphabetic())
                && field.name.chars().all(|c| c.is_ascii_alphanumeric());
            if !word {
                return error(&here, "a name is letters and digits and starts with a letter");
            }
            if !names.insert(&field.name) {
                return error(&here, "is defined twice");
            }
            if let Some(tag) = field.tag
                && !tags.insert(tag)
            {
                return error(&here, format!("tag {tag} is used twice"));
            }
            if field.map_key && (root || field.tag.is_some()) {
                return error(&here, "a root field or tagged field cannot be a mapKey");
            }
            self.field(&here, field)?;
            self.fields(&here, &field.fields, false)?;
        }
        if tags.iter().enumerate().any(|(place, tag)| *tag as usize != place) {
            return error(place, "tags must be 0, 1, 2 and so on without holes");
        }
        Ok(())
    }

    fn field(&self, place: &str, field: &Field) -> Result<(), SchemaError> {
        if let Some(name) = field.ty.struct_name()
            && !self.known.contains_key(name)
        {
            return error(place, format!("struct {name} is not defined"));
        }
        if !field.nullable.is_empty() && !field.ty.can_be_null() {
            return error(place, format!("{} cannot be null", field.ty));
        }
        if field.default == Some(Default::Null) && !field.versions.within(field.nullable) {
            return error(place, "null is the default but not legal in every version");
        }
        if let Some(flexible) = field.flexible {
            let plain = matches!(field.ty, FieldType::String | FieldType::Bytes);
            if !plain || !flexible.within(self.flexible) {
                return error(place, "flexibleVersions is for strings and bytes, within the message's");
            }
        }
        entity(place, field)?;
        self.tag(place, field)
    }

    fn tag(&self, place: &str, field: &Field) -> Result<(), SchemaError> {
        if field.tag.is_some() == field.tagged.is_empty() {
            return error(place, "tag and taggedVersions go together");
        }
        if field.tag.is_none() {
            return Ok(());
        }
        let within = field.tagged.within(field.versions) && field.tagged.within(self.flexible);
        if field.tagged.max != Versions::OPEN || !within {
            return error(place, "taggedVersions must be open-ended, within versions and flexible versions");
        }
        let null = field.nullable.and(field.tagged);
        if !null.is_empty() && null != field.tagged {
            return error(place, "null must be legal in all tagged versions or in none");
        }
        Ok(())
    }

    fn no_loops(&mut self, place: &str, fields: &'a [Field]) -> Result<(), SchemaError> {
        for name in fields.iter().filter_map(|field| field.ty.struct_name()) {
            if self.path.contains(&name) {
                return error(place, format!("struct {name} contains itself"));
            }
            self.path.push(name);
            if let Some(inner) = self.known.get(name) {
                self.no_loops(place, inner)?;
            }
            self.path.pop();
        }
        Ok(())
    }
}

/// Checks the type of a field with an entity type; for an array, the type of its elements.
fn entity(place: &str, field: &Field) -> Result<(), SchemaError> {
    let Some(kind) = &field.entity_type else { return Ok(()) };
    let due = match kind.as_str() {
        "producerId" => FieldType::Int64,
        "brokerId" => FieldType::Int32,
        "transactionalId" | "groupId" | "topicName" => FieldType::String,
        "unknown" => return Ok(()),
        _ => return error(place, format!("unknown entityType '{kind}'")),
    };
    let base = match &field.ty {
        FieldType::Array(element) => element,
        ty => ty,
    };
    if *base == due { Ok(()) } else { error(place, format!("a {kind} is {due}")) }
}
