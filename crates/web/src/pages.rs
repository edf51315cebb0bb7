//! The pages: what each shows, asked of the shard and written by a template.

pub(crate) mod abort;
pub(crate) mod frames;
pub(crate) mod groups;
pub(crate) mod holding;
pub(crate) mod overview;
pub(crate) mod records;
pub(crate) mod text;
pub(crate) mod topics;
pub(crate) mod transactions;

/// Rows of a list that are shown at most; a filter finds the others.
const MOST_ROWS: usize = 1000;

/// The rows that a page shows of a list, and how many more there are.
fn cut<T>(mut rows: Vec<T>) -> (Vec<T>, usize) {
    let left_out = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    (rows, left_out)
}
