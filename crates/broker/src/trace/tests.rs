//! Bounds, masks and filters.

use super::exchange::{Ending, Exchange, Stages, TracedFrame};
use super::rings::Rings;
use bytes::Bytes;
use ottla_wire::ApiKey;
use std::net::SocketAddr;

fn exchange(connection: u64, size: usize) -> Exchange {
    Exchange {
        seq: 0,
        connection,
        peer: SocketAddr::from(([127, 0, 0, 1], 1)),
        client_id: "c".to_owned(),
        api: ApiKey::PRODUCE,
        version: 12,
        correlation_id: 1,
        transactional_ids: Vec::new(),
        groups: Vec::new(),
        topics: Vec::new(),
        received_at: 0,
        stages: Stages::default(),
        request: TracedFrame { bytes: Bytes::from(vec![0; size]), size },
        response: None,
        ending: Ending::Answered,
        errors: Vec::new(),
        verdicts: Vec::new(),
        more_verdicts: 0,
    }
}

fn seqs(rings: &Rings, after: u64) -> Vec<u64> {
    rings.after(after).map(|exchange| exchange.seq).collect()
}

#[test]
fn a_connection_keeps_its_last_ones_and_others_theirs() {
    let mut rings = Rings::new(2, 1 << 20);
    rings.push(exchange(1, 10));
    for _ in 0..4 {
        rings.push(exchange(2, 10));
    }
    assert_eq!(seqs(&rings, 0), [1, 4, 5]);
    assert_eq!(seqs(&rings, 4), [5]);
    rings.set_ring(1);
    assert_eq!(seqs(&rings, 0), [1, 5]);
    rings.clear();
    assert_eq!((rings.len(), rings.bytes(), rings.last_seq()), (0, 0, 5));
    rings.push(exchange(1, 10));
    assert_eq!(seqs(&rings, 0), [6]);
}

#[test]
fn many_connections_stay_below_the_bound_and_the_oldest_go_first() {
    let limit = 100_000;
    let mut rings = Rings::new(100, limit);
    for connection in 0..5_000 {
        rings.push(exchange(connection, 1_000));
        assert!(rings.bytes() <= limit);
    }
    let kept = seqs(&rings, 0);
    assert_eq!(kept.last(), Some(&5_000));
    assert!(kept.len() > 50 && kept.windows(2).all(|pair| pair[1] == pair[0] + 1), "{kept:?}");
    rings.push(exchange(1, 2 * limit));
    assert_eq!((rings.len(), rings.bytes()), (0, 0), "one that is larger than the bound is not kept");
}
