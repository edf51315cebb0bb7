//! The subject of a certificate as text: the form that Java's RFC 2253 output has, because principals and mapping rules
//! are written for it (S-51, S-52).

use std::fmt::Write;
use thiserror::Error;
use x509_cert::Certificate;
use x509_cert::der::asn1::{BmpString, Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Any, Decode, Encode, Tag, Tagged};
use x509_cert::name::RdnSequence;

/// The certificate cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the certificate of the client cannot be read")]
pub struct UnreadableCertificate;

/// The attributes that have a keyword; the others are shown by their number.
const KEYWORDS: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// The subject of a certificate in DER.
///
/// # Errors
/// It is not a certificate.
pub fn subject_name(certificate: &[u8]) -> Result<String, UnreadableCertificate> {
    let certificate = Certificate::from_der(certificate).map_err(|_| UnreadableCertificate)?;
    name_text(&certificate.tbs_certificate.subject)
}

/// The times between which a certificate is valid, in seconds since 1970.
///
/// # Errors
/// It is not a certificate.
pub fn validity(certificate: &[u8]) -> Result<(u64, u64), UnreadableCertificate> {
    let certificate = Certificate::from_der(certificate).map_err(|_| UnreadableCertificate)?;
    let validity = certificate.tbs_certificate.validity;
    let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
    Ok((seconds(validity.not_before), seconds(validity.not_after)))
}

/// A name in DER.
///
/// # Errors
/// It is not a name.
pub fn name_of_der(name: &[u8]) -> Result<String, UnreadableCertificate> {
    name_text(&RdnSequence::from_der(name).map_err(|_| UnreadableCertificate)?)
}

fn name_text(name: &RdnSequence) -> Result<String, UnreadableCertificate> {
    let mut text = String::new();
    for (at, parts) in name.0.iter().rev().enumerate() {
        if at > 0 {
            text.push(',');
        }
        for (at, part) in parts.0.iter().enumerate() {
            if at > 0 {
                text.push('+');
            }
            let number = part.oid.to_string();
            let keyword = KEYWORDS.iter().find(|(known, _)| *known == number);
            match (keyword, string(&part.value)) {
                (Some((_, keyword)), Some(value)) => {
                    text.push_str(keyword);
                    text.push('=');
                    escape(&value, &mut text);
                }
                (keyword, _) => {
                    text.push_str(keyword.map_or(&number, |(_, keyword)| *keyword));
                    text.push_str("=#");
                    let der = part.value.to_der().map_err(|_| UnreadableCertificate)?;
                    for byte in der {
                        // Writing to a string cannot fail.
                        let _ = write!(text, "{byte:02x}");
                    }
                }
            }
        }
    }
    Ok(text)
}

/// The text of a value, if it is one.
fn string(value: &Any) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String => Utf8StringRef::try_from(value).ok().map(|text| text.as_str().to_owned()),
        Tag::PrintableString => PrintableStringRef::try_from(value).ok().map(|text| text.as_str().to_owned()),
        Tag::Ia5String => Ia5StringRef::try_from(value).ok().map(|text| text.as_str().to_owned()),
        Tag::TeletexString => TeletexStringRef::try_from(value)
            .map(|text| text.as_str().to_owned())
            .ok()
            .or_else(|| Some(bytes.iter().map(|byte| char::from(*byte)).collect())),
        Tag::BmpString => BmpString::from_ucs2(bytes).ok().map(|text| text.to_string()),
        _ => None,
    }
}

/// Appends a value with a backslash before each special character, wherever it stands, and before a blank at either
/// end.
fn escape(value: &str, text: &mut String) {
    let blanks = value.len() - value.trim_start_matches(' ').len();
    let end = value.trim_end_matches(' ').len().max(blanks);
    for (at, character) in value.char_indices() {
        match character {
            ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            '\0' => text.push_str("\\00"),
            ' ' if at == 0 || (at == value.len() - 1 && at >= end) => text.push_str("\\ "),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of one attribute: the last number of 2.5.4, the tag and the bytes of its value.
    fn name(attribute: u8, tag: u8, value: &[u8]) -> Vec<u8> {
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        let value = [&[tag, length(value)], value].concat();
        let part = [&[6, 3, 0x55, 4, attribute], &value[..]].concat();
        let part = [&[0x30, length(&part)], &part[..]].concat();
        let set = [&[0x31, length(&part)], &part[..]].concat();
        [&[0x30, length(&set)], &set[..]].concat()
    }

    #[test]
    fn s_52_special_characters_have_a_backslash() {
        for (value, expected) in [
            ("a", "CN=a"),
            (" a  b ", "CN=\\ a  b\\ "),
            ("a,b=c+d", "CN=a\\,b\\=c\\+d"),
            ("#x", "CN=\\#x"),
            ("a#b", "CN=a\\#b"),
            ("<>;\"\\", "CN=\\<\\>\\;\\\"\\\\"),
            ("ü", "CN=ü"),
            ("a\0b", "CN=a\\00b"),
        ] {
            assert_eq!(name_of_der(&name(3, 12, value.as_bytes())).unwrap(), expected);
        }
    }

    #[test]
    fn s_51_attributes_without_a_keyword_are_hex() {
        assert_eq!(name_of_der(&name(5, 19, b"12")).unwrap(), "2.5.4.5=#13023132");
        assert_eq!(name_of_der(&name(10, 19, b"org")).unwrap(), "O=org");
        assert_eq!(name_of_der(&name(3, 20, &[0xfc])).unwrap(), "CN=ü");
        assert_eq!(name_of_der(&name(3, 30, &[0, 0xfc])).unwrap(), "CN=ü");
    }

    #[test]
    fn bytes_that_are_no_name_are_an_error() {
        let good = name(3, 12, b"alice");
        for length in 0..good.len() {
            assert!(name_of_der(&good[..length]).is_err());
        }
        for at in 0..good.len() {
            for byte in [0, 0x7f, 0x80, 0xff] {
                let mut broken = good.clone();
                broken[at] = byte;
                let _ = name_of_der(&broken);
            }
        }
        assert!(subject_name(&good).is_err());
    }
}
