//! A client's connection to the broker: requests, responses, and the faults of the network.
//!
//! A request that a client gave up may still arrive: [`Care`] says whether that, or a repetition, can do harm by
//! Kafka's rules. Where it can, as with EndTxn before version 5, the fault lies in the protocol and the simulator
//! spares it.

use crate::pipe::{Reader, Writer};
use crate::plan::ms;
use crate::random::Random;
use crate::world::{World, count, rest};
use bytes::Bytes;
use ottla_wire::frame::{self, Frame};
use ottla_wire::{ErrorCode, Message, Request, Response, Text};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep, timeout};

/// How late a request may arrive after its client gave it up, in milliseconds.
pub(crate) const LATEST: u64 = 8000;

/// What may happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Care {
    /// It arrives soon or never.
    Strict,
    /// It may arrive long after its client gave it up.
    Late,
    /// It may also arrive twice, the second time long after it was answered.
    Ghost,
}

/// A request that the trace can show.
pub(crate) trait DebugRequest: Request<Response: Debug> + Debug {}

impl<R: Request<Response: Debug> + Debug> DebugRequest for R {}

/// No answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    /// The request may have been executed, or may still be.
    pub(crate) doubt: bool,
}

/// An answer, and whether an earlier attempt may have been executed too.
#[derive(Debug)]
pub(crate) struct SettledAnswer<T> {
    pub(crate) answer: T,
    pub(crate) doubt: bool,
}

struct Connection {
    writer: Writer,
    reader: Reader,
}

/// A client: one connection at a time.
pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) name: String,
    pub(crate) random: Random,
    id: Text,
    connection: Option<Connection>,
    correlation: i32,
}

/// How long a client waits for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

impl Client {
    pub(crate) fn new(world: &Arc<World>, name: String, random: Random) -> Client {
        let id = name.as_str().into();
        Client { world: Arc::clone(world), name, random, id, connection: None, correlation: 0 }
    }

    /// Sends the request once.
    pub(crate) async fn ask<R: DebugRequest>(
        &mut self,
        request: &R,
        version: i16,
        care: Care,
        patience: Duration,
    ) -> Result<R::Response, NoAnswer> {
        self.post(request, version, care).await?;
        let answer = self.receive::<R>(version, patience).await?;
        if care == Care::Ghost && self.goes_wrong() {
            self.haunt(request, version);
        }
        Ok(answer)
    }

    /// Sends the request until there is an answer that is not retriable, or the time is over.
    pub(crate) async fn settle<R: DebugRequest>(
        &mut self,
        request: &R,
        version: i16,
        care: Care,
        until: Instant,
    ) -> Result<SettledAnswer<R::Response>, NoAnswer> {
        let mut doubt = false;
        loop {
            match self.ask(request, version, care, PATIENCE).await {
                Ok(answer) if asks_again(&answer) => {}
                Ok(answer) => return Ok(SettledAnswer { answer, doubt }),
                Err(lost) => doubt |= lost.doubt,
            }
            if Instant::now() >= until {
                return Err(NoAnswer { doubt });
            }
            rest(&mut self.random, 150).await;
        }
    }

    /// Sends a request whose answer [`Client::receive`] takes.
    pub(crate) async fn post<R: DebugRequest>(
        &mut self,
        request: &R,
        version: i16,
        care: Care,
    ) -> Result<(), NoAnswer> {
        let frame = self.frame(request, version);
        self.connect().await?;
        count(&self.world.figures.requests);
        self.world.note(R::KEY.0 as u64 + 100, &frame);
        if self.world.is_loud() {
            self.world.remark(format_args!("{} > {} v{version} {request:?}", self.name, R::KEY.name()));
        }
        if self.goes_wrong() {
            self.lose(frame, care).await;
            return Err(NoAnswer { doubt: true });
        }
        if let Some(connection) = &mut self.connection {
            connection.writer.send(frame, Duration::ZERO);
        }
        Ok(())
    }

    /// Takes the next answer, which must be to such a request.
    pub(crate) async fn receive<R: DebugRequest>(
        &mut self,
        version: i16,
        patience: Duration,
    ) -> Result<R::Response, NoAnswer> {
        let lost = NoAnswer { doubt: true };
        let connection = self.connection.as_mut().ok_or(lost)?;
        let received = timeout(patience, read_frame(&mut connection.reader)).await;
        let Ok(Some(bytes)) = received else {
            count(&self.world.figures.lost);
            self.world.say(format_args!("{} loses {}", self.name, R::KEY.name()));
            self.hang_up();
            return Err(lost);
        };
        self.world.note(R::KEY.0 as u64 + 1100, &bytes);
        let answer = frame::read_response_header(&bytes, R::KEY, version)
            .and_then(|(_, mut body)| R::Response::decode(&mut body, version));
        match answer {
            Ok(answer) => {
                if self.world.is_loud() {
                    self.world.remark(format_args!("{} < {answer:?}", self.name));
                }
                Ok(answer)
            }
            Err(error) => {
                self.world.find(format!("{}: an answer cannot be read: {error}", self.name));
                Err(lost)
            }
        }
    }

    /// Closes the connection. Bytes in flight to the broker do not arrive any more.
    pub(crate) fn hang_up(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.writer.cut();
        }
    }

    fn frame<R: DebugRequest>(&mut self, request: &R, version: i16) -> Bytes {
        self.correlation += 1;
        match frame::request(self.correlation, Some(&self.id), request, version) {
            Ok(frame) => Frame::to_bytes(&frame),
            Err(error) => {
                self.world.find(format!("{}: a request cannot be written: {error}", self.name));
                Bytes::new()
            }
        }
    }

    async fn connect(&mut self) -> Result<(), NoAnswer> {
        if self.connection.is_none() {
            rest(&mut self.random, 5).await;
            let (writer, reader) = self.world.connect(&mut self.random).ok_or(NoAnswer { doubt: false })?;
            self.connection = Some(Connection { writer, reader });
        }
        Ok(())
    }

    fn goes_wrong(&mut self) -> bool {
        let network = self.world.plan.faults.network;
        !self.world.is_calm() && network > 0 && self.random.per_mille(network)
    }

    /// The connection breaks while a request is in flight.
    async fn lose(&mut self, frame: Bytes, care: Care) {
        count(&self.world.figures.lost);
        let Some(mut connection) = self.connection.take() else { return };
        let how = self.random.within(0..4);
        self.world.say(format_args!("{}: the connection breaks ({how})", self.name));
        match how {
            // It never arrives.
            0 => connection.writer.cut(),
            // A part of it arrives.
            1 => {
                let part = self.random.within(0..frame.len() as u64) as usize;
                connection.writer.send(frame.slice(..part), Duration::ZERO);
            }
            // It arrives late, whatever its client does meanwhile.
            2 if care >= Care::Late => {
                let extra = ms(self.random.within(10..LATEST));
                connection.writer.send(frame, extra);
            }
            // It arrives, the answer does not.
            _ => {
                connection.writer.send(frame, Duration::ZERO);
                let longest = self.world.plan.latency.usual * 20 + 30;
                sleep(ms(self.random.within(longest / 2..longest))).await;
                connection.writer.cut();
            }
        }
    }

    /// The same request arrives once more, on another connection, and its answer is ignored.
    fn haunt<R: DebugRequest>(&mut self, request: &R, version: i16) {
        count(&self.world.figures.ghosts);
        let frame = self.frame(request, version);
        let (world, mut random) = (Arc::clone(&self.world), self.random.fork());
        let name = self.name.clone();
        tokio::spawn(async move {
            rest(&mut random, LATEST).await;
            let Some((mut writer, mut reader)) = world.connect(&mut random) else { return };
            world.say(format_args!("{name}: {} arrives again", R::KEY.name()));
            writer.send(frame, Duration::ZERO);
            let seen = timeout(PATIENCE, read_frame(&mut reader)).await;
            world.note(2, seen.ok().flatten().as_deref().unwrap_or_default());
        });
    }
}

/// Whether an answer says that the same request may succeed later.
fn asks_again<T: Response>(answer: &T) -> bool {
    let mut again = false;
    answer.error_codes(&mut |code| again |= is_passing(code));
    again
}

/// A retriable code.
pub(crate) fn is_passing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::REQUEST_TIMED_OUT
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::NOT_LEADER_OR_FOLLOWER
            | ErrorCode::CONCURRENT_TRANSACTIONS
            | ErrorCode::KAFKA_STORAGE_ERROR
            | ErrorCode::UNSTABLE_OFFSET_COMMIT
    )
}

async fn read_frame(reader: &mut Reader) -> Option<Bytes> {
    let size = reader.read_u32().await.ok()? as usize;
    let mut frame = vec![0; size];
    reader.read_exact(&mut frame).await.ok()?;
    Some(Bytes::from(frame))
}
