//! The list of groups, and the page of one group with its members, assignment, offsets and lag.

use crate::error::HttpError;
use crate::format::moment;
use crate::layout::Layout;
use crate::request::PageRequest;
use crate::shard::groups::{self, GroupDetail, GroupRow, MemberRow, OffsetRow};
use askama::Template;
use serde::Serialize;

/// The list of groups.
#[derive(Template, Serialize)]
#[template(path = "groups.html")]
pub(crate) struct GroupsPage {
    #[serde(skip)]
    layout: Layout,
    #[serde(skip)]
    filter: String,
    groups: Vec<GroupRow>,
    /// Groups beyond the rows that are shown.
    left_out: usize,
}

pub(crate) async fn groups(request: PageRequest) -> Result<GroupsPage, HttpError> {
    let filter = request.query_param("q").unwrap_or_default().to_owned();
    let rows = groups::list(&request.app.broker, filter.clone()).await?;
    let (groups, left_out) = super::truncate(rows);
    Ok(GroupsPage { layout: request.layout("Groups", "Groups"), filter, groups, left_out })
}

/// One group.
#[derive(Template, Serialize)]
#[template(path = "group.html")]
pub(crate) struct GroupPage {
    #[serde(skip)]
    layout: Layout,
    id: String,
    state: &'static str,
    protocol_type: String,
    /// The assignment strategy; empty unless the group is stable.
    protocol: String,
    lag: i64,
    members: Vec<MemberRow>,
    members_left_out: usize,
    offsets: Vec<OffsetRow>,
    offsets_left_out: usize,
}

pub(crate) async fn group(request: PageRequest) -> Result<GroupPage, HttpError> {
    let id = request
        .query_param("id")
        .ok_or_else(|| HttpError::bad_request("say which group: /group?id=NAME"))?
        .to_owned();
    let group = groups::find(&request.app.broker, id.clone()).await?;
    let group = group.ok_or_else(|| HttpError::not_found(format!("there is no group {id:?}")))?;
    let GroupDetail { state, protocol_type, protocol, members, offsets } = group;
    let lag = offsets.iter().map(|one| one.lag).sum();
    let (members, members_left_out) = super::truncate(members);
    let (offsets, offsets_left_out) = super::truncate(offsets);
    Ok(GroupPage {
        layout: request.layout(format!("Group {id}"), "Groups"),
        id,
        state,
        protocol_type,
        protocol,
        lag,
        members,
        members_left_out,
        offsets,
        offsets_left_out,
    })
}
