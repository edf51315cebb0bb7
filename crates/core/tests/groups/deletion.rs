//! Deleting groups.

use crate::world::{Joiner, World};
use ottla_core::groups::DeleteGroupError;

#[test]
fn t_188_only_a_group_without_members_is_deleted() {
    let mut world = World::new();
    world.stable(&["a"]);
    assert_eq!(world.delete_group("g"), Err(DeleteGroupError::NotEmpty));
    world.leave("a").unwrap();
    assert_eq!(world.delete_group("g"), Ok(()));
    assert_eq!(world.delete_group("g"), Err(DeleteGroupError::NotFound));
    world.restart();
    assert_eq!(world.state(), None);
    let ticket = world.join(&Joiner::new("a"));
    assert_eq!(world.joined(ticket).unwrap().generation, 1);
}
