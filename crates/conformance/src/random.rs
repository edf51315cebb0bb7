//! Random histories, written as scripts: several producers, transactions, a group, readers, restarts. The same seed
//! and number give the same history.

use std::fmt::Write;

/// Transactional ids, and partitions of the one topic.
const PRODUCERS: u64 = 3;
const PARTITIONS: u64 = 2;

/// The text of a history of so many steps. Its script is named after seed and number.
pub fn history(seed: u64, number: u64, steps: usize) -> String {
    let mut chance =
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    let mut story = Story::default();
    let mut out = format!("== random-{seed}-{number}\ntopic t {PARTITIONS}\n");
    for producer in 0..PRODUCERS {
        story.init(&mut chance, producer, &mut out);
    }
    for _ in 0..steps {
        story.step(&mut chance, &mut out);
    }
    story.look(&mut out);
    out
}

/// Splitmix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number within bounds, both included.
    fn within(&mut self, min: u64, max: u64) -> u64 {
        min + self.below(max - min + 1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The state that the generator expects. Where it is wrong, the requests are invalid, which is tested as well.
#[derive(Default)]
struct Story {
    /// The next sequence number, by producer and partition.
    next: [[u64; PARTITIONS as usize]; PRODUCERS as usize],
    /// The partitions of each producer's transaction.
    added: [[bool; PARTITIONS as usize]; PRODUCERS as usize],
    /// Whether the group has its member.
    member: bool,
    /// How many member ids the static member of the group `~s` has had.
    static_ids: u64,
    commits: u64,
}

/// Writes a line; writing to a String cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        let _ = writeln!($out, $($arg)*);
    };
}

impl Story {
    fn step(&mut self, chance: &mut Chance, out: &mut String) {
        let p = chance.below(PRODUCERS);
        match chance.below(110) {
            100..107 => self.static_group(chance, p, out),
            107..110 => configure(chance, out),
            0..6 => self.init(chance, p, out),
            6..16 => self.add(chance, p, out),
            16..40 => self.produce(chance, p, out),
            40..44 => plain(chance, out),
            44..48 => {
                let version = chance.within(0, 4);
                line!(
                    out,
                    r#"AddOffsetsToTxn {version} {{"transactionalId":"~x{p}","producerId":"$p{p}","producerEpoch":{},"groupId":"~g"}}"#,
                    epoch(chance, p)
                );
            }
            48..56 => self.stage(chance, p, out),
            56..70 => self.end(chance, p, out),
            70..75 => self.commit(chance, out),
            75..80 => offsets(chance.within(1, 10), chance.one_in(2), out),
            80..88 => fetch(chance, out),
            88..92 => list(chance, out),
            92..97 => self.group(chance, out),
            97 => delete(chance, out),
            98 => {
                line!(out, r#"DescribeTransactions 0 {{"transactionalIds":["~x{p}"]}}"#);
            }
            _ => {
                line!(out, "restart");
            }
        }
    }

    fn init(&mut self, chance: &mut Chance, p: u64, out: &mut String) {
        let version = chance.within(0, 5);
        line!(
            out,
            r#"InitProducerId {version} {{"transactionalId":"~x{p}","transactionTimeoutMs":60000}} => p{p}?=producerId e{p}?=producerEpoch"#
        );
        self.next[p as usize] = Default::default();
        self.added[p as usize] = Default::default();
    }

    fn add(&mut self, chance: &mut Chance, p: u64, out: &mut String) {
        let (version, partition) = (chance.within(0, 3), chance.below(PARTITIONS));
        self.added[p as usize][partition as usize] = true;
        line!(
            out,
            r#"AddPartitionsToTxn {version} {{"v3AndBelowTransactionalId":"~x{p}","v3AndBelowProducerId":"$p{p}","v3AndBelowProducerEpoch":{},"v3AndBelowTopics":[{{"name":"~t","partitions":[{partition}]}}]}}"#,
            epoch(chance, p)
        );
    }

    fn produce(&mut self, chance: &mut Chance, p: u64, out: &mut String) {
        let (partition, count) = (chance.below(PARTITIONS), chance.within(1, 3));
        let version = if chance.one_in(2) { chance.within(12, 13) } else { chance.within(3, 11) };
        let added = &mut self.added[p as usize][partition as usize];
        *added |= version >= 12;
        // What will be refused does not count: Kafka remembers its sequence number, Ottla does not.
        let count = if *added { count } else { 0 };
        let next = &mut self.next[p as usize][partition as usize];
        let sequence = match chance.below(12) {
            0 => *next + 1,
            1 => next.saturating_sub(1),
            2 => 0,
            _ => {
                *next += count;
                *next - count
            }
        };
        let (count, transactional) = (count.max(1), *added || !chance.one_in(12));
        line!(
            out,
            r#"Produce {version} {{"transactionalId":"~x{p}","acks":-1,"timeoutMs":5000,"topicData":[{{"name":"~t","topicId":"$t","partitionData":[{{"index":{partition},"records":{{"$batch":{{"pid":"$p{p}","epoch":{},"seq":{sequence},"count":{count},"txn":{transactional},"time":{}}}}}}}]}}]}}"#,
            epoch(chance, p),
            chance.below(20)
        );
    }

    fn stage(&mut self, chance: &mut Chance, p: u64, out: &mut String) {
        self.commits += 1;
        let (version, partition) = (chance.within(0, 6), chance.below(PARTITIONS));
        let member = match self.member && chance.one_in(2) {
            true if version >= 3 => r#""generationIdOrMemberEpoch":"$gen","memberId":"$m","#,
            _ => "",
        };
        line!(
            out,
            r#"TxnOffsetCommit {version} {{"transactionalId":"~x{p}","groupId":"~g","producerId":"$p{p}","producerEpoch":{},{member}"topics":[{{"name":"~t","topicId":"$t","partitions":[{{"partitionIndex":{partition},"committedOffset":{}}}]}}]}}"#,
            epoch(chance, p),
            self.commits
        );
    }

    fn end(&mut self, chance: &mut Chance, p: u64, out: &mut String) {
        let version = if chance.one_in(2) { 5 } else { chance.within(0, 4) };
        let taken =
            if version == 5 { format!("=> p{p}?=producerId e{p}?=producerEpoch") } else { String::new() };
        let committed = !chance.one_in(3);
        line!(
            out,
            r#"EndTxn {version} {{"transactionalId":"~x{p}","producerId":"$p{p}","producerEpoch":{},"committed":{committed}}} {taken}"#,
            epoch(chance, p)
        );
        self.added[p as usize] = Default::default();
        if version == 5 {
            self.next[p as usize] = Default::default();
        }
    }

    fn commit(&mut self, chance: &mut Chance, out: &mut String) {
        self.commits += 1;
        let (version, partition) = (chance.within(2, 10), chance.below(PARTITIONS));
        let who = match self.member {
            true => r#""generationIdOrMemberEpoch":"$gen","memberId":"$m""#,
            false => r#""generationIdOrMemberEpoch":-1,"memberId":"""#,
        };
        line!(
            out,
            r#"OffsetCommit {version} {{"groupId":"~g",{who},"topics":[{{"name":"~t","topicId":"$t","partitions":[{{"partitionIndex":{partition},"committedOffset":{}}}]}}]}}"#,
            self.commits
        );
    }

    /// One member at most, so that no member waits for another.
    fn group(&mut self, chance: &mut Chance, out: &mut String) {
        let join = |member: &str, taken: &str| {
            format!(
                r#"JoinGroup 5 {{"groupId":"~g","sessionTimeoutMs":60000,"rebalanceTimeoutMs":3000,"memberId":"{member}","protocolType":"consumer","protocols":[{{"name":"range","metadata":"AAEC"}}]}} => {taken}"#
            )
        };
        let sync = r#"SyncGroup 3 {"groupId":"~g","generationId":"$gen","memberId":"$m","assignments":[{"memberId":"$m","assignment":"BQYH"}]}"#;
        match (self.member, chance.below(4)) {
            (false, 0..3) => {
                line!(out, "{}\n{}\n{sync}", join("", "m=memberId"), join("$m", "gen?=generationId"));
                self.member = true;
            }
            (false, _) => {
                line!(out, r#"DeleteGroups 2 {{"groupsNames":["~g"]}}"#);
            }
            (true, 0) => {
                line!(out, r#"LeaveGroup 3 {{"groupId":"~g","members":[{{"memberId":"$m"}}]}}"#);
                self.member = false;
            }
            (true, 1) => {
                // A generation without SyncGroup does not survive a restart, in Kafka neither.
                line!(out, "{}\n{sync}", join("$m", "gen?=generationId"));
            }
            (true, 2) => {
                line!(out, r#"DescribeGroups 5 {{"groups":["~g"]}}"#);
            }
            (true, _) => {
                line!(out, "{sync}");
            }
        }
    }

    /// A group with one static member, which joins again without its member id, and whose earlier ids are fenced.
    fn static_group(&mut self, chance: &mut Chance, p: u64, out: &mut String) {
        if self.static_ids == 0 || chance.one_in(5) {
            self.static_ids += 1;
            let (version, id) = (chance.within(5, 9), self.static_ids);
            line!(
                out,
                r#"JoinGroup {version} {{"groupId":"~s","sessionTimeoutMs":60000,"rebalanceTimeoutMs":3000,"memberId":"","groupInstanceId":"one","protocolType":"consumer","protocols":[{{"name":"range","metadata":"AAEC"}}]}} => s{id}=memberId sg?=generationId"#
            );
            line!(
                out,
                r#"SyncGroup 3 {{"groupId":"~s","generationId":"$sg","memberId":"$s{id}","groupInstanceId":"one","assignments":[{{"memberId":"$s{id}","assignment":"BQYH"}}]}}"#
            );
            return;
        }
        let id = if chance.one_in(4) { chance.within(1, self.static_ids) } else { self.static_ids };
        self.commits += 1;
        let (partition, offset) = (chance.below(PARTITIONS), self.commits);
        let member =
            format!(r#""generationIdOrMemberEpoch":"$sg","memberId":"$s{id}","groupInstanceId":"one""#);
        let topics = format!(
            r#""topics":[{{"name":"~t","topicId":"$t","partitions":[{{"partitionIndex":{partition},"committedOffset":{offset}}}]}}]"#
        );
        match chance.below(6) {
            0 => {
                line!(
                    out,
                    r#"Heartbeat {} {{"groupId":"~s","generationId":"$sg","memberId":"$s{id}","groupInstanceId":"one"}}"#,
                    chance.within(3, 4)
                );
            }
            1 => {
                let version = chance.within(7, 10);
                line!(out, r#"OffsetCommit {version} {{"groupId":"~s",{member},{topics}}}"#);
            }
            2 => {
                let (version, epoch) = (chance.within(3, 6), epoch(chance, p));
                line!(
                    out,
                    r#"TxnOffsetCommit {version} {{"transactionalId":"~x{p}","groupId":"~s","producerId":"$p{p}","producerEpoch":{epoch},{member},{topics}}}"#
                );
            }
            3 => {
                let member =
                    if chance.one_in(2) { format!(r#""memberId":"$s{id}","#) } else { String::new() };
                line!(
                    out,
                    r#"LeaveGroup {} {{"groupId":"~s","members":[{{{member}"groupInstanceId":"one"}}]}}"#,
                    chance.within(3, 5)
                );
            }
            4 => {
                line!(out, r#"DescribeGroups 5 {{"groups":["~s"]}}"#);
            }
            _ => {
                line!(
                    out,
                    r#"OffsetFetch 7 {{"groupId":"~s","topics":[{{"name":"~t","topicId":"$t","partitionIndexes":[0,1]}}],"requireStable":false}}"#
                );
            }
        }
    }

    /// At the end the history reads everything that clients can see.
    fn look(&self, out: &mut String) {
        for partition in 0..PARTITIONS {
            for isolation in 0..2 {
                read(12, partition, 0, isolation, out);
                line!(
                    out,
                    r#"ListOffsets 7 {{"replicaId":-1,"isolationLevel":{isolation},"topics":[{{"name":"~t","partitions":[{{"partitionIndex":{partition},"timestamp":-1}}]}}]}}"#
                );
            }
        }
        offsets(7, false, out);
        offsets(7, true, out);
        line!(out, r#"DescribeTransactions 0 {{"transactionalIds":["~x0","~x1","~x2"]}}"#);
        line!(out, r#"DescribeProducers 0 {{"topics":[{{"name":"~t","partitionIndexes":[0,1]}}]}}"#);
        line!(out, r#"DescribeGroups 5 {{"groups":["~g","~s"]}}"#);
    }
}

/// Mostly the producer's epoch, now and then an older or a newer one.
fn epoch(chance: &mut Chance, p: u64) -> String {
    match chance.below(20) {
        0 => format!("\"$e{p}-1\""),
        1 => format!("\"$e{p}+1\""),
        _ => format!("\"$e{p}\""),
    }
}

/// Changes a configuration of the topic that decides which batches it accepts and how it stores them.
fn configure(chance: &mut Chance, out: &mut String) {
    let (name, value) = match chance.below(6) {
        0 => ("cleanup.policy", "compact"),
        1 => ("cleanup.policy", "delete"),
        2 => ("max.message.bytes", "90"),
        3 => ("max.message.bytes", "1048588"),
        4 => ("message.timestamp.type", "LogAppendTime"),
        _ => ("message.timestamp.type", "CreateTime"),
    };
    line!(
        out,
        r#"IncrementalAlterConfigs {} {{"resources":[{{"resourceType":2,"resourceName":"~t","configs":[{{"name":"{name}","configOperation":0,"value":"{value}"}}]}}]}}"#,
        chance.within(0, 1)
    );
}

fn plain(chance: &mut Chance, out: &mut String) {
    let (version, partition, count) = (chance.within(3, 13), chance.below(PARTITIONS), chance.within(1, 3));
    line!(
        out,
        r#"Produce {version} {{"acks":-1,"timeoutMs":5000,"topicData":[{{"name":"~t","topicId":"$t","partitionData":[{{"index":{partition},"records":{{"$batch":{{"count":{count},"time":{}}}}}}}]}}]}}"#,
        chance.below(20)
    );
}

fn offsets(version: u64, stable: bool, out: &mut String) {
    let topics = r#"[{"name":"~t","topicId":"$t","partitionIndexes":[0,1]}]"#;
    line!(
        out,
        r#"OffsetFetch {version} {{"groupId":"~g","topics":{topics},"groups":[{{"groupId":"~g","topics":{topics}}}],"requireStable":{stable}}}"#
    );
}

fn read(version: u64, partition: u64, offset: u64, isolation: u64, out: &mut String) {
    line!(
        out,
        r#"Fetch {version} {{"maxWaitMs":0,"minBytes":0,"maxBytes":1000000,"isolationLevel":{isolation},"sessionEpoch":-1,"topics":[{{"topic":"~t","topicId":"$t","partitions":[{{"partition":{partition},"currentLeaderEpoch":-1,"fetchOffset":{offset},"partitionMaxBytes":1000000}}]}}]}}"#
    );
}

fn fetch(chance: &mut Chance, out: &mut String) {
    let (version, partition, offset) = (chance.within(4, 18), chance.below(PARTITIONS), chance.below(12));
    read(version, partition, offset, chance.below(2), out);
}

fn list(chance: &mut Chance, out: &mut String) {
    let (version, partition, isolation) = (chance.within(7, 11), chance.below(PARTITIONS), chance.below(2));
    let time = match chance.below(4) {
        0 => "-1".to_owned(),
        1 => "-2".to_owned(),
        2 => "-3".to_owned(),
        _ => format!("\"$time+{}\"", chance.below(22)),
    };
    line!(
        out,
        r#"ListOffsets {version} {{"replicaId":-1,"isolationLevel":{isolation},"topics":[{{"name":"~t","partitions":[{{"partitionIndex":{partition},"timestamp":{time}}}]}}]}}"#
    );
}

fn delete(chance: &mut Chance, out: &mut String) {
    let (version, partition, offset) = (chance.within(0, 2), chance.below(PARTITIONS), chance.below(6));
    line!(
        out,
        r#"DeleteRecords {version} {{"timeoutMs":5000,"topics":[{{"name":"~t","partitions":[{{"partitionIndex":{partition},"offset":{offset}}}]}}]}}"#
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse;
    use std::collections::BTreeMap;

    #[test]
    fn a_seed_gives_one_history_and_it_is_a_script() {
        let text = history(7, 3, 300);
        assert_eq!(text, history(7, 3, 300));
        assert_ne!(text, history(7, 4, 300).replace("random-7-4", "random-7-3"));
        let scripts = parse("random", &text, &|info| info.request_versions, &mut BTreeMap::new()).unwrap();
        assert!(scripts[0].steps.len() > 300);
        for api in ["InitProducerId", "EndTxn", "TxnOffsetCommit", "JoinGroup", "Fetch", "restart"] {
            assert!(text.contains(api), "{api}");
        }
    }
}
