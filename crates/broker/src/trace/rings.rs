//! The finished exchanges: the last ones of each connection, within a bound on the bytes of all.

use super::exchange::Exchange;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A ring for each connection with exchanges, and one order over all exchanges.
#[derive(Debug)]
pub(super) struct Rings {
    ring: usize,
    limit: usize,
    bytes: usize,
    last_seq: u64,
    all: BTreeMap<u64, Entry>,
    /// Sequence numbers by connection, oldest first.
    rings: BTreeMap<u64, VecDeque<u64>>,
}

#[derive(Debug)]
struct Entry {
    exchange: Arc<Exchange>,
    cost: usize,
}

impl Rings {
    pub(super) fn new(ring: usize, limit: usize) -> Rings {
        Rings { ring, limit, bytes: 0, last_seq: 0, all: BTreeMap::new(), rings: BTreeMap::new() }
    }

    /// Adds an exchange under the next number. Drops the oldest of its connection if the ring is full, then the oldest
    /// of all connections while the bytes exceed the limit.
    pub(super) fn push(&mut self, mut exchange: Exchange) {
        self.last_seq += 1;
        exchange.seq = self.last_seq;
        let (cost, connection) = (exchange.cost(), exchange.connection);
        self.bytes += cost;
        self.all.insert(self.last_seq, Entry { exchange: Arc::new(exchange), cost });
        self.rings.entry(connection).or_default().push_back(self.last_seq);
        self.cut_ring(connection);
        while self.bytes > self.limit {
            let Some((seq, entry)) = self.all.first_key_value() else { break };
            let (seq, connection) = (*seq, entry.exchange.connection);
            self.drop_one(seq, connection);
        }
    }

    pub(super) fn set_ring(&mut self, ring: usize) {
        self.ring = ring;
        let connections: Vec<u64> = self.rings.keys().copied().collect();
        connections.into_iter().for_each(|connection| self.cut_ring(connection));
    }

    fn cut_ring(&mut self, connection: u64) {
        while let Some(ring) = self.rings.get(&connection)
            && ring.len() > self.ring
            && let Some(oldest) = ring.front()
        {
            self.drop_one(*oldest, connection);
        }
    }

    /// Drops an exchange that is the oldest of its connection.
    fn drop_one(&mut self, seq: u64, connection: u64) {
        if let Some(entry) = self.all.remove(&seq) {
            self.bytes -= entry.cost;
        }
        if let Some(ring) = self.rings.get_mut(&connection) {
            ring.pop_front();
            if ring.is_empty() {
                self.rings.remove(&connection);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.rings.clear();
        self.bytes = 0;
    }

    pub(super) fn after(&self, seq: u64) -> impl Iterator<Item = &Arc<Exchange>> {
        self.all.range(seq.saturating_add(1)..).map(|(_, entry)| &entry.exchange)
    }

    pub(super) fn get(&self, seq: u64) -> Option<&Arc<Exchange>> {
        self.all.get(&seq).map(|entry| &entry.exchange)
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn ring(&self) -> usize {
        self.ring
    }
}
