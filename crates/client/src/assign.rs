//! The assignors of a classic group, which run in its leader.

use std::collections::BTreeMap;

/// How partitions are assigned to the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Range: of each topic a member gets consecutive partitions.
    #[default]
    Range,
    /// Round robin: the members get the partitions of all topics in turn.
    RoundRobin,
}

impl Strategy {
    /// The name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Range => "range",
            Strategy::RoundRobin => "roundrobin",
        }
    }
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) member_id: String,
    pub(crate) topics: Vec<String>,
}

/// Partitions by topic.
pub(crate) type Share = BTreeMap<String, Vec<i32>>;

/// Assigns every partition of the subscribed topics to exactly one of the topic's subscribers, by member id.
pub(crate) fn assign(
    strategy: Strategy,
    members: &[Subscriber],
    partitions: &BTreeMap<String, i32>,
) -> BTreeMap<String, Share> {
    let mut shares: BTreeMap<String, Share> =
        members.iter().map(|member| (member.member_id.clone(), Share::new())).collect();
    let mut turn = 0;
    for (topic, count) in partitions {
        let mut takers: Vec<&str> = members
            .iter()
            .filter(|member| member.topics.contains(topic))
            .map(|member| member.member_id.as_str())
            .collect();
        takers.sort_unstable();
        if takers.is_empty() {
            continue;
        }
        for partition in 0..*count {
            let place = match strategy {
                Strategy::Range => range_place(partition, *count, takers.len()),
                Strategy::RoundRobin => (turn + partition as usize) % takers.len(),
            };
            if let Some(share) = shares.get_mut(takers[place]) {
                share.entry(topic.clone()).or_default().push(partition);
            }
        }
        turn += *count as usize;
    }
    shares
}

/// The owner of a partition when `takers` members share `count` partitions in consecutive ranges. If they do not divide
/// evenly, the first members get one more.
fn range_place(partition: i32, count: i32, takers: usize) -> usize {
    let (partition, count) = (partition as usize, count as usize);
    let (each, more) = (count / takers, count % takers);
    let in_longer = more * (each + 1);
    if partition < in_longer { partition / (each + 1) } else { more + (partition - in_longer) / each.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    fn subscribers(topics: &[Vec<bool>]) -> Vec<Subscriber> {
        let names = |wanted: &Vec<bool>| {
            let topics = wanted.iter().enumerate().filter(|(_, wanted)| **wanted);
            topics.map(|(topic, _)| format!("t{topic}")).collect()
        };
        let member = |(place, wanted)| Subscriber { member_id: format!("m{place}"), topics: names(wanted) };
        topics.iter().enumerate().map(member).collect()
    }

    #[test]
    fn range_gives_runs_with_the_rest_to_the_first() {
        let members = subscribers(&[vec![true], vec![true], vec![true]]);
        let shares = assign(Strategy::Range, &members, &BTreeMap::from([("t0".to_owned(), 7)]));
        assert_eq!(shares["m0"]["t0"], [0, 1, 2]);
        assert_eq!(shares["m1"]["t0"], [3, 4]);
        assert_eq!(shares["m2"]["t0"], [5, 6]);
    }

    #[test]
    fn round_robin_goes_on_from_topic_to_topic() {
        let members = subscribers(&[vec![true, true], vec![true, true]]);
        let counts = BTreeMap::from([("t0".to_owned(), 3), ("t1".to_owned(), 3)]);
        let shares = assign(Strategy::RoundRobin, &members, &counts);
        assert_eq!(shares["m0"], BTreeMap::from([("t0".to_owned(), vec![0, 2]), ("t1".to_owned(), vec![1])]));
        assert_eq!(shares["m1"], BTreeMap::from([("t0".to_owned(), vec![1]), ("t1".to_owned(), vec![0, 2])]));
    }

    proptest! {
        #[test]
        fn every_partition_goes_to_exactly_one_subscriber(
            wanted in prop::collection::vec(prop::collection::vec(any::<bool>(), 4), 1..6),
            counts in prop::collection::vec(0..12_i32, 4),
            round_robin in any::<bool>(),
        ) {
            let members = subscribers(&wanted);
            let counts: BTreeMap<String, i32> =
                counts.iter().enumerate().map(|(topic, count)| (format!("t{topic}"), *count)).collect();
            let strategy = if round_robin { Strategy::RoundRobin } else { Strategy::Range };
            let shares = assign(strategy, &members, &counts);
            prop_assert_eq!(shares.len(), members.len());
            for (topic, count) in &counts {
                let takers: Vec<&Subscriber> = members.iter().filter(|m| m.topics.contains(topic)).collect();
                let sizes: Vec<usize> =
                    takers.iter().map(|m| shares[&m.member_id].get(topic).map_or(0, Vec::len)).collect();
                let mut dealt: Vec<i32> = shares.values().filter_map(|s| s.get(topic)).flatten().copied().collect();
                dealt.sort_unstable();
                let due = if takers.is_empty() { 0 } else { *count };
                prop_assert_eq!(dealt, (0..due).collect::<Vec<_>>());
                let spread = sizes.iter().max().unwrap_or(&0) - sizes.iter().min().unwrap_or(&0);
                prop_assert!(spread <= 1, "{topic}: {sizes:?}");
                for member in &members {
                    prop_assert!(member.topics.contains(topic) || !shares[&member.member_id].contains_key(topic));
                }
            }
        }
    }
}
