//! The error response of a page: as HTML, or as JSON under `/api/v1`.

use crate::layout::Layout;
use crate::respond::{html, json};
use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ottla_broker::host::HostGone;
use serde::Serialize;

/// Why a request gets no page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HttpError {
    #[serde(skip)]
    pub(crate) status: StatusCode,
    /// What is wrong, and what the reader can do about it.
    pub(crate) error: String,
}

/// The HTML page of an error.
#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    layout: Layout,
    error: &'a str,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> HttpError {
        HttpError { status, error: error.into() }
    }

    pub(crate) fn bad_request(error: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::BAD_REQUEST, error)
    }

    pub(crate) fn not_found(error: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::NOT_FOUND, error)
    }

    pub(crate) fn as_json(&self) -> Response {
        (self.status, json(self)).into_response()
    }

    pub(crate) fn as_html(&self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Refused");
        let page = ErrorPage { layout: Layout::bare(title), error: &self.error };
        (self.status, html(&page)).into_response()
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        self.as_html()
    }
}

impl From<HostGone> for HttpError {
    fn from(gone: HostGone) -> HttpError {
        HttpError::new(StatusCode::SERVICE_UNAVAILABLE, format!("{gone}; /ready says more"))
    }
}
