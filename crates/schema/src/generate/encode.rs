//! Struct to frame.

use super::decode::{flex_line, takes_length};
use super::{Site, Test, is_number, parameter, put, scalar};
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
    let section = tag_section(&sites, &whole);
    let refused = format!("w.no_tags(&self.unknown_tags, version, {whole})?;");
    match &flex {
        Test::Always => put!(body, "{section}"),
        Test::Never => put!(body, "{refused}"),
        Test::When(_) => put!(body, "if flex {{ {section} }} else {{ {refused} }}"),
    }
    let body = flex_line(&flex, &body) + &body + "Ok(())\n";
    put!(
        out,
        "pub(crate) fn write(&self, w: &mut Writer, {}: i16) -> Result<(), EncodeError> {{",
        parameter(&body)
    );
    put!(out, "{body}}}");
}

/// Writes the field in its place, and refuses values that the version has no room for.
fn place(body: &mut String, site: &Site<'_>) {
    let member = site.member;
    match Test::of(member.plain(), site.item.versions) {
        Test::Always => put!(body, "{}", write(site, site.item.versions, false)),
        Test::Never => {}
        Test::When(test) => put!(body, "if {test} {{ {} }}", write(site, member.plain(), false)),
    }
    if member.ignorable {
        return;
    }
    let absent = match Test::of(member.versions, site.item.versions) {
        Test::Always => return,
        Test::Never => String::new(),
        Test::When(test) => format!("!({test}) && "),
    };
    // `!(version >= 3) &&` reads better as the opposite comparison.
    let absent = absent.replace("!(version >= ", "(version < ").replace("!(version <= ", "(version > ");
    let absent = absent.replace("!(version == ", "(version != ");
    let absent = match absent.strip_prefix('(').and_then(|text| text.strip_suffix(") && ")) {
        Some(plain) => format!("{plain} && "),
        None => absent,
    };
    put!(body, "if {absent}{} {{ return Err(w.absent(version, {})); }}", site.not_default(), site.at());
}

/// The statements that write the field, given that the version is one of `inside`.
fn write(site: &Site<'_>, inside: Versions, tagged: bool) -> String {
    let field = site.field();
    let at = site.at();
    match Test::of(site.member.nullable, inside) {
        Test::Always => write_nullable(site, tagged),
        Test::Never if site.optional() => {
            let value = format!("w.not_null(self.{field}.as_ref(), version, {at})?");
            format!("let inner = {value}; {}", write_value(site, "inner", tagged))
        }
        Test::Never => write_value(site, &format!("self.{field}"), tagged),
        Test::When(test) => {
            let value = format!("w.not_null(self.{field}.as_ref(), version, {at})?");
            let strict = format!("let inner = {value}; {}", write_value(site, "inner", tagged));
            format!("if {test} {{ {} }} else {{ {strict} }}", write_nullable(site, tagged))
        }
    }
}

fn write_nullable(site: &Site<'_>, tagged: bool) -> String {
    let field = site.field();
    let flex = site.flex_text(tagged);
    let (some, none) = match &site.member.ty {
        FieldType::Struct(_) if tagged => {
            ("w.tagged_marker(true);".to_owned(), "w.tagged_marker(false)".to_owned())
        }
        FieldType::Struct(_) => ("w.marker(true);".to_owned(), "w.marker(false)".to_owned()),
        FieldType::String => (String::new(), format!("w.null_text({flex})")),
        _ => (String::new(), format!("w.null({flex})")),
    };
    let value = write_value(site, "inner", tagged);
    format!("match &self.{field} {{ Some(inner) => {{ {some} {value} }} None => {none}, }}")
}

fn write_value(site: &Site<'_>, value: &str, tagged: bool) -> String {
    let at = site.at();
    let flex = site.flex_text(tagged);
    let borrow = if value == "inner" { "" } else { "&" };
    match &site.member.ty {
        FieldType::Struct(_) => format!("{value}.write(w, version)?;"),
        FieldType::Array(element) if is_number(element) => {
            format!("w.numbers({flex}, {borrow}{value}, {at})?;")
        }
        FieldType::Array(element) => {
            let each = match &**element {
                FieldType::Struct(_) => "element.write(w, version)?;".to_owned(),
                plain if takes_length(plain) => format!("w.{}({flex}, element, {at})?;", scalar(plain).1),
                plain => format!("w.{}(*element);", scalar(plain).1),
            };
            format!("w.count({flex}, {value}.len(), {at})?; for element in {borrow}{value} {{ {each} }}")
        }
        plain if takes_length(plain) => format!("w.{}({flex}, {borrow}{value}, {at})?;", scalar(plain).1),
        plain => format!("w.{}({value});", scalar(plain).1),
    }
}

/// The tagged fields of a flexible version: known ones that differ from their default, merged with the unknown ones.
fn tag_section(sites: &[Site<'_>], whole: &str) -> String {
    let mut tagged: Vec<_> = sites.iter().filter(|site| !site.member.tagged.is_empty()).collect();
    tagged.sort_by_key(|site| site.member.tag);
    if tagged.is_empty() {
        return format!("w.unknown_tags(&self.unknown_tags, {whole})?;");
    }
    let mut out = String::new();
    let mut count = "self.unknown_tags.len()".to_owned();
    for site in &tagged {
        let Some(tag) = site.member.tag else { continue };
        let flexible = site.item.versions.and(site.message.flexible);
        let test = match Test::of(site.member.tagged, flexible) {
            Test::When(test) => format!("{test} && "),
            _ => String::new(),
        };
        put!(out, "let tag_{tag} = {test}{};", site.not_default());
        count.push_str(&format!(" + usize::from(tag_{tag})"));
    }
    put!(out, "w.tag_count({count}, {whole})?;");
    put!(out, "let mut unknown = self.unknown_tags.cursor();");
    for site in &tagged {
        let Some(tag) = site.member.tag else { continue };
        put!(out, "if tag_{tag} {{ w.unknown_below(&mut unknown, {tag}, {whole})?;");
        put!(
            out,
            "let mark = w.begin_tag({tag}); {} w.end_tag(mark, {whole})?; }}",
            write(site, site.member.tagged, true)
        );
        // In versions without the field too: reading refuses its tag there.
        put!(out, "w.reserve_tag(&mut unknown, {tag}, {whole})?;");
    }
    put!(out, "w.unknown_rest(&mut unknown, {whole})?;");
    out
}
