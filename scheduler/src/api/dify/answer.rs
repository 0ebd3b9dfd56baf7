//! Starts a run and answers with its stream or its end, for workflows and chats.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::App;
use tidemill_common::wire::event::EventRecord;
use tokio::time::Instant;

use super::stream::{Stream, Wanted};
use super::{check_has_workflow, find_any};
use crate::api::ApiState;
use crate::api::ends::wait_for_end;
use crate::api::error::ApiError;
use crate::api::events::{After, PING_EVERY};
use crate::api::sse;
use crate::runs::end_user;
use crate::runs::projection::Totals;
use crate::runs::record::RunRecord;
use crate::stopping::{Stage, reached};
use crate::submit::{Submission, SubmitError};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Blocking,
    Streaming,
}

impl Mode {
    /// Reads the mode of a request; blocking by default.
    pub(super) fn of(given: Option<&str>) -> Result<Self, ApiError> {
        match given {
            None | Some("blocking") => Ok(Self::Blocking),
            Some("streaming") => Ok(Self::Streaming),
            Some(_) => Err(ApiError::invalid_param("response_mode must be streaming or blocking")),
        }
    }
}

/// The result of starting a run.
pub(super) enum StartOutcome {
    /// The response is complete.
    Answered(Response),
    /// The run waits for a person, as this event says.
    Paused(RunRecord, EventRecord),
    /// The run has ended, or the process stopped waiting for its end.
    Waited(RunRecord),
}

/// Starts a run and answers with its stream, or waits for its end. The run continues when the client leaves. In
/// streaming mode an app with a workflow of its own reports wrong inputs by an event, as on Dify.
pub(super) async fn begin(
    state: &ApiState,
    app: &Arc<App>,
    mode: Mode,
    submission: Submission,
) -> Result<StartOutcome, ApiError> {
    let submitted = match state.submitter.submit(submission).await {
        Ok(submitted) => submitted,
        Err(SubmitError::Inputs { message, .. })
            if mode == Mode::Streaming && check_has_workflow(app).is_ok() =>
        {
            return Ok(StartOutcome::Answered(refused(state, &message)));
        }
        Err(error) => return Err(error.into()),
    };
    let lost = || ApiError::unavailable("the store lost the run; try again");
    let record = find_any(state, app, submitted.run).await?.ok_or_else(lost)?;
    match mode {
        Mode::Streaming => {
            let stream = Stream::answer(state, app, record, After::Start, Wanted::default());
            stream.await.map(StartOutcome::Answered)
        }
        Mode::Blocking => {
            let pause = wait_for_end(state, submitted.run).await;
            let record = find_any(state, app, submitted.run).await?.ok_or_else(lost)?;
            Ok(match pause {
                Some(pause) if record.status == RunStatus::Paused => StartOutcome::Paused(record, pause),
                Some(_) | None => StartOutcome::Waited(record),
            })
        }
    }
}

/// The data of a waiting run. `pause` is the pause as the stream sends it.
pub(super) fn pause_data(record: &RunRecord, totals: Totals, pause: &Json) -> Json {
    json!({
        "id": record.id.to_string(),
        "workflow_id": record.workflow_id(),
        "status": record.status.name(),
        "paused_nodes": pause["paused_nodes"],
        "reasons": pause["reasons"],
        "elapsed_time": record.elapsed_since_pause(SystemClock.now()),
        "total_tokens": totals.tokens,
        "total_steps": totals.steps,
        "created_at": record.created_at.seconds(),
    })
}

/// The stream for wrong inputs of an app with a workflow, as on Dify.
fn refused(state: &ApiState, message: &str) -> Response {
    let event: Json = json!({"event": "error", "message": end_user::error_text(message), "status": 500});
    let frames: [Bytes; 2] = [sse::DIFY_PING, sse::dify(None, &event)];
    let frames = futures_util::stream::iter(frames);
    if state.config.compat.error_event_closes_stream {
        return sse::answer(frames);
    }
    sse::answer(frames.chain(pings(state)))
}

/// Sends pings until the stream was silent for its longest time, or the process closes its streams.
fn pings(state: &ApiState) -> impl futures_util::Stream<Item = Bytes> + use<> {
    let until = Instant::now() + Duration::from_secs(state.config.scheduler.stream_idle_seconds);
    futures_util::stream::unfold((state.shutdown.clone(), until), async |(mut shutdown, until)| {
        let next = (Instant::now() + PING_EVERY).min(until);
        let is_closing = tokio::select! {
            () = reached(Stage::Closing, &mut shutdown) => true,
            () = tokio::time::sleep_until(next) => false,
        };
        (!is_closing && next < until).then_some((sse::DIFY_PING, (shutdown, until)))
    })
}
