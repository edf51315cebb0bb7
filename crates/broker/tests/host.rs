//! The host releases no reply, of a write or of a read, before the state that it rests on is durable.
#![expect(clippy::unwrap_used, reason = "a step that fails ends its test")]

use ottla_broker::host::{self, Host, HostGone, HostOptions, RunningHost, Snapshots};
use ottla_broker::{AdvertisedAddress, Context, ContextOptions, Server};
use ottla_core::catalog::{CreateTopics, CreateTopicsReply, DeleteTopics, NewTopic, TopicRef};
use ottla_core::config::Settings;
use ottla_store::testing::{Fault, FaultMedium};
use ottla_store::{Medium, MediumFile, MemoryMedium, Options};
use ottla_types::TopicId;
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use ottla_wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use ottla_wire::messages::{
    FetchRequest, ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest, Request,
};
use ottla_wire::{ErrorCode, Message, Text, frame};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A medium whose syncs wait while the gate is shut.
#[derive(Clone)]
struct Gated<M> {
    inner: M,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl<M> Gated<M> {
    fn open(inner: M) -> Gated<M> {
        Gated { inner, gate: Arc::default() }
    }

    fn shut(&self, shut: bool) {
        *self.gate.0.lock().unwrap() = shut;
        self.gate.1.notify_all();
    }

    fn pass(&self) {
        let shut = self.gate.0.lock().unwrap();
        drop(self.gate.1.wait_while(shut, |shut| *shut).unwrap());
    }
}

impl<M: Medium + Clone> Gated<M> {
    fn file(&self, inner: Arc<dyn MediumFile>) -> Arc<dyn MediumFile> {
        Arc::new(GatedFile { inner, gate: Gated { inner: (), gate: Arc::clone(&self.gate) } })
    }
}

impl<M: Medium + Clone> Medium for Gated<M> {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.file(self.inner.open(name)?))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.file(self.inner.create(name)?))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.inner.sync_names()
    }
    fn free_space(&self) -> io::Result<u64> {
        self.inner.free_space()
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct GatedFile {
    inner: Arc<dyn MediumFile>,
    gate: Gated<()>,
}

impl MediumFile for GatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.inner.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }
}

fn start(medium: Arc<dyn Medium>) -> RunningHost {
    let options = HostOptions {
        settings: Settings::default(),
        log: Options::memory(),
        cluster_id: "ottla-test-cluster-id0".to_owned(),
        snapshots: Snapshots::every(u64::MAX),
    };
    host::start(medium, options).unwrap()
}

fn create(host: &Host, name: &str) -> impl Future<Output = Result<CreateTopicsReply, HostGone>> + use<> {
    let (host, name) = (host.clone(), name.to_owned());
    let mut id = [0; 16];
    id[..name.len()].copy_from_slice(name.as_bytes());
    async move {
        let topic = NewTopic {
            name,
            id: TopicId(id),
            partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: BTreeMap::new(),
        };
        host.submit(CreateTopics { topics: vec![topic], validate_only: false }).await
    }
}

async fn topics(host: &Host) -> usize {
    host.read(|shard, _| shard.catalog().topics().count()).await.unwrap()
}

/// Whether the future is still pending although the host has run since it was polled.
async fn waits<F: Future + Unpin>(host: &Host, future: &mut F) -> bool {
    let first = tokio::time::timeout(Duration::ZERO, &mut *future).await;
    // A peek passes through the host's queue behind the command, and is never held back.
    host.peek(|_, _, _| ()).await.unwrap();
    first.is_err() && tokio::time::timeout(Duration::from_millis(20), future).await.is_err()
}

#[tokio::test]
async fn t_250_an_answer_waits_for_the_sync() {
    let medium = Gated::open(MemoryMedium::new());
    let started = start(Arc::new(medium.clone()));
    let host = started.host;
    assert_eq!(topics(&host).await, 0);
    medium.shut(true);
    let mut created = Box::pin(create(&host, "a"));
    assert!(waits(&host, &mut created).await, "the write was answered before it was durable");
    // A read of the new state waits too: a crash now would undo what it shows.
    let mut seen = Box::pin(topics(&host));
    assert!(waits(&host, &mut seen).await, "the read showed what was not durable");
    medium.shut(false);
    assert!(created.await.unwrap()[0].is_ok());
    assert_eq!(seen.await, 1);
    host.stop();
    started.thread.join().unwrap();
}

#[tokio::test]
async fn a_failed_sync_ends_the_host_without_an_answer() {
    let medium = FaultMedium::new(7);
    let started = start(Arc::new(medium.clone()));
    assert!(create(&started.host, "a").await.is_ok());
    for step in 1..=8 {
        medium.fail_at(medium.steps() + step, Fault::Error);
    }
    assert_eq!(create(&started.host, "b").await, Err(HostGone));
    let mut failure = started.failure.clone();
    let why = failure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(why.contains("segment"), "the message names the file: {why}");
    started.thread.join().unwrap();
    // Nothing that was acknowledged is lost.
    let again = start(Arc::new(medium.restart()));
    assert!(topics(&again.host).await >= 1);
    again.host.stop();
    again.thread.join().unwrap();
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_crash_and_a_snapshot_changes_nothing() {
    let mut medium = FaultMedium::new(11);
    for round in 0..6_u8 {
        let started = start(Arc::new(medium.clone()));
        assert_eq!(topics(&started.host).await, usize::from(round));
        let name = char::from(b'a' + round).to_string();
        assert!(create(&started.host, &name).await.is_ok());
        if round % 2 == 0 {
            started.host.snapshot().await.unwrap();
        }
        medium = medium.crash();
        started.host.stop();
        started.thread.join().unwrap();
    }
    let last = start(Arc::new(medium));
    assert_eq!(topics(&last.host).await, 6);
    last.host.stop();
    last.thread.join().unwrap();
}

/// Stable offsets are not returned before the commits they come from are durable.
#[tokio::test]
async fn t_183_stable_offsets_wait_for_the_commits_before_them() {
    let medium = Gated::open(MemoryMedium::new());
    let RunningHost { host, reader, thread, .. } = start(Arc::new(medium.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options =
        ContextOptions::new(AdvertisedAddress { host: "localhost".to_owned(), port: 9092 }, "memory");
    let context = Context::new(host.clone(), reader, options).await.unwrap();
    let server = Server::bind(listener, context).unwrap();
    let address = server.local_addr();
    assert!(create(&host, "a").await.is_ok());
    medium.shut(true);
    let partition = OffsetCommitRequestPartition { committed_offset: 7, ..Default::default() };
    let topic =
        OffsetCommitRequestTopic { name: "a".into(), partitions: vec![partition], ..Default::default() };
    let commit = OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let mut committed = Box::pin(call(TcpStream::connect(address).await.unwrap(), commit, 8));
    assert!(waits(&host, &mut committed).await, "the commit was answered before it was durable");
    while host.peek(|shard, _, _| shard.groups().describe("g").is_none()).await.unwrap() {
        tokio::task::yield_now().await;
    }
    let topic = OffsetFetchRequestTopic {
        name: "a".into(),
        partition_indexes: [0].into_iter().collect(),
        ..Default::default()
    };
    let fetch = OffsetFetchRequest {
        group_id: "g".into(),
        topics: Some(vec![topic]),
        require_stable: true,
        ..Default::default()
    };
    let mut fetched = Box::pin(call(TcpStream::connect(address).await.unwrap(), fetch, 7));
    assert!(waits(&host, &mut fetched).await, "the offset was sent before it was durable");
    medium.shut(false);
    assert_eq!(committed.await.topics[0].partitions[0].error_code, 0);
    assert_eq!(fetched.await.topics[0].partitions[0].committed_offset, 7);
    server.stop().await;
    host.stop();
    thread.join().unwrap();
}

async fn call<R: Request>(mut peer: TcpStream, request: R, version: i16) -> R::Response {
    let sent = frame::request(1, None, &request, version).unwrap();
    peer.write_all(&sent.to_bytes()).await.unwrap();
    let size = peer.read_u32().await.unwrap();
    let mut answer = vec![0; size as usize];
    peer.read_exact(&mut answer).await.unwrap();
    let (_, mut body) = frame::read_response_header(&answer.into(), R::KEY, version).unwrap();
    R::Response::decode(&mut body, version).unwrap()
}

/// No reader reports a deleted topic as unknown while a crash could still undo the deletion.
#[tokio::test]
async fn a_deletion_is_not_shown_before_it_is_durable() {
    let medium = Gated::open(MemoryMedium::new());
    let RunningHost { host, reader, thread, .. } = start(Arc::new(medium.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options =
        ContextOptions::new(AdvertisedAddress { host: "localhost".to_owned(), port: 9092 }, "memory");
    let context = Context::new(host.clone(), reader, options).await.unwrap();
    let server = Server::bind(listener, context).unwrap();
    let address = server.local_addr();
    assert!(create(&host, "a").await.is_ok());
    medium.shut(true);
    let topics = vec![TopicRef::Name("a".to_owned())];
    let deleting = host.clone();
    let deleted = tokio::spawn(async move { deleting.submit(DeleteTopics { topics }).await });
    while host.peek(|shard, _, _| shard.catalog().topics().count()).await.unwrap() > 0 {
        tokio::task::yield_now().await;
    }
    let name = Text::from_static("a");
    let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
    let topic = ListOffsetsTopic { name: name.clone(), partitions: vec![partition], ..Default::default() };
    let list = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let topic = FetchTopic {
        topic: name,
        partitions: vec![FetchPartition { partition_max_bytes: 1024, ..Default::default() }],
        ..Default::default()
    };
    let fetch = FetchRequest { max_bytes: 1024, topics: vec![topic], ..Default::default() };
    let mut listed = Box::pin(call(TcpStream::connect(address).await.unwrap(), list, 1));
    let mut fetched = Box::pin(call(TcpStream::connect(address).await.unwrap(), fetch, 4));
    assert!(waits(&host, &mut listed).await, "ListOffsets told of a deletion that was not durable");
    assert!(waits(&host, &mut fetched).await, "Fetch told of a deletion that was not durable");
    medium.shut(false);
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
    assert_eq!(listed.await.topics[0].partitions[0].error_code, unknown);
    assert_eq!(fetched.await.responses[0].partitions[0].error_code, unknown);
    assert!(deleted.await.unwrap().is_ok());
    server.stop().await;
    host.stop();
    thread.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commands_from_many_threads_at_once_are_all_answered() {
    let started = start(Arc::new(MemoryMedium::new()));
    let ask_all = |task: usize| {
        let host = started.host.clone();
        async move {
            for number in 0..200 {
                assert_eq!(host.peek(move |_, _, _| number).await, Ok(number));
                if number % 20 == 0 {
                    create(&host, &format!("t{task}-{number}")).await.unwrap();
                }
                assert_eq!(host.read(move |_, _| number).await, Ok(number));
            }
        }
    };
    let tasks: Vec<_> = (0..8).map(|task| tokio::spawn(ask_all(task))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(started.host.read(|shard, _| shard.catalog().topics().count()).await, Ok(80));
    started.host.stop();
    started.thread.join().unwrap();
}

#[tokio::test]
async fn a_command_that_panics_ends_the_host_and_nobody_waits_for_ever() {
    // A different thread runs the state machine each time: that of the command, the timer thread, or the log's writer.
    for _ in 0..100 {
        let started = start(Arc::new(MemoryMedium::new()));
        let host = started.host.clone();
        let panics = tokio::spawn(async move { host.peek(|_, _, _| panic!("as planned")).await });
        match panics.await {
            Err(asker) => assert!(asker.is_panic()),
            Ok(answer) => assert_eq!(answer, Err::<(), _>(HostGone)),
        }
        assert_eq!(started.host.peek(|_, _, _| ()).await, Err(HostGone));
        // The thread ends, by a panic if it was the one that ran the state machine.
        let _ = started.thread.join();
        assert_eq!(started.host.read(|_, _| ()).await, Err(HostGone));
    }
}

#[tokio::test]
async fn what_comes_after_a_stop_is_refused() {
    let started = start(Arc::new(MemoryMedium::new()));
    started.host.stop();
    assert_eq!(started.host.read(|_, _| ()).await, Err(HostGone));
    started.thread.join().unwrap();
}
