//! What happens when the log takes no more records: a transition that could not be written did not happen.

use crate::world::{World, adding, at, batch, ending, initialise, owner, producing, staging};
use ottla_core::Input;
use ottla_core::transactions::{InitError, TransactionCheck};
use ottla_types::record::TransactionStatus;

#[test]
fn b_14_t_35_a_fence_that_cannot_be_written_uses_no_epoch_up() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    let before = world.shard.snapshot();
    for _ in 0..100 {
        world.refuse(0, initialise("t", None, 60_000));
        world.refuse(0, initialise("t", Some(me), 60_000));
    }
    assert_eq!(world.shard.snapshot(), before);
    assert_eq!(world.write_in("t", me, at(1, 0), 1), Ok(1), "the transaction is still open");
    assert_eq!(world.init("t", None), Err(InitError::Concurrent));
    assert_eq!(world.init("t", None), Ok(owner(0, 2)));
}

#[test]
fn t_94_what_cannot_be_written_did_not_happen() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    let open = world.init("open", None).unwrap();
    world.write_in("open", open, at(1, 0), 0).unwrap();
    let add = TransactionCheck::Add;
    let inputs = [
        initialise("t", None, 60_000),
        adding("t", me, &[at(1, 1)], add),
        staging("t", me, at(1, 0), 4),
        producing(Some("t"), add, &[(at(1, 1), batch(me, 0, 1, true))]),
        ending("t", me, false, true),
        ending("open", open, true, true),
        ending("open", open, true, false),
    ];
    let before = world.shard.snapshot();
    for input in &inputs {
        world.refuse(0, input.clone());
        assert_eq!(world.shard.snapshot(), before, "{input:?}");
    }
    // A timeout too, and it comes again.
    world.now = world.now.after(ottla_types::Millis(60_001));
    let later = world.shard.snapshot();
    world.refuse(0, Input::Tick);
    assert_eq!(world.shard.snapshot(), later);
    world.pass(1);
    let status = world.shard.transactions().get("open").unwrap().state().status;
    assert_eq!(status, TransactionStatus::CompleteAbort);
    assert_eq!(world.add("t", me, &[at(1, 1)]), [Ok(())], "nothing is stuck");
}

#[test]
fn t_94_after_a_part_of_a_step_its_retry_does_the_rest() {
    // The add was written, the batch was not.
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    let batches = [(at(1, 0), batch(me, 0, 1, true)), (at(1, 1), batch(me, 0, 1, true))];
    // Room for nothing, for the add, for nothing again, for the first batch.
    for room in [0, 1, 0, 1] {
        world.refuse(room, producing(Some("t"), TransactionCheck::Add, &batches));
    }
    let results = world.produce(Some("t"), TransactionCheck::Add, &batches);
    let offsets: Vec<_> = results.iter().map(|result| result.unwrap().base_offset.0).collect();
    assert_eq!(offsets, [0, 0], "each batch is there once");
    world.end("t", me, true, true).unwrap();
    for partition in 0..2 {
        assert_eq!(world.read_committed(at(1, partition), 0).sources.len(), 2, "a batch and its marker");
    }
}

#[test]
fn t_145_an_id_whose_first_record_was_refused_does_not_exist() {
    let mut world = World::new();
    for room in 0..2 {
        // With room for one record the producer ids are reserved, and the id is not written.
        world.refuse(room, initialise("t", None, 60_000));
        assert!(world.shard.transactions().get("t").is_none());
    }
    world.pass(604_800_000);
    let first = world.init("t", None).unwrap();
    assert_eq!(first.1.0, 0);
    let second = world.init("u", None).unwrap();
    assert_ne!(first.0, second.0);
    world.restart();
    assert_eq!(world.init("t", Some(first)), Ok((first.0, first.1.bumped())));
}
