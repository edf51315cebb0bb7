//! TLS: who is served, under which name, and new certificates without a restart.

use crate::world::{AUTHORIZER, Authority, Client, Identity, builder};
use ottla::Broker;
use ottla_wire::messages::{DescribeClusterRequest, MetadataRequest};
use std::fs;
use std::net::SocketAddr;

fn cluster_bits() -> DescribeClusterRequest {
    DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() }
}

/// Whether the client of this certificate is the only super user of the broker.
fn is_super_user(address: SocketAddr, trusted: &str, own: Option<&Identity>) -> Option<bool> {
    let mut client = Client::encrypted(address, trusted, own);
    let cluster = client.try_call(&cluster_bits(), 1).ok()?;
    Some(cluster.cluster_authorized_operations == 8096)
}

fn broker(client_auth: &str, trusted: &str, super_user: &str) -> (Broker, Authority) {
    let authority = Authority::new("Server CA");
    let server = authority.identity("broker");
    let builder = builder("SSL://127.0.0.1:0", &server, trusted)
        .set("ssl.client.auth", client_auth)
        .set("authorizer.class.name", AUTHORIZER)
        .set("super.users", super_user);
    (builder.start().unwrap(), authority)
}

#[test]
fn s_26_s_50_a_certificate_is_a_principal() {
    let clients = Authority::new("Client CA");
    let duke = clients.identity("duke");
    let strangers = Authority::new("Other CA");
    let stranger = strangers.identity("duke");
    for (client_auth, without, with_stranger) in
        [("requested", Some(false), None), ("required", None, None), ("none", Some(false), Some(false))]
    {
        let trusted = if client_auth == "none" { String::new() } else { clients.pem() };
        let (broker, authority) = broker(client_auth, &trusted, "User:CN=duke,O=Org");
        let ask = |own: Option<&Identity>| is_super_user(broker.address(), &authority.pem(), own);
        assert_eq!(ask(None), without, "{client_auth}");
        assert_eq!(ask(Some(&stranger)), with_stranger, "{client_auth}");
        assert_eq!(ask(Some(&duke)), Some(client_auth != "none"), "{client_auth}");
    }
}

#[test]
fn s_34_a_certificate_that_is_itself_in_the_truststore() {
    // What `openssl req -x509` makes: self-signed, and it says that it is an authority.
    let own = Authority::new("self");
    let (broker, authority) = broker("required", &own.pem(), "User:CN=self");
    let identity = Identity { chain: own.pem(), key: own.key() };
    assert_eq!(is_super_user(broker.address(), &authority.pem(), Some(&identity)), Some(true));
}

#[test]
fn s_53_s_54_rules_give_names_and_a_subject_without_one_is_refused() {
    let clients = Authority::new("Client CA");
    let authority = Authority::new("Server CA");
    let broker = builder("SSL://127.0.0.1:0", &authority.identity("broker"), &clients.pem())
        .set("ssl.client.auth", "required")
        .set("ssl.principal.mapping.rules", "RULE:^CN=(d.*),O=Org$/$1/U")
        .set("authorizer.class.name", AUTHORIZER)
        .set("super.users", "User:DUKE")
        .start()
        .unwrap();
    let ask = |own: &Identity| is_super_user(broker.address(), &authority.pem(), Some(own));
    assert_eq!(ask(&clients.identity("duke")), Some(true));
    assert_eq!(ask(&clients.identity("daisy")), Some(false));
    assert_eq!(ask(&clients.identity("mickey")), None);
}

#[test]
fn s_13_each_listener_leads_its_clients_to_itself() {
    let authority = Authority::new("CA");
    let listeners = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,OUTSIDE://127.0.0.1:0";
    let broker = builder(listeners, &authority.identity("broker"), "")
        .set("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SSL:SSL,OUTSIDE:SSL")
        .set("advertised.listeners", "OUTSIDE://broker.example:443")
        .start()
        .unwrap();
    let request = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
    let shown = |client: &mut Client| {
        let broker = client.call(&request, 12).brokers.remove(0);
        (broker.host.to_string(), u16::try_from(broker.port).unwrap())
    };
    let address = |at: usize| broker.addresses()[at].1;
    let local = |at: usize| ("127.0.0.1".to_owned(), address(at).port());
    assert_eq!(shown(&mut Client::plain(address(0))), local(0));
    assert_eq!(shown(&mut Client::encrypted(address(1), &authority.pem(), None)), local(1));
    let outside = shown(&mut Client::encrypted(address(2), &authority.pem(), None));
    assert_eq!(outside, ("broker.example".to_owned(), 443));
}

#[test]
fn s_30_bytes_of_another_protocol_are_answered_with_an_alert_or_the_end() {
    let authority = Authority::new("CA");
    let broker = builder("PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", &authority.identity("broker"), "");
    let broker = broker.start().unwrap();
    let frame = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    let answer = Client::plain(broker.addresses()[1].1).send_to_end(&frame);
    assert_eq!(answer.first(), Some(&0x15), "{answer:?}");
    let hello = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03];
    assert!(Client::plain(broker.addresses()[0].1).send_to_end(&hello).is_empty());
}

#[test]
fn s_42_new_certificates_are_served_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keystore.pem");
    let (old, new) = (Authority::new("Old CA"), Authority::new("New CA"));
    let write =
        |identity: &Identity| fs::write(&file, format!("{}{}", identity.key, identity.chain)).unwrap();
    write(&old.identity("broker"));
    let broker = Broker::in_memory()
        .set("listeners", "SSL://127.0.0.1:0")
        .set("ssl.keystore.location", file.display().to_string())
        .start()
        .unwrap();
    let served = |authority: &Authority| is_super_user(broker.address(), &authority.pem(), None).is_some();
    let mut open = Client::encrypted(broker.address(), &old.pem(), None);
    open.call(&cluster_bits(), 1);
    assert!(served(&old) && !served(&new));
    fs::write(&file, "no certificate").unwrap();
    broker.reload_certificates();
    assert!(served(&old), "a file that cannot be used changes nothing");
    write(&new.identity("broker"));
    broker.reload_certificates();
    assert!(served(&new) && !served(&old));
    open.call(&cluster_bits(), 1);
}
