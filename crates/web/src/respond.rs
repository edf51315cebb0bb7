//! Responses: a template as HTML, a value as JSON, text with its content type.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Renders a page.
pub(crate) fn html(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => with_type("text/html; charset=utf-8", text),
        Err(error) => internal_error(&error.to_string()),
    }
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(value) {
        Ok(text) => with_type("application/json", text + "\n"),
        Err(error) => internal_error(&error.to_string()),
    }
}

/// Text with its content type.
pub(crate) fn with_type(content_type: &'static str, text: impl IntoResponse) -> Response {
    let mut response = text.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The response in place of a page that cannot be written. The cause is logged, as it is a bug.
pub(crate) fn internal_error(why: &str) -> Response {
    tracing::error!(%why, "a page cannot be written, which is a bug in the broker");
    (StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be written, which is a bug in the broker\n")
        .into_response()
}
