//! What every API's answer has at hand, and who asks.

use crate::api::{Sessions, stored};
use crate::host::{Host, HostGone};
use crate::net::{Allowance, Budget};
use crate::randomness::NoRandomness;
use crate::trace::{Notes, Trace};
use crate::{Limits, Metrics, Randomness};
use bytes::Bytes;
use ottla_core::Refusal;
use ottla_core::partition::ReadPlan;
use ottla_store::LogReader;
use ottla_types::TopicId;
use ottla_wire::{ErrorCode, Text, Uuid};
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// What the answers to requests are made from.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) host: Host,
    pub(crate) reader: LogReader,
    pub(crate) fetch_sessions: Sessions,
    /// For requests that were received or are being answered.
    pub(crate) requests: Arc<Budget>,
    /// For answers with records in them.
    pub(crate) answers: Allowance,
    pub(crate) node_id: i32,
    pub(crate) cluster_id: Text,
    pub(crate) advertised: Advertised,
    pub(crate) data_folder: String,
    pub(crate) trace: Trace,
    pub(crate) randomness: Randomness,
    /// Of the request that is being answered, if it is traced.
    pub(crate) notes: Option<Arc<Notes>>,
}

/// The address that clients are told to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// A host name or an IP address.
    pub host: String,
    /// The port; 0 stands for the one the listener has.
    pub port: u16,
}

/// Bytes that all connections hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of requests that were received or are being answered.
    pub requests_held: u64,
    /// The most bytes that such requests may hold; one large request at a time may go beyond.
    pub requests_limit: u64,
    /// Bytes of answers with records that their peers have not taken yet.
    pub answers_held: u64,
    /// The most bytes that such answers may hold.
    pub answers_limit: u64,
}

impl Context {
    /// Gathers what is fixed from the shard. `data_folder` is shown to clients as the log directory.
    ///
    /// # Errors
    /// The shard is gone.
    pub async fn new(
        host: Host,
        reader: LogReader,
        advertised: Advertised,
        data_folder: String,
    ) -> Result<Context, HostGone> {
        let identity = host.read(|shard, _| {
            let cluster_id = shard.cluster_id().unwrap_or_default().to_owned();
            (shard.catalog().settings().node_id, cluster_id)
        });
        let (node_id, cluster_id) = identity.await?;
        let limits = Limits::default();
        Ok(Context {
            host,
            reader,
            fetch_sessions: Sessions::default(),
            requests: Budget::of(&limits, None),
            answers: Allowance::new(limits.max_response_bytes),
            node_id,
            cluster_id: cluster_id.into(),
            advertised,
            data_folder,
            trace: Trace::default(),
            randomness: Randomness::default(),
            notes: None,
        })
    }

    /// The same, with ids from another source than the system.
    #[must_use]
    pub fn with_randomness(self, randomness: Randomness) -> Context {
        Context { fetch_sessions: Sessions::new(randomness.clone()), randomness, ..self }
    }

    /// The same, recording into this trace.
    #[must_use]
    pub fn with_trace(self, trace: Trace) -> Context {
        Context { trace, ..self }
    }

    /// The last frames of connections, which are kept while this is on.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The same context for one request that is traced.
    pub(crate) fn traced(&self, notes: &Arc<Notes>) -> Context {
        Context { host: self.host.traced(Arc::clone(notes)), notes: Some(Arc::clone(notes)), ..self.clone() }
    }

    /// The request is refused, or a part of it: says why to whoever traces it. Costs nothing if nobody does.
    pub(crate) fn refused(&self, subject: impl Display, code: ErrorCode, refusal: &dyn Refusal) {
        if let Some(notes) = &self.notes {
            notes.verdict(&subject, code, refusal);
        }
    }

    /// Figures since the start.
    pub fn metrics(&self) -> &Metrics {
        self.host.metrics()
    }

    /// How many bytes requests and answers hold now, and how many they may.
    pub fn memory(&self) -> Memory {
        Memory {
            requests_held: self.requests.held() as u64,
            requests_limit: self.requests.total() as u64,
            answers_held: self.answers.held(),
            answers_limit: self.answers.total(),
        }
    }

    /// The shard: what it holds can be read, and inputs can be put to it.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The log: where batches lie, how far it is durable.
    pub fn reader(&self) -> &LogReader {
        &self.reader
    }

    /// The number of this broker in its cluster.
    pub fn node_id(&self) -> i32 {
        self.node_id
    }

    /// The cluster id, of 22 characters.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// The address that clients are told to connect to.
    pub fn advertised(&self) -> &Advertised {
        &self.advertised
    }

    /// Where the data is kept, as clients are shown it: a folder, or "memory".
    pub fn data_folder(&self) -> &str {
        &self.data_folder
    }

    /// The bytes of what a plan names, as consumers get them: whole batches, one or several in a chunk.
    ///
    /// # Errors
    /// The medium cannot be read, or what was planned is gone since ([`io::ErrorKind::NotFound`]): plan again.
    pub async fn read_plan(&self, plan: &ReadPlan) -> io::Result<Vec<Bytes>> {
        Ok(stored::read_plan(&self.reader, plan).await?.chunks)
    }
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The other end of the connection.
    pub(crate) peer: SocketAddr,
    /// What the client calls itself; empty if it does not say.
    pub(crate) client_id: Text,
    /// For how long its connection is muted after the answer.
    pub(crate) mute: Mute,
}

/// For how long a connection is muted after an answer: nothing that it sends meanwhile is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mute(Arc<AtomicU32>);

impl Mute {
    /// For so many milliseconds.
    pub(crate) fn set(&self, millis: i32) {
        self.0.store(u32::try_from(millis).unwrap_or(0), Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_millis(u64::from(self.0.load(Relaxed)))
    }
}

/// A topic id as the wire has it.
pub(crate) fn to_uuid(id: TopicId) -> Uuid {
    Uuid(id.0)
}

/// A topic id from the wire.
pub(crate) fn to_topic_id(id: Uuid) -> TopicId {
    TopicId(id.0)
}

/// A random id for a new topic: a UUID whose base64 text does not begin with '-', which command lines take for a flag.
///
/// # Errors
/// The system gives no random bytes.
pub(crate) fn random_topic_id(randomness: &Randomness) -> Result<TopicId, NoRandomness> {
    let mut bytes = randomness.uuid()?;
    bytes[0] &= 0x7f;
    Ok(TopicId(bytes))
}
