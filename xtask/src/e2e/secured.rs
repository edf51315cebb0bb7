//! A broker that takes clients over SASL_SSL only: certificates, a user, and the environment of the client programs.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const USER: &str = "e2e";
const PASSWORD: &str = "e2e-secret";

/// How client programs reach the broker.
#[derive(Clone, Debug)]
pub(crate) struct Secured {
    /// The certificate that signs the broker's.
    ca: PathBuf,
}

impl Secured {
    /// The environment of a client program (e2e/README.md).
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        let ca = self.ca.display().to_string();
        [("E2E_USER", USER.to_owned()), ("E2E_PASSWORD", PASSWORD.to_owned()), ("E2E_CA", ca)]
    }
}

/// Makes the certificates and the user for the folder `data`, and the settings of a broker with a plain listener at
/// `port`, for the runner alone, and one with TLS and SASL at `secured_port`, which clients reach at the port
/// `advertised`. Every request of a client passes the authorizer.
pub(crate) fn prepare(
    binary: &Path,
    data: &Path,
    port: u16,
    (secured_port, advertised): (u16, u16),
) -> Result<(Secured, [String; 8]), String> {
    let (ca, keystore) = (data.with_extension("ca.pem"), data.with_extension("keystore.pem"));
    make_certificates(&ca, &keystore)?;
    add_user(binary, data)?;
    let settings = [
        format!("listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{secured_port}"),
        format!("advertised.listeners=SASL_SSL://127.0.0.1:{advertised}"),
        format!("ssl.keystore.location={}", keystore.display()),
        "sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN".to_owned(),
        format!(
            "listener.name.sasl_ssl.plain.sasl.jaas.config=\
             org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";"
        ),
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned(),
        "super.users=User:ANONYMOUS".to_owned(),
        "allow.everyone.if.no.acl.found=true".to_owned(),
    ];
    Ok((Secured { ca }, settings))
}

/// Writes an authority's certificate, and a key and certificate for 127.0.0.1 that it signed.
fn make_certificates(ca: &Path, keystore: &Path) -> Result<(), String> {
    let failed = |error: rcgen::Error| format!("cannot make certificates: {error}");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL takes a certificate for self-signed if it has its issuer's name.
    params.distinguished_name.push(DnType::CommonName, "e2e authority");
    let key = KeyPair::generate().map_err(failed)?;
    let authority = CertifiedIssuer::self_signed(params, key).map_err(failed)?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let key = KeyPair::generate().map_err(failed)?;
    let server = CertificateParams::new(names).and_then(|params| params.signed_by(&key, &authority));
    let server = server.map_err(failed)?;
    let write = |path: &Path, text: String| {
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    write(ca, authority.pem())?;
    write(keystore, format!("{}{}", key.serialize_pem(), server.pem()))
}

fn add_user(binary: &Path, data: &Path) -> Result<(), String> {
    let mut command = Command::new(binary);
    command.args(["user", "add", USER, "--data"]).arg(data);
    let failed = |error: std::io::Error| format!("cannot add a user: {error}");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(format!("{PASSWORD}\n").as_bytes()).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(format!("ottla user add ended with {status}")) }
}
