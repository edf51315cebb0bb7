//! DescribeCluster, DescribeQuorum, DescribeAcls and DescribeLogDirs: the first requests of admin tools.

use crate::world::{Peer, broker};
use ottla_wire::ErrorCode;
use ottla_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;
use ottla_wire::messages::describe_quorum_request::{PartitionData, TopicData};
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::{
    DescribeAclsRequest, DescribeClusterRequest, DescribeLogDirsRequest, DescribeQuorumRequest,
    MetadataRequest,
};

#[tokio::test]
async fn the_cluster_is_one_broker_and_its_controller() {
    let server = broker(&[("node.id", "5")]).await;
    let mut peer = Peer::connect(&server).await;
    for version in 0..=2 {
        let request =
            DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
        let response = peer.call(&request, version).await;
        let broker = &response.brokers[0];
        assert_eq!((response.error_code, response.controller_id, broker.broker_id), (0, 5, 5));
        assert_eq!(broker.port, i32::from(server.local_addr().port()));
        assert_eq!(response.cluster_authorized_operations, 8096);
    }
    let endpoint = |endpoint_type| DescribeClusterRequest { endpoint_type, ..Default::default() };
    let code = peer.call(&endpoint(2), 1).await.error_code;
    assert_eq!(code, ErrorCode::MISMATCHED_ENDPOINT_TYPE.0);
    let code = peer.call(&endpoint(3), 1).await.error_code;
    assert_eq!(code, ErrorCode::UNSUPPORTED_ENDPOINT_TYPE.0);
}

#[tokio::test]
async fn the_quorum_is_one_voter() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for version in 0..=2 {
        let ask = |name: &str, partition_index| DescribeQuorumRequest {
            topics: vec![TopicData {
                topic_name: name.into(),
                partitions: vec![PartitionData { partition_index, ..Default::default() }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = peer.call(&ask("__cluster_metadata", 0), version).await;
        let quorum = &response.topics[0].partitions[0];
        assert_eq!((response.error_code, quorum.error_code, quorum.leader_id), (0, 0, 1));
        assert_eq!((quorum.current_voters.len(), quorum.current_voters[0].replica_id), (1, 1));
        for (name, partition) in [("other", 0), ("__cluster_metadata", 1)] {
            let response = peer.call(&ask(name, partition), version).await;
            let code = response.topics[0].partitions[0].error_code;
            assert_eq!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
        }
    }
}

#[tokio::test]
async fn there_are_no_acls() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for version in 1..=3 {
        let response = peer.call(&DescribeAclsRequest::default(), version).await;
        assert_eq!(response.error_code, ErrorCode::SECURITY_DISABLED.0);
    }
}

#[tokio::test]
async fn the_log_dir_lists_the_asked_partitions_that_exist() {
    let server = broker(&[("num.partitions", "2")]).await;
    let mut peer = Peer::connect(&server).await;
    for name in ["a", "b"] {
        let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
        peer.call(&MetadataRequest { topics: Some(vec![topic]), ..Default::default() }, 12).await;
    }
    let topic = |name: &str, partitions: &[i32]| DescribableLogDirTopic {
        topic: name.into(),
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    };
    let some = vec![topic("a", &[1, 7, -1]), topic("unknown", &[0])];
    let cases = [
        (None, vec![("a", vec![0, 1]), ("b", vec![0, 1])]),
        (Some(vec![]), vec![]),
        (Some(some), vec![("a", vec![1])]),
    ];
    for (topics, expected) in cases {
        for version in 1..=5 {
            let request = DescribeLogDirsRequest { topics: topics.clone(), ..Default::default() };
            let response = peer.call(&request, version).await;
            let folder = &response.results[0];
            assert_eq!((response.error_code, folder.error_code, &folder.log_dir[..]), (0, 0, "memory"));
            let shown: Vec<(&str, Vec<i32>)> = folder
                .topics
                .iter()
                .map(|topic| {
                    let partitions = topic.partitions.iter();
                    (&topic.name[..], partitions.map(|partition| partition.partition_index).collect())
                })
                .collect();
            assert_eq!(shown, expected);
        }
    }
}
