//! Checks of requests before an endpoint sees them, and headers of each answer.
//!
//! A page of another site can send requests to this machine, and can give its own host name the
//! address of this machine (DNS rebinding). So `Host` must name the loopback interface and the
//! port of the server, and `Origin`, if there is one, must be the same.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Policy of content of answers that are no page.
const NOTHING: HeaderValue = HeaderValue::from_static("default-src 'none'");

/// The port that addresses of `http` have if they name none.
const HTTP_PORT: u16 = 80;

/// Header in which browsers name the relation of a request to the page that sends it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Header in which browsers name the kind of a request.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Names of the server that requests may have.
#[derive(Debug)]
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    /// Returns the names of a server that listens at a loopback address.
    pub(crate) fn of(address: SocketAddr) -> AllowedHosts {
        let port = address.port();
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        hosts.push(address.to_string());
        if port == HTTP_PORT {
            // Browsers leave this port out.
            hosts.extend(names.map(str::to_owned));
            hosts.push(address.ip().to_string());
        }
        AllowedHosts(hosts)
    }

    fn has(&self, host: &str) -> bool {
        self.0.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    /// Checks a request.
    ///
    /// # Errors
    /// Status and reason of the refusal.
    fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
        let text = |value: &HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
        let host = headers.get(HOST).map(text).unwrap_or_default();
        if !self.has(&host) {
            let reason = format!(
                "the request is for the host `{}`; use http://{}/, through a tunnel with the same \
                 port on both sides",
                host.escape_debug(),
                self.0.first().map_or("", String::as_str)
            );
            return Err((StatusCode::MISDIRECTED_REQUEST, reason));
        }
        if let Some(origin) = headers.get(ORIGIN).map(text) {
            let is_own = origin
                .strip_prefix("http://")
                .is_some_and(|it| self.has(it));
            if !is_own {
                let reason = format!("a page of {} sent the request", origin.escape_debug());
                return Err((StatusCode::FORBIDDEN, reason));
            }
        }
        let site = headers.get(FETCH_SITE).map(text).unwrap_or_default();
        let is_link = headers.get(FETCH_MODE).map(text).as_deref() == Some("navigate");
        if matches!(&site[..], "cross-site" | "same-site") && !is_link {
            let reason = "a page of another site sent the request".to_owned();
            return Err((StatusCode::FORBIDDEN, reason));
        }
        match *method {
            Method::GET => Ok(()),
            // Forms of other pages cannot send these types, and browsers ask before scripts do.
            Method::POST if has_own_type(headers) => Ok(()),
            Method::POST => Err((
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send application/json, or application/vnd.tcpdump.pcap".to_owned(),
            )),
            _ => Err((
                StatusCode::METHOD_NOT_ALLOWED,
                "there are GET and POST only".to_owned(),
            )),
        }
    }
}

/// Returns true if the body is of a type that the endpoints take.
fn has_own_type(headers: &HeaderMap) -> bool {
    let types: [&[u8]; 2] = [b"application/json", b"application/vnd.tcpdump.pcap"];
    let given = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    given.is_some_and(|given| types.contains(&given))
}

/// Refuses requests that do not come from the page, and adds headers to each answer.
pub(crate) async fn check(
    State(hosts): State<Arc<AllowedHosts>>,
    request: Request,
    next: Next,
) -> Response {
    let mut answer = match hosts.check(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err((status, reason)) => (status, reason).into_response(),
    };
    let headers = answer.headers_mut();
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(NOTHING);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
    headers.insert(
        "cross-origin-opener-policy",
        HeaderValue::from_static("same-origin"),
    );
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Returns the policy of the page: only its own files, and styles with this nonce.
pub(crate) fn page_policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; \
         img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}
