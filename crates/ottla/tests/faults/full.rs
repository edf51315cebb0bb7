//! A full disk of 64 MiB: the broker refuses data, serves everything else, and accepts data again once there is space.

use crate::binary::{LONG, Ottla};
use crate::work::{self, record};
use ottla_client::{Client, ClientError, GroupOffset, Membership, Node, Producer, ProducerOptions};
use ottla_wire::ErrorCode;
use ottla_wire::messages::DeleteTopicsRequest;
use ottla_wire::messages::delete_topics_request::DeleteTopicState;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A file system in a file, unmounted when this is dropped.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn new(mebibytes: u64) -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let (image, mount) = (folder.path().join("image"), folder.path().join("mount"));
        fs::File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        fs::create_dir(&mount).unwrap();
        let disk = Disk { folder };
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        run(Command::new("mount").args(["-o", "loop"]).args([&image, &mount]));
        disk
    }

    fn mount(&self) -> PathBuf {
        self.folder.path().join("mount")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a broker of a failed test may still have files open.
        let _ = Command::new("umount").arg("-l").arg(self.mount()).status();
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?} ended with {status}");
}

async fn producer(client: &Client, id: Option<&str>) -> Producer {
    let options = ProducerOptions { transactional_id: id.map(str::to_owned), ..Default::default() };
    Producer::start(client.clone(), options).await.unwrap()
}

/// Produces records of half a megabyte until the disk is full. Returns how many were acknowledged, and the error.
async fn fill(address: &str, topic: &str) -> (usize, ClientError) {
    let client = work::client(address, Duration::from_secs(2)).await.unwrap();
    let mut producer = producer(&client, None).await;
    let value = "x".repeat(500_000);
    for count in 0.. {
        if let Err(error) = producer.send(topic, Some(0), vec![record(&value)]).await {
            return (count, error);
        }
        assert!(count < 1000, "a disk of 64 MiB took {count} half megabytes");
    }
    unreachable!()
}

async fn delete(client: &Client, topic: &str) {
    let topic = DeleteTopicState { name: Some(topic.into()), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 5000, ..Default::default() };
    let answer = client.call(Node::Any, request).await.unwrap();
    assert_eq!(ErrorCode(answer.responses[0].error_code), ErrorCode::NONE);
}

async fn until_room(address: &str, topic: &str) {
    let begun = Instant::now();
    loop {
        let client = work::client(address, Duration::from_secs(2)).await.unwrap();
        let sent = producer(&client, None).await.send(topic, Some(0), vec![record("room")]).await;
        if sent.is_ok() {
            return;
        }
        assert!(begun.elapsed() < LONG, "no room: {sent:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Checks that everything except data is accepted while the disk is full.
async fn all_else_goes_on(client: &Client, open: &mut Producer, acknowledged: usize, round: i64) {
    assert_eq!(work::values(client, "t").await.unwrap().len(), acknowledged);
    let offset = GroupOffset { topic: "t".to_owned(), partition: 0, offset: round };
    client.commit_offsets(&Membership::outside("g"), &[offset]).await.unwrap();
    let committed = client.committed_so_far("g").await.unwrap();
    assert_eq!(committed[0].offset.offset, round);
    open.commit().await.unwrap();
    assert_eq!(work::values(client, "open").await.unwrap(), ["in a transaction"]);
}

async fn scenario(data: &Path, free: impl AsyncFn(&Client)) {
    let ottla = Ottla::start(data);
    let client = work::client(&ottla.address, LONG).await.unwrap();
    let mut open = producer(&client, Some("id")).await;
    open.begin().await.unwrap();
    open.send("open", Some(0), vec![record("in a transaction")]).await.unwrap();
    let (acknowledged, error) = fill(&ottla.address, "t").await;
    assert!(acknowledged > 20, "{acknowledged}: {error}");
    assert_eq!(error.code(), Some(ErrorCode::KAFKA_STORAGE_ERROR), "{error}");
    all_else_goes_on(&client, &mut open, acknowledged, 7).await;
    // After a restart on the full disk all data is there.
    ottla.kill();
    let ottla = Ottla::start(data);
    let client = work::client(&ottla.address, LONG).await.unwrap();
    assert_eq!(work::values(&client, "t").await.unwrap().len(), acknowledged);
    assert_eq!(work::values(&client, "open").await.unwrap(), ["in a transaction"]);
    free(&client).await;
    until_room(&ottla.address, "open").await;
    assert_eq!(work::values(&client, "open").await.unwrap(), ["in a transaction", "room"]);
    assert!(!ottla.said().contains("panicked"), "{}", ottla.said());
}

#[tokio::test]
#[ignore = "mounts a file system: cargo xtask faults"]
async fn a_full_64_mib_disk_refuses_data_only_and_a_deleted_topic_makes_room() {
    let disk = Disk::new(64);
    scenario(&disk.mount(), async |client| delete(client, "t").await).await;
}

#[tokio::test]
#[ignore = "mounts a file system: cargo xtask faults"]
async fn a_disk_filled_by_others_refuses_data_only_until_they_give_it_back() {
    let disk = Disk::new(64);
    let ballast = disk.mount().join("ballast");
    run(Command::new("fallocate").args(["-l", "20M"]).arg(&ballast));
    scenario(&disk.mount(), async |_| fs::remove_file(&ballast).unwrap()).await;
}
