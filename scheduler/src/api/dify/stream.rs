//! Sends a run's events as Dify's stream. Frames carry the id of the engine's entry for `Last-Event-ID`; [`event_ids`]
//! takes it out if the client has not asked for it. When an entry yields several frames, only the last one carries the id,
//! so that a resumed stream misses none of them.
//!
//! [`event_ids`]: super::event_ids

use std::collections::VecDeque;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use serde_json::Value as Json;
use tidemill_common::graph::Graph;
use tidemill_common::ids::EntryId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::App;
use tidemill_common::wire::event::{EventRecord, kind};

use super::judged::{self, Judged, Judging};
use super::replay::Replay;
use super::snapshot::Snapshot;
use super::spoken::{self, Speaking};
use super::{facts, renderer, totals_so_far};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::events::{After, Entry, Follower, News, PING_EVERY};
use crate::api::sse;
use crate::runs::pauses::{self, PauseStatus};
use crate::runs::projection::{Projection, Totals};
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;
use crate::stopping::{Stage, reached};
use crate::submit::gate::AnswerVerdict;

/// Events read at once.
const PAGE: usize = 512;

/// The client's choices.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    /// Send the state so far before new events.
    pub(super) snapshot: bool,
    /// Earlier events are sent again, without pauses that are over, which do not end the stream.
    pub(super) replays: bool,
    /// The stream stays open when the run waits for a person. On Dify it ends there by default.
    pub(super) beyond_pauses: bool,
}

pub(super) struct Stream {
    state: ApiState,
    record: RunRecord,
    follower: Follower,
    render: Renderer,
    graph: Arc<Graph>,
    projection: Projection,
    /// Collects earlier events until the snapshot is sent.
    snapshot: Option<Snapshot>,
    /// Holds back earlier pauses while earlier events are sent again.
    replay: Option<Replay>,
    /// True when the run's end is sent even if it comes before the client's position.
    sends_old_end: bool,
    beyond_pauses: bool,
    /// True when the app plays its answers.
    speaks: bool,
    /// The workflow whose features say how.
    spoken_by: Arc<Graph>,
    /// The sound of the answer, which is sent after the last event.
    speaking: Option<Speaking>,
    /// The verdict about the answer, and the entry that is shown then.
    judging: Option<(Entry, Judging)>,
    /// True when the last frame is in `frames`.
    is_closed: bool,
    last_old: Option<EntryId>,
    frames: VecDeque<Bytes>,
}

impl Stream {
    /// The response that follows a run.
    pub(super) async fn answer(
        state: &ApiState,
        app: &App,
        record: RunRecord,
        after: After,
        wanted: Wanted,
    ) -> Result<Response, ApiError> {
        let (render, graph) = renderer(state, &record).await?;
        let projection = Projection::new(facts(state, &record, &render).await?, graph.clone());
        let spoken_by = spoken::graph(state, app, &record, &graph)?;
        let stream = Self {
            follower: Follower::new(state, record.id, after),
            state: state.clone(),
            record: record.without_values(),
            render,
            projection,
            snapshot: wanted.snapshot.then(Snapshot::default),
            replay: wanted.replays.then(Replay::default),
            sends_old_end: after == After::Now,
            beyond_pauses: wanted.beyond_pauses,
            speaks: spoken::is_on(state, &spoken_by),
            spoken_by,
            speaking: None,
            judging: None,
            graph,
            is_closed: false,
            last_old: None,
            frames: VecDeque::from([sse::DIFY_PING]),
        };
        // In a box: the state of a stream would be in the memory of each of its futures again.
        Ok(sse::answer(futures_util::stream::unfold(Box::new(stream), async |mut stream| {
            let frame = stream.next().await?;
            Some((frame, stream))
        })))
    }

    /// The response for a run that has ended: its last event, from its record.
    pub(super) async fn last_event(state: &ApiState, record: RunRecord) -> Result<Response, ApiError> {
        let (render, graph) = renderer(state, &record).await?;
        let mut projection = Projection::new(facts(state, &record, &render).await?, graph);
        projection.set_totals(Totals::of(&record));
        if record.conversation_id.is_some() {
            gather(state, &record, &mut projection).await?;
        }
        let mut event = end_of(&record);
        render.event(&mut event).await?;
        let frames = move |mut projection: Projection, withheld: Option<String>| {
            projection.withhold(withheld);
            let payloads = projection.project(&event);
            payloads.iter().map(|payload| sse::dify(None, payload)).collect::<Vec<Bytes>>()
        };
        let judging = match state.submitter.verdict(&record, &render).await? {
            AnswerVerdict::Decided(withheld) => {
                return Ok(sse::answer(futures_util::stream::iter(frames(projection, withheld))));
            }
            AnswerVerdict::Awaited => judged::begin(state, &record, &render),
        };
        Ok(sse::answer(judged::then(state.clone(), judging, move |withheld| frames(projection, withheld))))
    }

    /// The next frame. What does more than wait for news is in boxes, so that a stream that waits does not hold its memory.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            if self.is_closed {
                return None;
            }
            if self.judging.is_some() {
                Box::pin(self.judge()).await?;
                continue;
            }
            let Some(news) = self.follower.next().await else {
                Box::pin(self.speak()).await?;
                continue;
            };
            match news {
                News::Entry(entry) => {
                    if let Err(error) = Box::pin(self.take(entry)).await {
                        let run = self.record.id;
                        tracing::warn!(%run, error = error.message(), "event cannot be shown, the stream ends");
                        return None;
                    }
                }
                News::CaughtUp => {
                    self.queue_snapshot();
                    Box::pin(self.queue_open_pauses()).await;
                }
                News::Reset => {
                    let payload = self.projection.reset();
                    self.snapshot = None;
                    self.replay = self.replay.take().map(|_| Replay::default());
                    self.frames.push_back(sse::dify(None, &payload));
                }
                // Clients of Dify know no event for it.
                News::Gone => return None,
                News::Silence => self.frames.push_back(sse::DIFY_PING),
                // Only a comment: clients of Dify know no event for it.
                News::Closing => self.frames.push_back(sse::CLOSING),
            }
        }
    }

    /// Queues an entry, or begins to wait for the verdict that decides about it.
    async fn take(&mut self, entry: Entry) -> Result<(), ApiError> {
        if !entry.events.is_terminal() || !self.state.submitter.asks_about_answers(&self.graph.features) {
            return self.queue(entry).await;
        }
        self.read_totals().await?;
        self.judging = Some((entry, judged::begin(&self.state, &self.record, &self.render)));
        Ok(())
    }

    /// Queues the entry when its verdict has come, or a ping while it is awaited. `None` when the stream ends without it.
    async fn judge(&mut self) -> Option<()> {
        let (_, judging) = self.judging.as_mut()?;
        let judged = judged::next(judging, &self.state).await;
        match judged {
            Judged::Silence => self.frames.push_back(sse::DIFY_PING),
            Judged::Closing => self.close(),
            Judged::Done(verdict) => {
                let (entry, _) = self.judging.take()?;
                let queued = match verdict {
                    Ok(withheld) => {
                        self.projection.withhold(withheld);
                        self.queue(entry).await
                    }
                    Err(error) => Err(error),
                };
                if let Err(error) = queued {
                    let run = self.record.id;
                    tracing::warn!(%run, error = error.message(), "event cannot be shown, the stream ends");
                    return None;
                }
            }
        }
        Some(())
    }

    /// Ends the stream before its run's end was sent, because the process stops.
    fn close(&mut self) {
        // Only a comment: clients of Dify know no event for it.
        self.frames.push_back(sse::CLOSING);
        self.is_closed = true;
    }

    async fn queue(&mut self, entry: Entry) -> Result<(), ApiError> {
        let (mut payloads, mut is_waiting) = (Vec::new(), false);
        for mut event in entry.events.records()? {
            let is_sent = !entry.is_old || (event.is_terminal() && self.sends_old_end);
            if is_sent {
                self.render.event(&mut event).await?;
            } else {
                self.render.chunk(&mut event).await?;
            }
            let is_pause = event.kind == kind::GRAPH_RUN_PAUSED;
            if event.is_terminal() || (is_pause && (is_sent || self.snapshot.is_some())) {
                self.read_totals().await?;
            }
            if is_sent {
                let projected = self.projection.project(&event);
                match &mut self.replay {
                    Some(replay) => payloads.extend(projected.into_iter().filter_map(|it| replay.pass(it))),
                    None => {
                        payloads.extend(projected);
                        // A run that continues after the pause has more events.
                        is_waiting |= is_pause && self.record.status == RunStatus::Paused;
                    }
                }
                self.end_aloud(&event, &mut payloads);
            } else if let Some(snapshot) = &mut self.snapshot {
                self.projection.project_old(&event).into_iter().for_each(|payload| snapshot.note(payload));
            } else {
                self.projection.project(&event);
                self.end_aloud(&event, &mut Vec::new());
            }
        }
        if entry.is_old {
            self.last_old = Some(entry.events.id);
        }
        if !payloads.is_empty() {
            self.queue_snapshot();
            self.push(payloads, entry.events.id);
        }
        self.is_closed |= is_waiting && !self.beyond_pauses;
        Ok(())
    }

    /// Begins to read the answer aloud at the end of its run. A client that has the end already may have missed the sound, whose
    /// events have no ids, so it gets the sound again.
    fn end_aloud(&mut self, event: &EventRecord, payloads: &mut Vec<Json>) {
        if !self.speaks || !event.is_terminal() {
            return;
        }
        if event.kind == kind::GRAPH_RUN_FAILED {
            spoken::end_without_sound(&self.projection, payloads);
        } else {
            let answer = self.projection.answer();
            self.speaking = Some(spoken::begin(&self.state, &self.record, &self.spoken_by, &answer));
        }
    }

    /// Queues the sound of the answer, or a ping while it is made. `None` when the stream ends without one.
    async fn speak(&mut self) -> Option<()> {
        let speaking = self.speaking.as_mut()?;
        let mut shutdown = self.state.shutdown.clone();
        tokio::select! {
            sound = speaking => {
                self.speaking = None;
                let payloads = spoken::payloads(&self.projection, sound.as_ref());
                self.frames.extend(payloads.iter().map(|payload| sse::dify(None, payload)));
            }
            () = tokio::time::sleep(PING_EVERY) => self.frames.push_back(sse::DIFY_PING),
            () = reached(Stage::Closing, &mut shutdown) => self.close(),
        }
        Some(())
    }

    fn queue_snapshot(&mut self) {
        let Some(snapshot) = self.snapshot.take() else { return };
        if let Some(last) = self.last_old {
            self.is_closed |= snapshot.is_waiting() && !self.beyond_pauses;
            self.push(snapshot.into_payloads(self.projection.text_so_far()), last);
        }
    }

    /// Ends the repetition of earlier events: sends the forms that wait, and their pause. The stream stays open, as on
    /// Dify, where a client that follows a waiting run gets what comes after the answer.
    async fn queue_open_pauses(&mut self) {
        let Some(replay) = self.replay.take().filter(|replay| !replay.is_empty()) else { return };
        let pauses = pauses::of_run(&*self.state.store, self.record.id).await;
        let (Ok(pauses), Ok(now)) = (pauses, self.state.store.time().await) else {
            tracing::warn!(run = %self.record.id, "pauses cannot be read, and are not sent again");
            return;
        };
        let is_open = |form: &str| {
            pauses.iter().any(|pause| pause.id == form && pause.status(now) == PauseStatus::Pending)
        };
        let payloads = replay.end(is_open);
        self.frames.extend(payloads.iter().map(|payload| sse::dify(None, payload)));
    }

    fn push(&mut self, payloads: Vec<Json>, id: EntryId) {
        let last = payloads.len().saturating_sub(1);
        let frame = |(at, payload): (usize, &Json)| sse::dify((at == last).then_some(id), payload);
        self.frames.extend(payloads.iter().enumerate().map(frame));
    }

    async fn read_totals(&mut self) -> Result<(), ApiError> {
        if let Some(fields) = self.state.store.run_fields(self.record.id).await? {
            let record = RunRecord::read(self.record.id, &fields)?;
            let is_over = record.status.is_over();
            // Of a run that goes on only the rest is needed, perhaps for days.
            self.record = if is_over { record } else { record.without_values() };
            let totals = if is_over {
                Totals::of(&self.record)
            } else {
                totals_so_far(&self.state, self.record.id, &self.graph).await?
            };
            self.projection.set_totals(totals);
        }
        Ok(())
    }
}

/// Reads what the end of a message says about the whole run.
async fn gather(state: &ApiState, record: &RunRecord, projection: &mut Projection) -> Result<(), ApiError> {
    let mut after = EntryId::ZERO;
    loop {
        let events = state.store.events(record.id, after, PAGE).await?;
        let Some(last) = events.last() else { return Ok(()) };
        after = last.entry;
        events.iter().for_each(|event| projection.gather(event));
    }
}

/// The last event of an ended run, from its record.
fn end_of(record: &RunRecord) -> EventRecord {
    let error = || record.error.clone().unwrap_or_default();
    let mut data = serde_json::Map::new();
    let kind = match record.status {
        RunStatus::PartialSucceeded => kind::GRAPH_RUN_PARTIAL_SUCCEEDED,
        RunStatus::Failed => {
            data.insert("error".into(), error().into());
            kind::GRAPH_RUN_FAILED
        }
        RunStatus::Stopped => {
            data.insert("reason".into(), error().into());
            kind::GRAPH_RUN_ABORTED
        }
        RunStatus::Succeeded | RunStatus::Scheduled | RunStatus::Running | RunStatus::Paused => {
            kind::GRAPH_RUN_SUCCEEDED
        }
    };
    data.insert("outputs".into(), record.outputs.clone().into());
    if matches!(record.status, RunStatus::PartialSucceeded | RunStatus::Failed) {
        data.insert("exceptions_count".into(), record.exceptions.unwrap_or(0).into());
    }
    EventRecord {
        entry: EntryId::ZERO,
        last_of_entry: true,
        kind: kind.into(),
        seq: 0,
        ts: record.finished_at.unwrap_or_default().millis(),
        data,
    }
}
