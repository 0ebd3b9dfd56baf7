//! Waits for the end of a run, for requests that answer with it: the blocking mode of `/v1`, and `wait` of
//! `POST /api/v1/runs`. A waiting request holds no connection to Redis: the hints of commits wake it, as they wake streams.

use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::wire::event::{EventRecord, kind};

use super::ApiState;
use super::events::{Follower, News};
use crate::stopping::{Stage, reached};

/// Waits until the run has ended, or waits for a person: then returns the event that says so. A process that stops waits
/// for its whole grace period.
pub(super) async fn wait_for_end(state: &ApiState, run: RunId) -> Option<EventRecord> {
    let mut follower = Follower::to_the_end(state, run);
    let end = async {
        while let Some(news) = follower.next().await {
            let News::Entry(entry) = news else { continue };
            let mut events = entry.events.events();
            let pause = events.find(|(event, _)| event.kind == kind::GRAPH_RUN_PAUSED);
            let pause = pause.and_then(|(event, is_last)| event.record(entry.events.id, is_last).ok());
            if pause.is_some() && is_paused(state, run).await {
                return pause;
            }
        }
        None
    };
    let mut shutdown = state.shutdown.clone();
    tokio::select! {
        pause = end => pause,
        () = reached(Stage::Closing, &mut shutdown) => None,
    }
}

/// True when the run still waits. A run that continued after the pause still has an end to wait for.
async fn is_paused(state: &ApiState, run: RunId) -> bool {
    let fields = state.store.run_fields(run).await.ok().flatten();
    fields.is_some_and(|fields| fields.get("status").map(String::as_str) == Some(RunStatus::Paused.name()))
}
