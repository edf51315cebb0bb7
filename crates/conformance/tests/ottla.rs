//! Ottla against the answers of Apache Kafka 4.4.0 that were kept; Java is not needed.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use ottla_conformance::peer::Peer;
use ottla_conformance::player::{Manners, Player};
use ottla_conformance::suite::{SETTINGS, Suite, secured, secured_settings, served, summary};
use ottla_wire::{ApiInfo, Versions};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A broker on a folder, as DescribeLogDirs shows the volume of it.
fn broker(folder: &Path, settings: &[(String, String)]) -> ottla::Broker {
    let builder = ottla::Broker::on_folder(folder);
    settings.iter().fold(builder, |builder, (name, value)| builder.set(name, value)).start().unwrap()
}

/// Plays a suite to Ottla, and holds the answers against those of Kafka that were kept.
fn compare(folder: &str, peer: impl Fn() -> Peer) {
    let told = peer().served().unwrap();
    let served = |api: &ApiInfo| served(&told, api);
    let suite = Suite::read(&root().join(folder), &served).unwrap();
    let mut player = Player::new(peer(), Manners::default(), &suite.rules, &served);
    let (mut findings, mut pairs) = (Vec::new(), 0);
    for (file, scripts) in &suite.files {
        let ours = scripts.iter().flat_map(|script| player.play(script).unwrap()).collect::<Vec<_>>();
        findings.append(&mut suite.compare(&suite.kept(file).unwrap(), &ours).unwrap());
        pairs += ours.len();
    }
    assert!(findings.is_empty(), "{} of {pairs} pairs:\n{}", findings.len(), summary(&findings));
    assert_eq!(suite.differences.unused(), Vec::<String>::new(), "listed, but not found");
}

#[test]
fn every_answer_is_kafkas_or_listed() {
    let folder = tempfile::tempdir().unwrap();
    let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let broker = broker(folder.path(), &settings);
    compare("e2e/conformance", || Peer::new(broker.address()));
}

#[test]
fn s_300_every_answer_to_a_client_with_some_rights_is_kafkas_or_listed() {
    let folder = tempfile::tempdir().unwrap();
    let listeners = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0";
    let mut settings = secured_settings();
    settings.push(("listeners".to_owned(), listeners.to_owned()));
    let broker = broker(folder.path(), &settings);
    let sasl = broker.addresses()[1].1;
    compare("e2e/conformance/secured", || Peer::new(broker.address()).with_secured(secured(sasl)));
}

#[test]
fn the_page_is_made_of_the_list() {
    let suite = Suite::read(&root().join("e2e/conformance"), &|_| Versions::NONE).unwrap();
    let page = std::fs::read_to_string(root().join("docs/guide/differences.md")).unwrap();
    assert!(
        page == suite.differences.page(),
        "cargo xtask conformance --page writes docs/guide/differences.md anew"
    );
}
