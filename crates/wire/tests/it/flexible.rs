//! From which version on the APIs of transactions and offsets use the flexible encoding.

use ottla_wire::API_TABLE;

#[test]
fn t_02_the_first_flexible_versions() {
    let expected = [
        ("InitProducerId", 2),
        ("AddPartitionsToTxn", 3),
        ("AddOffsetsToTxn", 3),
        ("EndTxn", 3),
        ("WriteTxnMarkers", 1),
        ("TxnOffsetCommit", 3),
        ("DescribeTransactions", 0),
        ("ListTransactions", 0),
        ("DescribeProducers", 0),
        ("FindCoordinator", 3),
        ("OffsetFetch", 6),
        ("OffsetCommit", 8),
        ("Produce", 9),
        ("Fetch", 12),
    ];
    for (name, first) in expected {
        let api = API_TABLE.iter().find(|api| api.name == name).unwrap();
        assert_eq!((api.request_flexible.min, api.response_flexible.min), (first, first), "{name}");
        assert_eq!(api.request_header_version(first), 2, "{name}");
        assert_eq!(api.response_header_version(first), 1, "{name}");
        if first > api.request_versions.min {
            assert_eq!(api.request_header_version(first - 1), 1, "{name}");
            assert_eq!(api.response_header_version(first - 1), 0, "{name}");
        }
    }
}
