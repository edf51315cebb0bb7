//! DescribeAcls 1-3: always SECURITY_DISABLED, because there are no ACLs.

use crate::context::Context;
use crate::session::Session;
use ottla_wire::messages::{DescribeAclsRequest, DescribeAclsResponse};
use ottla_wire::{ErrorCode, Text};

pub(crate) async fn answer(
    _ctx: &Context,
    _session: &Session,
    _request: DescribeAclsRequest,
    _version: i16,
) -> DescribeAclsResponse {
    DescribeAclsResponse {
        error_code: ErrorCode::SECURITY_DISABLED.0,
        error_message: Some(Text::from_static(
            "this broker has no authorizer: every client may do everything",
        )),
        ..Default::default()
    }
}
