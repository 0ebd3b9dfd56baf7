//! `GET /v1/`: says that the service API is here. Probes and generators of clients ask for it, without a key.

use axum::Json as JsonBody;
use serde_json::{Value as Json, json};

/// The welcome, with Dify's words and the version of this program.
pub async fn index() -> JsonBody<Json> {
    JsonBody(
        json!({"welcome": "Dify OpenAPI", "api_version": "v1", "server_version": env!("CARGO_PKG_VERSION")}),
    )
}
