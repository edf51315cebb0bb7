//! Generates encoding functions.

use super::decode::{flex_line, takes_length};
use super::{FieldSite, VersionTest, is_number, parameter, push_line, scalar};
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
    let section = tag_section(&sites, &whole);
    let refused = format!("w.no_tags(&self.unknown_tags, version, {whole})?;");
    match &flex {
        VersionTest::Always => push_line!(body, "{section}"),
        VersionTest::Never => push_line!(body, "{refused}"),
        VersionTest::When(_) => push_line!(body, "if flex {{ {section} }} else {{ {refused} }}"),
    }
    let body = flex_line(&flex, &body) + &body + "Ok(())\n";
    push_line!(
        out,
        "pub(crate) fn write(&self, w: &mut Writer, {}: i16) -> Result<(), EncodeError> {{",
        parameter(&body)
    );
    push_line!(out, "{body}}}");
}

/// Generates the code of a field that is encoded in place, and the error for a value in a version that lacks the field.
fn place(body: &mut String, site: &FieldSite<'_>) {
    let member = site.member;
    match VersionTest::of(member.plain(), site.item.versions) {
        VersionTest::Always => push_line!(body, "{}", write(site, site.item.versions, false)),
        VersionTest::Never => {}
        VersionTest::When(test) => push_line!(body, "if {test} {{ {} }}", write(site, member.plain(), false)),
    }
    if member.ignorable {
        return;
    }
    let absent = match VersionTest::of(member.versions, site.item.versions) {
        VersionTest::Always => return,
        VersionTest::Never => String::new(),
        VersionTest::When(test) => format!("!({test}) && "),
    };
    // `!(version >= 3) &&` reads better as the opposite comparison.
    let absent = absent.replace("!(version >= ", "(version < ").replace("!(version <= ", "(version > ");
    let absent = absent.replace("!(version == ", "(version != ");
    let absent = match absent.strip_prefix('(').and_then(|text| text.strip_suffix(") && ")) {
        Some(plain) => format!("{plain} && "),
        None => absent,
    };
    push_line!(body, "if {absent}{} {{ return Err(w.absent(version, {})); }}", site.not_default(), site.at());
}

/// The statements that encode the field, given that the version is in `inside`.
fn write(site: &FieldSite<'_>, inside: Versions, tagged: bool) -> String {
    let field = site.field();
    let at = site.at();
    match VersionTest::of(site.member.nullable, inside) {
        VersionTest::Always => write_nullable(site, tagged),
        VersionTest::Never if site.optional() => {
            let value = format!("w.not_null(self.{field}.as_ref(), version, {at})?");
            format!("let inner = {value}; {}", write_value(site, "inner", tagged))
        }
        VersionTest::Never => write_value(site, &format!("self.{field}"), tagged),
        VersionTest::When(test) => {
            let value = format!("w.not_null(self.{field}.as_ref(), version, {at})?");
            let strict = format!("let inner = {value}; {}", write_value(site, "inner", tagged));
            format!("if {test} {{ {} }} else {{ {strict} }}", write_nullable(site, tagged))
        }
    }
}

fn write_nullable(site: &FieldSite<'_>, tagged: bool) -> String {
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

fn write_value(site: &FieldSite<'_>, value: &str, tagged: bool) -> String {
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

/// The tagged fields of a flexible version: known fields that differ from their default, merged with the unknown
/// fields.
fn tag_section(sites: &[FieldSite<'_>], whole: &str) -> String {
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
        let test = match VersionTest::of(site.member.tagged, flexible) {
            VersionTest::When(test) => format!("{test} && "),
            _ => String::new(),
        };
        push_line!(out, "let tag_{tag} = {test}{};", site.not_default());
        count.push_str(&format!(" + usize::from(tag_{tag})"));
    }
    push_line!(out, "w.tag_count({count}, {whole})?;");
    push_line!(out, "let mut unknown = self.unknown_tags.cursor();");
    for site in &tagged {
        let Some(tag) = site.member.tag else { continue };
        push_line!(out, "if tag_{tag} {{ w.unknown_below(&mut unknown, {tag}, {whole})?;");
        push_line!(
            out,
            "let mark = w.begin_tag({tag}); {} w.end_tag(mark, {whole})?; }}",
            write(site, site.member.tagged, true)
        );
        // This includes versions without the field, because decoding refuses its tag there.
        push_line!(out, "w.reserve_tag(&mut unknown, {tag}, {whole})?;");
    }
    push_line!(out, "w.unknown_rest(&mut unknown, {whole})?;");
    out
}
