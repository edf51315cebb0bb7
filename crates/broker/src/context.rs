//! The parts of the broker that every API uses.

use crate::authorizer::{Authorizer, Rights};
use crate::deleted_topics::DeletedTopics;
use crate::fetch_session::FetchSessions;
use crate::host::{Host, HostGone};
use crate::net::{RequestBudget, ResponseBudget};
use crate::randomness::NoRandomness;
use crate::session::{AdvertisedAddress, Listener, Session};
use crate::shards::Shards;
use crate::trace::{Notes, Trace};
use crate::{Limits, Metrics, Randomness, stored};
use bytes::Bytes;
use ottla_core::Refusal;
use ottla_core::partitions::ReadPlan;
use ottla_store::LogReader;
use ottla_types::TopicId;
use ottla_wire::{ErrorCode, Text, Uuid};
use std::fmt::Display;
use std::io;
use std::sync::Arc;

/// The parts of the broker that every API uses. It is built once, and copied only for a request that is traced.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) shards: Shards,
    pub(crate) reader: LogReader,
    pub(crate) fetch_sessions: FetchSessions,
    pub(crate) deleted_topics: DeletedTopics,
    /// The memory budget of requests.
    pub(crate) request_budget: Arc<RequestBudget>,
    /// The memory budget of responses.
    pub(crate) response_budget: ResponseBudget,
    pub(crate) limits: Limits,
    pub(crate) node_id: i32,
    pub(crate) cluster_id: Text,
    pub(crate) listener: Arc<Listener>,
    pub(crate) data_folder: String,
    pub(crate) authorizer: Authorizer,
    pub(crate) trace: Trace,
    pub(crate) randomness: Randomness,
    /// The trace notes of the request that is being answered; none if it is not traced.
    pub(crate) notes: Option<Arc<Notes>>,
}

/// What a [`Context`] is built from, besides the host and the log.
#[derive(Clone, Debug)]
pub struct ContextOptions {
    /// The address that clients connect to. Its port is not 0.
    pub advertised: AdvertisedAddress,
    /// The data folder, or "memory"; clients see it as the log directory.
    pub data_folder: String,
    /// The limits of connections and their memory.
    pub limits: Limits,
    /// Where exchanges are recorded.
    pub trace: Trace,
    /// The source of topic ids, member ids and fetch session ids.
    pub randomness: Randomness,
}

impl ContextOptions {
    /// Options with the default limits, a trace that is off, and the system's randomness.
    pub fn new(advertised: AdvertisedAddress, data_folder: impl Into<String>) -> ContextOptions {
        ContextOptions {
            advertised,
            data_folder: data_folder.into(),
            limits: Limits::default(),
            trace: Trace::default(),
            randomness: Randomness::default(),
        }
    }
}

/// Bytes that all connections hold together, and their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of requests that were received or are being answered.
    pub requests_held: u64,
    /// The most bytes that such requests may hold. One large request at a time may exceed it.
    pub requests_limit: u64,
    /// Bytes of responses that their clients have not read yet.
    pub answers_held: u64,
    /// The most bytes that such responses may hold.
    pub answers_limit: u64,
}

impl Context {
    /// Builds the context. Reads the ids of the node and the cluster from the host.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn new(host: Host, reader: LogReader, options: ContextOptions) -> Result<Context, HostGone> {
        let identity = host.read(|shard, _| {
            let cluster_id = shard.cluster_id().unwrap_or_default().to_owned();
            let settings = shard.catalog().given_settings();
            (settings.node_id, cluster_id, Authorizer::of(settings))
        });
        let (node_id, cluster_id, authorizer) = identity.await?;
        let ContextOptions { advertised, data_folder, limits, trace, randomness } = options;
        Ok(Context {
            fetch_sessions: FetchSessions::new(randomness.clone()),
            request_budget: RequestBudget::of(&limits, Some(reader.clone())),
            response_budget: ResponseBudget::new(limits.max_response_bytes),
            deleted_topics: DeletedTopics::default(),
            shards: Shards::one(host),
            reader,
            limits,
            node_id,
            cluster_id: cluster_id.into(),
            listener: Arc::new(Listener::plaintext(advertised)),
            data_folder,
            authorizer,
            trace,
            randomness,
            notes: None,
        })
    }

    /// The trace of exchanges between clients and the broker.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// A copy for one request that is traced.
    pub(crate) fn traced(&self, notes: &Arc<Notes>) -> Context {
        Context { shards: self.shards.traced(notes), notes: Some(Arc::clone(notes)), ..self.clone() }
    }

    /// Notes in the trace why the request, or a part of it, was refused. Does nothing if the request is not traced.
    pub(crate) fn refused(&self, subject: impl Display, code: ErrorCode, refusal: &dyn Refusal) {
        if let Some(notes) = &self.notes {
            notes.verdict(&subject, code, refusal);
        }
    }

    /// What the client of a session may do.
    pub(crate) fn rights<'a>(&'a self, session: &'a Session) -> Rights<'a> {
        Rights::new(&self.authorizer, self.shards.settings().access(), session)
    }

    /// The metrics since the start.
    pub fn metrics(&self) -> &Metrics {
        self.shards.metrics()
    }

    /// The bytes that requests and responses hold now, and their limits.
    pub fn memory(&self) -> Memory {
        Memory {
            requests_held: self.request_budget.held() as u64,
            requests_limit: self.request_budget.total() as u64,
            answers_held: self.response_budget.held(),
            answers_limit: self.response_budget.total(),
        }
    }

    /// The shards of this node.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// The log, for reading.
    pub fn reader(&self) -> &LogReader {
        &self.reader
    }

    /// The node id of this broker.
    pub fn node_id(&self) -> i32 {
        self.node_id
    }

    /// The cluster id, of 22 characters.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// The address that clients connect to.
    pub fn advertised(&self) -> &AdvertisedAddress {
        &self.listener.advertised
    }

    /// The data folder as clients see it, or "memory".
    pub fn data_folder(&self) -> &str {
        &self.data_folder
    }

    /// Reads a plan. Returns whole batches as consumers get them, one or several in a chunk.
    ///
    /// # Errors
    /// The medium cannot be read. [`io::ErrorKind::NotFound`]: the planned data was freed; plan again.
    pub async fn read_plan(&self, plan: &ReadPlan) -> io::Result<Vec<Bytes>> {
        Ok(stored::read_plan(&self.reader, plan).await?.chunks)
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

/// A random id for a new topic: a UUID whose base64 text does not begin with '-', because command lines would take it
/// for a flag.
///
/// # Errors
/// The system gives no random bytes.
pub(crate) fn random_topic_id(randomness: &Randomness) -> Result<TopicId, NoRandomness> {
    let mut bytes = randomness.uuid()?;
    bytes[0] &= 0x7f;
    Ok(TopicId(bytes))
}
