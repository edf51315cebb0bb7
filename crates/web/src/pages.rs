//! The pages of the running broker. Each file reads rows from [`crate::shard`] or the trace, and fills a template.

pub(crate) mod abort;
pub(crate) mod frames;
pub(crate) mod groups;
pub(crate) mod overview;
pub(crate) mod records;
pub(crate) mod topics;
pub(crate) mod transactions;

/// The most rows of a list that a page shows.
const MAX_ROWS: usize = 1000;

/// The first [`MAX_ROWS`] rows, and the number of the others.
fn truncate<T>(mut rows: Vec<T>) -> (Vec<T>, usize) {
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    (rows, left_out)
}
