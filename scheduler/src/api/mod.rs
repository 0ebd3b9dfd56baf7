//! The HTTP API of the scheduler: one table of routes. A handler reads the request, calls other modules, and writes the
//! answer.
//!
//! `/api/v1` is Tidemill's own API ([`native`]), `/v1` is Dify's service API ([`dify`]). Both submit through
//! [`crate::submit`] and follow runs through [`events`]. `/triggers` starts runs by webhooks ([`hooks`]).

mod admin;
pub mod answers;
mod audit;
pub mod auth;
pub mod callers;
pub mod dify;
mod durability;
mod ends;
pub mod error;
mod etag;
pub mod events;
mod file_links;
pub mod health;
pub mod hooks;
pub(crate) mod indexing;
mod key_scopes;
mod key_used;
pub mod key_watch;
pub mod metrics;
pub mod native;
pub mod openapi;
mod outer;
pub mod position;
pub mod request;
mod roles;
mod served_file;
pub mod sse;
#[cfg(test)]
pub(crate) mod tests;
mod times;
mod unread;
pub(crate) mod upload_limits;
mod uploads;
mod watch;
pub mod wrong_keys;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, delete, get, post, put};
use metrics_exporter_prometheus::PrometheusHandle;
use tidemill_common::config::Config;
use tidemill_common::dsl::SealingKey;
use tidemill_common::store::{CatalogKind, Runs};
use tokio::sync::watch::Receiver;

use self::audit::Audit;
use self::callers::Callers;
use self::error::{ApiError, Cause};
use self::key_used::LastUses;
use self::key_watch::KeyWatch;
use self::outer::Outers;
use crate::background::webhooks::Notifier;
use crate::runs::forms::FormSecret;
use crate::shards::liveness::Liveness;
use crate::stopping::Stage;
use crate::submit::Submitter;
use crate::workflows::Workflows;

/// State that the handlers share.
#[derive(Clone)]
pub struct ApiState {
    pub store: Arc<dyn Runs>,
    pub config: Arc<Config>,
    /// Renders the metrics.
    pub metrics: PrometheusHandle,
    /// Shows whether the loop that takes shards moves.
    pub liveness: Arc<Liveness>,
    /// How far the stop of the process has come. In its last stage open event streams end, and clients continue
    /// elsewhere by event id.
    pub shutdown: Receiver<Stage>,
    /// The workflow versions of the process.
    pub workflows: Arc<Workflows>,
    /// Creates runs.
    pub submitter: Arc<Submitter>,
    /// Keys of apps that are in use.
    pub keys_used: Arc<KeyWatch>,
    /// When keys were last used.
    pub(crate) last_uses: Arc<LastUses>,
    /// Creates the tokens of forms.
    pub forms: Arc<FormSecret>,
    /// Finds clients' addresses, and counts wrong keys.
    pub callers: Arc<Callers>,
    /// The SHA-256 of the admin key in the settings; `None`: `/api/v1` is open only to stored admin keys.
    pub(crate) admin_key_hash: Option<Arc<str>>,
    /// Writes the audit log.
    pub(crate) audit: Arc<Audit>,
    /// Sends notices to webhooks of apps.
    pub(crate) webhooks: Notifier,
    /// Seals the secrets in published workflows and stored entries.
    pub(crate) sealing_key: Option<SealingKey>,
}

impl ApiState {
    /// Creates the state of a process for this store. `sealing_key` seals the secrets that are published here.
    pub fn new(
        store: Arc<dyn Runs>,
        config: Arc<Config>,
        metrics: PrometheusHandle,
        liveness: Arc<Liveness>,
        shutdown: Receiver<Stage>,
        workflows: Arc<Workflows>,
        sealing_key: Option<SealingKey>,
    ) -> Self {
        let key = &config.scheduler.admin_key;
        Self {
            submitter: Arc::new(Submitter::new(store.clone(), config.clone(), workflows.clone())),
            admin_key_hash: (!key.is_empty()).then(|| auth::sha256_hex(key.as_str()).into()),
            webhooks: Notifier::new(store.clone(), config.clone(), workflows.clone(), sealing_key.clone()),
            keys_used: Arc::new(KeyWatch::new(store.clone())),
            last_uses: Arc::new(LastUses::new(store.clone())),
            callers: Arc::new(Callers::new(&config.scheduler)),
            audit: Arc::new(Audit::new(store.clone(), &config.scheduler)),
            store,
            config,
            metrics,
            liveness,
            shutdown,
            workflows,
            forms: Arc::default(),
            sealing_key,
        }
    }
}

/// Creates the router with all routes.
pub fn router(state: ApiState) -> Router {
    metrics::describe();
    // The key is checked first.
    let native = native_routes().route_layer(from_fn(native::parameters::known));
    let native = native.route_layer(from_fn_with_state(state.clone(), audit::note));
    let native = native.route_layer(from_fn_with_state(state.clone(), admin::admin));
    let dify = dify_routes().route_layer(from_fn_with_state(state.clone(), auth::app));
    let datasets = dify::datasets::routes().route_layer(from_fn_with_state(state.clone(), auth::datasets));
    let dify = dify.merge(datasets).route_layer(from_fn(dify::event_ids::only_if_wanted));
    let dify = dify.layer(from_fn(dify::words::as_dify));
    let router = match state.config.scheduler.metrics_listen.as_str() {
        "" => metrics_router(),
        _elsewhere => Router::new(),
    };
    router
        .nest("/api/v1", native)
        .nest("/v1", dify)
        .merge(openapi::routes())
        .route("/v1", get(dify::index::index))
        .route("/v1/", get(dify::index::index))
        .route(&hooks::path("{id}"), any(hooks::receive))
        .route("/files/{id}/file-preview", get(file_links::upload))
        .route("/files/runs/{run}/{file}", get(file_links::of_run))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        // Around the keys: a browser asks without one whether a page may call.
        .layer(from_fn_with_state(Outers::new(&state.config), outer::serve))
        .layer(from_fn_with_state(state.clone(), watch::watch))
        .layer(from_fn_with_state(state.config.scheduler.request_bytes_max, unread::read))
        .with_state(state)
}

/// The routes of Tidemill's own API, below `/api/v1`. The table in [`roles`] says who may use each.
fn native_routes() -> Router<ApiState> {
    Router::new()
        .route("/admin-keys", post(native::admin_keys::add).get(native::admin_keys::list))
        .route("/admin-keys/{id}", delete(native::admin_keys::revoke))
        .route("/admin-keys/{id}/rotate", post(native::rotate::rotate_admin))
        .route("/audit", get(native::audit::list))
        .route("/apps", post(native::apps::register).get(native::apps::list))
        .route("/apps/{id}", get(native::apps::show).delete(native::removals::app))
        .route("/apps/{id}/disable", post(native::app_state::disable))
        .route("/apps/{id}/enable", post(native::app_state::enable))
        .route("/apps/{id}/limits", put(native::limits::set_for_app).delete(native::limits::drop_for_app))
        .route("/apps/{id}/rollback", post(native::app_state::rollback))
        .route("/apps/{id}/users/{user}", delete(native::removals::user))
        .route("/apps/{id}/versions", get(native::versions::list))
        .route("/apps/{id}/versions/{version}", delete(native::versions::remove))
        .route(
            "/apps/{id}/webhook",
            get(native::webhook::show).put(native::webhook::set).delete(native::webhook::remove),
        )
        .route("/apps/{id}/webhook/deliveries", get(native::webhook::deliveries))
        .route("/apps/{id}/webhook/test", post(native::webhook::test))
        .route("/apps/{id}/keys", post(native::keys::add).get(native::keys::of_app))
        .route("/dead", get(native::dead::list))
        .route("/dead/retry", post(native::dead_bulk::retry))
        .route("/dead/{id}", get(native::dead::show).delete(native::dead::forget))
        .route("/dead/{id}/retry", post(native::dead::retry))
        .route("/files", post(native::files::upload))
        .route("/knowledge", post(native::knowledge::datasets::create).get(native::knowledge::datasets::list))
        .route(
            "/knowledge/{id}",
            get(native::knowledge::datasets::show).delete(native::knowledge::datasets::remove),
        )
        .route("/knowledge/{id}/documents", post(native::knowledge::documents::add))
        .route(
            "/knowledge/{id}/documents/{document}",
            get(native::knowledge::documents::show).delete(native::knowledge::documents::remove),
        )
        .route("/keys", get(native::keys::list).post(native::keys::add_scoped))
        .route("/keys/{id}", delete(native::keys::revoke))
        .route("/keys/{id}/rotate", post(native::rotate::rotate))
        .route("/keys/{id}/budget", put(native::keys::set_budget).delete(native::keys::drop_budget))
        .route("/keys/{id}/limits", put(native::limits::set_for_key).delete(native::limits::drop_for_key))
        .route("/workers", get(native::fleet::workers))
        .route("/queues", get(native::fleet::queues))
        .route("/shards", get(native::shards::list).post(native::shards::raise))
        .route("/triggers", get(native::triggers::list))
        .route("/providers", native::catalog::all(CatalogKind::Provider))
        .route("/providers/{id}", native::catalog::one(CatalogKind::Provider))
        .route("/profiles", native::catalog::all(CatalogKind::Profile))
        .route("/profiles/{id}", native::catalog::one(CatalogKind::Profile))
        .route("/library", native::catalog::all(CatalogKind::Library))
        .route("/library/{id}", native::catalog::one(CatalogKind::Library))
        .route("/calls", native::catalog::all(CatalogKind::Call))
        .route("/calls/{id}", native::catalog::one(CatalogKind::Call))
        .route("/services", native::catalog::all(CatalogKind::Service))
        .route("/services/{id}", native::catalog::one(CatalogKind::Service))
        .route("/datasources", native::catalog::all(CatalogKind::Datasource))
        .route("/datasources/{id}", native::catalog::one(CatalogKind::Datasource))
        .route("/plugins", get(native::plugins::list).post(native::plugins::add))
        .route("/plugins/{id}", get(native::plugins::show).delete(native::plugins::remove))
        .route("/plugins/{id}/options", post(native::plugin_options::list))
        .route("/plugin-credentials", native::catalog::all(CatalogKind::PluginCredentials))
        .route("/plugin-credentials/{id}", native::catalog::one(CatalogKind::PluginCredentials))
        .route("/removals", get(native::removals::list))
        .route("/runs", post(native::submit::submit).get(native::run_list::list))
        .route("/runs/import", post(native::snapshot::import))
        .route("/runs/{id}", get(native::runs::show))
        .route("/runs/{id}/messages/{list}", get(native::messages::messages))
        .route("/runs/{id}/rt", get(native::messages::runtime))
        .route("/runs/{id}/history", get(native::messages::history))
        .route("/runs/{id}/snapshot", get(native::snapshot::export))
        .route("/runs/{id}/events", get(native::events::follow))
        .route("/runs/{id}/commands", post(native::commands::send))
        .route("/runs/{id}/pauses", get(native::pauses::list))
        .route("/runs/{id}/pauses/{pause_id}/answer", post(native::pauses::send))
}

/// The routes of Dify's service API, below `/v1`.
fn dify_routes() -> Router<ApiState> {
    Router::new()
        .route("/apps/annotations", get(dify::annotations::list).post(dify::annotations::add))
        .route("/apps/annotations/{id}", put(dify::annotations::change).delete(dify::annotations::remove))
        .route("/apps/annotation-reply/{action}", post(dify::annotations::reply::switch))
        .route("/apps/annotation-reply/{action}/status/{job}", get(dify::annotations::reply::status))
        .route("/completion-messages", post(dify::completion::send))
        .route("/completion-messages/{id}/stop", post(dify::completion::stop))
        .route("/chat-messages", post(dify::chat::send))
        .route("/chat-messages/{id}/stop", post(dify::chat::stop))
        .route("/files/upload", post(dify::files::upload))
        .route("/files/{id}/preview", get(dify::files::preview))
        .route("/messages", get(dify::messages::list))
        .route("/messages/{id}/feedbacks", post(dify::feedback::rate))
        .route("/messages/{id}/suggested", get(dify::suggested::suggested))
        .route("/app/feedbacks", get(dify::app_feedbacks::list))
        .route("/end-users/{id}", get(dify::end_users::show))
        .route("/conversations", get(dify::conversations::list))
        .route("/conversations/{id}", delete(dify::conversations::remove))
        .route("/conversations/{id}/name", post(dify::conversations::rename))
        .route("/conversations/{id}/variables", get(dify::variables::list))
        .route("/conversations/{id}/variables/{variable}", put(dify::variables::set))
        .route("/audio-to-text", post(dify::audio::to_text))
        .route("/text-to-audio", post(dify::audio::to_audio))
        .route("/workflows/run", post(dify::run::run))
        .route("/workflows/{id}/run", post(dify::run::run_version))
        .route("/workflows/logs", get(dify::logs::list))
        .route("/workflows/run/{id}", get(dify::detail::show))
        .route("/workflows/tasks/{id}/stop", post(dify::stop::stop))
        .route("/workflow/{id}/events", get(dify::events::follow))
        .route("/form/human_input/{token}", get(dify::form::show).post(dify::form::submit))
        .route("/info", get(dify::info::info))
        .route("/meta", get(dify::info::meta))
        .route("/parameters", get(dify::info::parameters))
        .route("/site", get(dify::info::site))
}

/// The route for Prometheus, also for the separate listener at `scheduler.metrics_listen`.
pub fn metrics_router() -> Router<ApiState> {
    Router::new().route("/metrics", get(health::metrics))
}

async fn no_route(method: Method, uri: Uri) -> ApiError {
    let error = ApiError::not_found(format!("there is no {method} {}", uri.path()));
    as_asked(error.because(Cause::NoRoute), &uri)
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not take {method}", uri.path());
    let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
    as_asked(error.because(Cause::WrongMethod), &uri)
}

/// The error in the words of the API that was asked.
fn as_asked(error: ApiError, uri: &Uri) -> ApiError {
    if uri.path().starts_with("/v1/") { dify::words::in_difys_words(error) } else { error }
}
