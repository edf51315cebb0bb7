//! What the trace keeps of the exchanges of a connection.

use crate::data::{create, fetch_request, produce_request};
use crate::transactions::{batch, end, owner, write};
use crate::world::{Peer, broker, header};
use ottla_broker::{Ending, Exchange, FRAME_CAP, Server, TraceFilter};
use ottla_wire::explain::{self, Options};
use ottla_wire::messages::{HeartbeatRequest, SaslAuthenticateRequest};
use ottla_wire::tables::TableSet;
use ottla_wire::{ApiKey, ErrorCode, Text, Uuid, frame};
use std::sync::Arc;
use std::time::Duration;

/// The exchanges of the trace, once there are `count`: a client may receive its response a moment before the trace has
/// it.
pub(crate) async fn kept(server: &Server, filter: &TraceFilter, count: usize) -> Vec<Arc<Exchange>> {
    loop {
        let all = server.context().trace().snapshot(filter);
        if all.len() >= count {
            return all;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A broker whose trace is on, a client, and the id of a topic.
pub(crate) async fn traced() -> (Server, Peer, Uuid) {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    server.context().trace().start(100);
    (server, peer, id)
}

#[tokio::test]
async fn off_it_keeps_nothing() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    assert_eq!(write(&mut peer, Some("t"), me, 0, 12).await, ErrorCode::NONE);
    let trace = server.context().trace();
    assert!(!trace.is_on());
    trace.start(10);
    trace.stop();
    end(&mut peer, "t", me, true, 5).await;
    let usage = trace.usage();
    assert_eq!((usage.exchanges, usage.bytes, usage.under_way, usage.missed), (0, 0, 0, 0));
    assert!(trace.snapshot(&TraceFilter::default()).is_empty());
    assert_eq!(trace.last_seq(), 0);
}

#[tokio::test]
async fn a_conversation_is_kept_whole_with_its_stages_and_the_verdict_on_a_fenced_producer() {
    let (server, mut peer, _) = traced().await;
    let zombie = owner(&mut peer, "x").await;
    let me = owner(&mut peer, "x").await;
    assert_eq!(write(&mut peer, Some("x"), me, 0, 12).await, ErrorCode::NONE);
    assert_eq!(write(&mut peer, Some("x"), zombie, 0, 12).await, ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(end(&mut peer, "x", zombie, true, 5).await.0, ErrorCode::PRODUCER_FENCED);
    let all = kept(&server, &TraceFilter::default(), 5).await;
    assert!(all.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1), "newest last");
    for exchange in &all {
        assert_eq!((exchange.client_id.as_str(), exchange.peer), ("test", peer.address()));
        assert_eq!(
            (&exchange.transactional_ids[..], &exchange.ending),
            (&["x".to_owned()][..], &Ending::Answered)
        );
        let stages: Vec<u64> = exchange.stages.reached().map(|(_, at)| at).collect();
        assert_eq!(stages.len(), 6, "{:?}", exchange.stages);
        assert!(stages.is_sorted(), "{:?}", exchange.stages);
        let response = exchange.response.as_ref().unwrap();
        assert!(!exchange.request.is_cut() && !response.is_cut());
        let options = Options::default();
        let request = explain::request(TableSet::built_in(), &exchange.request.bytes, &options);
        assert!(request.faults().is_empty(), "{:?}", request.faults());
        assert_eq!(request.head().unwrap().correlation_id, exchange.correlation_id);
        let answer = explain::response(
            TableSet::built_in(),
            exchange.api,
            exchange.version,
            &response.bytes,
            &options,
        );
        assert!(answer.faults().is_empty(), "{:?}", answer.faults());
    }
    let (good, late, last) = (&all[2], &all[3], &all[4]);
    assert_eq!(
        (&good.topics[..], good.verdicts.len(), good.errors.len()),
        (&["events".to_owned()][..], 0, 0)
    );
    assert_eq!(late.errors, [ErrorCode::INVALID_PRODUCER_EPOCH]);
    assert_eq!(
        late.verdicts[0].to_string(),
        format!("T-62: events-0: producer {} has epoch 0, current is 1: fenced", me.0)
    );
    assert_eq!(last.verdicts[0].code, ErrorCode::PRODUCER_FENCED);
    assert_eq!(
        last.verdicts[0].to_string(),
        format!("T-102: transactional id \"x\": producer {} has epoch 0, current is 1: fenced", me.0)
    );
}

#[tokio::test]
async fn a_filter_holds_while_recording_and_while_reading() {
    let (server, mut peer, id) = traced().await;
    let trace = server.context().trace();
    let produce = Some(ApiKey::PRODUCE);
    trace.set_filter(TraceFilter { topic: Some("events".to_owned()), ..TraceFilter::default() });
    let me = owner(&mut peer, "x").await;
    write(&mut peer, Some("x"), me, 0, 12).await;
    let mut request = produce_request(id, 1, batch(me, 0));
    request.topic_data[0].name = Text::default();
    request.transactional_id = Some("x".into());
    peer.call(&request, 13).await;
    peer.call(&fetch_request(id, 13, 0), 13).await;
    let all = kept(&server, &TraceFilter::default(), 3).await;
    assert_eq!(all.len(), 3, "InitProducerId is about no topic");
    assert!(all.iter().all(|exchange| exchange.topics == ["events"]), "an id is shown as its name");
    let count = |filter: TraceFilter| trace.snapshot(&filter).len();
    assert_eq!(count(TraceFilter { api: produce, ..TraceFilter::default() }), 2);
    assert_eq!(count(TraceFilter { transactional_id: Some("x".to_owned()), ..TraceFilter::default() }), 2);
    assert_eq!(count(TraceFilter { client_id: Some("tes".to_owned()), ..TraceFilter::default() }), 0);
    assert_eq!(count(TraceFilter { connection: Some(1), ..TraceFilter::default() }), 3);
    assert_eq!(trace.after(all[1].seq, &TraceFilter::default()).len(), 1);
    assert_eq!(trace.exchange(all[0].seq).unwrap().seq, all[0].seq);
    trace.set_filter(TraceFilter { connection: Some(2), ..TraceFilter::default() });
    write(&mut peer, Some("x"), me, 1, 12).await;
    let mut other = Peer::connect(&server).await;
    write(&mut other, Some("x"), me, 2, 12).await;
    let last = kept(&server, &TraceFilter::default(), 4).await;
    assert_eq!((last.len(), last[3].connection), (4, 2));
}

#[tokio::test]
async fn secrets_are_overwritten_and_keep_their_length() {
    let (server, mut peer, _) = traced().await;
    let client = Text::from_static("test");
    let request =
        SaslAuthenticateRequest { auth_bytes: (&b"\0bob\0hunter2"[..]).into(), ..Default::default() };
    let sent = frame::request(2, Some(&client), &request, 2).unwrap().to_bytes();
    let answer = peer.call(&request, 2).await;
    assert_eq!(answer.error_code, 34, "this listener has no SASL");
    let all = kept(&server, &TraceFilter::default(), 1).await;
    let kept_bytes = &all[0].request.bytes;
    assert_eq!(kept_bytes.len(), sent.len());
    assert!(!kept_bytes.windows(7).any(|part| part == b"hunter2"));
    let differ: Vec<u8> = kept_bytes.iter().zip(&sent).filter(|(a, b)| a != b).map(|(a, _)| *a).collect();
    assert_eq!(differ, [b'*'; 12]);
    assert!(matches!(all[0].ending, Ending::Answered), "{:?}", all[0].ending);
    // SASL without frames, as some clients send it after a handshake of version 0.
    let mut raw = Peer::connect(&server).await;
    raw.send_frame(b"\0bob-the-builder\0hunter2").await;
    assert!(raw.is_closed().await);
    let all = kept(&server, &TraceFilter::default(), 2).await;
    assert!(!all[1].request.bytes.windows(4).any(|part| part == b"hunt" || part == b"buil"));
}

#[tokio::test]
async fn a_large_frame_is_cut_and_a_request_that_cannot_be_read_is_kept() {
    let (server, mut peer, _) = traced().await;
    let request = HeartbeatRequest { group_id: "g".repeat(30_000).into(), ..Default::default() };
    peer.call(&request, 4).await;
    let mut large = produce_request(Uuid::ZERO, 0, vec![0; 2 * FRAME_CAP].into());
    large.acks = 0;
    peer.tell(&large, 12).await;
    assert!(peer.is_closed().await);
    let mut broken = Peer::connect(&server).await;
    broken.send_frame(&[&header(12, 4, Some("me"), true)[..], &[0xff, 1]].concat()).await;
    assert!(broken.is_closed().await);
    let all = kept(&server, &TraceFilter::default(), 3).await;
    let sizes: Vec<_> = all.iter().map(|one| (one.request.is_cut(), one.request.bytes.len())).collect();
    assert_eq!(sizes[1], (true, FRAME_CAP));
    assert_eq!((sizes[0].0, sizes[2].0), (false, false));
    assert!(all[1].request.size > 2 * FRAME_CAP);
    assert!(matches!(&all[1].ending, Ending::Closed(why) if why.contains("acks is 0")));
    assert!(matches!(&all[2].ending, Ending::Closed(why) if why.contains("byte")));
    assert_eq!((all[2].client_id.as_str(), all[2].api), ("me", ApiKey::HEARTBEAT));
}

#[tokio::test]
async fn the_ring_of_a_connection_and_the_bytes_of_all_are_bounded() {
    let (server, mut peer, _) = traced().await;
    let trace = server.context().trace();
    trace.start(3);
    for n in 0..10 {
        let request = HeartbeatRequest { group_id: format!("g{n}").into(), ..Default::default() };
        peer.call(&request, 4).await;
    }
    while trace.last_seq() < 10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let all = trace.snapshot(&TraceFilter::default());
    assert_eq!(all.iter().map(|one| one.groups[0].clone()).collect::<Vec<_>>(), ["g7", "g8", "g9"]);
    assert_eq!(all.iter().map(|one| one.seq).collect::<Vec<_>>(), [8, 9, 10]);
    let usage = trace.usage();
    assert_eq!((usage.exchanges, usage.ring, usage.under_way, usage.missed), (3, 3, 0, 0));
    trace.clear();
    assert_eq!((trace.usage().exchanges, trace.usage().bytes), (0, 0));
}
