//! The list of transactional ids with the partitions that they hold back, and the page of one transactional id.

use crate::error::HttpError;
use crate::format::{moment, span};
use crate::layout::Layout;
use crate::request::PageRequest;
use crate::shard::transactions::{self, BlockedPartition, TransactionDetail, TransactionRow};
use askama::Template;
use serde::Serialize;

/// The list of transactional ids.
#[derive(Template, Serialize)]
#[template(path = "transactions.html")]
pub(crate) struct TransactionsPage {
    #[serde(skip)]
    layout: Layout,
    #[serde(skip)]
    filter: String,
    /// Open transactions first, the one that times out first in front.
    transactions: Vec<TransactionRow>,
    /// Transactional ids beyond the rows that are shown.
    left_out: usize,
    /// Partitions whose last stable offset is held back.
    held: Vec<BlockedPartition>,
    held_left_out: usize,
}

pub(crate) async fn transactions(request: PageRequest) -> Result<TransactionsPage, HttpError> {
    let filter = request.query_param("q").unwrap_or_default().to_owned();
    let (rows, blocked) = transactions::list(&request.app.broker, filter.clone()).await?;
    let (transactions, left_out) = super::truncate(rows);
    let (held, held_left_out) = super::truncate(blocked);
    let layout = request.layout("Transactions", "Transactions");
    Ok(TransactionsPage { layout, filter, transactions, left_out, held, held_left_out })
}

/// One transactional id.
#[derive(Template, Serialize)]
#[template(path = "transaction.html")]
pub(crate) struct TransactionPage {
    #[serde(skip)]
    layout: Layout,
    #[serde(flatten)]
    detail: TransactionDetail,
}

pub(crate) async fn transaction(request: PageRequest) -> Result<TransactionPage, HttpError> {
    let detail = find(&request).await?;
    let layout = request.layout(format!("Transactional id {}", detail.id), "Transactions");
    Ok(TransactionPage { layout, detail })
}

/// Looks up the transactional id of a request.
pub(super) async fn find(request: &PageRequest) -> Result<TransactionDetail, HttpError> {
    let id = request
        .query_param("id")
        .ok_or_else(|| HttpError::bad_request("say which transactional id: ?id=NAME"))?;
    let detail = transactions::find(&request.app.broker, id.to_owned()).await?;
    detail.ok_or_else(|| HttpError::not_found(format!("there is no transactional id {id:?}")))
}
