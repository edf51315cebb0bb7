//! Two frames whose every byte is known: TxnOffsetCommit version 5 and AddOffsetsToTxn version 4.

use bytes::Bytes;
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use ottla_wire::{ApiKey, Message, Text, frame};

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn txn_offset_commit_version_5_takes_56_and_25_bytes() {
    let request = TxnOffsetCommitRequest {
        generation_id_or_member_epoch: 0,
        group_instance_id: Some(Text::default()),
        topics: vec![TxnOffsetCommitRequestTopic {
            partitions: vec![TxnOffsetCommitRequestPartition {
                committed_leader_epoch: 0,
                committed_metadata: Some(Text::default()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let built = frame::request(0, Some(&Text::default()), &request, 5).unwrap();
    assert_eq!(built.len(), 56);
    assert_eq!(
        built.to_bytes(),
        bytes(
            "00000034 001c 0005 00000000 0000 00 01 01 0000000000000000 0000 00000000 01 01 02 01 02
             00000000 0000000000000000 00000000 01 00 00 00"
        )
    );
    let (header, mut body) = frame::read_request_header(&built.to_bytes().slice(4..)).unwrap();
    assert_eq!((header.api_key, header.api_version), (ApiKey::TXN_OFFSET_COMMIT, 5));
    assert_eq!(TxnOffsetCommitRequest::decode(&mut body, 5).unwrap(), request);
    assert_eq!(body.remaining(), 0);

    let response = TxnOffsetCommitResponse {
        topics: vec![TxnOffsetCommitResponseTopic {
            partitions: vec![TxnOffsetCommitResponsePartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(frame::response(0, &response, 5).unwrap().len(), 25);
}

#[test]
fn add_offsets_to_txn_version_4_takes_28_and_16_bytes() {
    let request = AddOffsetsToTxnRequest::default();
    let built = frame::request(0, Some(&Text::default()), &request, 4).unwrap();
    assert_eq!(built.len(), 28);
    assert_eq!(built.to_bytes(), bytes("00000018 0019 0004 00000000 0000 00 01 0000000000000000 0000 01 00"));
    assert_eq!(frame::response(0, &AddOffsetsToTxnResponse::default(), 4).unwrap().len(), 16);
}
