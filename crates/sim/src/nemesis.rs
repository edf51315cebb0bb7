//! The faults of the machine: power failures, kills, disk errors, a full disk, pauses.

use crate::order::{Fate, Order};
use crate::plan::ms;
use crate::random::Random;
use crate::world::World;
use ottla_store::testing::{Fault, NameEvent};
use std::sync::Arc;
use tokio::time::sleep;

/// Injects faults at random times until it is aborted.
pub(crate) async fn run(world: Arc<World>, mut random: Random) {
    let Some(every) = world.plan.faults.machine else { return };
    loop {
        sleep(ms(random.within(1..2 * every))).await;
        if world.is_up() {
            strike(&world, &mut random).await;
        }
    }
}

async fn strike(world: &World, random: &mut Random) {
    let order = |order| world.order(order);
    match random.within(0..14) {
        0..=3 => order(Order::Disk(random.within(1..12), Fault::Crash)),
        4 | 5 => {
            order(Order::Watch);
            sleep(ms(random.within(1..60))).await;
            order(Order::End(random.pick(&[Fate::Power, Fate::Killed, Fate::Stopped])));
        }
        6 => order(Order::Pause(random.within(1..5000))),
        7 if world.plan.faults.disk_errors => order(Order::Disk(random.within(1..12), Fault::Error)),
        8 if world.plan.faults.disk_full => {
            order(Order::Fill(random.within(0..100_000)));
            sleep(ms(random.within(100..4000))).await;
            order(Order::Empty);
        }
        10 | 11 => {
            // A start needs both: the file and the log after its position.
            let (naming, prefix) = random.pick(&[
                (NameEvent::Added, "snapshot-"),
                (NameEvent::Added, "snapshot-"),
                (NameEvent::Added, "run-"),
                (NameEvent::Removed, "run-"),
                (NameEvent::Removed, "segment-"),
            ]);
            order(Order::CrashAtFile(naming, prefix, random.within(1..6)));
        }
        12 | 13 => order(Order::EndAtSnapshot(random.pick(&[Fate::Power, Fate::Killed, Fate::Stopped]))),
        _ => order(Order::End(Fate::Killed)),
    }
}
