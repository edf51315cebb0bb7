//! IncrementalAlterConfigs 0-1: changes the configuration of topics and of the broker key by key (KIP-339).
//! Left out: the same as in AlterConfigs, whose file implements both.

pub(crate) use super::alter_configs::{answer_incremental as answer, authorize_incremental as authorize};
