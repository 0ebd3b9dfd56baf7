//! `GET /api/v1/workers` and `GET /api/v1/queues`: the living workers with what they can do, and the jobs that wait.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json as JsonBody;
use axum::extract::State;
use futures_util::future::try_join_all;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::DEFAULT_QUEUE;
use tidemill_common::ids::ShardId;
use tidemill_common::limits;
use tidemill_common::store::{LiveWorker, QueueState};
use tidemill_common::wire::worker::{AboutWorker, Missing};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::runs::waiting::is_served;

/// Lists the living workers.
///
/// # Errors
/// Errors of the store.
pub async fn workers(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let now = state.store.time().await?;
    let data: Vec<Json> = living(&state, now).await?.iter().map(|worker| worker_json(worker, now)).collect();
    Ok(JsonBody(json!({"data": data})))
}

/// The workers that have shown a sign of life lately. The list in the store keeps dead ones until another process
/// announces itself.
pub(super) async fn living(state: &ApiState, now: Timestamp) -> Result<Vec<LiveWorker>, ApiError> {
    let ttl = Duration::from_millis(state.config.worker.job_lease_ms).saturating_mul(3);
    let mut workers = state.store.fleet().workers().await?;
    workers.retain(|worker| worker.about.is_some() || worker.seen_at.plus(ttl) > now);
    Ok(workers)
}

fn worker_json(worker: &LiveWorker, now: Timestamp) -> Json {
    let mut shown = json!({
        "name": worker.name,
        "seen_at": worker.seen_at.seconds_f64(),
        "seen_seconds": now.seconds_since(worker.seen_at),
        "jobs_held": worker.held,
    });
    if let (Some(about), Some(shown)) = (&worker.about, shown.as_object_mut()) {
        shown.extend(about_json(about).as_object().cloned().unwrap_or_default());
    }
    shown
}

fn about_json(about: &AboutWorker) -> Json {
    let missing = |one: &Missing| {
        json!({
            "need": one.need,
            "text": one.need.to_string(),
            "reason": one.reason,
            "asked_at": one.asked_at.map(|at| Timestamp::from_micros(at).seconds_f64()),
        })
    };
    json!({
        "version": about.version,
        "host": about.host,
        "pid": about.pid,
        "started_at": Timestamp::from_micros(about.started_at).seconds_f64(),
        "queues": about.queues,
        "permits": about.permits,
        "providers": about.providers,
        "profiles": about.profiles,
        "default_profile": about.default_profile,
        "tools": about.tools,
        "plugins": about.plugins,
        "calls": about.calls,
        "variables": about.variables,
        "code": about.code,
        "documents": about.documents,
        "datasets": about.datasets,
        "key_fingerprint": about.key,
        "hosted": about.hosted,
        "missing": about.missing.iter().map(missing).collect::<Vec<_>>(),
    })
}

/// Lists the queues that runs have used or that workers serve.
///
/// # Errors
/// Errors of the store.
pub async fn queues(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let (now, meta) = (state.store.time().await?, state.store.meta().await?);
    let workers = living(&state, now).await?;
    let mut names = BTreeSet::from([DEFAULT_QUEUE.to_owned()]);
    names.extend(state.store.fleet().queue_names().await?);
    let served = workers.iter().filter_map(|worker| worker.about.as_ref()).flat_map(|about| &about.queues);
    names.extend(served.cloned());
    let is_whole = names.len() <= limits::QUEUES_SHOWN_MAX;
    let mut data = Vec::with_capacity(names.len());
    for name in names.iter().take(limits::QUEUES_SHOWN_MAX) {
        let of_shards =
            (0..meta.shards).map(|shard| state.store.fleet().queue_state(ShardId(shard), name, &[]));
        data.push(queue_json(name, &try_join_all(of_shards).await?, &workers, now));
    }
    Ok(JsonBody(json!({"data": data, "is_whole": is_whole})))
}

fn queue_json(name: &str, states: &[QueueState], workers: &[LiveWorker], now: Timestamp) -> Json {
    let oldest = states.iter().filter_map(|state| state.oldest).min();
    let serving = workers.iter().filter(|worker| worker.serves(name) == Some(true));
    json!({
        "name": name,
        "waiting": states.iter().map(|state| state.waiting).sum::<u64>(),
        "held": states.iter().map(|state| state.held).sum::<u64>(),
        "oldest_at": oldest.map(Timestamp::seconds_f64),
        "oldest_seconds": oldest.map(|at| now.seconds_since(at)),
        "served": is_served(workers, name),
        "workers": serving.map(|worker| worker.name.as_str()).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_sums_its_shards() {
        let state = |waiting, held, oldest: Option<i64>| QueueState {
            waiting,
            held,
            oldest: oldest.map(Timestamp::from_millis),
            places: Vec::new(),
        };
        let states = [state(2, 1, Some(9000)), state(1, 0, Some(4000)), state(0, 0, None)];
        let shown = queue_json("gpu", &states, &[], Timestamp::from_millis(10_000));
        let expected = json!({"name": "gpu", "waiting": 3, "held": 1, "oldest_at": 4.0, "oldest_seconds": 6.0,
            "served": false, "workers": []});
        assert_eq!(shown, expected);
    }
}
