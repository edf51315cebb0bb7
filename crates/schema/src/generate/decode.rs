//! Frame to struct: each field is read into its place in a struct of defaults, see the wire crate's `input` for why.

use super::{Site, Test, has_word, is_number, parameter, put, scalar};
use crate::model::{FieldType, Versions};
use crate::resolve::{Message, Struct};

pub(crate) fn emit(out: &mut String, message: &Message, item: &Struct) {
    let mut body = String::new();
    let flex = Test::of(message.flexible, item.versions);
    let sites: Vec<_> = item.members.iter().map(|member| Site { message, item, member }).collect();
    for site in &sites {
        place(&mut body, site);
    }
    let whole = format!("&At({:?}, \"tagged fields\")", message.name);
    if flex != Test::Never {
        let tagged: Vec<_> = sites.iter().filter(|site| !site.member.tagged.is_empty()).collect();
        let section = if tagged.is_empty() {
            format!("r.unknown_tags(&mut self.unknown_tags, {whole})?;")
        } else {
            known_tags(&tagged, &whole)
        };
        match &flex {
            Test::When(_) => put!(body, "if flex {{ {section} }}"),
            _ => put!(body, "{section}"),
        }
    }
    let body = flex_line(&flex, &body) + &body + "Ok(())\n";
    put!(out, "/// Reads into `self`, which holds the defaults.");
    put!(
        out,
        "pub(crate) fn read(&mut self, r: &mut Input<'_>, {}: i16) -> Result<(), DecodeError> {{",
        parameter(&body)
    );
    put!(out, "{body}}}");
}

/// The local that says whether the version is flexible, where it is used and depends on the version.
pub(crate) fn flex_line(flex: &Test, body: &str) -> String {
    match flex {
        Test::When(test) if has_word(body, "flex") => format!("let flex = {test};\n"),
        _ => String::new(),
    }
}

/// Reads the field in its place. In versions that lack it, it keeps its default.
fn place(body: &mut String, site: &Site<'_>) {
    match Test::of(site.member.plain(), site.item.versions) {
        Test::Always => put!(body, "{}", read(site, site.item.versions, false)),
        Test::Never => {}
        Test::When(test) => put!(body, "if {test} {{ {} }}", read(site, site.member.plain(), false)),
    }
}

/// The statements that read the field, given that the version is one of `inside`.
fn read(site: &Site<'_>, inside: Versions, tagged: bool) -> String {
    match Test::of(site.member.nullable, inside) {
        Test::Always => read_nullable(site, tagged),
        Test::Never => read_value(site, tagged),
        Test::When(test) => {
            format!("if {test} {{ {} }} else {{ {} }}", read_nullable(site, tagged), read_value(site, tagged))
        }
    }
}

fn read_nullable(site: &Site<'_>, tagged: bool) -> String {
    let (field, at) = (site.field(), site.at());
    if let FieldType::Struct(_) = &site.member.ty {
        let marker = if tagged { "tagged_marker" } else { "marker" };
        let some = format!("self.{field}.get_or_insert_default().read(r, version)?;");
        return format!("if r.{marker}({at})? {{ {some} }} else {{ self.{field} = None; }}");
    }
    read_with(site, &format!("&mut self.{field}"), "_or_null", tagged)
}

fn read_value(site: &Site<'_>, tagged: bool) -> String {
    let field = site.field();
    let inner = if site.optional() { format!("self.{field}.get_or_insert_default()") } else { String::new() };
    match &site.member.ty {
        FieldType::Struct(_) if site.optional() => format!("{inner}.read(r, version)?;"),
        FieldType::Struct(_) => format!("self.{field}.read(r, version)?;"),
        _ if site.optional() => read_with(site, &inner, "", tagged),
        ty if takes_place(ty) => read_with(site, &format!("&mut self.{field}"), "", tagged),
        plain => format!("self.{field} = r.{}({})?;", scalar(plain).1, site.at()),
    }
}

/// The statement that reads into a place: an expression for a mutable reference.
fn read_with(site: &Site<'_>, place: &str, suffix: &str, tagged: bool) -> String {
    let at = site.at();
    let flex = site.flex_text(tagged);
    match &site.member.ty {
        FieldType::Array(element) if is_number(element) => {
            format!("r.numbers{suffix}({place}, {flex}, {at})?;")
        }
        FieldType::Array(element) => {
            let smallest = site.message.smallest(element, site.member.versions).max(1);
            let read = match &**element {
                FieldType::Struct(_) => "place.read(r, version)".to_owned(),
                plain if takes_length(plain) => format!("r.{}(place, {flex}, {at})", scalar(plain).1),
                plain => format!("r.{}({at}).map(|value| *place = value)", scalar(plain).1),
            };
            format!("r.list{suffix}({place}, {flex}, {smallest}, {at}, |place, r| {read})?;")
        }
        plain => format!("r.{}{suffix}({place}, {flex}, {at})?;", scalar(plain).1),
    }
}

/// Whether the type is read into its place rather than returned.
fn takes_place(ty: &FieldType) -> bool {
    takes_length(ty) || matches!(ty, FieldType::Array(_))
}

pub(crate) fn takes_length(ty: &FieldType) -> bool {
    matches!(ty, FieldType::String | FieldType::Bytes | FieldType::Records)
}

fn known_tags(tagged: &[&Site<'_>], whole: &str) -> String {
    let mut out = String::new();
    put!(out, "let mut tags = r.tags({whole})?;");
    put!(out, "while let Some(tag) = r.next_tag(&mut tags, {whole})? {{");
    put!(out, "match tag {{");
    for site in tagged {
        let Some(tag) = site.member.tag else { continue };
        // A known tag in a version that does not have it is an error, as in Kafka; it is refused in the last arm.
        let guard = match Test::of(site.member.tagged, site.item.versions.and(site.message.flexible)) {
            Test::When(test) => format!(" if {test}"),
            _ => String::new(),
        };
        put!(out, "{tag}{guard} => {{ {} }}", read(site, site.member.tagged, true));
        if !guard.is_empty() {
            put!(out, "{tag} => return Err(r.tag_not_in_version(version, {})),", site.at());
        }
    }
    put!(out, "_ => r.unknown_tag(&mut self.unknown_tags, tag),");
    put!(out, "}}");
    put!(out, "r.end_tag(&mut tags, {whole})?;");
    put!(out, "}}");
    out
}
