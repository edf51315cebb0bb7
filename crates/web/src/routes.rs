//! The routes: the handler of each path.

use crate::App;
use crate::error::HttpError;
use crate::request::{JSON, page};
use crate::respond::with_type;
use crate::{guard, health, layout, metrics, pages, reference};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use std::sync::Arc;

/// All routes, behind the guard. They are built when the first connection arrives, so that the broker starts fast.
pub fn routes(app: Arc<App>) -> Router {
    let router = Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/style.css", get(async || with_type("text/css; charset=utf-8", layout::STYLE)))
        .route("/decode", get(reference::decode::form).post(reference::decode::decode))
        .layer(DefaultBodyLimit::max(reference::decode::MAX_BYTES))
        .route("/reference", get(reference::serve::redirect_to_index))
        .route("/reference/", get(reference::serve::redirect_to_index))
        .route("/reference/{*name}", get(reference::serve::file))
        .route("/refresh.js", get(async || with_type("text/javascript; charset=utf-8", layout::SCRIPT)));
    broker_pages(router)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(&app), guard::guard))
        .with_state(app)
}

async fn not_found(uri: Uri) -> Response {
    let error = HttpError::not_found("there is no page at this address; the start page is at /");
    respond(&uri, &error)
}

async fn method_not_allowed(uri: Uri, method: Method) -> Response {
    let why = format!("this address does not accept {method}");
    respond(&uri, &HttpError::new(StatusCode::METHOD_NOT_ALLOWED, why))
}

fn respond(uri: &Uri, error: &HttpError) -> Response {
    if uri.path().starts_with(JSON) { error.as_json() } else { error.as_html() }
}

/// The pages of the running broker.
fn broker_pages(router: Router<Arc<App>>) -> Router<Arc<App>> {
    let router = page(router, "/", pages::overview::overview);
    let router = page(router, "/topics", pages::topics::topics);
    let router = page(router, "/topics/{topic}", pages::topics::topic);
    let router = page(router, "/topics/{topic}/{partition}", pages::records::records);
    let router = page(router, "/groups", pages::groups::groups);
    let router = page(router, "/group", pages::groups::group);
    let router = page(router, "/transactions", pages::transactions::transactions);
    let router = page(router, "/transaction", pages::transactions::transaction);
    let router = page(router, "/transaction/abort", pages::abort::confirm);
    let router = page(router, "/frames", pages::frames::frames);
    let router = page(router, "/frame", pages::frames::frame);
    router
        .route("/transaction/abort", post(pages::abort::abort))
        .route("/frames", post(pages::frames::control))
}
