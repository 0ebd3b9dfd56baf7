//! The OpenAPI 3.1 documents of the HTTP interface: one with all routes, one for each API. They are assembled from the
//! descriptions in this folder when a client asks for the first time, and need no key, because they say nothing secret.
//! Tests compare them with the router, and the client of the integration tests compares each answer with them.

mod assemble;
mod complete;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
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

async fn answer_whole(headers: HeaderMap) -> Response {
    static SERVED: LazyLock<Served> = LazyLock::new(|| Served::of(whole()));
    SERVED.answer(&headers)
}

async fn answer_native(headers: HeaderMap) -> Response {
    static SERVED: LazyLock<Served> = LazyLock::new(|| Served::of(native()));
    SERVED.answer(&headers)
}

async fn answer_service(headers: HeaderMap) -> Response {
    static SERVED: LazyLock<Served> = LazyLock::new(|| Served::of(service()));
    SERVED.answer(&headers)
}

/// A document as it is sent.
struct Served {
    text: Bytes,
    tag: String,
}

impl Served {
    fn of(document: &Json) -> Self {
        let text = document.to_string();
        Self { tag: etag::tag_of(&text), text: text.into() }
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        let shown = || ([(header::CONTENT_TYPE, "application/json")], self.text.clone()).into_response();
        etag::answer(asked, &self.tag, "no-cache", shown)
    }
}
