//! Generates decoding functions. Each field is decoded in place into a struct of defaults; the wire crate's `input`
//! says why.

use super::{FieldSite, VersionTest, has_word, is_number, parameter, push_line, scalar};
use crate::model::{FieldType, Versions};
use crate::resolve::{Message, Struct};

pub(crate) fn emit(out: &mut String, message: &Message, item: &Struct) {
    let mut body = String::new();
    let flex = VersionTest::of(message.flexible, item.versions);
    let sites: Vec<_> = item.members.iter().map(|member| FieldSite { message, item, member }).collect();
    for site in &sites {
        place(&mut body, site);
    }
    let whole = format!("&At({:?}, \"tagged fields\")", message.name);
    if flex != VersionTest::Never {
        let tagged: Vec<_> = sites.iter().filter(|site| !site.member.tagged.is_empty()).collect();
        let section = if tagged.is_empty() {
            format!("r.unknown_tags(&mut self.unknown_tags, {whole})?;")
        } else {
            known_tags(&tagged, &whole)
        };
        match &flex {
            VersionTest::When(_) => push_line!(body, "if flex {{ {section} }}"),
            _ => push_line!(body, "{section}"),
        }
    }
    let body = flex_line(&flex, &body) + &body + "Ok(())\n";
    push_line!(out, "/// Decodes into `self`, which must have the default values.");
    push_line!(
        out,
        "pub(crate) fn read(&mut self, r: &mut Input<'_>, {}: i16) -> Result<(), DecodeError> {{",
        parameter(&body)
    );
    push_line!(out, "{body}}}");
}

/// The definition of the local variable `flex`, if the body uses it and it depends on the version.
pub(crate) fn flex_line(flex: &VersionTest, body: &str) -> String {
    match flex {
        VersionTest::When(test) if has_word(body, "flex") => format!("let flex = {test};\n"),
        _ => String::new(),
    }
}

/// Generates the code of a field that is encoded in place. In versions that lack the field, it keeps its default.
fn place(body: &mut String, site: &FieldSite<'_>) {
    match VersionTest::of(site.member.plain(), site.item.versions) {
        VersionTest::Always => push_line!(body, "{}", read(site, site.item.versions, false)),
        VersionTest::Never => {}
        VersionTest::When(test) => {
            push_line!(body, "if {test} {{ {} }}", read(site, site.member.plain(), false))
        }
    }
}

/// The statements that decode the field, given that the version is in `inside`.
fn read(site: &FieldSite<'_>, inside: Versions, tagged: bool) -> String {
    match VersionTest::of(site.member.nullable, inside) {
        VersionTest::Always => read_nullable(site, tagged),
        VersionTest::Never => read_value(site, tagged),
        VersionTest::When(test) => {
            format!("if {test} {{ {} }} else {{ {} }}", read_nullable(site, tagged), read_value(site, tagged))
        }
    }
}

fn read_nullable(site: &FieldSite<'_>, tagged: bool) -> String {
    let (field, at) = (site.field(), site.at());
    if let FieldType::Struct(_) = &site.member.ty {
        let marker = if tagged { "tagged_marker" } else { "marker" };
        let some = format!("self.{field}.get_or_insert_default().read(r, version)?;");
        return format!("if r.{marker}({at})? {{ {some} }} else {{ self.{field} = None; }}");
    }
    read_with(site, &format!("&mut self.{field}"), "_or_null", tagged)
}

fn read_value(site: &FieldSite<'_>, tagged: bool) -> String {
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

/// The statement that decodes into `place`, an expression for a mutable reference.
fn read_with(site: &FieldSite<'_>, place: &str, suffix: &str, tagged: bool) -> String {
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

/// Whether values of the type are decoded in place rather than returned.
fn takes_place(ty: &FieldType) -> bool {
    takes_length(ty) || matches!(ty, FieldType::Array(_))
}

pub(crate) fn takes_length(ty: &FieldType) -> bool {
    matches!(ty, FieldType::String | FieldType::Bytes | FieldType::Records)
}

fn known_tags(tagged: &[&FieldSite<'_>], whole: &str) -> String {
    let mut out = String::new();
    push_line!(out, "let mut tags = r.tags({whole})?;");
    push_line!(out, "while let Some(tag) = r.next_tag(&mut tags, {whole})? {{");
    push_line!(out, "match tag {{");
    for site in tagged {
        let Some(tag) = site.member.tag else { continue };
        // A known tag in a version that does not have it is an error, as in Kafka; the arm without a guard refuses it.
        let guard = match VersionTest::of(site.member.tagged, site.item.versions.and(site.message.flexible)) {
            VersionTest::When(test) => format!(" if {test}"),
            _ => String::new(),
        };
        push_line!(out, "{tag}{guard} => {{ {} }}", read(site, site.member.tagged, true));
        if !guard.is_empty() {
            push_line!(out, "{tag} => return Err(r.tag_not_in_version(version, {})),", site.at());
        }
    }
    push_line!(out, "_ => r.unknown_tag(&mut self.unknown_tags, tag),");
    push_line!(out, "}}");
    push_line!(out, "r.end_tag(&mut tags, {whole})?;");
    push_line!(out, "}}");
    out
}
