//! The checks before every route: the host name of the request, and the security headers of the response.
//!
//! Another site can point a host name of its own at this address (DNS rebinding) and then read every response as its
//! own. So a request must name the broker by an IP address, by localhost or by a configured name. Forms that change
//! something carry a token that other sites cannot read, and are refused if the browser says that another site sent
//! them.

use crate::App;
use crate::error::HttpError;
use crate::request::JSON;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Only content of this server; no frames and no inline script.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// Paths for programs. They may use any host name if the server listens on more than the loopback interface.
const PROGRAM_PATHS: [&str; 3] = ["/health", "/ready", "/metrics"];

/// Checks the host name, runs the handler, and adds the security headers.
pub(crate) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let mut response = match check_host(&app, request.headers(), path) {
        Ok(()) => next.run(request).await,
        Err(refusal) if path.starts_with(JSON) => refusal.as_json(),
        Err(refusal) => refusal.as_html(),
    };
    let headers = response.headers_mut();
    // A page with an inline script sets its own policy.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check_host(app: &App, headers: &HeaderMap, path: &str) -> Result<(), HttpError> {
    if !app.address.ip().is_loopback() && PROGRAM_PATHS.contains(&path) {
        return Ok(());
    }
    let host = host(headers).ok_or_else(|| HttpError::bad_request("the request has no valid Host header"))?;
    let name = host.host().trim_matches(['[', ']']).to_ascii_lowercase();
    let known = name.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || app.names.contains(&name);
    if known {
        return Ok(());
    }
    let why = format!(
        "the broker does not accept requests for the host name {name:?}, which may belong to another site: use its IP address or \
         localhost, or start it with --http or --advertise and that name"
    );
    Err(HttpError::new(StatusCode::MISDIRECTED_REQUEST, why))
}

fn host(headers: &HeaderMap) -> Option<Authority> {
    let mut all = headers.get_all(header::HOST).iter();
    let host = all.next()?.to_str().ok()?.parse().ok();
    host.filter(|_| all.next().is_none())
}

/// A form that one of this server's pages sent.
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Parses a form, and refuses it if another site may have sent it.
    ///
    /// # Errors
    /// The form is not from one of this server's pages.
    pub(crate) fn read(app: &App, headers: &HeaderMap, body: &str) -> Result<Form, HttpError> {
        let form = Form(form_urlencoded::parse(body.as_bytes()).into_owned().collect());
        check_form(app, headers, form.text("token").ok())?;
        Ok(form)
    }

    /// A field.
    ///
    /// # Errors
    /// The form has no such field.
    pub(crate) fn text(&self, name: &str) -> Result<&str, HttpError> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .ok_or_else(|| HttpError::bad_request(format!("the form has no field {name}")))
    }

    /// A field that is a number.
    ///
    /// # Errors
    /// The form has no such field, or its text is not a number of the type.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, HttpError> {
        self.text(name)?
            .parse()
            .map_err(|_| HttpError::bad_request(format!("{name} is not a number that fits")))
    }
}

/// Redirects the browser to a page after a form was processed.
pub(crate) fn see_other(location: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, location.to_owned())]).into_response()
}

/// Refuses a form that another site sent, or that does not carry this server's token.
fn check_form(app: &App, headers: &HeaderMap, token: Option<&str>) -> Result<(), HttpError> {
    let refused = |why: &str| {
        Err(HttpError::new(StatusCode::FORBIDDEN, format!("{why}: go back, reload the page and try again")))
    };
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"same-origin") {
        return refused("the form was sent from another site");
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let own = host(headers).is_some_and(|host| {
            origin.split_once("://").is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host.as_str()))
        });
        if !own {
            return refused("the form was sent from another site");
        }
    }
    if token.is_some_and(|token| token.as_bytes().ct_eq(app.token.as_bytes()).into()) {
        return Ok(());
    }
    refused("the form does not carry this broker's token, as after a restart")
}
