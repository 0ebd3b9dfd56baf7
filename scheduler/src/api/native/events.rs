//! `GET /api/v1/runs/{id}/events`: the engine's own events, live or afterwards.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde_json::{Value as Json, json};
use tidemill_common::graph::{Graph, GraphHash};
use tidemill_common::ids::RunId;
use tidemill_common::wire::entry::EventEntry;
use tidemill_common::wire::expand::{envelope, write_envelope};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::events::{After, Entry, Follower, News};
use crate::api::native::dialect;
use crate::api::request::{IdInPath, Params};
use crate::api::sse;
use crate::runs::render::Renderer;

/// Large enough for a chunk of one word.
const FRAME_BYTES: usize = 640;

/// Follows a run: from the start, or after `Last-Event-ID` or `?after=`. With `?follow=false` the response ends where
/// live events would begin.
///
/// # Errors
/// 404 for an unknown run, 400 for an invalid event id.
pub async fn follow(
    State(state): State<ApiState>,
    id: IdInPath,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let run = id.run()?;
    let after = match (After::of_header(&headers)?, params.get("after")) {
        (Some(after), _) => after,
        (None, Some(text)) => After::of_text(text)?,
        (None, None) => After::Start,
    };
    let follows = params.truth("follow", true)?;
    let is_step_dialect = match params.get("dialect") {
        None | Some("") => false,
        Some("step") => true,
        Some(_) => return Err(ApiError::invalid_param("dialect must be step, or absent")),
    };
    let (mut stream, fields) = EventStream::open(&state, run, after).await?;
    stream.follows = follows;
    stream.dialect = is_step_dialect.then(|| Dialect {
        app: fields.get("app").cloned().unwrap_or_default(),
        conversation: fields.get("conversation_id").cloned().unwrap_or_default(),
    });
    // In a box: the state of a stream would be in the memory of each of its futures again.
    Ok(sse::answer(futures_util::stream::unfold(Box::new(stream), async |mut stream| {
        let frame = stream.next().await?;
        Some((frame, stream))
    })))
}

/// The events of a run from its first one, as values, for a program that contains the scheduler. The stream ends after the
/// run's last event, and when the process stops.
///
/// # Errors
/// 404 for an unknown run.
pub async fn values(
    state: &ApiState,
    run: RunId,
) -> Result<impl Stream<Item = Json> + Send + use<>, ApiError> {
    let (stream, _) = EventStream::open(state, run, After::Start).await?;
    let entries = futures_util::stream::unfold(stream, async |mut stream| {
        let events = stream.next_values().await?;
        Some((futures_util::stream::iter(events), stream))
    });
    Ok(entries.flatten())
}

struct EventStream {
    follower: Follower,
    render: Renderer,
    graph: Arc<Graph>,
    run: RunId,
    follows: bool,
    frames: VecDeque<Bytes>,
    /// Set when events are sent in the dialect of a step executor.
    dialect: Option<Dialect>,
}

/// Data about the run for the dialect's envelope.
struct Dialect {
    app: String,
    conversation: String,
}

impl EventStream {
    /// Opens the events of a run. Also returns the fields of its record.
    async fn open(
        state: &ApiState,
        run: RunId,
        after: After,
    ) -> Result<(Self, HashMap<String, String>), ApiError> {
        let mut follower = Follower::new(state, run, after);
        let ((), fields) = tokio::join!(follower.begin(), state.store.run_fields(run));
        let fields = fields?.ok_or_else(|| ApiError::not_found("Workflow run not found."))?;
        let hash = GraphHash(fields.get("version").map_or("", String::as_str).into());
        let workflow = state.workflows.of_run(&*state.store, run.shard(), &hash).await?;
        let (store, graph) = (state.store.clone(), workflow.graph.clone());
        let stream = Self {
            follower,
            render: Renderer::new(store, run.shard(), graph.clone(), &state.config.compat),
            graph,
            run,
            follows: true,
            frames: VecDeque::new(),
            dialect: None,
        };
        Ok((stream, fields))
    }

    /// The events of the next entry; `None` at the end, and if one cannot be shown.
    async fn next_values(&mut self) -> Option<Vec<Json>> {
        loop {
            let News::Entry(entry) = self.follower.next().await? else { continue };
            let expanded = self.expand(&entry.events).await;
            return expanded.inspect_err(|error| self.warn(error)).ok();
        }
    }

    async fn expand(&self, entry: &EventEntry) -> Result<Vec<Json>, ApiError> {
        let mut values = Vec::new();
        for (event, is_last) in entry.events() {
            let mut record = event.record(entry.id, is_last)?;
            self.render.event(&mut record).await?;
            values.push(envelope(&record, &self.run, &self.graph));
        }
        Ok(values)
    }

    fn warn(&self, error: &ApiError) {
        let (run, error) = (self.run, error.message());
        tracing::warn!(%run, error, "event cannot be shown, the stream ends");
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            match self.follower.next().await? {
                News::Entry(entry) if entry.is_old => {}
                News::Entry(entry) => self.queue(entry).await.ok()?,
                News::CaughtUp if self.follows => {}
                News::CaughtUp => return None,
                News::Reset => {
                    let payload = json!({"type": "reset", "run_id": self.run.to_string()});
                    self.frames.push_back(sse::native(None, "reset", &payload));
                }
                News::Gone => {
                    let payload = json!({"type": "gone", "run_id": self.run.to_string()});
                    self.frames.push_back(sse::native(None, "gone", &payload));
                }
                News::Silence if self.dialect.is_some() => {
                    self.frames.push_back(sse::native(None, "heartbeat", &json!({"event": "heartbeat"})));
                }
                News::Silence => self.frames.push_back(sse::NATIVE_PING),
                News::Closing => {
                    self.frames.push_back(sse::CLOSING);
                    if self.dialect.is_none() {
                        let payload = json!({"type": "reconnect", "run_id": self.run.to_string()});
                        self.frames.push_back(sse::native(None, "reconnect", &payload));
                    }
                }
            }
        }
    }

    /// Queues the frames of an entry. They are the same for all clients, so they are encoded once and shared.
    async fn queue(&mut self, entry: Entry) -> Result<(), ApiError> {
        // In boxes, so that a stream that waits for events does not hold their memory.
        if self.dialect.is_some() {
            return Box::pin(self.queue_steps(&entry.events)).await;
        }
        let frames = match entry.events.encoded() {
            Some(frames) => frames,
            None => {
                let encoded = Box::pin(self.encode(&entry.events)).await;
                let frames = encoded.inspect_err(|error| self.warn(error))?;
                entry.events.set_encoded(&frames);
                frames
            }
        };
        self.frames.push_back(Bytes::from_owner(frames));
        Ok(())
    }

    /// Queues the frames of an entry in the dialect of a step executor. The last one carries the entry's id.
    async fn queue_steps(&mut self, entry: &EventEntry) -> Result<(), ApiError> {
        let Some(Dialect { app, conversation }) = &self.dialect else { return Ok(()) };
        let flow = dialect::Flow { run: &self.run, graph: &self.graph, app, conversation };
        let (mut named, mut is_over) = (Vec::new(), false);
        for (event, is_last) in entry.events() {
            let mut record = event.record(entry.id, is_last)?;
            self.render.event(&mut record).await?;
            is_over |= record.is_terminal();
            named.extend(dialect::step_event(&record, &flow));
        }
        let count = named.len();
        for (at, (name, payload)) in named.into_iter().enumerate() {
            let id = (at + 1 == count).then_some(entry.id);
            self.frames.push_back(sse::native(id, &name, &payload));
        }
        if is_over {
            self.frames.push_back(sse::native(None, "done", &json!({"event": "done"})));
        }
        Ok(())
    }

    async fn encode(&self, entry: &EventEntry) -> Result<Arc<[u8]>, ApiError> {
        let mut frames = Vec::with_capacity(FRAME_BYTES);
        for (event, is_last) in entry.events() {
            sse::begin(&mut frames, is_last.then_some(entry.id), Some(&event.kind));
            // Events that were stored before secrets were masked in them are masked now.
            let is_plain = !self.graph.hidden.may_be_in_json(event.text());
            if !is_plain || !write_envelope(&mut frames, event, entry.id, &self.run, &self.graph) {
                let mut record = event.record(entry.id, is_last)?;
                self.render.event(&mut record).await?;
                let payload = envelope(&record, &self.run, &self.graph);
                // Serialising a `Value` cannot fail.
                let _ = serde_json::to_writer(&mut frames, &payload);
            }
            sse::end(&mut frames);
        }
        Ok(frames.into())
    }
}
