//! The state that the tasks of one process share: its sessions, and where lines for it go.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::value::secrets::Secrets;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::Instant;

use super::ProcessError;
use super::answers::{self, Answers, Parts, Question};
use super::event::{self, Heard};
use super::pool::{Invocation, Origin};
use crate::package::Permissions;
use crate::settings::ProcessLimits;

/// Most characters of a line that is logged.
const LOGGED_CHARS_MAX: usize = 2_000;
/// Most characters of an error of a plugin.
const MESSAGE_CHARS_MAX: usize = 8_000;

/// Most characters of a line that are searched for secrets; the others are left out.
const SEARCHED_CHARS_MAX: usize = 64 * 1024;
/// Most texts that are masked in what a process writes. A process that has had so many takes no further sessions.
const SECRETS_MAX: usize = 1_000;
/// Most parts of a result that wait until the host takes them. The process waits then, with all its sessions.
const PARTS_WAITING_MAX: usize = 256;
/// Longest time of this.
const PART_WAITS_MAX: Duration = Duration::from_secs(10);

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

/// How a session ended.
pub(super) type Outcome = Result<(), ProcessError>;

/// A session that has begun.
pub(super) struct Begun {
    pub(super) id: String,
    pub(super) parts: mpsc::Receiver<Json>,
    /// It is there when there are no more parts.
    pub(super) outcome: Arc<OnceLock<Outcome>>,
}

/// A session that the process has not ended.
pub(super) struct Active {
    /// `None` after its end for the host. The process may still have it.
    to: Option<mpsc::Sender<Json>>,
    outcome: Arc<OnceLock<Outcome>>,
    bytes: u64,
    answers: Arc<dyn Answers>,
    origin: Origin,
    questions: usize,
    /// With those that were answered.
    questions_in_all: u64,
    /// The bytes that the answers to its questions may still have.
    answers_left: Arc<AtomicU64>,
    cancelled: Option<Instant>,
    failure: Option<ProcessError>,
}

impl Active {
    /// Ends the session for the host.
    fn finish(&mut self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
        self.to = None;
    }

    /// Ends the session for the host, while the process still has it.
    fn give_up(&mut self, error: ProcessError) {
        self.finish(Err(error));
        self.cancelled.get_or_insert_with(Instant::now);
    }
}

/// The texts that nothing of a process may show: also lines after the end of a session may have its secrets.
#[derive(Default)]
struct Masked {
    texts: BTreeSet<String>,
    secrets: Secrets,
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
    masked: Mutex<Masked>,
    /// The share that its outermost sessions hold.
    pub(super) outermost: Mutex<Weak<OwnedSemaphorePermit>>,
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
            masked: Mutex::default(),
            outermost: Mutex::default(),
        }
    }

    /// Begins a session if there is a place. Returns its id and what it receives.
    pub(super) fn begin(&self, invocation: &Invocation) -> Option<Begun> {
        let secrets = &invocation.secrets;
        if self.is_full_of_secrets() {
            return None;
        }
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= self.limits.sessions_max || *self.stage.borrow() != Stage::Ready {
            return None;
        }
        let id = format!("session-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (to, parts) = mpsc::channel(PARTS_WAITING_MAX);
        let outcome = Arc::new(OnceLock::new());
        let active = Active {
            to: Some(to),
            outcome: outcome.clone(),
            bytes: 0,
            answers: invocation.answers.clone(),
            origin: invocation.origin.clone(),
            questions: 0,
            questions_in_all: 0,
            answers_left: Arc::new(AtomicU64::new(self.limits.answers_bytes_max)),
            cancelled: None,
            failure: None,
        };
        sessions.insert(id.clone(), active);
        *lock(&self.used_at) = Instant::now();
        let mut masked = lock(&self.masked);
        if secrets.iter().any(|secret| !masked.texts.contains(secret)) {
            masked.texts.extend(secrets.iter().cloned());
            masked.secrets = Secrets::unnamed(masked.texts.iter().map(String::as_str));
        }
        Some(Begun { id, parts, outcome })
    }

    /// Whether the process has had so many secrets that it takes no further sessions.
    pub(super) fn is_full_of_secrets(&self) -> bool {
        lock(&self.masked).texts.len() >= SECRETS_MAX
    }

    /// A text without secrets, shortened after that.
    fn masked(&self, text: &str, chars_max: usize) -> String {
        let secrets = lock(&self.masked).secrets.clone();
        shortened(&secrets.masked(shortened(text, SEARCHED_CHARS_MAX)), chars_max)
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

    /// Takes no sessions any more, if there is none and the process is not ending already.
    pub(super) fn close_if_idle(&self) -> bool {
        // Sessions begin under this lock.
        let sessions = lock(&self.sessions);
        sessions.is_empty()
            && self.stage.send_if_modified(|stage| {
                let is_ready = *stage == Stage::Ready;
                if is_ready {
                    *stage = Stage::Ending;
                }
                is_ready
            })
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
        for (_, mut active) in lock(&self.sessions).drain() {
            let plugin = self.plugin.clone();
            active.finish(Err(ProcessError::Ended { plugin, reason: reason.to_owned() }));
        }
    }

    /// Handles one line of the plugin.
    pub(super) async fn take(self: &Arc<Self>, line: &str) {
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
            Heard::Stream { session, data } => {
                if self.count(&session, line) {
                    self.stream(&session, data).await;
                }
            }
            Heard::Failed { session, kind, message } => {
                if self.count(&session, line) {
                    self.failed(&session, &kind, &message);
                }
            }
            Heard::End { session } => self.end(&session),
            Heard::Ask { session, id, kind, request } => {
                if self.count(&session, line) {
                    self.ask(session, id, Question { kind, request });
                }
            }
            Heard::Log { level, message } => self.log(&level, &message),
            Heard::Complaint(message) => self.log("ERROR", &message),
            Heard::Other(text) => self.log("DEBUG", &text),
        }
    }

    /// Counts a line of a session. False for a line of a session that is unknown or not wanted, and for one too much.
    fn count(&self, session: &str, line: &str) -> bool {
        let mut sessions = lock(&self.sessions);
        let Some(active) = sessions.get_mut(session).filter(|active| active.cancelled.is_none()) else {
            return false;
        };
        active.bytes = active.bytes.saturating_add(line.len() as u64);
        let most = self.limits.output_bytes_max;
        let is_within = active.bytes <= most;
        if !is_within {
            let plugin = self.plugin.clone();
            active.give_up(ProcessError::TooMuch { plugin, most, limit: "output_bytes_max" });
        }
        is_within
    }

    async fn stream(&self, session: &str, data: Json) {
        let to = lock(&self.sessions).get(session).and_then(|active| active.to.clone());
        let Some(to) = to else { return };
        // A session that was dropped has no receiver, so this ends at once then.
        if tokio::time::timeout(PART_WAITS_MAX, to.send(data)).await.is_err()
            && let Some(active) = lock(&self.sessions).get_mut(session)
        {
            active.give_up(ProcessError::NotTaken { plugin: self.plugin.clone(), wait: PART_WAITS_MAX });
        }
        *lock(&self.heard_at) = Instant::now();
    }

    fn failed(&self, session: &str, kind: &str, message: &str) {
        let (kind, message) = (self.masked(kind, 200), self.masked(message, MESSAGE_CHARS_MAX));
        if let Some(active) = lock(&self.sessions).get_mut(session) {
            active.failure.get_or_insert(ProcessError::Failed { plugin: self.plugin.clone(), kind, message });
        }
    }

    fn end(&self, session: &str) {
        let Some(mut active) = lock(&self.sessions).remove(session) else { return };
        *lock(&self.used_at) = Instant::now();
        self.has_served.store(true, Ordering::Relaxed);
        let outcome = active.failure.take().map_or(Ok(()), Err);
        active.finish(outcome);
    }

    fn ask(self: &Arc<Self>, session: String, id: String, question: Question) {
        let (answers, left) = {
            let mut sessions = lock(&self.sessions);
            let Some(active) = sessions.get_mut(&session) else { return };
            let most = self.limits.questions_max;
            if active.questions >= most {
                active.give_up(ProcessError::TooManyQuestions { plugin: self.plugin.clone(), most });
                return;
            }
            let most = self.limits.session_questions_max;
            if active.questions_in_all >= most {
                active.give_up(ProcessError::TooManyQuestionsInAll { plugin: self.plugin.clone(), most });
                return;
            }
            active.questions += 1;
            active.questions_in_all += 1;
            (active.answers.clone(), active.answers_left.clone())
        };
        // A question that is refused is dropped here; only its refusal waits until the plugin reads.
        let question = answers::permitted(&self.permissions, &question.kind).map(|()| question);
        let shared = self.clone();
        tokio::spawn(async move {
            let parts = || Parts::new(shared.clone(), session.clone(), id.clone(), left.clone());
            let outcome = match question {
                Ok(question) => answers.answer(question, parts()).await,
                Err(reason) => Err(reason),
            };
            parts().end(outcome).await;
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
        let line = self.masked(text, LOGGED_CHARS_MAX);
        let only = {
            let sessions = lock(&self.sessions);
            // The SDK does not say to which session a line belongs. With a single one there is no doubt.
            let only = sessions.iter().next().filter(|_| sessions.len() == 1);
            only.map(|(session, active)| (session.clone(), active.origin.clone())).unwrap_or_default()
        };
        let (plugin, (session, Origin { run, node })) = (&self.plugin, only);
        match level {
            "ERROR" | "CRITICAL" => {
                tracing::warn!(plugin, session, run, node, line, "a plugin logs an error");
            }
            "WARNING" => tracing::info!(plugin, session, run, node, line, "a plugin logs a warning"),
            _ => tracing::debug!(plugin, session, run, node, line, "a plugin logs"),
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
