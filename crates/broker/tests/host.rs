//! The host's promise: no answer, of a write or of a read, leaves before what it rests on is durable.
#![expect(clippy::unwrap_used, reason = "a step that fails ends its test")]

use ottla_broker::host::{self, Host, HostGone, HostOptions, Started};
use ottla_core::catalog::{CatalogAnswer, CreateTopics, NewTopic};
use ottla_core::config::Settings;
use ottla_core::{Answer, Input};
use ottla_store::testing::{Fault, FaultMedium};
use ottla_store::{Medium, MediumFile, MemoryMedium, Options};
use ottla_types::TopicId;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

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

fn start(medium: Arc<dyn Medium>) -> Started {
    let options = HostOptions {
        settings: Settings::default(),
        log: Options::memory(),
        cluster_id: "ottla-test-cluster-id0".to_owned(),
        snapshot_every: u64::MAX,
    };
    host::start(medium, options).unwrap()
}

fn create(host: &Host, name: &str) -> impl Future<Output = Result<Answer, HostGone>> + use<> {
    let (host, name) = (host.clone(), name.to_owned());
    let mut id = [0; 16];
    id[..name.len()].copy_from_slice(name.as_bytes());
    async move {
        let make = move |ticket| {
            let topic = NewTopic {
                name,
                id: TopicId(id),
                partitions: 1,
                replication_factor: 1,
                assignments: Vec::new(),
                configs: BTreeMap::new(),
            };
            Input::CreateTopics(CreateTopics { ticket, topics: vec![topic], validate_only: false })
        };
        host.ask(make).await
    }
}

async fn topics(host: &Host) -> usize {
    host.read(|shard, _| shard.catalog().topics().count()).await.unwrap()
}

/// True if the future is still waiting after the host had every chance to answer it.
async fn waits<F: Future + Unpin>(host: &Host, future: &mut F) -> bool {
    let first = tokio::time::timeout(Duration::ZERO, &mut *future).await;
    // A peek goes through the host's queue behind the question, and is never held.
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
    // A read of the new state waits with it: a crash now would take back what it shows.
    let mut seen = Box::pin(topics(&host));
    assert!(waits(&host, &mut seen).await, "the read showed what was not durable");
    medium.shut(false);
    let Ok(Answer::Catalog(CatalogAnswer::Created(results))) = created.await else {
        panic!("another answer")
    };
    assert!(results[0].is_ok());
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
