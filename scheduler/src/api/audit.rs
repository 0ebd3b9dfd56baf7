//! Writes the audit log: each request of `/api/v1` that may change something, and each that is refused because of its key's
//! role. An entry has who, from where, the route, the ids in the path, and the status. It never has a body, a query or a key.
//!
//! An entry is written after the change and before its answer, also when the client has left meanwhile. If it cannot be
//! written, the change stands and its answer is sent, because a leaked key must be revocable in a full Redis; the log of the
//! process has each entry too, and says as an error that it is missing in Redis.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde_json::Value as Json;
use tidemill_common::config::SchedulerConfig;
use tidemill_common::limits;
use tidemill_common::store::{AuditEntry, AuditKept, Runs, StoreError, key_id};
use tokio::time::Instant;
use tracing::Instrument;

use super::ApiState;
use super::admin::{ADMIN_KEY_BEGINS, AdminCaller, route_of};
use super::auth::{DATASET_KEY_BEGINS, KEY_BEGINS, sha256_hex};
use super::error::ApiError;
use super::metrics::AUDIT_LOST;
use crate::runs::ids::end_user_uuid;

/// The route that submits runs. Each run has a record of its own, so it is an entry only with `audit_runs`.
const SUBMIT: &str = "/runs";
/// The time within which one refusal of a key is noted.
const REFUSED_ONCE: Duration = Duration::from_secs(60);
/// The longest id of a path in an entry, in characters.
const ID_CHARS_MAX: usize = 128;
/// The largest answer that is searched for the id of what was made, in bytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// The methods that entries name.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The kind of a user of an app, who is named by the id that Dify's API shows.
const END_USER: &str = "end_user";
/// A part of a route before an id, and the kind of thing that the id names.
const KINDS: [(&str, &str); 17] = [
    ("admin-keys", "admin_key"),
    ("apps", "app"),
    ("calls", "call"),
    ("datasources", "datasource"),
    ("dead", "dead_letter"),
    ("documents", "document"),
    ("keys", "key"),
    ("knowledge", "dataset"),
    ("library", "library_node"),
    ("pauses", "pause"),
    ("plugin-credentials", "plugin_credentials"),
    ("plugins", "plugin"),
    ("profiles", "profile"),
    ("providers", "provider"),
    ("runs", "run"),
    ("services", "service"),
    ("versions", "version"),
];

/// Writes entries.
pub(crate) struct Audit {
    store: Arc<dyn Runs>,
    /// `None`: no log is kept in the store.
    kept: Option<AuditKept>,
    with_runs: bool,
    /// When a refusal of each key was noted.
    refused: Mutex<HashMap<Option<String>, Instant>>,
}

/// An entry before its request is answered.
pub(super) struct Draft(AuditEntry);

impl Draft {
    /// The entry of this request.
    pub(super) async fn of(state: &ApiState, caller: &AdminCaller, request: &mut Request) -> Self {
        // A client can send any word as a method.
        let method = METHODS.into_iter().find(|name| request.method() == *name).unwrap_or("other");
        let (method, route) = (method.to_string(), route_of(request).to_string());
        let address = state.callers.address(request.headers(), request.extensions());
        let named = named(&route, request).await;
        let address = address.map(|address| address.to_string());
        let (key, role) = (caller.key.clone(), caller.role.name().to_string());
        Self(AuditEntry { key, role, address, method, route, named, status: 0 })
    }
}

impl Audit {
    pub(super) fn new(store: Arc<dyn Runs>, config: &SchedulerConfig) -> Self {
        let (entries, seconds) = (config.audit_entries_max, config.audit_days.saturating_mul(24 * 3600));
        let kept = (entries > 0).then_some(AuditKept { entries, age: Duration::from_secs(seconds) });
        Self { store, kept, with_runs: config.audit_runs, refused: Mutex::default() }
    }

    /// Notes that a request was refused because of its role. One refusal of a key is noted in a minute, so that a key with few
    /// rights cannot push the entries of others out of the log. The log of the process has all of them.
    pub(super) async fn refused(self: &Arc<Self>, Draft(entry): Draft) {
        if !self.is_new_refusal(entry.key.clone(), Instant::now()) {
            let AuditEntry { key, role, address, method, route, .. } = &entry;
            tracing::info!(key, role, address, method, route, "refused");
            return;
        }
        let entry = AuditEntry { status: StatusCode::FORBIDDEN.as_u16(), ..entry };
        let audit = self.clone();
        let writing = async move { audit.write(entry).await };
        // As in `note`. The refusal is the answer, even if the task should fail.
        let _ = tokio::spawn(writing.in_current_span()).await;
    }

    fn is_new_refusal(&self, key: Option<String>, now: Instant) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        // It has at most a row for each key in use.
        refused.retain(|_, at| now.duration_since(*at) < REFUSED_ONCE);
        match refused.entry(key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(now);
                true
            }
        }
    }

    async fn write(&self, entry: AuditEntry) {
        let (key, address) = (entry.key.as_deref().unwrap_or("settings"), entry.address.as_deref());
        let AuditEntry { method, route, named, role, status, .. } = &entry;
        tracing::info!(key, role, address, method, route, ?named, status, "audit");
        let Some(kept) = self.kept else { return };
        let writing = self.store.note_audit(&entry, kept);
        let bound = Duration::from_millis(limits::AUDIT_WRITE_MS);
        let reason = match tokio::time::timeout(bound, writing).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => StoreError::to_string(&error),
            Err(_) => format!("Redis did not answer within {} ms", limits::AUDIT_WRITE_MS),
        };
        metrics::counter!(AUDIT_LOST).increment(1);
        tracing::error!(
            key,
            role,
            address,
            method,
            route,
            ?named,
            status,
            reason,
            "an entry is missing in the audit log"
        );
    }
}

/// Notes requests that may change something, when they are answered.
pub(super) async fn note(State(state): State<ApiState>, mut request: Request, next: Next) -> Response {
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    let is_run = request.method() == Method::POST && route_of(&request) == SUBMIT;
    let caller = request.extensions().get::<AdminCaller>().cloned();
    let Some(caller) = caller.filter(|_| !reads && (!is_run || state.audit.with_runs)) else {
        return next.run(request).await;
    };
    let Draft(entry) = Draft::of(&state, &caller, &mut request).await;
    let change = async move {
        let (response, made) = made_by(next.run(request).await, &entry.method).await;
        let mut entry = AuditEntry { status: response.status().as_u16(), ..entry };
        entry.named.extend(made.map(|id| ("made".to_string(), id)));
        state.audit.write(entry).await;
        response
    };
    // A task of its own, so that a client that leaves early cannot prevent the entry.
    match tokio::spawn(change.in_current_span()).await {
        Ok(response) => response,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => ApiError::unavailable("the scheduler stops").into_response(),
    }
}

/// The ids in a path, with the kinds of what they name.
async fn named(route: &str, request: &mut Request) -> Vec<(String, String)> {
    let (mut parts, body) = std::mem::take(request).into_parts();
    let params = RawPathParams::from_request_parts(&mut parts, &()).await;
    *request = Request::from_parts(parts, body);
    let Ok(params) = params else { return Vec::new() };
    let app = params.iter().find(|(name, _)| *name == "id").map_or("", |(_, id)| id).to_owned();
    let named = |(name, value): (&str, &str)| match name {
        // The log outlives a user that is removed, so it has no name of one.
        "user" => (END_USER.to_string(), end_user_uuid(&app, value).to_string()),
        _ => (kind(route, name).to_string(), harmless(value)),
    };
    params.iter().map(named).collect()
}

fn kind<'a>(route: &'a str, name: &'a str) -> &'a str {
    let before = route.split_once(&format!("/{{{name}}}")).map_or("", |(before, _)| before);
    let part = before.rsplit('/').next().unwrap_or_default();
    KINDS.iter().find(|(listed, _)| *listed == part).map_or(name, |(_, kind)| *kind)
}

/// An id as it may be kept. In a hurry people give a key in the place of its id.
fn harmless(id: &str) -> String {
    if [KEY_BEGINS, DATASET_KEY_BEGINS, ADMIN_KEY_BEGINS].iter().any(|begin| id.starts_with(begin)) {
        return key_id(&sha256_hex(id));
    }
    id.chars().take(ID_CHARS_MAX).collect()
}

/// The response, and the id of what it says was made.
async fn made_by(response: Response, method: &str) -> (Response, Option<String>) {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_small =
        http_body::Body::size_hint(response.body()).upper().is_some_and(|it| it <= ANSWER_BYTES_MAX);
    let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
    if method != "POST" || !response.status().is_success() || !is_json || !is_small {
        return (response, None);
    }
    let (head, body) = response.into_parts();
    // A body in memory cannot fail.
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let answer: Json = serde_json::from_slice(&bytes).unwrap_or_default();
    let id = answer["id"].as_str().map(harmless);
    (Response::from_parts(head, Body::from(bytes)), id)
}

#[cfg(test)]
mod tests {
    use tidemill_common::clock::SystemClock;
    use tidemill_common::store::memory::MemoryStore;

    use super::*;

    #[test]
    fn ids_have_the_kind_of_what_they_name_and_keys_are_not_kept() {
        for (route, name, expected) in [
            ("/apps/{id}/versions/{version}", "id", "app"),
            ("/apps/{id}/versions/{version}", "version", "version"),
            ("/runs/{id}/pauses/{pause_id}/answer", "pause_id", "pause"),
            ("/knowledge/{id}/documents/{document}", "id", "dataset"),
            ("/other/{id}", "id", "id"),
        ] {
            assert_eq!(kind(route, name), expected, "{route} {name}");
        }
        for key in ["app-1", "dataset-1", "admin-1"] {
            assert_eq!(harmless(key), key_id(&sha256_hex(key)));
        }
        assert_eq!(harmless(&"x".repeat(1000)).len(), ID_CHARS_MAX);
    }

    #[test]
    fn one_refusal_of_a_key_is_noted_in_a_minute() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let audit = Audit::new(store, &SchedulerConfig::default());
        let begin = Instant::now();
        let seen = [("a", 0), ("a", 59), ("b", 59), ("a", 60)].map(|(key, seconds)| {
            audit.is_new_refusal(Some(key.into()), begin + Duration::from_secs(seconds))
        });
        assert_eq!(seen, [true, false, true, true]);
    }
}
