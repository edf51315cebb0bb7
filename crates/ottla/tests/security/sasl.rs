//! SASL: the conversation, its limits, and authenticating again.

use crate::world::{AUTHORIZER, Client, PLAIN_USERS, store_user};
use ottla::{Broker, Builder};
use ottla_auth::scram::Mechanism;
use ottla_wire::messages::{DescribeClusterRequest, MetadataRequest, SaslHandshakeRequest};
use ottla_wire::{Text, frame};
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn builder(broker: Builder) -> Builder {
    broker
        .set("listeners", "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0")
        .set("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512")
        .set("sasl.jaas.config", PLAIN_USERS)
}

fn start() -> (Broker, SocketAddr) {
    let broker = builder(Broker::in_memory()).start().unwrap();
    let sasl = broker.addresses()[1].1;
    (broker, sasl)
}

fn metadata() -> MetadataRequest {
    MetadataRequest { topics: Some(Vec::new()), ..Default::default() }
}

#[test]
fn s_131_s_136_users_of_scram_log_in() {
    let (broker, sasl) = start();
    let mut admin = Client::plain(broker.address());
    for mechanism in [Mechanism::Sha256, Mechanism::Sha512] {
        assert_eq!(admin.call(&store_user(mechanism, "a=b,c", "secret"), 0).results[0].error_code, 0);
        let mut client = Client::plain(sasl);
        let last = client.log_in_scram(mechanism, "a=b,c", "secret");
        assert_eq!((last.error_code, last.session_lifetime_ms), (0, 0));
        assert_eq!(client.call(&metadata(), 12).brokers.len(), 1);
    }
}

#[test]
fn s_109_s_134_an_unknown_user_and_a_wrong_password_are_answered_alike() {
    let (broker, sasl) = start();
    let mechanism = Mechanism::Sha256;
    Client::plain(broker.address()).call(&store_user(mechanism, "known", "secret"), 0);
    let refused = |user: &str| {
        let last = Client::plain(sasl).log_in_scram(mechanism, user, "wrong");
        (last.error_code, last.error_message)
    };
    assert_eq!(refused("known"), refused("unknown"));
    let text = "Authentication failed during authentication due to invalid credentials with SASL mechanism \
                SCRAM-SHA-256";
    assert_eq!(refused("known"), (58, Some(Text::from_static(text))));
}

#[test]
fn s_134_a_user_of_ottla_user_add_and_one_that_does_not_exist_look_alike() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ottla"));
    command.args(["user", "add", "known", "--data"]).arg(folder.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // The password is UTF-8, whether it comes from a file or from standard input.
    child.stdin.take().unwrap().write_all("päss wörd\n".as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let broker = builder(Broker::on_folder(folder.path())).start().unwrap();
    let sasl = broker.addresses()[1].1;
    let mechanism = Mechanism::Sha512;
    assert_eq!(Client::plain(sasl).log_in_scram(mechanism, "known", "päss wörd").error_code, 0);
    let shape = |user: &str| {
        let mut client = Client::plain(sasl);
        assert_eq!(client.handshake(mechanism.name()), 0);
        let answer = client.token(format!("n,,n={user},r=abc").as_bytes()).auth_bytes;
        let answer = String::from_utf8(answer.to_vec()).unwrap();
        let (nonce, rest) = answer.split_once(",s=").unwrap();
        let (salt, iterations) = rest.split_once(',').unwrap();
        (nonce.len(), salt.len(), iterations.to_owned())
    };
    assert_eq!(shape("known"), shape("unknown"));
}

#[test]
fn s_107_a_failed_login_is_held_back_and_ends_the_connection() {
    let (_broker, sasl) = start();
    let mut client = Client::plain(sasl);
    let began = Instant::now();
    assert_eq!(client.log_in_plain("alice", "wrong").error_code, 58);
    assert!(began.elapsed() >= Duration::from_millis(100));
    assert!(client.try_call(&metadata(), 12).is_err());
}

#[test]
fn s_104_tokens_without_headers_follow_version_0_of_the_handshake() {
    let (_broker, sasl) = start();
    let begin = || {
        let mut client = Client::plain(sasl);
        let request = SaslHandshakeRequest { mechanism: Text::from_static("PLAIN"), ..Default::default() };
        assert_eq!(client.call(&request, 0).error_code, 0);
        client
    };
    let mut client = begin();
    assert_eq!(client.exchange(b"\0\0\0\x13\0alice\0alice-secret").unwrap(), b"");
    assert_eq!(client.call(&metadata(), 12).brokers.len(), 1);
    assert_eq!(begin().send_to_end(b"\0\0\0\x04\0a\0b"), b"");
}

#[test]
fn s_108_a_large_frame_before_the_login_ends_the_connection() {
    let (_broker, sasl) = start();
    for size in [524_289u32, u32::MAX, 100 << 20] {
        let mut client = Client::plain(sasl);
        assert_eq!(client.send_to_end(&size.to_be_bytes()), b"");
    }
    let mut client = Client::plain(sasl);
    assert_eq!(client.log_in_plain("alice", "alice-secret").error_code, 0);
    let large = MetadataRequest {
        topics: Some(
            (0..20_000).map(|number| topic(&format!("a-topic-with-a-long-name-{number}"))).collect(),
        ),
        ..Default::default()
    };
    assert!(frame::request(1, None, &large, 12).unwrap().len() > 524_288);
    assert_eq!(client.call(&large, 12).topics.len(), 20_000);
}

fn topic(name: &str) -> ottla_wire::messages::metadata_request::MetadataRequestTopic {
    ottla_wire::messages::metadata_request::MetadataRequestTopic {
        name: Some(Text::from(name)),
        ..Default::default()
    }
}

#[test]
fn s_110_requests_behind_an_unfinished_login_wait_for_it() {
    let (_broker, sasl) = start();
    let mut client = Client::plain(sasl);
    assert_eq!(client.handshake("PLAIN"), 0);
    let request = ottla_wire::messages::SaslAuthenticateRequest {
        auth_bytes: bytes::Bytes::from_static(b"\0alice\0alice-secret"),
        ..Default::default()
    };
    let first = frame::request(1, None, &request, 2).unwrap().to_bytes();
    let second = frame::request(2, None, &metadata(), 12).unwrap().to_bytes();
    let answer = client.exchange(&[&first[..], &second[..]].concat()).unwrap();
    assert_eq!(answer[..4], [0, 0, 0, 1]);
    assert_eq!(client.exchange(b"").unwrap()[..4], [0, 0, 0, 2]);
}

#[test]
fn s_115_s_116_s_117_s_118_a_client_authenticates_again() {
    let broker = builder(Broker::in_memory())
        .set("connections.max.reauth.ms", "20000")
        .set("listener.name.sasl_plaintext.plain.connections.max.reauth.ms", "1500")
        .start()
        .unwrap();
    let sasl = broker.addresses()[1].1;
    let mut client = Client::plain(sasl);
    assert_eq!(client.log_in_plain("alice", "alice-secret").session_lifetime_ms, 1500);
    assert_eq!(client.handshake("PLAIN"), 34, "within a second");
    client.call(&metadata(), 12);
    sleep(Duration::from_millis(1600));
    assert_eq!(client.log_in_plain("alice", "alice-secret").error_code, 0, "after the lifetime too");
    client.call(&metadata(), 12);
    sleep(Duration::from_millis(1600));
    assert!(client.try_call(&metadata(), 12).is_err(), "the lifetime is over");

    let mut client = Client::plain(sasl);
    client.log_in_plain("alice", "alice-secret");
    sleep(Duration::from_millis(1100));
    let changed = client.log_in_plain("admin", "admin-secret");
    let text = "Cannot change principals during re-authentication from User:alice: User:admin";
    assert_eq!((changed.error_code, changed.error_message), (58, Some(Text::from_static(text))));
    assert!(client.try_call(&metadata(), 12).is_err());
}

#[test]
fn s_01_users_and_acls_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        builder(Broker::on_folder(folder.path()))
            .set("authorizer.class.name", AUTHORIZER)
            .set("super.users", "User:ANONYMOUS;User:root")
            .start()
            .unwrap()
    };
    let broker = start();
    Client::plain(broker.address()).call(&store_user(Mechanism::Sha512, "root", "secret"), 0);
    drop(broker);
    let broker = start();
    let mut client = Client::plain(broker.addresses()[1].1);
    assert_eq!(client.log_in_scram(Mechanism::Sha512, "root", "secret").error_code, 0);
    let request =
        DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
    assert_eq!(client.call(&request, 1).cluster_authorized_operations, 8096);
}
