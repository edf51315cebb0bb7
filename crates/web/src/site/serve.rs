//! The reference at the broker's own address, below `/reference/`.

use super::Site;
use crate::asked::{Refusal, typed};
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use ottla_microscope::schemas::Schemas;

/// The pages of the broker, as seen from the reference.
const BROKER: &[(&str, &str)] = &[
    ("Overview", "/"),
    ("Topics", "/topics"),
    ("Groups", "/groups"),
    ("Transactions", "/transactions"),
    ("Frames", "/frames"),
    ("Decode", "/decode"),
];

/// The reference that a running broker shows.
pub(crate) fn site() -> Site {
    Site { broker: BROKER, ..Site::new(Schemas::built_in(), ottla_broker::served_versions) }
}

pub(crate) async fn top() -> Redirect {
    Redirect::permanent("/reference/index.html")
}

pub(crate) async fn file(Path(name): Path<String>) -> Response {
    let content_type = match name.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        _ => "text/html; charset=utf-8",
    };
    match site().file(&name) {
        Ok(Some(content)) => typed(content_type, content),
        Ok(None) => {
            Refusal::missing("the reference has no such page; it begins at /reference/").into_response()
        }
        Err(why) => crate::asked::failed(&why.to_string()),
    }
}
