//! Access control: the index of ACLs against a plain model, the rules of the ACL APIs, and the law of replay for ACLs,
//! users and quotas.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod law;
mod model;
mod rules;
