//! The error codes of responses, wherever they stand.

use ottla_wire::ErrorCode;
use ottla_wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use ottla_wire::messages::{AddPartitionsToTxnResponse, Response, SaslHandshakeResponse};

fn codes(response: &impl Response) -> Vec<i16> {
    let mut codes = Vec::new();
    response.error_codes(&mut |ErrorCode(code)| codes.push(code));
    codes
}

#[test]
fn codes_are_found_on_top_and_below() {
    assert_eq!(codes(&SaslHandshakeResponse { error_code: 33, ..Default::default() }), [33]);
    let partition =
        |code| AddPartitionsToTxnPartitionResult { partition_error_code: code, ..Default::default() };
    let topic = AddPartitionsToTxnTopicResult {
        results_by_partition: vec![partition(0), partition(48)],
        ..Default::default()
    };
    let transaction = AddPartitionsToTxnResult { topic_results: vec![topic], ..Default::default() };
    let response = AddPartitionsToTxnResponse {
        error_code: 7,
        results_by_transaction: vec![transaction],
        ..Default::default()
    };
    assert_eq!(codes(&response), [7, 0, 48]);
}
