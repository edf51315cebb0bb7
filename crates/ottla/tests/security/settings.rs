//! Settings that are refused at start, with the reason.

use crate::world::{Authority, builder};
use ottla::Broker;

fn refusal(settings: &[(&str, &str)]) -> String {
    let builder = settings.iter().fold(Broker::in_memory(), |b, (name, value)| b.set(*name, *value));
    builder.start().err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn s_22_s_24_keystores_that_cannot_be_used_are_named() {
    let tls = ("listeners", "SSL://127.0.0.1:0");
    let authority = Authority::new("CA");
    let (one, other) = (authority.identity("one"), authority.identity("other"));
    for (settings, expected) in [
        (vec![tls], "needs ssl.keystore.location"),
        (vec![tls, ("ssl.keystore.key", &one.key)], "both or not at all"),
        (vec![tls, ("ssl.keystore.location", "/nowhere.pem")], "/nowhere.pem"),
        (
            vec![tls, ("ssl.keystore.type", "JKS"), ("ssl.keystore.location", "/s.jks")],
            "keytool -importkeystore",
        ),
        (
            vec![tls, ("ssl.keystore.location", "/x"), ("ssl.keystore.password", "p")],
            "ssl.keystore.password has no meaning for PEM",
        ),
        (
            vec![
                tls,
                ("ssl.keystore.location", "/x"),
                ("ssl.keystore.key", &one.key),
                ("ssl.keystore.certificate.chain", &one.chain),
            ],
            "exclude each other",
        ),
        (
            vec![tls, ("ssl.keystore.key", &one.key), ("ssl.keystore.certificate.chain", &other.chain)],
            "the key and the certificate cannot be used",
        ),
        (
            vec![tls, ("ssl.keystore.key", &one.chain), ("ssl.keystore.certificate.chain", &one.chain)],
            "there is no private key",
        ),
    ] {
        let refused = refusal(&settings);
        assert!(refused.contains(expected), "{expected}: {refused}");
        assert!(!refused.contains("PRIVATE KEY"), "{refused}");
    }
    let missing = builder("SSL://127.0.0.1:0", &one, "").set("ssl.client.auth", "required").start();
    assert!(missing.unwrap_err().to_string().contains("ssl.truststore.location"));
}

#[test]
fn s_103_s_123_mechanisms_and_login_modules_that_are_not_served_are_named() {
    let sasl = ("listeners", "SASL_PLAINTEXT://127.0.0.1:0");
    let jndi = "com.sun.security.auth.module.JndiLoginModule required x=\"secret\";";
    for (settings, expected) in [
        (vec![sasl], "needs sasl.enabled.mechanisms"),
        (vec![sasl, ("sasl.enabled.mechanisms", "GSSAPI")], "'sasl.enabled.mechanisms' cannot be 'GSSAPI'"),
        (
            vec![sasl, ("sasl.enabled.mechanisms", "PLAIN"), ("sasl.jaas.config", jndi)],
            "JndiLoginModule is not served",
        ),
    ] {
        let refused = refusal(&settings);
        assert!(refused.contains(expected), "{expected}: {refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
}

#[test]
fn s_17_with_an_authorizer_http_is_for_loopback() {
    let start = |http: &str| {
        Broker::in_memory().http(http).set("authorizer.class.name", crate::world::AUTHORIZER).start()
    };
    let refused = start("0.0.0.0:0").unwrap_err().to_string();
    assert!(refused.contains("HTTP is served on loopback only"), "{refused}");
    assert!(start("127.0.0.1:0").is_ok());
}
