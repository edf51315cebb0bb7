//! What happens to the machine: power failures, kills, a disk that errs or fills up, pauses.

use std::sync::Arc;

use ottla_store::testing::{Fault, NameEvent};
use tokio::time::sleep;

use crate::chance::Chance;
use crate::machine::{Fate, Order};
use crate::plan::ms;
use crate::world::World;

/// Strikes at times by chance until it is aborted.
pub(crate) async fn run(world: Arc<World>, mut chance: Chance) {
    let Some(every) = world.plan.faults.machine else { return };
    loop {
        sleep(ms(chance.within(1..2 * every))).await;
        if world.is_up() {
            strike(&world, &mut chance).await;
        }
    }
}

async fn strike(world: &World, chance: &mut Chance) {
    let order = |order| world.order(order);
    match chance.within(0..14) {
        0..=3 => order(Order::Disk(chance.within(1..12), Fault::Crash)),
        4 | 5 => {
            order(Order::Watch);
            sleep(ms(chance.within(1..60))).await;
            order(Order::End(chance.pick(&[Fate::Power, Fate::Killed, Fate::Stopped])));
        }
        6 => order(Order::Pause(chance.within(1..5000))),
        7 if world.plan.faults.disk_errors => order(Order::Disk(chance.within(1..12), Fault::Error)),
        8 if world.plan.faults.disk_full => {
            order(Order::Fill(chance.within(0..100_000)));
            sleep(ms(chance.within(100..4000))).await;
            order(Order::Empty);
        }
        10 | 11 => {
            // What is found there is only as good as the log behind it, and the other way round.
            let (naming, prefix) = chance.pick(&[
                (NameEvent::Added, "snapshot-"),
                (NameEvent::Added, "snapshot-"),
                (NameEvent::Added, "run-"),
                (NameEvent::Removed, "run-"),
                (NameEvent::Removed, "segment-"),
            ]);
            order(Order::Ambush(naming, prefix, chance.within(1..6)));
        }
        12 | 13 => order(Order::Lurk(chance.pick(&[Fate::Power, Fate::Killed, Fate::Stopped]))),
        _ => order(Order::End(Fate::Killed)),
    }
}
