//! Waits for the verdict of moderation about an answer, in a stream that shows it then: with pings meanwhile, and to the end
//! of the process at the longest.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::events::PING_EVERY;
use crate::api::sse;
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;
use crate::stopping::{Stage, reached};
use crate::submit::gate::NoVerdict;

/// The text that replaces the answer, once it is decided.
pub(super) type Judging = Pin<Box<dyn Future<Output = Result<Option<String>, NoVerdict>> + Send>>;

/// What came first.
pub(super) enum Judged {
    /// The verdict.
    Done(Result<Option<String>, ApiError>),
    /// A ping is due.
    Silence,
    /// The process closes its streams.
    Closing,
}

/// Begins to wait for the verdict about a run that has ended.
pub(super) fn begin(state: &ApiState, record: &RunRecord, render: &Renderer) -> Judging {
    let (submitter, record, render) = (state.submitter.clone(), record.clone(), render.clone());
    Box::pin(async move { submitter.withheld(&record, &render).await })
}

/// Waits for the verdict, a ping or the end of the process.
pub(super) async fn next(judging: &mut Judging, state: &ApiState) -> Judged {
    let mut shutdown = state.shutdown.clone();
    tokio::select! {
        verdict = judging => Judged::Done(verdict.map_err(ApiError::from)),
        () = tokio::time::sleep(PING_EVERY) => Judged::Silence,
        () = reached(Stage::Closing, &mut shutdown) => Judged::Closing,
    }
}

/// The stream of a client that only gets the frames which follow from the verdict.
pub(super) fn then(
    state: ApiState,
    judging: Judging,
    frames: impl FnOnce(Option<String>) -> Vec<Bytes> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    // The first ping brings the headers at once.
    let begin = futures_util::stream::iter([sse::DIFY_PING]);
    let rest = futures_util::stream::unfold(Some((state, judging, frames)), async |waiting| {
        let (state, mut judging, frames) = waiting?;
        match next(&mut judging, &state).await {
            Judged::Silence => Some((vec![sse::DIFY_PING], Some((state, judging, frames)))),
            Judged::Closing => Some((vec![sse::CLOSING], None)),
            Judged::Done(Ok(verdict)) => Some((frames(verdict), None)),
            Judged::Done(Err(error)) => {
                tracing::warn!(error = error.message(), "the end of a run cannot be shown, the stream ends");
                None
            }
        }
    });
    begin.chain(rest.flat_map(futures_util::stream::iter))
}
