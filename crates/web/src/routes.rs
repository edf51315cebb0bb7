//! Which path is answered by what.

use crate::App;
use crate::asked::{JSON, Refusal, page, typed};
use crate::{guard, health, metrics, pages, shell, site};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use std::sync::Arc;

/// All routes, behind the guard. Built when the first connection comes, so that a start costs nothing.
pub fn routes(app: Arc<App>) -> Router {
    let router = Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/style.css", get(async || typed("text/css; charset=utf-8", shell::STYLE)))
        .route("/decode", get(site::decode::form).post(site::decode::decode))
        .layer(DefaultBodyLimit::max(site::decode::MOST_BYTES))
        .route("/reference", get(site::serve::top))
        .route("/reference/", get(site::serve::top))
        .route("/reference/{*name}", get(site::serve::file))
        .route("/refresh.js", get(async || typed("text/javascript; charset=utf-8", shell::SCRIPT)));
    broker_pages(router)
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_that_way)
        .layer(from_fn_with_state(Arc::clone(&app), guard::guard))
        .with_state(app)
}

async fn nothing_here(uri: Uri) -> Response {
    let refusal = Refusal::missing("there is nothing at this address; the start page is at /");
    refused(&uri, &refusal)
}

async fn not_that_way(uri: Uri, method: Method) -> Response {
    let why = format!("this address does not take {method}");
    refused(&uri, &Refusal::new(StatusCode::METHOD_NOT_ALLOWED, why))
}

fn refused(uri: &Uri, refusal: &Refusal) -> Response {
    if uri.path().starts_with(JSON) { refusal.as_json() } else { refusal.as_html() }
}

/// The pages that show the running broker.
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
