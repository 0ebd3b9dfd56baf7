//! Calls the scheduler's API inside the process: the same checks and answers, without a port.

use axum::Router;
use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{Method, Request, Response, StatusCode, header};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body_util::BodyExt;
use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_scheduler::api::native::events;
use tidemill_scheduler::api::{ApiState, router};
use tower::ServiceExt;

use crate::error::EmbedError;

/// The API of an engine.
#[derive(Clone)]
pub(crate) struct Api {
    state: ApiState,
    router: Router,
    /// The admin key; known to this process only.
    key: String,
}

impl Api {
    pub(crate) fn new(state: ApiState, key: String) -> Self {
        Self { router: router(state.clone()), state, key }
    }

    /// The events of a run, without the way over text.
    pub(crate) async fn events(&self, run: RunId) -> Result<BoxStream<'static, Json>, EmbedError> {
        let values = events::values(&self.state, run).await.map_err(|error| EmbedError::Refused {
            code: error.code().to_owned(),
            message: error.message().to_owned(),
            diagnostics: Vec::new(),
        })?;
        Ok(values.boxed())
    }

    /// The time when a run last continued after a pause, in milliseconds since 1970 as in its events.
    pub(crate) async fn resumed_at(&self, run: RunId) -> Result<Option<i64>, EmbedError> {
        let fields = self.state.store.run_fields(run).await?.unwrap_or_default();
        let micros = fields.get("resumed_at").and_then(|micros| micros.parse().ok());
        Ok(micros.map(|micros| Timestamp::from_micros(micros).millis()))
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Json, EmbedError> {
        let response = self.open(Method::GET, path, Vec::new()).await?;
        json(response).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Json) -> Result<Json, EmbedError> {
        let response = self.open(Method::POST, path, body.to_string().into_bytes()).await?;
        json(response).await
    }

    /// As [`Self::open`], and reads the whole answer.
    pub(crate) async fn bytes(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, EmbedError> {
        bytes(self.open(method, path, body).await?).await
    }

    /// Sends a file, and reads the whole answer. The file has no stated type, so that its name says what it is.
    pub(crate) async fn upload(&self, path: &str, content: Vec<u8>) -> Result<Vec<u8>, EmbedError> {
        bytes(self.send(Request::post(path), content).await?).await
    }

    /// Makes a request. Its answer is a success; its body may still come.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Body>, EmbedError> {
        let request = Request::builder().method(method).uri(path);
        self.send(request.header(header::CONTENT_TYPE, "application/json"), body).await
    }

    async fn send(&self, request: Builder, body: Vec<u8>) -> Result<Response<Body>, EmbedError> {
        let request = request
            .header(header::AUTHORIZATION, format!("Bearer {}", self.key))
            .body(Body::from(body))
            .map_err(|error| EmbedError::Unreadable(error.to_string()))?;
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refused(response).await)
    }
}

async fn bytes(response: Response<Body>) -> Result<Vec<u8>, EmbedError> {
    let body = response.into_body().collect().await;
    Ok(body.map_err(|error| EmbedError::Unreadable(error.to_string()))?.to_bytes().into())
}

async fn json(response: Response<Body>) -> Result<Json, EmbedError> {
    if response.status() == StatusCode::NO_CONTENT {
        return Ok(Json::Null);
    }
    let body = bytes(response).await?;
    serde_json::from_slice(&body).map_err(|error| EmbedError::Unreadable(error.to_string()))
}

async fn refused(response: Response<Body>) -> EmbedError {
    let status = response.status();
    let body = match json(response).await {
        Ok(body) => body,
        Err(error) => return error,
    };
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    EmbedError::Refused {
        code: Some(text("code")).filter(|code| !code.is_empty()).unwrap_or_else(|| status.to_string()),
        message: text("message"),
        diagnostics: body["diagnostics"].as_array().cloned().unwrap_or_default(),
    }
}
