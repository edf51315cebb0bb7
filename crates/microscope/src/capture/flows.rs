//! The connections of a capture: assigns segments to conversations.

use super::packet::Segment;
use super::stream::{Chunk, Stream};
use super::{Settings, Summary};
use crate::conversation::{ClientSide, Connection, Conversation, Event, Notice, Sink, Time};
use ottla_wire::tables::Direction;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The most open connections. Above it, the quarter of them that was idle longest is closed.
const MAX_FLOWS: usize = 20_000;

/// Both endpoints, the lower first, so that both directions have the same key.
type Pair = (SocketAddr, SocketAddr);
/// Which end of a pair: 0 or 1.
type Endpoint = usize;

/// All open connections.
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
    state: FlowState,
    last: u64,
}

#[derive(Debug)]
enum FlowState {
    /// It is not yet known which endpoint is the client.
    ClientSide(ClientSide),
    /// The client's endpoint is known.
    Reading(Endpoint, Box<Conversation>),
    /// The connection has ended. Later segments are ignored.
    Closed,
}

/// The settings, the time and the receiver of events of a flow.
struct FlowContext<'a, 'b> {
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
        let mut context = FlowContext { settings, time, out };
        let is_known = match self.flows.get_mut(&pair) {
            Some(flow) if segment.syn && flow.is_reused(side, segment.seq) => {
                flow.finish(&mut context);
                false
            }
            found => found.is_some(),
        };
        if !is_known {
            if (segment.payload.is_empty() && !segment.syn) || segment.rst {
                return;
            }
            self.evict(&mut context);
            self.count += 1;
            summary.connections += 1;
            let flow = Flow::new(pair, self.count, side, segment, &mut context);
            self.flows.insert(pair, flow);
        }
        if let Some(flow) = self.flows.get_mut(&pair) {
            flow.last = self.tick;
            flow.segment(side, segment, &mut context);
        }
    }

    pub(super) fn finish(&mut self, time: Time, settings: &Settings, out: Sink<'_>) {
        let mut context = FlowContext { settings, time, out };
        let mut flows: Vec<Flow> = std::mem::take(&mut self.flows).into_values().collect();
        flows.sort_by_key(|flow| flow.number);
        flows.iter_mut().for_each(|flow| flow.finish(&mut context));
    }

    fn evict(&mut self, context: &mut FlowContext<'_, '_>) {
        if self.flows.len() < MAX_FLOWS {
            return;
        }
        let mut by_age: Vec<(u64, Pair)> = self.flows.iter().map(|(pair, flow)| (flow.last, *pair)).collect();
        by_age.sort_unstable();
        for (_, pair) in &by_age[..MAX_FLOWS / 4] {
            if let Some(mut flow) = self.flows.remove(pair) {
                flow.finish(context);
            }
        }
    }
}

impl Flow {
    fn new(
        pair: Pair,
        number: u64,
        side: Endpoint,
        segment: &Segment<'_>,
        context: &mut FlowContext<'_, '_>,
    ) -> Flow {
        let mut streams = [Stream::default(), Stream::default()];
        if let (true, Some(ack)) = (segment.syn, segment.ack) {
            streams[1 - side].start(ack);
        }
        let by_port = |port| usize::from(pair.0.port() == port);
        let client = match (segment.syn, segment.ack) {
            (true, None) => Some(side),
            (true, Some(_)) => Some(1 - side),
            _ if pair.0.port() == pair.1.port() => None,
            _ => context.settings.port.map(by_port),
        };
        let state = FlowState::ClientSide(ClientSide::default());
        let mut flow = Flow { pair, number, streams, state, last: 0 };
        if let Some(client) = client {
            flow.state = flow.open(client, segment.syn, context);
        }
        flow
    }

    fn open(&self, client: Endpoint, from_the_start: bool, context: &mut FlowContext<'_, '_>) -> FlowState {
        let ends = [self.pair.0, self.pair.1];
        let connection = Connection { number: self.number, client: ends[client], server: ends[1 - client] };
        (context.out)(&connection, context.time, Event::Opened);
        let conversation = Conversation::new(connection, from_the_start, context.settings.largest_frame);
        FlowState::Reading(client, Box::new(conversation))
    }

    /// Whether a SYN opens another connection between the same ports.
    fn is_reused(&self, side: Endpoint, seq: u32) -> bool {
        let begun = self.streams[side].has_begun();
        begun && !self.streams[side].starts_at(seq.wrapping_add(1))
    }

    fn segment(&mut self, side: Endpoint, segment: &Segment<'_>, context: &mut FlowContext<'_, '_>) {
        if matches!(self.state, FlowState::Closed) {
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
            return self.finish(context);
        }
        if !segment.payload.is_empty() {
            let Flow { streams, state, .. } = self;
            streams[side].push(seq, segment.payload, &mut |chunk| state.chunk(side, chunk, context));
        }
        if segment.fin {
            let length = segment.payload.len() as u32;
            self.streams[side].ends_at(seq.wrapping_add(length).wrapping_add(segment.cut));
        }
        for side in [0, 1] {
            let Flow { streams, state, .. } = self;
            streams[side].pass(&mut |chunk| state.chunk(side, chunk, context));
        }
        self.decide(false, context);
        if self.streams.iter().all(Stream::is_over) {
            self.finish(context);
        }
    }

    /// Decides which endpoint is the client, and passes on the chunks that were kept until then.
    fn decide(&mut self, now: bool, context: &mut FlowContext<'_, '_>) {
        let FlowState::ClientSide(client_side) = &mut self.state else { return };
        let (client, is_guess) = match client_side.client(context.settings.largest_frame) {
            Some(client) => (client, false),
            None if now || client_side.is_full() => {
                (usize::from(self.pair.0.port() < self.pair.1.port()), true)
            }
            None => return,
        };
        let kept = client_side.take();
        if kept.is_empty() {
            return;
        }
        self.state = self.open(client, false, context);
        if is_guess && let FlowState::Reading(_, conversation) = &self.state {
            let event = Event::Notice(Direction::Request, Notice::Guessed);
            (context.out)(conversation.connection(), context.time, event);
        }
        let now = context.time;
        for (side, time, bytes) in kept {
            context.time = time;
            match bytes {
                Ok(bytes) => self.state.chunk(side, Chunk::Data(&bytes), context),
                Err(missing) => self.state.chunk(side, Chunk::Gap(missing), context),
            }
        }
        context.time = now;
    }

    fn finish(&mut self, context: &mut FlowContext<'_, '_>) {
        for side in [0, 1] {
            let Flow { streams, state, .. } = self;
            streams[side].finish(&mut |chunk| state.chunk(side, chunk, context));
        }
        self.decide(true, context);
        if let FlowState::Reading(_, conversation) = &mut self.state {
            conversation.finish(context.time, context.out);
        }
        self.state = FlowState::Closed;
        // A late segment needs the start of the connection and nothing else.
        self.streams.iter_mut().for_each(Stream::forget);
    }
}

impl FlowState {
    fn chunk(&mut self, side: Endpoint, chunk: Chunk<'_>, context: &mut FlowContext<'_, '_>) {
        let time = context.time;
        match (self, chunk) {
            (FlowState::Closed, _) => {}
            (FlowState::ClientSide(client_side), Chunk::Data(data)) => client_side.keep(side, time, Ok(data)),
            (FlowState::ClientSide(client_side), Chunk::Gap(missing)) => {
                client_side.keep(side, time, Err(missing))
            }
            (FlowState::Reading(client, conversation), chunk) => {
                let direction = if side == *client { Direction::Request } else { Direction::Response };
                match chunk {
                    Chunk::Data(data) => conversation.data(direction, time, data, context.out),
                    Chunk::Gap(missing) => conversation.gap(direction, time, missing, context.out),
                }
            }
        }
    }
}
