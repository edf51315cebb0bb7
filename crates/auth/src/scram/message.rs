//! Parts of SCRAM messages: attributes, user names, base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The value of an attribute, if the text begins with its letter and '='.
pub(super) fn attribute(text: &str, letter: char) -> Option<&str> {
    text.strip_prefix(letter)?.strip_prefix('=')
}

/// A user name from the wire: "=2C" is a comma, "=3D" an equals sign; any other '=' is an error, as is a character
/// outside printable ASCII (S-130).
pub(super) fn user_from_wire(text: &str) -> Option<String> {
    if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return None;
    }
    let mut parts = text.split('=');
    let mut user = parts.next()?.to_owned();
    for part in parts {
        let rest = match part.as_bytes() {
            [b'2', b'C', ..] => {
                user.push(',');
                &part[2..]
            }
            [b'3', b'D', ..] => {
                user.push('=');
                &part[2..]
            }
            _ => return None,
        };
        user.push_str(rest);
    }
    Some(user)
}

/// A user name for the wire.
pub(super) fn user_to_wire(user: &str) -> String {
    user.replace('=', "=3D").replace(',', "=2C")
}

/// Whether the text can be a nonce: printable ASCII without a comma, and not empty.
pub(super) fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b',')
}

pub(super) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}
