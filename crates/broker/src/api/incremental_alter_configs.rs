//! IncrementalAlterConfigs 0-1: changes the configuration of topics and of the broker key by key (KIP-339).
//! Left out: what AlterConfigs leaves out, whose file does both.

pub(crate) use super::alter_configs::answer_incremental as answer;
