//! The text of a certificate's subject, as Java's `X500Principal.getName()` writes it (S-51, S-52). Ottla's ACLs and
//! mapping rules name certificates by this text, so it has to be the same character for character.
//!
//! Java follows RFC 2253 with these habits, which `tests/data/distinguished_names.tsv` records:
//!
//! - A value of a string type is decoded as UTF-8, whatever its type. So a Latin-1 TeletexString loses its accents to
//!   U+FFFD, and a BMPString shows a `\00` for each high byte that is zero. GeneralString counts as a string type;
//!   UniversalString, NumericString and all other types do not, and are written in hex even after a keyword.
//! - Every blank and carriage return at either end of a value gets a backslash, not only the outermost one.
//!
//! Java also reads lengths that are longer than necessary or indefinite. This module refuses them: they are not DER.

/// Why a certificate has no subject text (S-51). The caller refuses the connection; the certificate is faulty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The bytes end inside an element.
    #[error("the certificate's DER ends inside an element")]
    Truncated,
    /// A tag number over 30, or a length that is indefinite, not minimal, or over four bytes.
    #[error("the certificate is not DER: a tag or length is invalid")]
    Encoding,
    /// An element has another type than X.509 gives it, or bytes after its last member.
    #[error("the certificate's subject does not have the structure that X.509 gives it")]
    Structure,
    /// An object identifier is empty, unterminated, padded, or has a number over 128 bits.
    #[error("the certificate's subject has an invalid object identifier")]
    ObjectIdentifier,
}

/// Returns the subject of an X.509 certificate in DER as Java's RFC 2253 text (S-51, S-52). An empty subject gives the
/// empty text. Signatures and dates are not checked.
///
/// # Errors
///
/// Bytes up to and including the subject that are no X.509 certificate in DER.
pub fn subject_name(certificate_der: &[u8]) -> Result<String, NameError> {
    let mut certificate = Elements(Elements(certificate_der).expect(TAG_SEQUENCE)?.content);
    let mut signed_part = Elements(certificate.expect(TAG_SEQUENCE)?.content);
    if signed_part.next_tag() == Some(TAG_VERSION) {
        signed_part.next()?;
    }
    signed_part.expect(TAG_INTEGER)?; // serial number
    signed_part.expect(TAG_SEQUENCE)?; // signature algorithm
    signed_part.expect(TAG_SEQUENCE)?; // issuer
    signed_part.expect(TAG_SEQUENCE)?; // validity
    name_text(signed_part.expect(TAG_SEQUENCE)?.content)
}

const TAG_INTEGER: u8 = 0x02;
const TAG_OBJECT_IDENTIFIER: u8 = 0x06;
const TAG_SEQUENCE: u8 = 0x30;
const TAG_SET: u8 = 0x31;
/// The explicit tag 0 around the version of a certificate.
const TAG_VERSION: u8 = 0xa0;

/// The types whose values Java writes as text: UTF8String, PrintableString, TeletexString, IA5String, GeneralString and
/// BMPString.
const TEXT_TAGS: [u8; 6] = [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1e];

/// The attributes that RFC 2253 has a keyword for, by the content bytes of their object identifiers.
const KEYWORDS: [(&[u8], &str); 9] = [
    (&[0x55, 0x04, 0x03], "CN"),
    (&[0x55, 0x04, 0x06], "C"),
    (&[0x55, 0x04, 0x07], "L"),
    (&[0x55, 0x04, 0x08], "ST"),
    (&[0x55, 0x04, 0x09], "STREET"),
    (&[0x55, 0x04, 0x0a], "O"),
    (&[0x55, 0x04, 0x0b], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19], "DC"),
];

/// One DER element.
#[derive(Clone, Copy)]
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    /// Tag, length and content.
    encoding: &'a [u8],
}

/// DER elements one after another.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    fn next_tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Result<Element<'a>, NameError> {
        let [tag, first_length_byte, rest @ ..] = self.0 else { return Err(NameError::Truncated) };
        if tag & 0x1f == 0x1f {
            return Err(NameError::Encoding);
        }
        let (length, rest) = split_length(*first_length_byte, rest)?;
        let (content, following) = rest.split_at_checked(length).ok_or(NameError::Truncated)?;
        let (encoding, _) = self.0.split_at(self.0.len() - following.len());
        self.0 = following;
        Ok(Element { tag: *tag, content, encoding })
    }

    fn expect(&mut self, tag: u8) -> Result<Element<'a>, NameError> {
        let element = self.next()?;
        if element.tag == tag { Ok(element) } else { Err(NameError::Structure) }
    }
}

/// Returns the length that a DER header states and the bytes after that header.
fn split_length(first: u8, rest: &[u8]) -> Result<(usize, &[u8]), NameError> {
    if first < 0x80 {
        return Ok((usize::from(first), rest));
    }
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return Err(NameError::Encoding);
    }
    let (digits, rest) = rest.split_at_checked(count).ok_or(NameError::Truncated)?;
    let length = digits.iter().fold(0, |length, digit| length << 8 | u64::from(*digit));
    if digits.first() == Some(&0) || length < 0x80 {
        return Err(NameError::Encoding);
    }
    Ok((usize::try_from(length).map_err(|_| NameError::Truncated)?, rest))
}

/// Writes the relative names inside a Name, last first (S-51).
fn name_text(content: &[u8]) -> Result<String, NameError> {
    let mut relative_names = Elements(content);
    let mut texts = Vec::new();
    while relative_names.next_tag().is_some() {
        texts.push(relative_name_text(relative_names.expect(TAG_SET)?.content)?);
    }
    texts.reverse();
    Ok(texts.join(","))
}

/// Writes the attributes of one relative name in the order of their encoding (S-51).
fn relative_name_text(content: &[u8]) -> Result<String, NameError> {
    let mut attributes = Elements(content);
    let mut texts = Vec::new();
    while attributes.next_tag().is_some() {
        texts.push(attribute_text(attributes.expect(TAG_SEQUENCE)?.content)?);
    }
    Ok(texts.join("+"))
}

fn attribute_text(content: &[u8]) -> Result<String, NameError> {
    let mut members = Elements(content);
    let identifier = members.expect(TAG_OBJECT_IDENTIFIER)?.content;
    let value = members.next()?;
    if members.next_tag().is_some() {
        return Err(NameError::Structure);
    }
    let keyword = KEYWORDS.iter().find(|(known, _)| *known == identifier).map(|(_, keyword)| *keyword);
    Ok(match keyword {
        Some(keyword) if TEXT_TAGS.contains(&value.tag) => {
            format!("{keyword}={}", escape(&decode_utf8(value.content)))
        }
        Some(keyword) => format!("{keyword}=#{}", hex(value.encoding)),
        None => format!("{}=#{}", dotted(identifier)?, hex(value.encoding)),
    })
}

/// Writes an object identifier as numbers with dots.
fn dotted(identifier: &[u8]) -> Result<String, NameError> {
    let mut numbers = Vec::new();
    let mut number: u128 = 0;
    let mut inside_number = false;
    for byte in identifier {
        let padded = !inside_number && *byte == 0x80;
        if padded || number > u128::MAX >> 7 {
            return Err(NameError::ObjectIdentifier);
        }
        number = number << 7 | u128::from(byte & 0x7f);
        inside_number = byte & 0x80 != 0;
        if !inside_number {
            numbers.push(std::mem::take(&mut number));
        }
    }
    let Some((first, others)) = numbers.split_first().filter(|_| !inside_number) else {
        return Err(NameError::ObjectIdentifier);
    };
    // The first number holds two: 40 times 0, 1 or 2, plus the second one.
    let top = (first / 40).min(2);
    let mut text = format!("{top}.{}", first - top * 40);
    for number in others {
        text.push_str(&format!(".{number}"));
    }
    Ok(text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes UTF-8 with one U+FFFD for each malformed sequence. Java takes an encoded surrogate as one malformed sequence
/// where Rust takes it as up to three.
fn decode_utf8(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    loop {
        let Err(error) = std::str::from_utf8(bytes) else {
            text.push_str(&String::from_utf8_lossy(bytes));
            return text;
        };
        let (valid, malformed) = bytes.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(valid));
        text.push(char::REPLACEMENT_CHARACTER);
        let malformed_length = match malformed {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            [0xed, 0xa0..=0xbf, ..] => 2,
            _ => error.error_len().unwrap_or(malformed.len()),
        };
        bytes = malformed.get(malformed_length..).unwrap_or_default();
    }
}

/// Writes a value with the backslashes that Java puts into it (S-52).
fn escape(value: &str) -> String {
    let is_padding = |character: char| matches!(character, ' ' | '\r');
    let padding_start = value.len() - value.trim_start_matches(is_padding).len();
    let padding_end = value.trim_end_matches(is_padding).len();
    let mut text = String::with_capacity(value.len());
    for (place, character) in value.char_indices() {
        if character == '\0' {
            text.push_str("\\00");
            continue;
        }
        let at_an_end = place < padding_start || place >= padding_end;
        if at_an_end || ",=+<>#;\"\\".contains(character) {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2)
            .map(|place| u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).unwrap())
            .collect()
    }

    fn rows(file: &str) -> Vec<(Vec<u8>, String)> {
        let lines = file.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.split_once('\t').unwrap())
            .map(|(der, text)| (bytes(der), text.to_owned()))
            .collect()
    }

    /// Writes characters that are hard to see in a file as the data files have them.
    fn visible(text: &str) -> String {
        let hidden = |character: char| {
            character.is_control()
                || matches!(
                    character,
                    '\u{fffd}' | '\u{feff}' | '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{ffff}'
                )
                || ('\u{300}'..'\u{370}').contains(&character)
        };
        let show = |character: char| match hidden(character) {
            true => format!("<U+{:04X}>", u32::from(character)),
            false => character.to_string(),
        };
        text.chars().map(show).collect()
    }

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let header = match length {
            0..0x80 => vec![tag, length as u8],
            0x80..0x100 => vec![tag, 0x81, length as u8],
            _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
        };
        [header.as_slice(), content].concat()
    }

    /// A certificate with this Name as its subject and empty other members.
    fn certificate(name: &[u8], with_version: bool) -> Vec<u8> {
        let version = if with_version { element(TAG_VERSION, &[2, 1, 2]) } else { Vec::new() };
        let empty = element(TAG_SEQUENCE, &[]);
        let members = [&version, [2, 1, 1].as_slice(), &empty, &empty, &empty, name, &empty].concat();
        element(TAG_SEQUENCE, &element(TAG_SEQUENCE, &members))
    }

    fn subject_of(name_hex: &str) -> Result<String, NameError> {
        subject_name(&certificate(&bytes(name_hex), true))
    }

    fn keytool_certificate() -> (Vec<u8>, String) {
        rows(include_str!("../tests/data/certificate.tsv")).remove(0)
    }

    #[test]
    fn s_51_names_are_written_as_java_writes_them() {
        let rows = rows(include_str!("../tests/data/distinguished_names.tsv"));
        assert!(rows.len() > 40);
        for (name, text) in rows {
            for with_version in [false, true] {
                let subject =
                    subject_name(&certificate(&name, with_version)).map(|subject| visible(&subject));
                assert_eq!(subject.as_ref(), Ok(&text), "{}", hex(&name));
            }
        }
    }

    #[test]
    fn s_51_subject_of_a_certificate_by_keytool() {
        let (der, text) = keytool_certificate();
        assert_eq!(subject_name(&der), Ok(text));
    }

    #[test]
    fn s_51_attributes_without_keyword_are_hex() {
        let email = "30133111300f06092a864886f70d01090116024162";
        assert_eq!(subject_of(email).unwrap(), "1.2.840.113549.1.9.1=#16024162");
    }

    #[test]
    fn s_51_types_other_than_text_are_hex_after_a_keyword() {
        assert_eq!(subject_of("300d310b3009060355040312024142").unwrap(), "CN=#12024142");
    }

    #[test]
    fn s_52_blanks_at_both_ends_are_escaped() {
        assert_eq!(escape("  a  b \r"), "\\ \\ a  b\\ \\\r");
        assert_eq!(escape(" "), "\\ ");
    }

    #[test]
    fn s_52_special_characters_are_escaped_anywhere() {
        assert_eq!(escape("#a,=+<>#;\"\\\0é"), "\\#a\\,\\=\\+\\<\\>\\#\\;\\\"\\\\\\00é");
    }

    #[test]
    fn s_52_surrogates_in_utf8_are_one_replacement_each() {
        assert_eq!(decode_utf8(b"\xed\xa0\x80A\xed\xa0A\xedA"), "\u{fffd}A\u{fffd}A\u{fffd}A");
        assert_eq!(decode_utf8(b"\xf4\x90\x80\x80\xc0\x80"), "\u{fffd}".repeat(6));
        assert_eq!(decode_utf8(b"\xf0\x9f\x98"), "\u{fffd}");
    }

    #[test]
    fn s_51_faulty_names_are_refused() {
        let faults = [
            ("300c310a3008060280370c024162", NameError::ObjectIdentifier), // padded number
            ("300d310b300906035504800c024162", NameError::ObjectIdentifier), // number without end
            ("30093107300506000c0161", NameError::ObjectIdentifier),       // no number
            ("300f310d300b06035504030c01610c0162", NameError::Structure),  // three members
            ("300c310a310806035504030c0161", NameError::Structure),        // attribute is a set
            ("300c300a300806035504030c0161", NameError::Structure),        // relative name is a sequence
            ("3009310730050603550403", NameError::Truncated),              // no value
            ("300c310a300806035504030c0241", NameError::Truncated),        // value too short
            ("300d310b300906035504039f1f0141", NameError::Encoding),       // tag over 30
            ("300d310b300906035504030c810141", NameError::Encoding),       // length not minimal
            ("3010310e300c06035504032c800c01410000", NameError::Encoding), // length indefinite
        ];
        for (name, error) in faults {
            assert_eq!(subject_of(name), Err(error), "{name}");
        }
    }

    #[test]
    fn s_51_truncated_and_mutated_certificates_never_panic() {
        let (der, _) = keytool_certificate();
        for place in 0..der.len() {
            let _ = subject_name(&der[..place]);
            for value in 0..=u8::MAX {
                let mut mutated = der.clone();
                mutated[place] = value;
                let _ = subject_name(&mutated);
            }
        }
    }

    proptest! {
        #[test]
        fn s_51_arbitrary_bytes_never_panic(der: Vec<u8>, name: Vec<u8>) {
            let _ = subject_name(&der);
            let _ = subject_name(&certificate(&element(TAG_SEQUENCE, &name), true));
        }

        #[test]
        fn s_52_escaped_text_has_no_bare_separator(value: String) {
            let text = subject_name(&certificate(
                &element(TAG_SEQUENCE, &element(TAG_SET, &element(TAG_SEQUENCE, &[
                    bytes("0603550403"), element(0x0c, value.as_bytes()),
                ].concat()))),
                true,
            )).unwrap();
            let bare = text.strip_prefix("CN=").unwrap().replace("\\\\", "").replace("\\,", "").replace("\\+", "");
            prop_assert!(!bare.contains([',', '+']));
        }
    }
}
