//! Random histories: replaying the log gives the live state, and so does a snapshot at any point plus the rest of the
//! log.

use crate::ledger::{Owner, new_offset, no_member, p};
use crate::world::{Joiner, World, me};
use ottla_types::TopicPartition;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Join(u8),
    Sync(u8),
    Leave(u8),
    Heartbeat(u8),
    Pass(i64),
    Commit(i32),
    Stage(u8, i32),
    End(u8, bool),
    DeleteOffsets(i32),
    DeleteGroup,
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let member = 0..4u8;
    let partition = 0..2i32;
    prop_oneof![
        3 => member.clone().prop_map(Op::Join),
        3 => member.clone().prop_map(Op::Sync),
        1 => member.clone().prop_map(Op::Leave),
        1 => member.prop_map(Op::Heartbeat),
        1 => prop_oneof![Just(1), Just(5_000), Just(11_000), Just(700_000)].prop_map(Op::Pass),
        3 => partition.clone().prop_map(Op::Commit),
        4 => (0..2u8, partition.clone()).prop_map(|(id, partition)| Op::Stage(id, partition)),
        3 => (0..2u8, any::<bool>()).prop_map(|(id, commit)| Op::End(id, commit)),
        1 => partition.prop_map(Op::DeleteOffsets),
        1 => Just(Op::DeleteGroup),
        1 => Just(Op::Restart),
    ]
}

/// The offsets as the rules define them, in the simplest words: a list of what was written, in order.
#[derive(Default)]
struct Model {
    committed: BTreeMap<TopicPartition, (usize, i64)>,
    staged: Vec<(u8, TopicPartition, usize, i64)>,
}

impl Model {
    fn end(&mut self, id: u8, commit: bool) {
        for (_, at, written, value) in self.staged.iter().filter(|staged| staged.0 == id && commit) {
            let now = self.committed.entry(*at).or_insert((*written, *value));
            if now.0 <= *written {
                *now = (*written, *value);
            }
        }
        self.staged.retain(|staged| staged.0 != id);
    }
}

fn name(n: u8) -> String {
    // Two dynamic members and two static ones.
    if n < 2 { format!("d{n}") } else { format!("s{n}-1") }
}

fn run_group_op(world: &mut World, op: &Op) {
    let generation = world.joined_generation();
    match op {
        Op::Join(n) => {
            let joiner = Joiner::named(&name(*n));
            let known = world
                .shard
                .groups()
                .describe("g")
                .is_some_and(|group| group.members.iter().any(|member| member.member_id == name(*n)));
            world.join(&if known { joiner.known() } else { joiner });
        }
        Op::Sync(n) => drop(world.sync(&me(&name(*n), generation), &[(&name(*n), "assigned")])),
        Op::Leave(n) => drop(world.leave_all(&[(&name(*n), None)])),
        Op::Heartbeat(n) => drop(world.heartbeat(&me(&name(*n), generation))),
        _ => {}
    }
}

proptest! {
    #[test]
    fn t_186_replay_and_snapshots_agree_with_the_live_state(
        ops in prop::collection::vec(op(), 1..60),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut world = World::with(&[("offsets.retention.minutes", "10")]);
        let mut owners: [Owner; 2] = [world.init("t0"), world.init("t1")];
        let cut = cut.index(ops.len());
        let mut rows = None;
        for (n, op) in ops.iter().enumerate() {
            if n == cut {
                rows = Some((world.shard.snapshot(), world.log.len()));
            }
            match op {
                Op::Pass(span) => {
                    world.pass(*span);
                    // Overdue transactions are aborted, and their owners begin anew.
                    owners = [world.init("t0"), world.init("t1")];
                }
                Op::Commit(at) => drop(world.commit(&no_member(), p(*at), n as i64)),
                Op::Stage(id, at) => world.stage(&format!("t{id}"), owners[usize::from(*id)], p(*at), n as i64),
                Op::End(id, commit) => {
                    let n = usize::from(*id);
                    let open = world.shard.transactions().get(&format!("t{id}")).unwrap();
                    // A commit of nothing is refused; the test ends only what was begun.
                    if !open.offset_partitions().is_empty() {
                        owners[n] = world.end(&format!("t{id}"), owners[n], *commit);
                    }
                }
                Op::DeleteOffsets(at) => drop(world.delete_offsets(&[p(*at)])),
                Op::DeleteGroup => drop(world.delete_group("g")),
                Op::Restart => world.restart(),
                op => run_group_op(&mut world, op),
            }
        }
        let (rows, tail) = rows.unwrap();
        prop_assert_eq!(world.rebuilt(&rows, tail), world.shard.snapshot());
        world.restart();
    }

    #[test]
    fn t_185_t_187_any_interleaving_is_decided_by_position(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        let mut owners: [Owner; 2] = [world.init("t0"), world.init("t1")];
        let mut model = Model::default();
        for (n, op) in ops.iter().enumerate() {
            let value = n as i64;
            match op {
                Op::Commit(at) => {
                    world.commit(&no_member(), p(*at), value).unwrap();
                    model.committed.insert(p(*at), (n, value));
                }
                Op::Stage(id, at) => {
                    world.stage(&format!("t{id}"), owners[usize::from(*id)], p(*at), value);
                    model.staged.push((*id, p(*at), n, value));
                }
                Op::End(id, commit) if model.staged.iter().any(|staged| staged.0 == *id) => {
                    owners[usize::from(*id)] = world.end(&format!("t{id}"), owners[usize::from(*id)], *commit);
                    model.end(*id, *commit);
                }
                Op::Restart => world.restart(),
                _ => {}
            }
            for at in [p(0), p(1)] {
                prop_assert_eq!(world.fetch(at), model.committed.get(&at).map(|(_, value)| *value));
                prop_assert_eq!(world.is_unstable(at), model.staged.iter().any(|staged| staged.1 == at));
            }
        }
    }

    #[test]
    fn plain_offsets_are_kept(offsets in prop::collection::vec((0..3i32, 0..100i64), 1..10)) {
        let mut world = World::new();
        let asked = offsets.iter().map(|(at, value)| new_offset(p(*at), *value)).collect();
        let results = world.commit_all(&no_member(), asked);
        prop_assert!(results.iter().all(Result::is_ok));
        world.restart();
        for (at, _) in &offsets {
            let last = offsets.iter().rev().find(|(other, _)| other == at).map(|(_, value)| *value);
            prop_assert_eq!(world.fetch(p(*at)), last);
        }
    }
}
