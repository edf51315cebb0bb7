//! ListOffsets in all its versions.

use crate::world::{Peer, broker};
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::{ListOffsetsRequest, MetadataRequest};

#[tokio::test]
async fn the_ends_of_a_partition_are_told_in_every_version() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let topic = MetadataRequestTopic { name: Some("t".into()), ..Default::default() };
    let ask =
        MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: true, ..Default::default() };
    peer.call(&ask, 13).await;
    for version in 1..=11 {
        let partition = |timestamp| ListOffsetsPartition { timestamp, ..Default::default() };
        let partitions = vec![partition(-1), partition(-2)];
        let topic = ListOffsetsTopic { name: "t".into(), partitions, ..Default::default() };
        let ask = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        let response = peer.call(&ask, version).await;
        for partition in &response.topics[0].partitions {
            assert_eq!((partition.error_code, partition.offset), (0, 0), "version {version}");
            assert_eq!(partition.leader_epoch, if version < 4 { -1 } else { 0 });
        }
    }
}
