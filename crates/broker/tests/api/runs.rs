//! Clients see no difference when the batches of a partition lie in runs.

use crate::data::{TOPIC, batches, create, fetch_request, only, produce_request};
use crate::transactions::{end, owner, write};
use crate::world::{Peer, broker};
use bytes::Bytes;
use ottla_broker::Server;
use ottla_core::partitions::PartitionCommand;
use ottla_core::partitions::{Install, InstallParts, Isolation, ReadPlan};
use ottla_core::{Command, Input, Shard, Ticket};
use ottla_store::PartEnd;
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset, TopicId, TopicPartition};
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::ListOffsetsRequest;
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::{ErrorCode, Uuid};

const NOW: i64 = 1_700_000_000_000;

fn partition(id: Uuid) -> TopicPartition {
    TopicPartition { topic: TopicId(id.0), partition: 0 }
}

async fn plan(server: &Server, at: TopicPartition, from: i64) -> ReadPlan {
    let look = move |shard: &Shard, _| {
        let partition = shard.partitions().get(at).unwrap();
        partition.read(Offset(from), u64::MAX, true, Isolation::Uncommitted).unwrap()
    };
    server.context().shards().partitions().read(look).await.unwrap()
}

/// Installs parts, as the host does.
struct Installation(InstallParts);

impl Command for Installation {
    type Reply = ();

    fn into_input(self, _: Ticket<()>) -> Input {
        Input::Partitions(PartitionCommand::InstallParts(self.0))
    }
}

/// Writes the batches of a plan into a run, `per_part` in each part and without those in `gone`, and installs its
/// parts.
async fn rewrite(
    server: &Server,
    at: TopicPartition,
    plan: &ReadPlan,
    per_part: usize,
    gone: &[i64],
) -> Vec<RunPart> {
    let chunks = server.context().read_plan(plan).await.unwrap();
    let all: Vec<_> = chunks.iter().flat_map(ottla_wire::batch::split).map(Result::unwrap).collect();
    let runs = server.context().reader().runs();
    let mut writer = runs.writer(runs.next_number()).unwrap();
    let mut parts = Vec::new();
    for group in all.chunks(per_part) {
        writer.begin_part(at, Offset(group[0].header().base_offset)).unwrap();
        for batch in group.iter().filter(|batch| !gone.contains(&batch.header().base_offset)) {
            writer.push(batch.bytes(), Millis(0)).unwrap();
        }
        let last_offset = Offset(group[group.len() - 1].header().last_offset());
        parts.extend(writer.end_part(PartEnd { last_offset, clean: false, horizon: Millis::NONE }).unwrap());
    }
    writer.finish().unwrap();
    let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
    let (from, to) = (plan.sources[0].base_offset(), plan.last_offset().unwrap());
    let installs = vec![Install { partition: at, from, to, bytes, parts: parts.clone() }];
    let host = server.context().shards().partitions();
    // The command has no reply; the following read waits for it.
    tokio::select! {
        biased;
        _ = host.submit(Installation(InstallParts { installs })) => unreachable!(),
        settled = host.settled() => settled.unwrap(),
    }
    let look = move |shard: &Shard, _| shard.partitions().get(at).unwrap().parts().to_vec();
    let installed = host.read(look).await.unwrap();
    assert!(parts.iter().all(|part| installed.contains(part)), "{parts:?} {installed:?}");
    parts
}

fn records(times: &[i64]) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::Lz4);
    for time in times {
        let value = [b'v'; 300];
        builder.push(&NewRecord { timestamp: NOW + time, key: None, value: Some(&value), headers: &[] });
    }
    builder.build().unwrap()
}

/// Everything that a consumer reads from the first offset on: chunks and aborted transactions in their order.
async fn consume(
    peer: &mut Peer,
    id: Uuid,
    from: i64,
    max_bytes: i32,
    committed: bool,
) -> (Vec<u8>, Vec<i64>) {
    let (mut all, mut aborted, mut next) = (Vec::new(), Vec::new(), from);
    loop {
        let mut request = fetch_request(id, 17, next);
        request.isolation_level = i8::from(committed);
        request.max_bytes = i32::MAX;
        request.topics[0].partitions[0].partition_max_bytes = max_bytes;
        let row = only(peer.call(&request, 17).await);
        assert_eq!(row.error_code, 0);
        let Some(last) = batches(&row).last().map(|batch| batch.header().last_offset()) else {
            assert!(next >= if committed { row.last_stable_offset } else { row.high_watermark });
            return (all, aborted);
        };
        all.extend_from_slice(&row.records.as_ref().unwrap().to_bytes());
        aborted.extend(row.aborted_transactions.iter().flatten().map(|one| one.first_offset));
        next = last + 1;
    }
}

async fn offset_at(peer: &mut Peer, timestamp: i64, committed: bool) -> (i16, i64, i64) {
    let partition = ListOffsetsPartition { timestamp, ..Default::default() };
    let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![partition], ..Default::default() };
    let isolation_level = i8::from(committed);
    let request =
        ListOffsetsRequest { replica_id: -1, isolation_level, topics: vec![topic], ..Default::default() };
    let row = peer.call(&request, 9).await.topics.remove(0).partitions.remove(0);
    (row.error_code, row.timestamp, row.offset)
}

/// Everything that a client can read of the partition.
async fn seen(peer: &mut Peer, id: Uuid) -> Vec<(Vec<u8>, Vec<i64>, Vec<(i16, i64, i64)>)> {
    let mut all = Vec::new();
    for committed in [false, true] {
        for from in 0..12 {
            let (bytes, aborted) = consume(peer, id, from, 1 << 20, committed).await;
            let mut times = Vec::new();
            for time in [-1, -2, -3, -4, -5, NOW + from * 10 - 5, NOW + from * 10] {
                times.push(offset_at(peer, time, committed).await);
            }
            all.push((bytes, aborted, times));
            let (small, _) = consume(peer, id, from, 700, committed).await;
            assert_eq!(small, all[all.len() - 1].0);
        }
    }
    all
}

/// Data, an aborted transaction, and an open one at the end.
async fn fill(peer: &mut Peer, id: Uuid) {
    for times in [&[0, 50, 20][..], &[90], &[10, 30], &[80, 70]] {
        let response = peer.call(&produce_request(id, 0, records(times)), 12).await;
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    }
    let me = owner(peer, "t").await;
    assert_eq!(write(peer, Some("t"), me, 0, 12).await, ErrorCode::NONE);
    let (code, me) = end(peer, "t", me, false, 5).await;
    assert_eq!(code, ErrorCode::NONE);
    let response = peer.call(&produce_request(id, 0, records(&[60])), 12).await;
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(write(peer, Some("t"), me, 0, 12).await, ErrorCode::NONE);
}

#[tokio::test]
async fn clients_see_no_difference() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    fill(&mut peer, id).await;
    let before = seen(&mut peer, id).await;
    let at = partition(id);
    let mut first = plan(&server, at, 0).await;
    first.sources.truncate(3);
    rewrite(&server, at, &first, 2, &[]).await;
    assert_eq!(seen(&mut peer, id).await, before);
    // Then the whole partition, in three other shapes.
    for per_part in [9, 1, 4] {
        let all = plan(&server, at, 0).await;
        rewrite(&server, at, &all, per_part, &[]).await;
        assert_eq!(seen(&mut peer, id).await, before, "{per_part}");
    }
}

#[tokio::test]
async fn a_reader_passes_over_what_compaction_took() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    fill(&mut peer, id).await;
    let (before, _) = consume(&mut peer, id, 0, 1 << 20, false).await;
    let at = partition(id);
    let all = plan(&server, at, 0).await;
    let sizes: Vec<_> = all.batches().map(|batch| batch.base_offset.0).collect();
    // The middle of a part, the end of a part, and all of a part.
    rewrite(&server, at, &all, 3, &[sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]]).await;
    let (after, _) = consume(&mut peer, id, 0, 1 << 20, false).await;
    let (small, _) = consume(&mut peer, id, 0, 500, false).await;
    assert!(after.len() < before.len() && before.ends_with(&after[after.len() - 100..]));
    assert_eq!(small, after);
    for from in 3..10 {
        let (rest, _) = consume(&mut peer, id, from, 1 << 20, false).await;
        assert!(after.ends_with(&rest) && rest.len() < after.len(), "{from}");
    }
}

#[tokio::test]
async fn what_was_freed_since_it_was_planned_is_not_found() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    fill(&mut peer, id).await;
    let at = partition(id);
    let tail = plan(&server, at, 0).await;
    rewrite(&server, at, &tail, 3, &[]).await;
    let first = plan(&server, at, 0).await;
    let parts = rewrite(&server, at, &first, 9, &[]).await;
    let runs = server.context().reader().runs();
    let unused: Vec<_> = runs.list().into_iter().filter(|run| *run != parts[0].run).collect();
    runs.remove(&unused);
    while runs.list().len() > 1 {
        server.context().shards().partitions().snapshot().await.unwrap();
    }
    let error = server.context().read_plan(&first).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(!consume(&mut peer, id, 0, 1 << 20, false).await.0.is_empty());
}
