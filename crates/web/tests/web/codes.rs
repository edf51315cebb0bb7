//! The codes that the broker's sources can answer with, as they were gathered for the reference (`cargo xtask apis`).

const ERRORS: &str = include_str!("../../data/errors.tsv");

fn codes(api: &str) -> Vec<&'static str> {
    let row = ERRORS.lines().find_map(|line| line.strip_prefix(api)?.strip_prefix('\t'));
    row.unwrap_or_default().split(' ').collect()
}

#[test]
fn t_43_two_codes_are_never_sent() {
    assert!(codes("Produce").contains(&"OUT_OF_ORDER_SEQUENCE_NUMBER"), "the table is what it says");
    for never in ["UNKNOWN_PRODUCER_ID", "DUPLICATE_SEQUENCE_NUMBER"] {
        assert!(!ERRORS.contains(never), "{never}");
    }
}

#[test]
fn t_220_t_283_codes_that_an_api_never_sends() {
    assert!(codes("EndTxn").contains(&"PRODUCER_FENCED"), "the table is what it says");
    assert!(
        !codes("EndTxn").contains(&"TRANSACTION_ABORTABLE"),
        "an abort is never answered with a code that asks for an abort"
    );
    for api in ["Produce", "TxnOffsetCommit"] {
        assert!(!codes(api).contains(&"PRODUCER_FENCED"), "{api}");
    }
}
