//! The pages: what each shows, asked of the shard and written by a template.

pub(crate) mod overview;
