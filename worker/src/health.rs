//! The worker's HTTP endpoints: `/livez` (the read loop moves), `/readyz` (the store answers, jobs are taken, and the
//! sandbox of code nodes is ready), `/metrics` (Prometheus).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tidemill_common::serve::{self, ListenerSettings};
use tidemill_common::store::Outage;
use tidemill_common::telemetry::start_metrics;
use tidemill_common::wire::worker::Missing;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::jobs::shared::Core;

/// Longest wait for the store.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// Longest wait for the first sandbox helpers. Later checks do not wait.
const CODE_WITHIN: Duration = Duration::from_secs(20);

/// The running HTTP server.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) addr: SocketAddr,
    pub(crate) task: JoinHandle<()>,
}

/// Serves on a bound listener, within the door's limits.
///
/// # Errors
/// The listener has no address.
pub(crate) fn serve(
    listener: TcpListener,
    core: Arc<Core>,
    settings: ListenerSettings,
) -> std::io::Result<Health> {
    let addr = listener.local_addr()?;
    let metrics = start_metrics();
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route(
            "/metrics",
            get(async move || ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.render())),
        )
        .with_state(core);
    // It serves until the process ends, so that probes also see the stop.
    let task = tokio::spawn(serve::serve(settings, listener, router, std::future::pending()));
    Ok(Health { addr, task })
}

async fn livez(State(core): State<Arc<Core>>) -> impl IntoResponse {
    if core.liveness.moves() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the read loop is stuck\n")
    }
}

/// The lines about what is missing here. It does not make a worker unready: it still does everything else, and hands
/// back what only others can do.
fn missing(core: &Core) -> String {
    let line = |missing: &Missing| {
        let since = match missing.asked_at {
            Some(_) => "missing, and a job has asked for it lately",
            None => "missing",
        };
        format!("{since}: {}: {}\n", missing.need, missing.reason.replace('\n', " "))
    };
    core.setup.about().missing.iter().map(line).collect()
}

async fn readyz(State(core): State<Arc<Core>>) -> impl IntoResponse {
    if core.liveness.is_stopping() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_string());
    }
    match tokio::time::timeout(READY_WITHIN, serves(&core)).await {
        Ok(Ok(())) => match tokio::time::timeout(CODE_WITHIN, core.code.ready()).await {
            Ok(Ok(text)) => (StatusCode::OK, format!("ok\n{text}\n{}", missing(&core))),
            Ok(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
            Err(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the sandbox of code nodes does not start in time\n".to_string(),
            ),
        },
        Ok(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n".to_string()),
    }
}

/// Asks whether the store serves this worker. Without writes a worker can neither take jobs nor report results.
async fn serves(core: &Core) -> Result<(), String> {
    let answer = match core.jobs.namespace().await {
        Ok(_) => core.jobs.accepts_writes().await,
        Err(error) => Err(error),
    };
    answer
        .map_err(|error| Outage::of(&error).map_or_else(|| error.to_string(), |outage| outage.words().into()))
}
