//! Requests to an engine in this process: they go to its HTTP interface without a port.

use axum::Router;
use axum::body::Body;
use reqwest::Response;
use tower::ServiceExt;

use super::{Client, ClientError, READ_TIMEOUT, http};

/// The address in requests and in errors. Nothing connects to it.
const ADDRESS: &str = "http://localhost";

impl Client {
    /// A client of an engine in this process.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub(crate) fn inside(router: Router, key: &str) -> Result<Self, ClientError> {
        let http = http(ADDRESS, READ_TIMEOUT)?;
        Ok(Self { http, inside: Some(router), base: ADDRESS.into(), key: key.into() })
    }
}

/// Answers a request by the router.
pub(super) async fn answer(router: &Router, request: reqwest::Request) -> reqwest::Result<Response> {
    let request = axum::http::Request::<reqwest::Body>::try_from(request)?;
    let answered = router.clone().oneshot(request.map(Body::new)).await;
    let response = answered.unwrap_or_else(|never| match never {});
    Ok(Response::from(response.map(|body| reqwest::Body::wrap_stream(body.into_data_stream()))))
}
