//! The OpenAPI 3.1 documents of the HTTP interface: one with all routes, one for each API. They are assembled from the
//! descriptions in this folder when a client asks for the first time, and need no key, because they say nothing secret.
//! Tests compare them with the router, and the client of the integration tests compares the answers that it gets with them.

mod assemble;
mod complete;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value as Json;

use super::ApiState;
use super::etag;

/// The path of the document with all routes.
pub(super) const PATH: &str = "/openapi.json";

/// The document with all routes.
pub fn whole() -> &'static Json {
    static WHOLE: LazyLock<Json> = LazyLock::new(assemble::whole);
    &WHOLE
}

/// The document of `/api/v1`.
pub fn native() -> &'static Json {
    static NATIVE: LazyLock<Json> = LazyLock::new(assemble::native);
    &NATIVE
}

/// The document of `/v1`.
pub fn service() -> &'static Json {
    static SERVICE: LazyLock<Json> = LazyLock::new(assemble::service);
    &SERVICE
}

/// The routes of the documents.
pub(super) fn routes() -> Router<ApiState> {
    Router::new()
        .route(PATH, get(answer_whole))
        .route("/api/v1/openapi.json", get(answer_native))
        .route("/v1/openapi.json", get(answer_service))
}

async fn answer_whole(State(state): State<ApiState>, headers: HeaderMap) -> Response {
    static SERVED: LazyLock<Served> = LazyLock::new(|| Served::of(whole()));
    SERVED.answer(state.config.scheduler.gzip_bytes_min, &headers)
}

async fn answer_native(State(state): State<ApiState>, headers: HeaderMap) -> Response {
    static SERVED: LazyLock<Served> = LazyLock::new(|| Served::of(native()));
    SERVED.answer(state.config.scheduler.gzip_bytes_min, &headers)
}

async fn answer_service(State(state): State<ApiState>, headers: HeaderMap) -> Response {
    static SERVED: LazyLock<Served> = LazyLock::new(|| Served::of(service()));
    SERVED.answer(state.config.scheduler.gzip_bytes_min, &headers)
}

/// A document as it is sent. It is compressed once: anyone may ask for it, as often as they like.
struct Served {
    text: Bytes,
    /// Empty if it cannot be made.
    gzip: Bytes,
    tag: String,
}

impl Served {
    fn of(document: &Json) -> Self {
        let text = document.to_string();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).unwrap_or_default();
        Self { tag: etag::tag_of(&text), text: text.into(), gzip: gzip.into() }
    }

    /// `gzip_bytes_min` is that of the settings.
    fn answer(&self, gzip_bytes_min: usize, asked: &HeaderMap) -> Response {
        let is_large = (1..=self.text.len()).contains(&gzip_bytes_min);
        let json = (header::CONTENT_TYPE, "application/json");
        let shown = || match is_large && !self.gzip.is_empty() && accepts_gzip(asked) {
            true => ([json, (header::CONTENT_ENCODING, "gzip")], self.gzip.clone()).into_response(),
            false => ([json], self.text.clone()).into_response(),
        };
        let mut response = etag::answer(asked, &self.tag, "no-cache", shown);
        let by = HeaderValue::from_static("accept-encoding");
        response.headers_mut().insert(header::VARY, by);
        response
    }
}

/// True when `Accept-Encoding` names gzip, and not with the weight 0.
fn accepts_gzip(asked: &HeaderMap) -> bool {
    let lists = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_none = |weight: &str| weight.trim_matches(['0', '.']).is_empty();
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"))
            && !parts.any(|part| part.strip_prefix("q=").is_some_and(is_none))
    })
}
