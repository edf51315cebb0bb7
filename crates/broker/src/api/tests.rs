//! Sends the smallest request of every API and version that is served, and broken variants of it.

use super::{APIS, Dispatch};
use crate::context::{Context, ContextOptions};
use crate::host::{self, HostOptions, Snapshots};
use crate::net::{ConnectionInfo, FrameBounds, Reply, RequestHandler};
use crate::session::AdvertisedAddress;
use bytes::Bytes;
use ottla_core::config::Settings;
use ottla_store::{MemoryMedium, Options};
use ottla_wire::ApiKey;
use ottla_wire::smallest_frame;
use ottla_wire::tables::Direction;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

async fn dispatch() -> Dispatch {
    let options = HostOptions {
        settings: Settings::default(),
        log: Options::memory(),
        cluster_id: "ottla-test-cluster-id0".to_owned(),
        snapshots: Snapshots::every(u64::MAX),
    };
    let started = host::start(Arc::new(MemoryMedium::new()), options).unwrap();
    let advertised = AdvertisedAddress { host: "localhost".to_owned(), port: 9092 };
    let options = ContextOptions::new(advertised, "memory");
    let context = Arc::new(Context::new(started.host, started.reader, options).await.unwrap());
    let listener = Arc::clone(&context.listener);
    Dispatch::new(context, listener)
}

/// The reply to a request; none if the request waits for another event.
async fn ask(dispatch: &Dispatch, frame: &[u8]) -> Option<Reply> {
    let info =
        ConnectionInfo { number: 1, peer: SocketAddr::from(([127, 0, 0, 1], 1)), certificate_name: None };
    match dispatch.begin(
        &mut dispatch.open(&info, &Arc::new(FrameBounds::of_requests())),
        Bytes::copy_from_slice(frame),
        1 << 20,
        None,
    ) {
        Ok(reply) => timeout(Duration::from_millis(20), reply).await.ok(),
        Err(why) => Some(Reply::Close(format!("{why:?}"))),
    }
}

/// The smallest request of every API and version, without its length prefix.
fn requests() -> impl Iterator<Item = (ApiKey, i16, Bytes)> {
    APIS.iter().flat_map(|api| {
        api.served().iter().map(|version| {
            let frame = smallest_frame(api.key, Direction::Request, version).unwrap();
            (api.key, version, frame.slice(4..))
        })
    })
}

#[tokio::test]
async fn every_served_version_answers_its_smallest_request() {
    let dispatch = dispatch().await;
    // The smallest Produce has acks 0, which is never answered.
    for (key, version, frame) in requests().filter(|(key, ..)| *key != ApiKey::PRODUCE) {
        let reply = ask(&dispatch, &frame).await;
        assert!(matches!(reply, Some(Reply::Send(..))), "{key} version {version}: {reply:?}");
    }
}

#[test]
fn apis_stand_in_the_order_of_their_numbers() {
    assert!(APIS.is_sorted_by_key(|api| api.key));
}

#[tokio::test]
async fn a_request_that_is_cut_short_is_refused_with_field_and_byte() {
    let dispatch = dispatch().await;
    for (key, version, frame) in requests() {
        for length in 8..frame.len() {
            let reply = ask(&dispatch, &frame[..length]).await;
            let Some(Reply::Close(why)) = reply else {
                panic!("{key} version {version}, {length} bytes: {reply:?}")
            };
            assert!(why.contains("at byte "), "{why}");
        }
    }
}

/// Whatever its bytes, a request gets a response, a refusal, or waits. It never causes a panic.
#[tokio::test]
async fn broken_requests_do_no_harm() {
    let dispatch = dispatch().await;
    for (_, _, frame) in requests() {
        for place in 8..frame.len() {
            for byte in [0x00, 0x01, 0x02, 0x7f, 0x80, 0xff] {
                let mut broken = frame.to_vec();
                broken[place] = byte;
                ask(&dispatch, &broken).await;
            }
        }
    }
    let (_, _, fine) = requests().find(|(key, ..)| *key == ApiKey::METADATA).unwrap();
    assert!(matches!(ask(&dispatch, &fine).await, Some(Reply::Send(..))));
}
