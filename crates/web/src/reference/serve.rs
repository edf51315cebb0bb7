//! The handlers that serve the reference at `/reference/`.

use super::Site;
use crate::error::HttpError;
use crate::respond::{internal_error, with_type};
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use ottla_microscope::schemas::Schemas;

/// The navigation entries of the broker's pages.
const BROKER: &[(&str, &str)] = &[
    ("Overview", "/"),
    ("Topics", "/topics"),
    ("Groups", "/groups"),
    ("Transactions", "/transactions"),
    ("Frames", "/frames"),
    ("Decode", "/decode"),
];

/// The reference of a running broker.
pub(crate) fn site() -> Site {
    Site { broker: BROKER, ..Site::new(Schemas::built_in(), ottla_broker::served_versions) }
}

pub(crate) async fn redirect_to_index() -> Redirect {
    Redirect::permanent("/reference/index.html")
}

pub(crate) async fn file(Path(name): Path<String>) -> Response {
    let content_type = match name.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        _ => "text/html; charset=utf-8",
    };
    match site().file(&name) {
        Ok(Some(content)) => with_type(content_type, content),
        Ok(None) => {
            HttpError::not_found("the reference has no such page; it starts at /reference/").into_response()
        }
        Err(why) => internal_error(&why.to_string()),
    }
}
