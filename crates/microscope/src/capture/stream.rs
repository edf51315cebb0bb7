//! Reassembles one direction of a TCP connection.
//!
//! Positions are counted from the first byte of the direction in 64 bits, because sequence numbers wrap. Bytes behind a
//! gap are held until the gap is filled or given up. A gap is given up when the peer has acknowledged its bytes and
//! enough packets have passed since, or when too many bytes are held.

use std::collections::BTreeMap;

/// The most bytes held behind a gap.
const MAX_BYTES: usize = 8 << 20;
/// The most chunks held behind a gap.
const MAX_CHUNKS: usize = 1 << 14;
/// The packets of a connection after which an acknowledged gap counts as lost. Networks reorder fewer packets.
const MAX_WAIT_PACKETS: u32 = 256;
/// An acknowledgement at least this many bytes ahead does not belong to the connection.
const MAX_DISTANCE: u64 = 1 << 30;

/// The output of a stream, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk<'a> {
    /// Bytes.
    Data(&'a [u8]),
    /// This many bytes were not captured.
    Gap(u64),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The sequence number of the byte at position 0.
    base: Option<u32>,
    /// The position of the next byte of output.
    next: u64,
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// The position up to which the peer has acknowledged all bytes.
    acknowledged: u64,
    /// Packets since the gap was acknowledged.
    waited: u32,
    /// The position of the end.
    end: Option<u64>,
}

impl Stream {
    /// Sets the sequence number of the first byte.
    pub(crate) fn start(&mut self, seq: u32) {
        if self.base.is_none() {
            self.base = Some(seq);
        }
    }

    /// Whether the direction begins at that sequence number.
    pub(crate) fn starts_at(&self, seq: u32) -> bool {
        self.base == Some(seq)
    }

    /// Whether a segment of the direction was captured.
    pub(crate) fn has_begun(&self) -> bool {
        self.base.is_some()
    }

    /// Frees the memory of held bytes.
    pub(crate) fn forget(&mut self) {
        self.held = BTreeMap::new();
        self.held_bytes = 0;
    }

    /// Whether all bytes up to the end were output.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    /// The position of a sequence number: the one nearest to the next byte. `None` before the first byte.
    fn place(&self, seq: u32) -> Option<u64> {
        let base = self.base?;
        let expected = base.wrapping_add(self.next as u32);
        let distance = seq.wrapping_sub(expected) as i32;
        self.next.checked_add_signed(i64::from(distance))
    }

    /// Sets the end of the direction.
    pub(crate) fn ends_at(&mut self, seq: u32) {
        if let (None, Some(place)) = (self.end, self.place(seq)) {
            self.end = Some(place);
        }
    }

    /// Records an acknowledgement of the peer.
    pub(crate) fn acknowledge(&mut self, seq: u32) {
        if let Some(place) = self.place(seq)
            && place.saturating_sub(self.next) < MAX_DISTANCE
        {
            self.acknowledged = self.acknowledged.max(place);
        }
    }

    /// A segment.
    pub(crate) fn push(&mut self, seq: u32, data: &[u8], out: &mut dyn FnMut(Chunk<'_>)) {
        self.start(seq);
        let Some(at) = self.place(seq) else { return };
        let end = at.saturating_add(data.len() as u64);
        if end <= self.next {
            return;
        }
        if self.held.is_empty() && at <= self.next {
            let fresh = usize::try_from(self.next - at).unwrap_or(usize::MAX);
            self.next = end;
            out(Chunk::Data(data.get(fresh..).unwrap_or_default()));
            return;
        }
        self.hold(at, data);
        self.drain(out);
        while self.held_bytes > MAX_BYTES || self.held.len() > MAX_CHUNKS {
            self.give_up(out);
        }
    }

    /// Counts a packet of the connection, and gives up an acknowledged gap after enough packets.
    pub(crate) fn pass(&mut self, out: &mut dyn FnMut(Chunk<'_>)) {
        let Some((&first, _)) = self.held.first_key_value() else {
            self.waited = 0;
            return;
        };
        if self.acknowledged < first {
            return;
        }
        self.waited += 1;
        if self.waited > MAX_WAIT_PACKETS {
            self.give_up(out);
        }
    }

    /// Ends the stream: outputs the held bytes and the gaps between them.
    pub(crate) fn finish(&mut self, out: &mut dyn FnMut(Chunk<'_>)) {
        while !self.held.is_empty() {
            self.give_up(out);
        }
        // A FIN takes one sequence number, so it is acknowledged like a byte.
        let known = self.end.unwrap_or(self.acknowledged.saturating_sub(1));
        let missing = known.min(self.acknowledged).saturating_sub(self.next);
        if missing > 0 {
            self.next += missing;
            out(Chunk::Gap(missing));
        }
    }

    /// Holds the parts that were neither output nor held. The first captured copy of a byte counts.
    fn hold(&mut self, at: u64, data: &[u8]) {
        let end = at + data.len() as u64;
        let mut from = at.max(self.next);
        if let Some((start, held)) = self.held.range(..=from).next_back() {
            from = from.max(start + held.len() as u64);
        }
        while from < end {
            let next =
                self.held.range(from..).next().map(|(start, held)| (*start, start + held.len() as u64));
            let to = next.map_or(end, |(start, _)| start.min(end));
            let range = (from - at) as usize..(to - at) as usize;
            if let Some(part) = data.get(range).filter(|part| !part.is_empty()) {
                self.held_bytes += part.len();
                self.held.insert(from, part.to_vec());
            }
            from = next.map_or(end, |(_, end)| end);
        }
    }

    fn drain(&mut self, out: &mut dyn FnMut(Chunk<'_>)) {
        while let Some(first) = self.held.first_entry().filter(|first| *first.key() <= self.next) {
            let data = first.remove();
            self.held_bytes -= data.len();
            self.next += data.len() as u64;
            self.waited = 0;
            out(Chunk::Data(&data));
        }
    }

    fn give_up(&mut self, out: &mut dyn FnMut(Chunk<'_>)) {
        let Some((&first, _)) = self.held.first_key_value() else { return };
        let missing = first.saturating_sub(self.next);
        self.next = first;
        self.waited = 0;
        out(Chunk::Gap(missing));
        self.drain(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Out(Vec<u8>, u64);

    impl Out {
        fn take(&mut self, chunk: Chunk<'_>) {
            match chunk {
                Chunk::Data(data) => self.0.extend_from_slice(data),
                Chunk::Gap(missing) => self.1 += missing,
            }
        }
    }

    fn pushed(base: u32, pieces: &[(u32, &[u8])]) -> (Out, Stream) {
        let (mut stream, mut out) = (Stream::default(), Out::default());
        stream.start(base);
        for (at, data) in pieces {
            stream.push(base.wrapping_add(*at), data, &mut |chunk| out.take(chunk));
        }
        (out, stream)
    }

    #[test]
    fn a_hole_is_filled_and_what_came_first_stays() {
        let (out, _) = pushed(u32::MAX - 1, &[(2, b"cd"), (3, b"XYf"), (0, b"ab"), (0, b"QQQQe")]);
        assert_eq!((&out.0[..], out.1), (&b"abcdYf"[..], 0));
    }

    #[test]
    fn a_hole_that_stays_is_said_with_its_size() {
        let (mut out, mut stream) = pushed(7, &[(0, b"ab"), (5, b"fg")]);
        assert_eq!((&out.0[..], out.1), (&b"ab"[..], 0));
        stream.finish(&mut |chunk| out.take(chunk));
        assert_eq!((&out.0[..], out.1), (&b"abfg"[..], 3));
    }

    #[test]
    fn an_acknowledged_hole_is_given_up_in_time() {
        let (mut out, mut stream) = pushed(7, &[(0, b"ab"), (5, b"fg")]);
        for _ in 0..2 * MAX_WAIT_PACKETS {
            stream.pass(&mut |chunk| out.take(chunk));
        }
        assert_eq!(out.1, 0);
        stream.acknowledge(14);
        for _ in 0..=MAX_WAIT_PACKETS {
            stream.pass(&mut |chunk| out.take(chunk));
        }
        assert_eq!((&out.0[..], out.1), (&b"abfg"[..], 3));
    }

    #[test]
    fn what_is_held_is_bounded() {
        let (mut stream, mut out) = (Stream::default(), Out::default());
        stream.start(0);
        let data = [1; 1 << 16];
        for number in 0..1_000_u32 {
            stream.push(1 + number * (1 << 16), &data, &mut |chunk| out.take(chunk));
            assert!(stream.held_bytes <= MAX_BYTES);
        }
        let mut stream = Stream::default();
        stream.start(0);
        for number in 0..100_000_u32 {
            stream.push(1 + 2 * number, &[1], &mut |chunk| out.take(chunk));
            assert!(stream.held.len() <= MAX_CHUNKS);
        }
    }

    proptest! {
        #[test]
        fn any_cutting_and_order_gives_the_same_stream(
            base: u32, data in prop::collection::vec(any::<u8>(), 1..2_000),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 1_usize..300), 1..60), seed: u64,
        ) {
            let mut pieces: Vec<(usize, usize)> =
                cuts.iter().map(|(at, length)| (at.index(data.len()), *length)).collect();
            pieces.extend((0..data.len()).step_by(100).map(|at| (at, 100)));
            let mut random = seed | 1;
            for number in (1..pieces.len()).rev() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                pieces.swap(number, (random >> 33) as usize % (number + 1));
            }
            let pieces: Vec<(u32, &[u8])> = pieces
                .iter()
                .map(|(at, length)| (*at as u32, &data[*at..(at + length).min(data.len())]))
                .collect();
            let (out, stream) = pushed(base, &pieces);
            prop_assert_eq!(out.0, data);
            prop_assert_eq!(out.1, 0);
            prop_assert_eq!(stream.held_bytes, 0);
        }
    }
}
