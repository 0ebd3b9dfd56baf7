//! The state that the tasks of one process share: its sessions, and where lines for it go.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::value::secrets::Secrets;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::ProcessError;
use super::answers::{self, Answers, Question};
use super::event::{self, Heard};
use crate::package::Permissions;
use crate::settings::ProcessLimits;

/// Most characters of a line that is logged.
const LOGGED_CHARS_MAX: usize = 2_000;
/// Most characters of an error of a plugin.
const MESSAGE_CHARS_MAX: usize = 8_000;

/// The stages of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    Starting,
    Ready,
    /// It takes no sessions any more.
    Ending,
    Ended {
        reason: String,
        is_expected: bool,
    },
}

/// What a session receives.
pub(super) enum Part {
    Stream(Json),
    End,
    Failed(ProcessError),
}

/// A session that the process has not ended.
pub(super) struct Active {
    to: mpsc::UnboundedSender<Part>,
    bytes: u64,
    secrets: Secrets,
    answers: Arc<dyn Answers>,
    questions: usize,
    cancelled: Option<Instant>,
    failure: Option<ProcessError>,
}

pub(super) struct Shared {
    pub(super) plugin: String,
    pub(super) limits: ProcessLimits,
    permissions: Permissions,
    sessions: Mutex<HashMap<String, Active>>,
    input: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    pub(super) stage: watch::Sender<Stage>,
    heard_at: Mutex<Instant>,
    used_at: Mutex<Instant>,
    /// A session has ended well.
    pub(super) has_served: AtomicBool,
    next: AtomicU64,
    log_budget: Mutex<(Instant, u32)>,
}

impl Shared {
    pub(super) fn new(
        plugin: String,
        limits: ProcessLimits,
        permissions: Permissions,
        input: mpsc::Sender<Vec<u8>>,
    ) -> Self {
        let now = Instant::now();
        Self {
            plugin,
            limits,
            permissions,
            sessions: Mutex::default(),
            input: Mutex::new(Some(input)),
            stage: watch::Sender::new(Stage::Starting),
            heard_at: Mutex::new(now),
            used_at: Mutex::new(now),
            has_served: AtomicBool::new(false),
            next: AtomicU64::new(1),
            log_budget: Mutex::new((now, 0)),
        }
    }

    /// Begins a session if there is a place. Returns its id and what it receives.
    pub(super) fn begin(
        &self,
        secrets: Secrets,
        answers: Arc<dyn Answers>,
    ) -> Option<(String, mpsc::UnboundedReceiver<Part>)> {
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= self.limits.sessions_max || *self.stage.borrow() != Stage::Ready {
            return None;
        }
        let id = format!("session-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (to, parts) = mpsc::unbounded_channel();
        let active = Active { to, bytes: 0, secrets, answers, questions: 0, cancelled: None, failure: None };
        sessions.insert(id.clone(), active);
        *lock(&self.used_at) = Instant::now();
        Some((id, parts))
    }

    /// The place for lines to the plugin. `None` once it is being stopped.
    pub(super) fn input(&self) -> Option<mpsc::Sender<Vec<u8>>> {
        lock(&self.input).clone()
    }

    pub(super) fn close_input(&self) {
        lock(&self.input).take();
    }

    /// Notes that a session is not wanted any more. The SDK cannot cancel it, so it may still end alone.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(active) = lock(&self.sessions).get_mut(id) {
            active.cancelled.get_or_insert_with(Instant::now);
        }
    }

    /// Whether a cancelled session does not end: then no further session may begin here.
    pub(super) fn is_stuck(&self) -> bool {
        let grace = self.limits.cancel_grace;
        let is_stuck = |active: &Active| active.cancelled.is_some_and(|then| then.elapsed() >= grace);
        lock(&self.sessions).values().any(is_stuck)
    }

    /// Whether a session runs that is wanted.
    pub(super) fn has_wanted(&self) -> bool {
        lock(&self.sessions).values().any(|active| active.cancelled.is_none())
    }

    /// How long there has been no session.
    pub(super) fn idle(&self) -> Duration {
        if lock(&self.sessions).is_empty() { lock(&self.used_at).elapsed() } else { Duration::ZERO }
    }

    /// How long nothing was heard of the process.
    pub(super) fn silence(&self) -> Duration {
        lock(&self.heard_at).elapsed()
    }

    /// Fails all sessions, because the process has ended.
    pub(super) fn fail_all(&self, reason: &str) {
        for (_, active) in lock(&self.sessions).drain() {
            let plugin = self.plugin.clone();
            let _ = active.to.send(Part::Failed(ProcessError::Ended { plugin, reason: reason.to_owned() }));
        }
    }

    /// Handles one line of the plugin.
    pub(super) fn take(self: &Arc<Self>, line: &str) {
        *lock(&self.heard_at) = Instant::now();
        match event::hear(line) {
            Heard::Heartbeat => {
                self.stage.send_if_modified(|stage| {
                    let is_first = *stage == Stage::Starting;
                    if is_first {
                        *stage = Stage::Ready;
                    }
                    is_first
                });
            }
            Heard::Stream { session, data } => self.stream(&session, data, line.len() as u64),
            Heard::Failed { session, kind, message } => self.failed(&session, kind, &message),
            Heard::End { session } => self.end(&session),
            Heard::Ask { session, id, kind, request } => self.ask(session, id, Question { kind, request }),
            Heard::Log { level, message } => self.log(&level, &message),
            Heard::Complaint(message) => self.log("ERROR", &message),
            Heard::Other(text) => self.log("DEBUG", &text),
        }
    }

    fn stream(&self, session: &str, data: Json, bytes: u64) {
        let mut sessions = lock(&self.sessions);
        // A line of a session that is unknown, or not wanted, is dropped.
        let Some(active) = sessions.get_mut(session).filter(|active| active.cancelled.is_none()) else {
            return;
        };
        active.bytes = active.bytes.saturating_add(bytes);
        if active.bytes > self.limits.output_bytes_max {
            let error = ProcessError::TooMuch {
                plugin: self.plugin.clone(),
                most: self.limits.output_bytes_max,
                limit: "output_bytes_max",
            };
            let _ = active.to.send(Part::Failed(error));
            active.cancelled = Some(Instant::now());
            return;
        }
        let _ = active.to.send(Part::Stream(data));
    }

    fn failed(&self, session: &str, kind: String, message: &str) {
        if let Some(active) = lock(&self.sessions).get_mut(session) {
            let message = shortened(&active.secrets.masked(message.to_owned()), MESSAGE_CHARS_MAX);
            let kind = shortened(&kind, 200);
            active.failure.get_or_insert(ProcessError::Failed { plugin: self.plugin.clone(), kind, message });
        }
    }

    fn end(&self, session: &str) {
        let Some(active) = lock(&self.sessions).remove(session) else { return };
        *lock(&self.used_at) = Instant::now();
        self.has_served.store(true, Ordering::Relaxed);
        let _ = active.to.send(active.failure.map_or(Part::End, Part::Failed));
    }

    fn ask(self: &Arc<Self>, session: String, id: String, question: Question) {
        let answers = {
            let mut sessions = lock(&self.sessions);
            let Some(active) = sessions.get_mut(&session) else { return };
            let allowed = answers::permitted(&self.permissions, &question.kind).and_then(|()| {
                if active.questions >= self.limits.questions_max {
                    return Err(format!(
                        "more than {} questions at once (questions_max)",
                        self.limits.questions_max
                    ));
                }
                Ok(active.answers.clone())
            });
            active.questions += 1;
            allowed
        };
        let shared = self.clone();
        tokio::spawn(async move {
            let parts = match answers {
                Ok(answers) => answers.answer(question).await,
                Err(reason) => Err(reason),
            };
            if let Some(input) = shared.input() {
                for line in event::answer(&session, &id, parts) {
                    if input.send(line).await.is_err() {
                        break;
                    }
                }
            }
            if let Some(active) = lock(&shared.sessions).get_mut(&session) {
                active.questions = active.questions.saturating_sub(1);
            }
        });
    }

    /// Logs a line of the plugin: masked, shortened, and only so many in a minute.
    pub(super) fn log(&self, level: &str, text: &str) {
        if text.trim().is_empty() || !self.may_log() {
            return;
        }
        let (mut line, mut only) = (shortened(text, LOGGED_CHARS_MAX), String::new());
        {
            let sessions = lock(&self.sessions);
            for active in sessions.values() {
                line = active.secrets.masked(line);
            }
            // The SDK does not say to which session a line belongs. With a single one there is no doubt.
            if sessions.len() == 1 {
                only = sessions.keys().next().cloned().unwrap_or_default();
            }
        }
        let (plugin, session) = (&self.plugin, only);
        match level {
            "ERROR" | "CRITICAL" => tracing::warn!(plugin, session, line, "a plugin logs an error"),
            "WARNING" => tracing::info!(plugin, session, line, "a plugin logs a warning"),
            _ => tracing::debug!(plugin, session, line, "a plugin logs"),
        }
    }

    fn may_log(&self) -> bool {
        let mut budget = lock(&self.log_budget);
        if budget.0.elapsed() >= Duration::from_secs(60) {
            *budget = (Instant::now(), 0);
        }
        budget.1 = budget.1.saturating_add(1);
        if budget.1 == self.limits.log_lines_max {
            let (plugin, most) = (&self.plugin, self.limits.log_lines_max);
            tracing::warn!(
                plugin,
                most,
                "further lines of this plugin are not logged in this minute (log_lines_max)"
            );
        }
        budget.1 < self.limits.log_lines_max
    }
}

/// Nothing under these locks can panic, so the value behind a poisoned one is whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
