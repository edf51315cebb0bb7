//! The request of a page, and its two routes: HTML at its path, JSON under `/api/v1`.

use crate::App;
use crate::error::HttpError;
use crate::layout::Layout;
use crate::respond::{html, json};
use askama::Template;
use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::routing::get;
use serde::Serialize;
use std::str::FromStr;
use std::sync::Arc;

/// The prefix of the JSON of every page.
pub(crate) const JSON: &str = "/api/v1";

/// A GET request of a page: its path parameters and query, decoded.
pub(crate) struct PageRequest {
    pub(crate) app: Arc<App>,
    /// The path without the prefix of JSON.
    path: String,
    query: String,
    params: Vec<(String, String)>,
    pairs: Vec<(String, String)>,
}

impl PageRequest {
    /// A path parameter, decoded; empty if the route has no parameter of that name.
    pub(crate) fn path_param(&self, name: &str) -> &str {
        find(&self.params, name).unwrap_or_default()
    }

    /// A query parameter.
    pub(crate) fn query_param(&self, name: &str) -> Option<&str> {
        find(&self.pairs, name)
    }

    /// A query parameter that is a number; none if it is absent or empty.
    ///
    /// # Errors
    /// The text is not a number of the type.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, HttpError> {
        let given = self.query_param(name).map(str::trim).filter(|text| !text.is_empty());
        given
            .map(|text| {
                text.parse().map_err(|_| {
                    HttpError::bad_request(format!("{name} is not a number that fits: {text:?}"))
                })
            })
            .transpose()
    }

    /// The layout of a page with this title. `section` is the navigation entry that the page belongs to.
    pub(crate) fn layout(&self, title: impl Into<String>, section: &'static str) -> Layout {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        Layout {
            title: title.into(),
            section,
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

impl FromRequestParts<Arc<App>> for PageRequest {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<PageRequest, HttpError> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|_| HttpError::bad_request("the path is not UTF-8 when decoded"))?;
        let query = parts.uri.query().unwrap_or_default();
        let path = parts.uri.path();
        Ok(PageRequest {
            app: Arc::clone(app),
            path: path.strip_prefix(JSON).unwrap_or(path).to_owned(),
            query: query.to_owned(),
            params: params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            pairs: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        })
    }
}

/// Adds the two routes of a page: `make` builds one value, which is rendered as HTML at `path` and written as JSON
/// below [`JSON`].
pub(crate) fn page<T, F>(router: Router<Arc<App>>, path: &str, make: fn(PageRequest) -> F) -> Router<Arc<App>>
where
    T: Template + Serialize + 'static,
    F: Future<Output = Result<T, HttpError>> + Send + 'static,
{
    let as_html = move |request: PageRequest| async move {
        match make(request).await {
            Ok(page) => html(&page),
            Err(error) => error.as_html(),
        }
    };
    let as_json = move |request: PageRequest| async move {
        match make(request).await {
            Ok(page) => json(&page),
            Err(error) => error.as_json(),
        }
    };
    router.route(path, get(as_html)).route(&format!("{JSON}{path}"), get(as_json))
}
