//! Frame to struct.

use super::{Site, Test, base_type, has_word, is_number, parameter, put, scalar};
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
    let mutable = if flex == Test::Never { "" } else { "mut " };
    put!(body, "let {mutable}unknown_tags = Tags::default();");
    if flex != Test::Never {
        let tagged: Vec<_> = sites.iter().filter(|site| !site.member.tagged.is_empty()).collect();
        let section = if tagged.is_empty() {
            format!("r.unknown_tags(&mut unknown_tags, {whole})?;")
        } else {
            known_tags(&tagged, &whole)
        };
        if flex == Test::Always {
            put!(body, "{section}");
        } else {
            put!(body, "if flex {{ {section} }}");
        }
    }
    put!(body, "Ok(Self {{");
    for site in &sites {
        put!(body, "{}: f_{},", site.field(), site.field().trim_start_matches("r#"));
    }
    put!(body, "unknown_tags }})");
    let flex_line = flex_line(&flex, &body);
    let body = flex_line + &body;
    put!(
        out,
        "pub(crate) fn read(r: &mut Reader, {}: i16) -> Result<Self, DecodeError> {{",
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

fn place(body: &mut String, site: &Site<'_>) {
    let local = format!("f_{}", site.field().trim_start_matches("r#"));
    let mutable = if site.member.tagged.is_empty() { "" } else { "mut " };
    let test = Test::of(site.member.plain(), site.item.versions);
    let value = match &test {
        Test::Never => site.default(),
        Test::Always => read(site, site.item.versions, false),
        Test::When(test) => {
            format!(
                "if {test} {{ {} }} else {{ {} }}",
                read(site, site.member.plain(), false),
                site.default()
            )
        }
    };
    put!(body, "let {mutable}{local} = {value};");
}

/// The expression that reads the field, given that the version is one of `inside`.
fn read(site: &Site<'_>, inside: Versions, tagged: bool) -> String {
    match Test::of(site.member.nullable, inside) {
        Test::Always => read_nullable(site, tagged),
        Test::Never if site.optional() => format!("Some({})", read_value(site, tagged)),
        Test::Never => read_value(site, tagged),
        Test::When(test) => {
            format!(
                "if {test} {{ {} }} else {{ Some({}) }}",
                read_nullable(site, tagged),
                read_value(site, tagged)
            )
        }
    }
}

fn read_nullable(site: &Site<'_>, tagged: bool) -> String {
    let at = site.at();
    if let FieldType::Struct(name) = &site.member.ty {
        let marker = if tagged { "tagged_marker" } else { "marker" };
        return format!("if r.{marker}({at})? {{ Some({name}::read(r, version)?) }} else {{ None }}");
    }
    read_with(site, "_or_null", tagged)
}

fn read_value(site: &Site<'_>, tagged: bool) -> String {
    if let FieldType::Struct(name) = &site.member.ty {
        return format!("{name}::read(r, version)?");
    }
    read_with(site, "", tagged)
}

fn read_with(site: &Site<'_>, suffix: &str, tagged: bool) -> String {
    let at = site.at();
    let flex = site.flex_text(tagged);
    match &site.member.ty {
        FieldType::Array(element) if is_number(element) => {
            format!("r.numbers{suffix}::<{}>({flex}, {at})?", base_type(element))
        }
        FieldType::Array(element) => {
            let smallest = site.message.smallest(element, site.member.versions).max(1);
            let read = match &**element {
                FieldType::Struct(name) => format!("{name}::read(r, version)"),
                plain if takes_length(plain) => format!("r.{}({flex}, {at})", scalar(plain).1),
                plain => format!("r.{}({at})", scalar(plain).1),
            };
            format!("r.list{suffix}({flex}, {smallest}, {at}, |r| {read})?")
        }
        plain if takes_length(plain) => format!("r.{}{suffix}({flex}, {at})?", scalar(plain).1),
        plain => format!("r.{}({at})?", scalar(plain).1),
    }
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
        let local = format!("f_{}", site.field().trim_start_matches("r#"));
        // A known tag in a version that does not have it is an error, as in Kafka; it is refused in the last arm.
        let guard = match Test::of(site.member.tagged, site.item.versions.and(site.message.flexible)) {
            Test::When(test) => format!(" if {test}"),
            _ => String::new(),
        };
        put!(out, "{tag}{guard} => {local} = {},", read(site, site.member.tagged, true));
        if !guard.is_empty() {
            put!(out, "{tag} => return Err(r.tag_not_in_version(version, {})),", site.at());
        }
    }
    put!(out, "_ => unknown_tags.push(tag, r.rest()),");
    put!(out, "}}");
    put!(out, "r.end_tag(&mut tags, {whole})?;");
    put!(out, "}}");
    out
}
