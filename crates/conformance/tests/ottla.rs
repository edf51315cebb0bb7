//! Ottla against the answers of Apache Kafka 4.4.0 that were kept; Java is not needed.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use ottla_conformance::peer::Peer;
use ottla_conformance::player::{Manners, Player};
use ottla_conformance::suite::{SETTINGS, Suite, served, summary};
use ottla_wire::{ApiInfo, Versions};
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn broker() -> ottla::Broker {
    let builder = SETTINGS.iter().fold(ottla::Broker::in_memory(), |b, (name, value)| b.set(*name, *value));
    builder.start().unwrap()
}

#[test]
fn every_answer_is_kafkas_or_listed() {
    let broker = broker();
    let told = Peer::new(broker.address()).served().unwrap();
    let served = |api: &ApiInfo| served(&told, api);
    let suite = Suite::read(&root().join("e2e/conformance"), &served).unwrap();
    let mut player = Player::new(Peer::new(broker.address()), Manners::default(), &suite.rules, &served);
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
fn the_page_is_made_of_the_list() {
    let suite = Suite::read(&root().join("e2e/conformance"), &|_| Versions::NONE).unwrap();
    let page = std::fs::read_to_string(root().join("docs/guide/differences.md")).unwrap();
    assert!(
        page == suite.differences.page(),
        "cargo xtask conformance --page writes docs/guide/differences.md anew"
    );
}
