//! Where the keys and certificates of a listener come from: PEM or PKCS12 files, or PEM text in the settings.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;
use zeroize::Zeroizing;

/// A certificate with those that signed it, and its private key.
pub(super) struct KeyMaterial {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// One of the two stores.
#[derive(Clone)]
enum Source {
    /// Nothing is given.
    None,
    /// A PEM file.
    PemFile(PathBuf),
    /// A PKCS12 file and its password.
    Pkcs12File(PathBuf, Zeroizing<String>),
    /// PEM text.
    Text(Zeroizing<String>),
}

/// The sources of a listener's keys and certificates. It never shows their text.
#[derive(Clone)]
pub(super) struct TlsFiles {
    keystore: Source,
    truststore: Source,
    key_password: Zeroizing<String>,
}

impl std::fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.paths()).finish()
    }
}

/// What tells whether files have changed: for each its time of modification, size and number. A symbolic link is
/// followed, so a link to another file is a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamp(Vec<Option<(Option<SystemTime>, u64, u64)>>);

impl TlsFiles {
    /// Reads the settings of a listener (S-21, S-22).
    pub(super) fn of(value: &dyn Fn(&str) -> String) -> Result<TlsFiles, String> {
        let text = |key: &str| Zeroizing::new(value(key));
        let key = text("ssl.keystore.key");
        let chain = text("ssl.keystore.certificate.chain");
        let inline = match (key.trim().is_empty(), chain.trim().is_empty()) {
            (true, true) => None,
            (false, false) => Some(Zeroizing::new(format!("{}\n{}", *key, *chain))),
            _ => {
                let why = "ssl.keystore.key and ssl.keystore.certificate.chain are given both or not at all";
                return Err(why.to_owned());
            }
        };
        let keystore = source("ssl.keystore", value, inline)?;
        if matches!(keystore, Source::None) {
            let why =
                "TLS needs ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain";
            return Err(why.to_owned());
        }
        let inline = Some(text("ssl.truststore.certificates")).filter(|text| !text.trim().is_empty());
        let truststore = source("ssl.truststore", value, inline)?;
        Ok(TlsFiles { keystore, truststore, key_password: text("ssl.key.password") })
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.keystore, &self.truststore].into_iter().filter_map(|source| match source {
            Source::PemFile(path) | Source::Pkcs12File(path, _) => Some(path),
            Source::None | Source::Text(_) => None,
        })
    }

    pub(super) fn stamp(&self) -> FileStamp {
        let stamp = |path: &PathBuf| {
            use std::os::unix::fs::MetadataExt;
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok(), metadata.len(), metadata.ino()))
        };
        FileStamp(self.paths().map(stamp).collect())
    }

    /// Reads the broker's own key and certificates.
    pub(super) fn key_material(&self) -> Result<KeyMaterial, String> {
        let pem = match &self.keystore {
            Source::None => return Err("there is no keystore".to_owned()),
            Source::PemFile(path) => read(path)?,
            Source::Text(text) => Zeroizing::new(text.as_bytes().to_vec()),
            Source::Pkcs12File(path, password) => return pkcs12(path, password),
        };
        let place = self.place(&self.keystore);
        let chain = certificates(&pem, &place)?;
        if chain.is_empty() {
            return Err(format!("{place}: there is no certificate"));
        }
        Ok(KeyMaterial { chain, key: private_key(&pem, &self.key_password, &place)? })
    }

    /// Reads the certificates that sign those of clients.
    pub(super) fn trusted(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let place = self.place(&self.truststore);
        match &self.truststore {
            Source::None => Ok(Vec::new()),
            Source::PemFile(path) => certificates(&read(path)?, &place),
            Source::Text(text) => certificates(text.as_bytes(), &place),
            Source::Pkcs12File(path, password) => pkcs12_certificates(path, password),
        }
    }

    fn place(&self, source: &Source) -> String {
        match source {
            Source::PemFile(path) | Source::Pkcs12File(path, _) => path.display().to_string(),
            Source::None | Source::Text(_) => "the PEM text of the settings".to_owned(),
        }
    }
}

/// The source that the settings with this prefix describe.
fn source(
    prefix: &str,
    value: &dyn Fn(&str) -> String,
    inline: Option<Zeroizing<String>>,
) -> Result<Source, String> {
    let location = value(&format!("{prefix}.location"));
    let password = Zeroizing::new(value(&format!("{prefix}.password")));
    let path = PathBuf::from(location.trim());
    match (value(&format!("{prefix}.type")).trim(), location.trim().is_empty(), inline) {
        ("JKS", ..) => Err(format!(
            "{prefix}.type JKS cannot be read; convert the file: keytool -importkeystore -srckeystore {} \
             -destkeystore {0}.p12 -deststoretype PKCS12, and set {prefix}.type=PKCS12",
            if location.is_empty() { "store.jks" } else { location.trim() },
        )),
        (_, false, Some(_)) => Err(format!("{prefix}.location and inline PEM exclude each other")),
        ("PKCS12", _, Some(_)) => Err(format!("{prefix}.type must be PEM for inline text")),
        ("PKCS12", false, None) => Ok(Source::Pkcs12File(path, password)),
        ("PEM", ..) if !password.is_empty() => {
            Err(format!("{prefix}.password has no meaning for PEM; ssl.key.password is that of the key"))
        }
        (_, false, None) => Ok(Source::PemFile(path)),
        (_, true, Some(text)) => Ok(Source::Text(text)),
        (_, true, None) => Ok(Source::None),
    }
}

fn read(path: &PathBuf) -> Result<Zeroizing<Vec<u8>>, String> {
    fs::read(path).map(Zeroizing::new).map_err(|error| format!("{}: {error}", path.display()))
}

fn certificates(pem: &[u8], place: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    read.map_err(|error| format!("{place}: a certificate cannot be read: {error}"))
}

/// The label of an encrypted key in PKCS#8.
const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// The only private key of a PEM text (S-22, S-23).
fn private_key(pem: &[u8], password: &str, place: &str) -> Result<PrivateKeyDer<'static>, String> {
    let text = String::from_utf8_lossy(pem);
    let mut keys: Vec<PrivateKeyDer<'static>> = PrivateKeyDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{place}: the private key cannot be read: {error}"))?;
    let mut rest = &*text;
    while let Some(begin) = rest.find(ENCRYPTED) {
        let end = rest.find(ENCRYPTED_END).ok_or_else(|| format!("{place}: the private key is cut short"))?;
        let end = end + ENCRYPTED_END.len();
        keys.push(decrypt(&rest[begin..end], password, place)?);
        rest = &rest[end..];
    }
    match keys.len() {
        1 => Ok(keys.remove(0)),
        0 => Err(format!("{place}: there is no private key")),
        more => Err(format!("{place}: there are {more} private keys, it must be one")),
    }
}

fn decrypt(pem: &str, password: &str, place: &str) -> Result<PrivateKeyDer<'static>, String> {
    if password.is_empty() {
        return Err(format!("{place}: the private key is encrypted; set ssl.key.password"));
    }
    let (_, der) = pkcs8::SecretDocument::from_pem(pem)
        .map_err(|error| format!("{place}: the private key cannot be read: {error}"))?;
    let encrypted = pkcs8::EncryptedPrivateKeyInfo::try_from(der.as_bytes())
        .map_err(|error| format!("{place}: the private key cannot be read: {error}"))?;
    let plain = encrypted
        .decrypt(password)
        .map_err(|_| format!("{place}: ssl.key.password does not decrypt the private key"))?;
    Ok(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec()).into())
}

fn keystore(path: &PathBuf, password: &str) -> Result<p12_keystore::KeyStore, String> {
    let bytes = read(path)?;
    p12_keystore::KeyStore::from_pkcs12(&bytes, password, p12_keystore::Pkcs12ImportPolicy::Relaxed)
        .map_err(|error| format!("{}: {error}; is the password right?", path.display()))
}

fn pkcs12(path: &PathBuf, password: &str) -> Result<KeyMaterial, String> {
    let store = keystore(path, password)?;
    let (_, entry) =
        store.private_key_chain().ok_or_else(|| format!("{}: there is no private key", path.display()))?;
    let chain = entry.certs().iter().map(|certificate| certificate.as_der().to_vec().into()).collect();
    let key = PrivatePkcs8KeyDer::from(entry.key().as_der().to_vec()).into();
    Ok(KeyMaterial { chain, key })
}

fn pkcs12_certificates(path: &PathBuf, password: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let store = keystore(path, password)?;
    let certificates = store.entries().filter_map(|(_, entry)| match entry {
        p12_keystore::KeyStoreEntry::Certificate(certificate) => Some(certificate.as_der().to_vec().into()),
        _ => None,
    });
    Ok(certificates.collect())
}
