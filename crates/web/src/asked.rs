//! What a page is asked, and how its answer or refusal is written: as HTML, or as JSON under `/api/v1`.

use crate::App;
use crate::shell::{RefusedPage, Shell};
use askama::Template;
use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ottla_broker::host::HostGone;
use serde::Serialize;
use std::sync::Arc;

/// Where the JSON behind every page is.
pub(crate) const JSON: &str = "/api/v1";

/// A question to a page.
pub(crate) struct Asked {
    pub(crate) app: Arc<App>,
    /// The path without the prefix of JSON.
    path: String,
    query: String,
    params: Vec<(String, String)>,
    pairs: Vec<(String, String)>,
}

impl Asked {
    /// A part of the path, decoded; empty if the route has no such part.
    pub(crate) fn part(&self, name: &str) -> &str {
        find(&self.params, name).unwrap_or_default()
    }

    /// A value of the query.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        find(&self.pairs, name)
    }

    /// A number of the query; none if it is absent or empty.
    ///
    /// # Errors
    /// It is not a number of the type.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let given = self.text(name).map(str::trim).filter(|text| !text.is_empty());
        given
            .map(|text| {
                text.parse().map_err(|_| Refusal::bad(format!("{name} is not a number that fits: {text:?}")))
            })
            .transpose()
    }

    /// The frame of a page with this title, under this entry of the navigation.
    pub(crate) fn shell(&self, title: impl Into<String>, here: &'static str) -> Shell {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        Shell {
            title: title.into(),
            here,
            json: Some(format!("{JSON}{}{query}", self.path)),
            refresh: true,
            cluster: self.app.broker.cluster_id().to_owned(),
            node: self.app.broker.node_id(),
        }
    }
}

fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

impl FromRequestParts<Arc<App>> for Asked {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Asked, Refusal> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|_| Refusal::bad("the path is not UTF-8 when decoded"))?;
        let query = parts.uri.query().unwrap_or_default();
        let path = parts.uri.path();
        Ok(Asked {
            app: Arc::clone(app),
            path: path.strip_prefix(JSON).unwrap_or(path).to_owned(),
            query: query.to_owned(),
            params: params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            pairs: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        })
    }
}

/// Why a question gets no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Refusal {
    #[serde(skip)]
    pub(crate) status: StatusCode,
    /// What is wrong and what to do.
    pub(crate) error: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Refusal {
        Refusal { status, error: error.into() }
    }

    /// The question makes no sense.
    pub(crate) fn bad(error: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, error)
    }

    /// There is no such thing.
    pub(crate) fn missing(error: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, error)
    }

    pub(crate) fn as_json(&self) -> Response {
        (self.status, json(self)).into_response()
    }

    pub(crate) fn as_html(&self) -> Response {
        let page = RefusedPage { shell: Shell::bare(self.reason()), refusal: self };
        (self.status, html(&page)).into_response()
    }

    /// The status in words.
    pub(crate) fn reason(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Refused")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.as_html()
    }
}

impl From<HostGone> for Refusal {
    fn from(gone: HostGone) -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, format!("{gone}; /ready says more"))
    }
}

/// Adds a page at `path` and the JSON behind it.
pub(crate) fn page<T, F>(router: Router<Arc<App>>, path: &str, make: fn(Asked) -> F) -> Router<Arc<App>>
where
    T: Template + Serialize + 'static,
    F: Future<Output = Result<T, Refusal>> + Send + 'static,
{
    let shown = move |asked: Asked| async move {
        match make(asked).await {
            Ok(made) => html(&made),
            Err(refusal) => refusal.as_html(),
        }
    };
    let raw = move |asked: Asked| async move {
        match make(asked).await {
            Ok(made) => json(&made),
            Err(refusal) => refusal.as_json(),
        }
    };
    router.route(path, get(shown)).route(&format!("{JSON}{path}"), get(raw))
}

/// A page as a response.
pub(crate) fn html(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => typed("text/html; charset=utf-8", text),
        Err(error) => failed(&error.to_string()),
    }
}

/// A value as a response.
pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(value) {
        Ok(text) => typed("application/json", text + "\n"),
        Err(error) => failed(&error.to_string()),
    }
}

/// Text of a type as a response.
pub(crate) fn typed(content_type: &'static str, text: impl IntoResponse) -> Response {
    let mut response = text.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// What is sent instead of a page that cannot be written.
pub(crate) fn failed(why: &str) -> Response {
    tracing::error!(%why, "a page cannot be written, which is a bug in the broker");
    (StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be written, which is a bug in the broker\n")
        .into_response()
}
