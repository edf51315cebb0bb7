//! ListGroups 0-5: all groups, or those in certain states and of certain types.
//! Left out: types other than "classic", of which there are no groups here.

use crate::authorizer::Resource;
use crate::context::Context;
use crate::host::HostGone;
use crate::session::Session;
use ottla_core::groups::GroupListing;
use ottla_types::acl::Operation;
use ottla_wire::Text;
use ottla_wire::messages::list_groups_response::ListedGroup;
use ottla_wire::messages::{ListGroupsRequest, ListGroupsResponse};

/// The type of every group.
const TYPE: &str = "classic";

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: ListGroupsRequest,
    _version: i16,
) -> Result<ListGroupsResponse, HostGone> {
    if !passes(&request.types_filter, TYPE) {
        return Ok(ListGroupsResponse::default());
    }
    let states = request.states_filter;
    let look = ctx.shards.groups().read(move |shard, _| {
        let wanted = shard.groups().list().filter(|group| passes(&states, group.state.name()));
        wanted.map(row).collect::<Vec<_>>()
    });
    let mut groups = look.await?;
    // S-319: a client that may not describe the cluster sees the groups that it may describe.
    let rights = ctx.rights(session);
    if !rights.probes(Operation::Describe, Resource::Cluster) {
        groups.retain(|group| rights.probes(Operation::Describe, Resource::Group(&group.group_id)));
    }
    Ok(ListGroupsResponse { groups, ..Default::default() })
}

/// Whether a filter, which ignores case, lets a word pass. An empty filter lets every word pass.
fn passes(filter: &[Text], word: &str) -> bool {
    filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(word))
}

fn row(group: GroupListing<'_>) -> ListedGroup {
    ListedGroup {
        group_id: group.group_id.into(),
        protocol_type: group.protocol_type.into(),
        group_state: Text::from_static(group.state.name()),
        group_type: Text::from_static(TYPE),
        ..Default::default()
    }
}
