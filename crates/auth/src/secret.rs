//! Bytes that no log, error or debug output shows.

use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Secret bytes: a password, a key, a token. They are wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// A secret of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(Zeroizing::new(bytes.into()))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Compared in constant time for secrets of one length.
impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_109_a_secret_is_never_shown() {
        let secret = Secret::new("password");
        assert_eq!(format!("{secret:?}"), "[hidden]");
        assert!(secret == Secret::new("password") && secret != Secret::new("passwort"));
    }
}
