//! The processes of plugins. One process serves many sessions at once; a session is one invocation. [`pool`] chooses or
//! starts the process, [`launch`] starts it confined, [`gate`] is its network, and [`shared`] sorts its lines to the sessions.
//!
//! The SDK has no message that cancels a session. So a session that is not wanted any more gets a time in which it may
//! end alone; then the process takes no further sessions, and it is ended as soon as no wanted session is left in it.

mod answers;
mod error;
mod event;
mod gate;
mod intake;
mod launch;
mod nested;
pub mod pool;
mod room;
mod scratch;
mod shared;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_sandbox::guest::Running;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use crate::install::Installed;
use gate::{Offering, OnOffer};
use nested::{Held, Share};
use scratch::Scratch;
use shared::{Outcome, Shared, Stage};

pub use answers::{Answers, MemoryStorage, NoAnswers, Parts, Question};
pub use error::ProcessError;
pub use gate::Offered;
pub use intake::{Intake, Upload};
pub use nested::nested;
pub use pool::{Invocation, Origin};
pub use scratch::remove_left_over;

/// How often a process is looked at: its silence, its cancelled sessions, its idle time.
const LOOK: Duration = Duration::from_millis(500);
/// How often the folder of a process is looked at, because that reads all of it.
const LOOK_AT_FOLDER: Duration = Duration::from_secs(5);
/// Most bytes of a line of standard error that are kept.
const ERROR_LINE_BYTES_MAX: u64 = 16 * 1024;
/// Most bytes of standard error that are shown when a start fails.
const START_BYTES_MAX: usize = 4 * 1024;

/// A running process of a plugin. Dropping it ends it.
struct Process {
    shared: Arc<Shared>,
    orders: mpsc::Sender<()>,
    offered: OnOffer,
}

/// What lives as long as the process.
struct Belongings {
    running: Running,
    scratch: Scratch,
    _gate: gate::Gate,
    _permit: OwnedSemaphorePermit,
    /// Its files and its environment stay in the cache as long as it lives.
    _installed: Arc<Installed>,
}

impl Process {
    /// Takes over a process that was started, and waits for its first heartbeat.
    async fn new(
        mut belongings: Belongings,
        shared: Arc<Shared>,
        mut lines: mpsc::Receiver<Vec<u8>>,
        offered: OnOffer,
    ) -> Result<Self, ProcessError> {
        let plugin = shared.plugin.clone();
        let failed = |reason: String| ProcessError::Start { plugin: plugin.clone(), reason };
        let process = &mut belongings.running.process;
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(failed("it has no pipes".into()));
        };
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                if stdin.write_all(&line).await.is_err() {
                    break;
                }
            }
        });
        let complaints = tokio::spawn(complaints(stderr, shared.clone()));
        let (orders, ordered) = mpsc::channel(1);
        let reading = tokio::spawn(read(stdout, shared.clone()));
        tokio::spawn(keep(belongings, shared.clone(), ordered, reading));
        let own = Self { shared, orders, offered };
        let mut stage = own.shared.stage.subscribe();
        let limit = own.shared.limits.start_timeout;
        let is_started = |stage: &Stage| *stage != Stage::Starting;
        let seen = match tokio::time::timeout(limit, stage.wait_for(is_started)).await {
            Ok(seen) => seen.map(|stage| stage.clone()).unwrap_or(Stage::Ending),
            Err(_) => {
                let reason = format!("no heartbeat within {} s (start_timeout)", limit.as_secs());
                return Err(failed(reason));
            }
        };
        match seen {
            Stage::Ended { reason, .. } => {
                // No session has begun, so this text is the plugin's own, and of no session.
                let text = complaints.await.unwrap_or_default();
                let text = text.trim();
                Err(failed(if text.is_empty() { reason } else { format!("{reason}\n{text}") }))
            }
            Stage::Starting | Stage::Ready | Stage::Ending => Ok(own),
        }
    }

    /// Begins a session and sends its request. `None` if there is no place, also if the plugin does not read its input.
    fn open(&self, invocation: &Invocation, deadline: Instant) -> Option<Session> {
        if self.shared.is_stuck() {
            return None;
        }
        let input = self.shared.input()?;
        let line = input.try_reserve().ok()?;
        let begun = self.shared.begin(invocation)?;
        // Before the plugin reads the request.
        let offering = self.offered.offer(&invocation.offered);
        line.send(event::request(&begun.id, &invocation.request));
        Some(Session {
            id: begun.id,
            parts: begun.parts,
            outcome: begun.outcome,
            shared: self.shared.clone(),
            deadline,
            is_over: false,
            held: None,
            share: None,
            _offering: offering,
        })
    }

    fn end_of(&self) -> Option<(String, bool)> {
        match &*self.shared.stage.borrow() {
            Stage::Ended { reason, is_expected } => Some((reason.clone(), *is_expected)),
            Stage::Starting | Stage::Ready | Stage::Ending => None,
        }
    }

    /// Stops the process, and waits until it has ended.
    async fn stop(&self) {
        let _ = self.orders.try_send(());
        let mut stage = self.shared.stage.subscribe();
        let _ = stage.wait_for(|stage| matches!(stage, Stage::Ended { .. })).await;
    }
}

/// One invocation. Dropping it cancels it.
pub struct Session {
    id: String,
    parts: mpsc::Receiver<Json>,
    outcome: Arc<OnceLock<Outcome>>,
    shared: Arc<Shared>,
    deadline: Instant,
    is_over: bool,
    held: Option<Held>,
    share: Option<Share>,
    _offering: Offering,
}

impl Session {
    /// Keeps a place until the end of the session.
    fn holding(mut self, held: Held) -> Self {
        self.held = Some(held);
        self
    }

    /// Counts its process as one of outermost sessions until its end.
    fn sharing(mut self, share: Share) -> Self {
        self.share = Some(share);
        self
    }

    /// The next part of the result; `None` at its end.
    ///
    /// # Errors
    /// The session failed. It has ended then.
    pub async fn next(&mut self) -> Result<Option<Json>, ProcessError> {
        if self.is_over {
            return Ok(None);
        }
        let plugin = || self.shared.plugin.clone();
        let part = match tokio::time::timeout_at(self.deadline, self.parts.recv()).await {
            Ok(Some(data)) => return Ok(Some(data)),
            Ok(None) => match self.outcome.get() {
                Some(outcome) => outcome.clone().map(|()| None),
                None => Err(ProcessError::Ended { plugin: plugin(), reason: "it was stopped".into() }),
            },
            Err(_) => {
                Err(ProcessError::TimedOut { plugin: plugin(), limit: self.shared.limits.session_timeout })
            }
        };
        self.is_over = true;
        self.held = None;
        self.share = None;
        // A part that waits to be taken holds up the other sessions.
        self.parts.close();
        self.shared.cancel(&self.id);
        part
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.cancel(&self.id);
    }
}

/// Reads the lines of a plugin to the end. Returns a reason to end the process, if there is one.
async fn read(stdout: impl AsyncRead + Unpin, shared: Arc<Shared>) -> Option<String> {
    let most = shared.limits.line_bytes_max;
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(most + 1).read_until(b'\n', &mut line).await;
        match read {
            Ok(0) | Err(_) => return None,
            Ok(_) if line.len() as u64 > most => {
                return Some(format!("it wrote a line of more than {most} bytes (line_bytes_max)"));
            }
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                if !text.trim().is_empty() {
                    shared.take(text.trim_end()).await;
                }
            }
        }
    }
}

/// Logs standard error. Returns the last of it that was written before the first heartbeat.
async fn complaints(stderr: impl AsyncRead + Unpin, shared: Arc<Shared>) -> String {
    let mut reader = BufReader::new(stderr);
    let (mut line, mut kept) = (Vec::new(), String::new());
    let mut is_rest = false;
    loop {
        line.clear();
        let read = (&mut reader).take(ERROR_LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
        if matches!(read, Ok(0) | Err(_)) {
            return kept;
        }
        // The rest of a line that is too long is left out: a secret may be cut there.
        let (was_rest, is_whole) = (is_rest, line.ends_with(b"\n"));
        is_rest = !is_whole;
        if was_rest {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        shared.log("DEBUG", text.trim_end());
        if *shared.stage.borrow() == Stage::Ready {
            kept.clear();
        } else {
            kept.push_str(&text);
            let from = kept.len().saturating_sub(START_BYTES_MAX);
            let from = (from..kept.len()).find(|at| kept.is_char_boundary(*at)).unwrap_or(0);
            kept.drain(..from);
        }
    }
}

/// Looks after a process until it has ended: silence, stuck and cancelled sessions, idle time, the order to stop.
async fn keep(
    mut belongings: Belongings,
    shared: Arc<Shared>,
    mut orders: mpsc::Receiver<()>,
    mut reading: tokio::task::JoinHandle<Option<String>>,
) {
    let mut look = tokio::time::interval(LOOK);
    let mut folder_at = Instant::now() + LOOK_AT_FOLDER;
    let mut is_reading = true;
    let (reason, is_expected) = loop {
        tokio::select! {
            status = belongings.running.process.wait() => {
                let text = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                break (text, false);
            }
            order = orders.recv() => {
                match order {
                    Some(()) => end_well(&mut belongings.running, &shared).await,
                    // The pool dropped it.
                    None => end_now(&mut belongings.running).await,
                }
                break ("it was stopped".to_owned(), true);
            }
            read = &mut reading, if is_reading => {
                is_reading = false;
                if let Ok(Some(reason)) = read {
                    end_now(&mut belongings.running).await;
                    break (reason, false);
                }
            }
            _ = look.tick() => {
                let mut found = overdue(&shared);
                if found.is_none() && Instant::now() >= folder_at {
                    let reason = scratch::too_much(belongings.scratch.path(), &shared.limits).await;
                    found = reason.map(|reason| (reason, !shared.has_wanted()));
                    folder_at = Instant::now() + LOOK_AT_FOLDER;
                }
                if let Some((reason, is_expected)) = found {
                    if is_expected {
                        end_well(&mut belongings.running, &shared).await;
                    } else {
                        end_now(&mut belongings.running).await;
                    }
                    break (reason, is_expected);
                }
            }
        }
    };
    // Lines that it wrote before its end still count. Nothing holds its pipe open, since its group has ended.
    if is_reading {
        let _ = tokio::time::timeout(shared.limits.stop_grace, reading).await;
    }
    shared.close_input();
    if !is_expected {
        tracing::warn!(plugin = shared.plugin, reason, "a plugin's process ended");
    }
    // Its folder may have many files.
    let _ = tokio::task::spawn_blocking(move || drop(belongings)).await;
    // Sessions fail after the process counts as ended, so that their clients cannot find a place in it again.
    shared.stage.send_replace(Stage::Ended { reason: reason.clone(), is_expected });
    shared.fail_all(&reason);
}

/// The reason to end a process now, and whether that is expected.
fn overdue(shared: &Shared) -> Option<(String, bool)> {
    let limits = &shared.limits;
    if *shared.stage.borrow() == Stage::Ready && shared.silence() > limits.silence_max {
        return Some((format!("it was silent for {} s (silence_max)", limits.silence_max.as_secs()), false));
    }
    if shared.is_stuck() && !shared.has_wanted() {
        return Some(("a cancelled session did not end".into(), true));
    }
    if shared.idle() > limits.idle_max {
        return Some((format!("it was idle for {} s (idle_max)", limits.idle_max.as_secs()), true));
    }
    if shared.is_full_of_secrets() && !shared.has_wanted() {
        return Some(("it has had as many secrets as a process may have".into(), true));
    }
    None
}

/// Ends a process step by step: its input is closed, then it is asked, then it is killed.
async fn end_well(running: &mut Running, shared: &Shared) {
    shared.stage.send_replace(Stage::Ending);
    shared.close_input();
    // The SDK does not end at the end of its input, so only a plugin that does it itself ends here.
    if tokio::time::timeout(LOOK, running.process.wait()).await.is_ok() {
        return;
    }
    running.ask_to_end();
    if tokio::time::timeout(shared.limits.stop_grace, running.process.wait()).await.is_err() {
        end_now(running).await;
    }
}

/// Kills a process with its group.
async fn end_now(running: &mut Running) {
    running.end_now();
    if tokio::time::timeout(Duration::from_secs(5), running.process.wait()).await.is_err() {
        // The supervisor does not answer; the guest dies with it.
        let _ = running.process.kill().await;
    }
}

/// Whether a process did its work before it ended.
fn has_served(shared: &Shared) -> bool {
    shared.has_served.load(Ordering::Relaxed)
}
