//! Health checks and metrics of the process.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tidemill_common::store::{Outage, StoreError};

use super::ApiState;
use crate::stopping::Stage;

/// `GET /livez`: 503 when the loop that takes shards has hung for too long, so that a supervisor restarts the process.
pub async fn live(State(state): State<ApiState>) -> Response {
    answer(state.liveness.is_alive(), "the loop that takes shards hangs")
}

/// `GET /readyz`: 503 while the store accepts no writes or the process is about to stop.
pub async fn ready(State(state): State<ApiState>) -> Response {
    if *state.shutdown.borrow() > Stage::Serving {
        return answer(false, "shutting down");
    }
    if let Err(error @ StoreError::Newer { .. }) = state.store.meta().await {
        return answer(false, &error.to_string());
    }
    match state.store.writable().await {
        Ok(()) => answer(true, ""),
        Err(error) => {
            tracing::warn!(error = %error, "store is not writable");
            answer(false, Outage::of(&error).map_or("the store takes no writes", Outage::words))
        }
    }
}

/// `GET /metrics`, for Prometheus.
pub async fn metrics(State(state): State<ApiState>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], state.metrics.render())
        .into_response()
}

fn answer(is_well: bool, reason: &str) -> Response {
    if is_well {
        return JsonBody(json!({"status": "ok"})).into_response();
    }
    let body = json!({"code": "unavailable", "message": reason, "status": 503});
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], JsonBody(body)).into_response()
}
