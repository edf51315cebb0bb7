//! IncrementalAlterConfigs 0-1: see alter_configs.rs, which does both.

pub(crate) use super::alter_configs::answer_incremental as answer;
