//! The connections of a capture: from segments to conversations.

use super::packet::Segment;
use super::stream::{Piece, Stream};
use super::{Settings, Summary};
use crate::conversation::{Connection, Conversation, Event, Notice, Sink, Time, Undecided};
use ottla_wire::tables::Direction;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Connections that are remembered; beyond it the quarter that was silent longest is closed.
const MOST_FLOWS: usize = 20_000;

/// Both ends, the lower first, so that both directions find the same flow.
type Pair = (SocketAddr, SocketAddr);
/// Which end of a pair: 0 or 1.
type Side = usize;

/// All connections under way.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: BTreeMap<Pair, Flow>,
    count: u64,
    tick: u64,
}

/// One connection.
#[derive(Debug)]
struct Flow {
    pair: Pair,
    number: u64,
    streams: [Stream; 2],
    talk: Talk,
    last: u64,
}

#[derive(Debug)]
enum Talk {
    /// It is not known yet which side is the client.
    Undecided(Undecided),
    /// The client's side is known.
    Of(Side, Box<Conversation>),
    /// Over: what still comes is late.
    Closed,
}

/// What a flow needs of its surroundings.
struct Around<'a, 'b> {
    settings: &'a Settings,
    time: Time,
    out: Sink<'b>,
}

impl Flows {
    pub(super) fn segment(
        &mut self,
        segment: &Segment<'_>,
        time: Time,
        settings: &Settings,
        (summary, out): (&mut Summary, Sink<'_>),
    ) {
        let ports = [segment.from.port(), segment.to.port()];
        if settings.port.is_some_and(|port| !ports.contains(&port)) {
            summary.other_ports += 1;
            return;
        }
        self.tick += 1;
        let side = usize::from(segment.from > segment.to);
        let pair = if side == 0 { (segment.from, segment.to) } else { (segment.to, segment.from) };
        let mut around = Around { settings, time, out };
        let is_known = match self.flows.get_mut(&pair) {
            Some(flow) if segment.syn && flow.is_reused(side, segment.seq) => {
                flow.finish(&mut around);
                false
            }
            found => found.is_some(),
        };
        if !is_known {
            if (segment.payload.is_empty() && !segment.syn) || segment.rst {
                return;
            }
            self.evict(&mut around);
            self.count += 1;
            summary.connections += 1;
            let flow = Flow::new(pair, self.count, side, segment, &mut around);
            self.flows.insert(pair, flow);
        }
        if let Some(flow) = self.flows.get_mut(&pair) {
            flow.last = self.tick;
            flow.segment(side, segment, &mut around);
        }
    }

    pub(super) fn finish(&mut self, time: Time, settings: &Settings, out: Sink<'_>) {
        let mut around = Around { settings, time, out };
        let mut flows: Vec<Flow> = std::mem::take(&mut self.flows).into_values().collect();
        flows.sort_by_key(|flow| flow.number);
        flows.iter_mut().for_each(|flow| flow.finish(&mut around));
    }

    fn evict(&mut self, around: &mut Around<'_, '_>) {
        if self.flows.len() < MOST_FLOWS {
            return;
        }
        let mut by_age: Vec<(u64, Pair)> = self.flows.iter().map(|(pair, flow)| (flow.last, *pair)).collect();
        by_age.sort_unstable();
        for (_, pair) in &by_age[..MOST_FLOWS / 4] {
            if let Some(mut flow) = self.flows.remove(pair) {
                flow.finish(around);
            }
        }
    }
}

impl Flow {
    fn new(pair: Pair, number: u64, side: Side, segment: &Segment<'_>, around: &mut Around<'_, '_>) -> Flow {
        let mut streams = [Stream::default(), Stream::default()];
        if let (true, Some(ack)) = (segment.syn, segment.ack) {
            streams[1 - side].start(ack);
        }
        let by_port = |port| usize::from(pair.0.port() == port);
        let client = match (segment.syn, segment.ack) {
            (true, None) => Some(side),
            (true, Some(_)) => Some(1 - side),
            _ if pair.0.port() == pair.1.port() => None,
            _ => around.settings.port.map(by_port),
        };
        let talk = Talk::Undecided(Undecided::default());
        let mut flow = Flow { pair, number, streams, talk, last: 0 };
        if let Some(client) = client {
            flow.talk = flow.open(client, segment.syn, around);
        }
        flow
    }

    fn open(&self, client: Side, from_the_start: bool, around: &mut Around<'_, '_>) -> Talk {
        let ends = [self.pair.0, self.pair.1];
        let connection = Connection { number: self.number, client: ends[client], server: ends[1 - client] };
        (around.out)(&connection, around.time, Event::Opened);
        let conversation = Conversation::new(connection, from_the_start, around.settings.largest_frame);
        Talk::Of(client, Box::new(conversation))
    }

    /// Whether a SYN opens another connection between the same ports.
    fn is_reused(&self, side: Side, seq: u32) -> bool {
        let begun = self.streams[side].has_begun();
        begun && !self.streams[side].starts_at(seq.wrapping_add(1))
    }

    fn segment(&mut self, side: Side, segment: &Segment<'_>, around: &mut Around<'_, '_>) {
        if matches!(self.talk, Talk::Closed) {
            return;
        }
        let seq = segment.seq.wrapping_add(u32::from(segment.syn));
        if segment.syn {
            self.streams[side].start(seq);
        }
        if let Some(ack) = segment.ack {
            self.streams[1 - side].acknowledge(ack);
        }
        if segment.rst {
            return self.finish(around);
        }
        if !segment.payload.is_empty() {
            let Flow { streams, talk, .. } = self;
            streams[side].push(seq, segment.payload, &mut |piece| talk.piece(side, piece, around));
        }
        if segment.fin {
            let length = segment.payload.len() as u32;
            self.streams[side].ends_at(seq.wrapping_add(length).wrapping_add(segment.cut));
        }
        for side in [0, 1] {
            let Flow { streams, talk, .. } = self;
            streams[side].pass(&mut |piece| talk.piece(side, piece, around));
        }
        self.decide(false, around);
        if self.streams.iter().all(Stream::is_over) {
            self.finish(around);
        }
    }

    /// Looks which side is the client, and says all that was kept until then.
    fn decide(&mut self, now: bool, around: &mut Around<'_, '_>) {
        let Talk::Undecided(undecided) = &mut self.talk else { return };
        let (client, is_guess) = match undecided.client(around.settings.largest_frame) {
            Some(client) => (client, false),
            None if now || undecided.is_full() => {
                (usize::from(self.pair.0.port() < self.pair.1.port()), true)
            }
            None => return,
        };
        let kept = undecided.take();
        if kept.is_empty() {
            return;
        }
        self.talk = self.open(client, false, around);
        if is_guess && let Talk::Of(_, conversation) = &self.talk {
            let event = Event::Notice(Direction::Request, Notice::Guessed);
            (around.out)(conversation.connection(), around.time, event);
        }
        let now = around.time;
        for (side, time, bytes) in kept {
            around.time = time;
            match bytes {
                Ok(bytes) => self.talk.piece(side, Piece::Data(&bytes), around),
                Err(missing) => self.talk.piece(side, Piece::Gap(missing), around),
            }
        }
        around.time = now;
    }

    fn finish(&mut self, around: &mut Around<'_, '_>) {
        for side in [0, 1] {
            let Flow { streams, talk, .. } = self;
            streams[side].finish(&mut |piece| talk.piece(side, piece, around));
        }
        self.decide(true, around);
        if let Talk::Of(_, conversation) = &mut self.talk {
            conversation.finish(around.time, around.out);
        }
        self.talk = Talk::Closed;
        // What comes late needs to know where the connection began, and nothing else.
        self.streams.iter_mut().for_each(Stream::forget);
    }
}

impl Talk {
    fn piece(&mut self, side: Side, piece: Piece<'_>, around: &mut Around<'_, '_>) {
        let time = around.time;
        match (self, piece) {
            (Talk::Closed, _) => {}
            (Talk::Undecided(undecided), Piece::Data(data)) => undecided.keep(side, time, Ok(data)),
            (Talk::Undecided(undecided), Piece::Gap(missing)) => undecided.keep(side, time, Err(missing)),
            (Talk::Of(client, conversation), piece) => {
                let direction = if side == *client { Direction::Request } else { Direction::Response };
                match piece {
                    Piece::Data(data) => conversation.data(direction, time, data, around.out),
                    Piece::Gap(missing) => conversation.gap(direction, time, missing, around.out),
                }
            }
        }
    }
}
