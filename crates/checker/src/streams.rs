//! The judge of a run of the Kafka Streams application in e2e/streams, whose README describes its topics. It computes
//! the output from the input again and compares it with topics, changelogs and stores.

use crate::violation::{Violation, violation};
use std::collections::{BTreeMap, BTreeSet};

/// How many customers there are: order n is of customer n modulo this.
const CUSTOMERS: u64 = 20;
/// How many orders share a window of time.
const WINDOW: u64 = 50;

/// The records of a topic: partition, offset and value of each.
pub type Records = Vec<(i32, i64, String)>;

/// The observations of a run, collected after its end.
#[derive(Clone, Default)]
pub struct Evidence {
    /// Number of orders sent, and of payments: values `v0`, `v1`, ...
    pub orders: u64,
    /// Every topic. Inputs have `vN`; outputs, and the changelogs of their stores, `CUSTOMER n COUNT SUM` for every
    /// update of a customer's total or of its total within a window; the changelogs of the join `n AMOUNT`.
    pub topics: BTreeMap<String, Records>,
    /// The high watermark of each `TOPIC-PARTITION`.
    pub high: BTreeMap<String, i64>,
    /// The last stable offset of each `TOPIC-PARTITION`.
    pub stable: BTreeMap<String, i64>,
    /// The application's committed offset of each `TOPIC-PARTITION`.
    pub committed: BTreeMap<String, i64>,
    /// The stores of the instances in the end: `totals CUSTOMER n COUNT SUM`, `windows CUSTOMER n COUNT SUM`.
    pub stored: Vec<String>,
    /// The stores of a new instance that had to restore them.
    pub restored: Vec<String>,
    /// The application's own topics: `NAME CLEANUP-POLICY FIRST-OFFSETS`.
    pub own_topics: Vec<String>,
}

impl Evidence {
    /// Adds a record of a topic.
    pub fn add(&mut self, topic: &str, partition: i32, offset: i64, value: String) {
        self.topics.entry(topic.to_owned()).or_default().push((partition, offset, value));
    }

    /// The records of a topic by partition and offset.
    fn records(&self, topic: &str) -> Records {
        let mut records = self.topics.get(topic).cloned().unwrap_or_default();
        records.sort_unstable();
        records
    }
}

/// An aggregate's value after order `n` was counted in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Update {
    customer: String,
    n: u64,
    count: u64,
    sum: u64,
}

/// The key of an aggregate: a customer, and the number of its window if it has one.
type Key = (String, Option<u64>);

/// The values of each aggregate; more than one if two instances have it.
type Values = BTreeMap<Key, Vec<Update>>;

impl Update {
    fn parse(text: &str) -> Option<Update> {
        let mut words = text.split(' ');
        let customer = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        let update = Update { customer, n: number()?, count: number()?, sum: number()? };
        words.next().is_none().then_some(update)
    }

    fn key(&self, windowed: bool) -> Key {
        (self.customer.clone(), windowed.then_some(self.n / WINDOW))
    }
}

/// The amount of an order and its payment.
fn amount(n: u64) -> u64 {
    n * 31 % 1000 + n * 17 % 1000
}

/// Judges a run. An empty list means that every order was processed exactly once.
pub fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let all: BTreeSet<String> = (0..evidence.orders).map(|n| n.to_string()).collect();
    for topic in
        ["orders", "payments", "shop-paid-this-join-store-changelog", "shop-paid-other-join-store-changelog"]
    {
        let number =
            |value: &str| value.split(' ').next().unwrap_or_default().trim_start_matches('v').to_owned();
        let numbers = evidence.records(topic).iter().map(|(_, _, value)| number(value)).collect();
        each_once(topic, &all, numbers, &mut found);
    }
    for store in ["totals", "windows"] {
        let windowed = store == "windows";
        let last = counted(store, windowed, &evidence.records(store), &mut found);
        each_once(store, &all, last.numbers, &mut found);
        let log = latest(windowed, &evidence.records(&format!("shop-{store}-changelog")));
        same("changelog-differs", store, (&last.values, &log), &mut found);
        for (class, contents) in
            [("store-differs", &evidence.stored), ("restored-differs", &evidence.restored)]
        {
            let contents = contents_of(store, windowed, contents);
            same(class, store, (&last.values, &contents), &mut found);
        }
    }
    ends(evidence, &mut found);
    own_topics(&evidence.own_topics, &mut found);
    found
}

fn each_once(topic: &str, all: &BTreeSet<String>, numbers: Vec<String>, found: &mut Vec<Violation>) {
    let mut times: BTreeMap<&String, u32> = all.iter().map(|n| (n, 0)).collect();
    for n in &numbers {
        match times.get_mut(n) {
            Some(count) => *count += 1,
            None => found.push(violation("foreign", format!("{topic}: {n:?} was never sent"))),
        }
    }
    for (n, count) in times {
        match count {
            0 => found.push(violation("lost", format!("{topic}: {n} is not there"))),
            1 => {}
            _ => found.push(violation("duplicate", format!("{topic}: {n} is there {count} times"))),
        }
    }
}

/// The numbers of an output, and the last value of each aggregate.
struct OutputSummary {
    numbers: Vec<String>,
    values: Values,
}

/// Follows each aggregate through an output topic: its count grows by one, its sum by the order's amount.
fn counted(topic: &str, windowed: bool, output: &Records, found: &mut Vec<Violation>) -> OutputSummary {
    let (mut last, mut numbers) = (BTreeMap::<Key, (i32, Update)>::new(), Vec::new());
    for (partition, offset, value) in output {
        let place = format!("{topic}: {value:?} at {partition}/{offset}");
        let Some(update) = Update::parse(value) else {
            found.push(violation("foreign", format!("{place} is no update")));
            continue;
        };
        numbers.push(update.n.to_string());
        let before = last.get(&update.key(windowed));
        let (count, sum) = before.map_or((0, 0), |(_, before)| (before.count, before.sum));
        let right = update.count == count + 1 && update.sum == sum + amount(update.n);
        if !right || update.customer != format!("c{}", update.n % CUSTOMERS) {
            let what = format!("{place} follows count {count} and sum {sum}");
            found.push(violation("wrong-aggregate", what));
        }
        if before.is_some_and(|(before, _)| before != partition) {
            found.push(violation("scattered", format!("{place} is not where its key was before")));
        }
        last.insert(update.key(windowed), (*partition, update));
    }
    let values = last.into_iter().map(|(key, (_, update))| (key, vec![update])).collect();
    OutputSummary { numbers, values }
}

/// The last value of each key in a changelog.
fn latest(windowed: bool, log: &Records) -> Values {
    let updates = log.iter().filter_map(|(_, _, value)| Update::parse(value));
    updates.map(|update| (update.key(windowed), vec![update])).collect()
}

/// All values of each key in a store: more than one is found when two instances have it.
fn contents_of(store: &str, windowed: bool, contents: &[String]) -> Values {
    let mut values = Values::new();
    let named = contents.iter().filter_map(|line| line.split_once(' ')).filter(|(name, _)| *name == store);
    for update in named.filter_map(|(_, value)| Update::parse(value)) {
        values.entry(update.key(windowed)).or_default().push(update);
    }
    values
}

fn same(class: &'static str, store: &str, (output, other): (&Values, &Values), found: &mut Vec<Violation>) {
    let keys: BTreeSet<&Key> = output.keys().chain(other.keys()).collect();
    for key in keys {
        let (mine, theirs) = (output.get(key), other.get(key));
        if mine != theirs {
            let what = format!("{store}: the last output of {key:?} is {mine:?}, there it is {theirs:?}");
            found.push(violation(class, what));
        }
    }
}

/// No transaction is open, and the input is committed up to its end.
fn ends(evidence: &Evidence, found: &mut Vec<Violation>) {
    for (place, high) in &evidence.high {
        let stable = evidence.stable.get(place);
        if stable != Some(high) {
            let what = format!("{place} is stable up to {stable:?} only, of {high}");
            found.push(violation("open-transaction", what));
        }
        let input = place.starts_with("orders-") || place.starts_with("payments-");
        let committed = evidence.committed.get(place);
        if input && committed != Some(high) {
            let what = format!("{place} is committed at {committed:?}, and ends at {high}");
            found.push(violation("wrong-committed-offset", what));
        }
    }
}

/// Three repartition topics, whose consumed records the application deletes; and four changelogs, those of windows with
/// retention.
fn own_topics(topics: &[String], found: &mut Vec<Violation>) {
    let expected: BTreeMap<&str, &str> = BTreeMap::from([
        ("shop-orders-repartition", "delete"),
        ("shop-payments-repartition", "delete"),
        ("shop-sales-repartition", "delete"),
        ("shop-totals-changelog", "compact"),
        ("shop-windows-changelog", "compact,delete"),
        ("shop-paid-this-join-store-changelog", "delete"),
        ("shop-paid-other-join-store-changelog", "delete"),
    ]);
    let mut missing = expected.clone();
    for topic in topics {
        let words: Vec<&str> = topic.split(' ').collect();
        let [name, policy, first] = words[..] else {
            found.push(violation("own-topic", format!("{topic:?} makes no sense")));
            continue;
        };
        if missing.remove(name) != Some(policy) {
            found.push(violation("own-topic", format!("{name} has cleanup.policy {policy}")));
        }
        if (first == "0") == name.ends_with("-repartition") {
            found.push(violation("own-topic", format!("{name} starts at {first}")));
        }
    }
    for name in missing.keys() {
        found.push(violation("own-topic", format!("{name} is not there")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 120 orders, each processed once: six of each customer, in three windows.
    fn good() -> Evidence {
        let updates = |windowed: bool| {
            let mut sums = BTreeMap::<(u64, u64), (u64, u64)>::new();
            let update = |n: u64| {
                let window = if windowed { n / WINDOW } else { 0 };
                let (count, sum) = sums.entry((n % CUSTOMERS, window)).or_default();
                (*count, *sum) = (*count + 1, *sum + n * 31 % 1000 + n * 17 % 1000);
                format!("c{} {n} {count} {sum}", n % CUSTOMERS)
            };
            (0..120).map(update).collect::<Vec<_>>()
        };
        let input: Vec<String> = (0..120).map(|n| format!("v{n}")).collect();
        let paid: Vec<String> = (0..120).map(|n| format!("{n} 1")).collect();
        let (totals, windows) = (updates(false), updates(true));
        let last = |store: &str, updates: &[String], windowed| {
            let of: BTreeMap<Key, &String> =
                updates.iter().map(|u| (Update::parse(u).unwrap().key(windowed), u)).collect();
            of.into_values().map(|update| format!("{store} {update}")).collect::<Vec<_>>()
        };
        let stored = [last("totals", &totals, false), last("windows", &windows, true)].concat();
        let topics = [
            "orders-repartition delete 9",
            "payments-repartition delete 9",
            "sales-repartition delete 9",
            "totals-changelog compact 0",
            "windows-changelog compact,delete 0",
            "paid-this-join-store-changelog delete 0",
            "paid-other-join-store-changelog delete 0",
        ];
        let mut evidence = Evidence {
            orders: 120,
            restored: stored.clone(),
            stored,
            own_topics: topics.map(|topic| format!("shop-{topic}")).into(),
            ..Evidence::default()
        };
        for (topic, values) in [
            ("orders", &input),
            ("payments", &input),
            ("totals", &totals),
            ("windows", &windows),
            ("shop-totals-changelog", &totals),
            ("shop-windows-changelog", &windows),
            ("shop-paid-this-join-store-changelog", &paid),
            ("shop-paid-other-join-store-changelog", &paid),
        ] {
            for (offset, value) in (0..).zip(values) {
                evidence.add(topic, 0, offset, value.clone());
            }
            evidence.high.insert(format!("{topic}-0"), 120);
        }
        evidence.stable = evidence.high.clone();
        evidence.committed = evidence.high.clone();
        evidence
    }

    fn topic<'a>(evidence: &'a mut Evidence, topic: &str) -> &'a mut Records {
        evidence.topics.get_mut(topic).unwrap()
    }

    /// The classes found after good evidence was spoilt, each once.
    fn spoilt(spoil: impl Fn(&mut Evidence)) -> Vec<&'static str> {
        let mut evidence = good();
        spoil(&mut evidence);
        let classes: BTreeSet<_> = judge(&evidence).into_iter().map(|f| f.class).collect();
        classes.into_iter().collect()
    }

    #[test]
    fn a_good_run_passes() {
        assert_eq!(judge(&good()), []);
    }

    #[test]
    fn an_order_counted_twice_is_found() {
        let twice = |e: &mut Evidence| {
            let mut again = topic(e, "totals")[7].clone();
            again.1 = 120;
            topic(e, "totals").push(again);
        };
        assert_eq!(
            spoilt(twice),
            ["changelog-differs", "duplicate", "restored-differs", "store-differs", "wrong-aggregate"]
        );
        let joined =
            |e: &mut Evidence| e.add("shop-paid-other-join-store-changelog", 0, 120, "7 1".to_owned());
        assert_eq!(spoilt(joined), ["duplicate"]);
        assert_eq!(spoilt(|e| e.add("orders", 0, 120, "v7".to_owned())), ["duplicate"]);
    }

    #[test]
    fn a_lost_order_is_found() {
        assert_eq!(spoilt(|e| drop(topic(e, "windows").remove(3))), ["lost", "wrong-aggregate"]);
        assert_eq!(spoilt(|e| drop(topic(e, "payments").remove(3))), ["lost"]);
        assert_eq!(spoilt(|e| drop(topic(e, "shop-paid-this-join-store-changelog").remove(3))), ["lost"]);
    }

    #[test]
    fn a_wrong_sum_is_found() {
        assert_eq!(spoilt(|e| topic(e, "totals")[0].2 = "c0 0 1 5".to_owned()), ["wrong-aggregate"]);
    }

    #[test]
    fn a_value_that_was_not_sent_is_found() {
        let found = spoilt(|e| topic(e, "totals")[0].2 = "hello".to_owned());
        assert_eq!(found, ["foreign", "lost", "wrong-aggregate"]);
        assert_eq!(spoilt(|e| topic(e, "orders")[0].2 = "v999".to_owned()), ["foreign", "lost"]);
    }

    #[test]
    fn a_key_in_two_partitions_is_found() {
        assert_eq!(spoilt(|e| topic(e, "totals")[119].0 = 1), ["scattered"]);
    }

    #[test]
    fn a_changelog_that_is_behind_is_found() {
        assert_eq!(spoilt(|e| drop(topic(e, "shop-totals-changelog").pop())), ["changelog-differs"]);
        assert_eq!(spoilt(|e| drop(topic(e, "shop-windows-changelog").pop())), ["changelog-differs"]);
    }

    #[test]
    fn a_store_that_differs_is_found() {
        assert_eq!(spoilt(|e| drop(e.stored.remove(5))), ["store-differs"]);
        assert_eq!(spoilt(|e| drop(e.restored.pop())), ["restored-differs"]);
        assert_eq!(spoilt(|e| e.stored.push(e.stored[0].clone())), ["store-differs"]);
    }

    #[test]
    fn an_open_transaction_and_a_wrong_offset_are_found() {
        assert_eq!(spoilt(|e| *e.stable.get_mut("windows-0").unwrap() = 8), ["open-transaction"]);
        assert_eq!(spoilt(|e| *e.committed.get_mut("orders-0").unwrap() = 8), ["wrong-committed-offset"]);
        assert_eq!(
            spoilt(|e| e.committed.retain(|place, _| place != "payments-0")),
            ["wrong-committed-offset"]
        );
    }

    #[test]
    fn topics_with_a_wrong_cleanup_policy_are_found() {
        assert_eq!(
            spoilt(|e| e.own_topics[0] = "shop-orders-repartition delete 0".to_owned()),
            ["own-topic"]
        );
        assert_eq!(spoilt(|e| e.own_topics[3] = "shop-totals-changelog delete 0".to_owned()), ["own-topic"]);
        assert_eq!(spoilt(|e| drop(e.own_topics.pop())), ["own-topic"]);
    }
}
