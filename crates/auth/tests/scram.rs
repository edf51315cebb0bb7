//! SCRAM: the vectors of the RFCs, the client against the server, and broken messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use ottla_auth::scram::{
    ClientExchange, ClientFirst, Credential, Decoy, Mechanism, ScramError, ServerExchange,
};
use ottla_auth::secret::Secret;
use sha2::{Digest, Sha256};

const DECOY: Decoy<'_> = Decoy { secret: b"secret of the server", iterations: 8192 };
const NONCE: &str = "3rfcNHYJY1ZVvWVs7j";

fn credential(mechanism: Mechanism) -> Credential {
    Credential::from_password(mechanism, &Secret::new("pencil"), b"salty bytes".to_vec(), 4096)
}

fn login(mechanism: Mechanism, user: &str, password: &str, known: bool) -> Result<(), ScramError> {
    let (mut client, first) =
        ClientExchange::begin(mechanism, user, Secret::new(password), "fyko+d2lbbFgONRv9qkxdawL", false);
    let parsed = ClientFirst::parse(&first)?;
    assert_eq!(parsed.user, user);
    let credential = known.then(|| credential(mechanism));
    let (server, server_first) = ServerExchange::begin(parsed, mechanism, credential, NONCE, DECOY);
    let server_final = server.finish(&client.answer(&server_first)?)?;
    client.finish(&server_final)
}

#[test]
fn s_131_the_vector_of_rfc_7677() {
    let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
    let salt =
        [0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81];
    let mechanism = Mechanism::Sha256;
    let credential = Credential::from_password(mechanism, &Secret::new("pencil"), salt.to_vec(), 4096);
    let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    let (server, message) = ServerExchange::begin(first, mechanism, Some(credential), nonce, DECOY);
    let expected = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    assert_eq!(String::from_utf8(message).unwrap(), expected);
    let client_final = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let answer = server.finish(client_final.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn s_136_a_client_logs_in_and_knows_the_server() {
    for mechanism in [Mechanism::Sha256, Mechanism::Sha512] {
        assert_eq!(login(mechanism, "user", "pencil", true), Ok(()));
        assert_eq!(login(mechanism, "a,b=c", "pencil", true), Ok(()));
        assert_eq!(login(mechanism, "user", "pencils", true), Err(ScramError::InvalidCredentials));
    }
}

#[test]
fn s_134_an_unknown_user_fails_at_the_end_like_a_wrong_password() {
    let mechanism = Mechanism::Sha512;
    assert_eq!(login(mechanism, "user", "pencil", false), login(mechanism, "user", "wrong", true));
    let answer = |user: &str| {
        let first = ClientFirst::parse(format!("n,,n={user},r=abc").as_bytes()).unwrap();
        String::from_utf8(ServerExchange::begin(first, mechanism, None, NONCE, DECOY).1).unwrap()
    };
    assert_eq!(answer("user"), answer("user"));
    assert_ne!(answer("user"), answer("other"));
    // The salt is as long as those of Kafka's tools, and the iterations are those of most users.
    let rest = answer("user").replace(&format!("r=abc{NONCE},s="), "");
    let (salt, iterations) = rest.split_once(',').unwrap();
    let salt = STANDARD.decode(salt).unwrap();
    assert!(salt.len() == 26 && salt.iter().all(u8::is_ascii_alphanumeric), "{rest}");
    assert_eq!(iterations, "i=8192");
}

#[test]
fn s_130_the_first_message() {
    let parse = |text: &str| ClientFirst::parse(text.as_bytes());
    assert_eq!(parse("n,,n=a=2Cb=3D,r=x").unwrap().user, "a,b=");
    assert_eq!(parse("n,a=u,n=u,r=x").unwrap().user, "u");
    assert!(parse("n,,n=u,r=x,tokenauth=true").unwrap().is_token);
    assert!(!parse("n,,n=u,r=x,other=true").unwrap().is_token);
    assert_eq!(parse("n,a=v,n=u,r=x"), Err(ScramError::OtherUser));
    for text in ["y,,n=u,r=x", "p=tls-unique,,n=u,r=x"] {
        assert_eq!(parse(text), Err(ScramError::ChannelBinding), "{text}");
    }
    assert_eq!(parse("n,,m=x,n=u,r=x"), Err(ScramError::MandatoryExtension));
    for text in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=u",
        "n,,n=u,r=",
        "n,,n=,r=x",
        "n,,n=a=2c,r=x",
        "n,,n=a=,r=x",
        "n,,n=ü,r=x",
        "n,,r=x,n=u",
        "n,x,n=u,r=x",
        "n,,n=u,r=x,1=2",
    ] {
        assert_eq!(parse(text), Err(ScramError::Malformed("client-first")), "{text}");
    }
}

#[test]
fn s_132_scram_checks_channel_binding_and_nonce() {
    let mechanism = Mechanism::Sha256;
    let finish = |change: fn(&str) -> String| {
        let (mut client, first) =
            ClientExchange::begin(mechanism, "user", Secret::new("pencil"), "clientnonce", false);
        let first = ClientFirst::parse(&first).unwrap();
        let begun = ServerExchange::begin(first, mechanism, Some(credential(mechanism)), NONCE, DECOY);
        let client_final = String::from_utf8(client.answer(&begun.1).unwrap()).unwrap();
        begun.0.finish(change(&client_final).as_bytes())
    };
    assert!(finish(str::to_owned).is_ok());
    // "eSws" is the base64 of "y,,".
    assert_eq!(finish(|text| text.replace("c=biws", "c=eSws")), Err(ScramError::InvalidCredentials));
    assert_eq!(
        finish(|text| text.replace("clientnonce", "Clientnonce")),
        Err(ScramError::InvalidCredentials)
    );
    assert_eq!(finish(|text| text.replace(NONCE, "")), Err(ScramError::InvalidCredentials));
}

#[test]
fn s_133_an_extension_is_signed_as_received() {
    let mechanism = Mechanism::Sha256;
    let (mut client, first) = ClientExchange::begin(mechanism, "user", Secret::new("pencil"), "abc", true);
    let first = ClientFirst::parse(&first).unwrap();
    assert!(first.is_token);
    let (server, server_first) =
        ServerExchange::begin(first, mechanism, Some(credential(mechanism)), NONCE, DECOY);
    let server_final = server.finish(&client.answer(&server_first).unwrap()).unwrap();
    assert_eq!(client.finish(&server_final), Ok(()));
}

#[test]
fn no_broken_message_is_accepted() {
    let mechanism = Mechanism::Sha256;
    let (mut client, first) =
        ClientExchange::begin(mechanism, "user", Secret::new("pencil"), "clientnonce", false);
    let parsed = ClientFirst::parse(&first).unwrap();
    let known = credential(mechanism);
    let begun = || ServerExchange::begin(parsed.clone(), mechanism, Some(known.clone()), NONCE, DECOY);
    let client_final = client.answer(&begun().1).unwrap();
    for at in 0..client_final.len() {
        for byte in [0, b',', b'=', b'A', 0xff] {
            let mut broken = client_final.clone();
            if std::mem::replace(&mut broken[at], byte) != byte {
                assert!(begun().0.finish(&broken).is_err(), "byte {at} as {byte}");
            }
        }
        assert!(begun().0.finish(&client_final[..at]).is_err());
    }
    for at in 0..first.len() {
        for byte in [0, b',', b'=', b'A', 0xff] {
            let mut broken = first.clone();
            broken[at] = byte;
            let _ = ClientFirst::parse(&broken);
        }
    }
}

/// A client-final with a proof that fits its own bytes, whatever its channel binding and nonce are.
fn proved(bare: &str, server_first: &[u8], binding: &str, nonce: &str) -> Vec<u8> {
    let sign = |key: &[u8], text: &[u8]| {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { panic!("HMAC takes every key") };
        mac.update(text);
        mac.finalize().into_bytes()
    };
    let salted = Mechanism::Sha256.salted_password(&Secret::new("pencil"), b"salty bytes", 4096);
    let client_key = sign(salted.bytes(), b"Client Key");
    let unproved = format!("c={binding},r={nonce}");
    let signed = [bare.as_bytes(), b",", server_first, b",", unproved.as_bytes()].concat();
    let signature = sign(&Sha256::digest(client_key), &signed);
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, sign)| key ^ sign).collect();
    format!("{unproved},p={}", STANDARD.encode(proof)).into_bytes()
}

/// The proofs fit, so that only the check of channel binding or nonce can refuse the login (CVE-2024-56128).
#[test]
fn s_132_a_fitting_proof_needs_the_channel_binding_and_the_nonce() {
    let finish = |header: &str, binding: &str, nonce: &str| {
        let bare = "n=user,r=abc";
        let first = ClientFirst::parse(format!("{header}{bare}").as_bytes()).unwrap();
        let known = Some(credential(Mechanism::Sha256));
        let (server, server_first) = ServerExchange::begin(first, Mechanism::Sha256, known, NONCE, DECOY);
        server.finish(&proved(bare, &server_first, binding, nonce))
    };
    let nonce = format!("abc{NONCE}");
    assert!(finish("n,,", "biws", &nonce).is_ok());
    assert!(finish("n,a=user,", "bixhPXVzZXIs", &nonce).is_ok());
    for (header, binding) in [("n,,", "eSws"), ("n,,", "bixhPXVzZXIs"), ("n,a=user,", "biws"), ("n,,", "")] {
        assert_eq!(
            finish(header, binding, &nonce),
            Err(ScramError::InvalidCredentials),
            "{header} {binding}"
        );
    }
    for nonce in ["", "abc", NONCE, &format!("{nonce}x"), &format!("Abc{NONCE}")] {
        assert_eq!(finish("n,,", "biws", nonce), Err(ScramError::InvalidCredentials), "{nonce}");
    }
}
