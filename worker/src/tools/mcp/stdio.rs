//! MCP with a program of the operator's: a line a message, in by its standard input, out by its standard output; what it
//! says besides goes to the log. The program is started when it is needed, serves all calls, and ends with the worker; one that
//! does not answer any more is ended and started anew. What its environment keeps secret is in no error and no log.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tidemill_common::limits::MCP_LINES_WAITING_MAX;
use tidemill_common::nodes::tool::config::McpConfig;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use super::Transport;
use super::protocol::{McpError, chosen_version, introduction, notification};
use super::waiting::Waiting;
use crate::tools::door::without;

/// Handed on of the worker's environment, without which programs hardly start.
const PASSED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// What is said of a program that is gone.
const ENDED: &str = "the program has ended; its log is in the worker's";
/// Longest line of a program's log that is told, in bytes.
const LOG_LINE_MAX: u64 = 4096;

/// See the module.
pub(super) struct Program {
    id: Arc<str>,
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    /// What it is given of its own, which may be keys; longest first, so that none is left in part.
    secrets: Arc<[String]>,
    silence: Duration,
    /// The longest that any call may wait.
    silence_max: Duration,
    line_bytes_max: u64,
    running: Mutex<Option<Arc<Running>>>,
}

/// A program that runs. Dropped, it is killed.
struct Running {
    shared: Arc<Shared>,
    _child: Child,
    tasks: [JoinHandle<()>; 3],
}

/// What the one who reads and those who ask have in common.
struct Shared {
    /// Lines for the program. Whoever asks may go at any time, and half a line would spoil all that follow, so another
    /// task writes.
    lines: mpsc::Sender<String>,
    waiting: Waiting,
    /// Since when somebody waits and nothing was heard.
    quiet_since: StdMutex<Instant>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Program {
    pub(super) fn new(
        id: &str,
        config: &McpConfig,
        line_bytes_max: u64,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let found = |name: &String| variable(name).map(|value| (name.clone(), value));
        let mut own: BTreeMap<String, String> = config.pass_env.iter().filter_map(found).collect();
        own.extend(config.env.iter().map(|(name, value)| (name.clone(), value.0.clone())));
        // A key of several lines is told line by line.
        let mut secrets: Vec<String> =
            own.values().flat_map(|value| value.lines().chain([value.as_str()])).map(str::to_owned).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let mut environment: BTreeMap<String, String> =
            PASSED.iter().filter_map(|name| found(&(*name).to_owned())).collect();
        environment.extend(own);
        let silence = Duration::from_secs(config.timeout_seconds);
        Self {
            id: id.into(),
            command: config.command.0.clone(),
            environment,
            secrets: secrets.into(),
            silence,
            silence_max: silence.max(Duration::from_secs(config.read_seconds)),
            line_bytes_max,
            running: Mutex::new(None),
        }
    }

    /// The program, started and introduced; anew if it has ended.
    async fn running(&self) -> Result<Arc<Running>, McpError> {
        let mut running = self.running.lock().await;
        if let Some(known) = &*running
            && known.shared.waiting.is_open()
        {
            return Ok(known.clone());
        }
        *running = None;
        let new = Arc::new(self.start()?);
        let result = new.shared.ask("initialize", &introduction(), self.silence).await?;
        chosen_version(&result)?;
        new.shared.say(&notification("notifications/initialized"))?;
        *running = Some(new.clone());
        Ok(new)
    }

    fn start(&self) -> Result<Running, McpError> {
        let unreachable = |reason: String| McpError::Unreachable(reason);
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| unreachable("no command".into()))?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(&self.environment).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| unreachable(format!("{program:?} does not start: {error}")))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(unreachable(format!("{program:?} has no standard streams")));
        };
        tracing::info!(server = %self.id, program, "an MCP server is started");
        let (lines, written) = mpsc::channel(MCP_LINES_WAITING_MAX);
        let (waiting, quiet_since) = (Waiting::new(ENDED), StdMutex::new(Instant::now()));
        let shared = Arc::new(Shared { lines, waiting, quiet_since });
        let tasks = [
            tokio::spawn(write(stdin, written)),
            tokio::spawn(listen(self.id.clone(), shared.clone(), stdout, self.line_bytes_max)),
            tokio::spawn(log(self.id.clone(), stderr, self.secrets.clone())),
        ];
        Ok(Running { shared, _child: child, tasks })
    }
}

impl Shared {
    fn say(&self, message: &Json) -> Result<(), McpError> {
        self.lines.try_send(format!("{message}\n")).map_err(|error| match error {
            TrySendError::Closed(_) => self.waiting.ended(),
            TrySendError::Full(_) => McpError::Unreachable(format!(
                "the program does not read: {MCP_LINES_WAITING_MAX} messages wait for it (MCP_LINES_WAITING_MAX)"
            )),
        })
    }

    async fn ask(&self, method: &str, params: &Json, silence: Duration) -> Result<Json, McpError> {
        if self.waiting.is_idle() {
            self.heard();
        }
        self.waiting.ask(method, params, silence, |message| async move { self.say(&message) }).await
    }

    fn heard(&self) {
        *self.quiet_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether a program that has left a question of this silence unanswered is taken to hang: nothing at all has come
    /// meanwhile, and nobody waits who is allowed to wait longer. Many programs serve one call after the other.
    fn hangs(&self, silence: Duration, silence_max: Duration) -> bool {
        let quiet = self.quiet_since.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        quiet >= silence_max || (quiet >= silence && self.waiting.is_idle())
    }
}

/// Writes lines until the program takes no more.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        // Whoever listens sees that it has ended.
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

/// Reads answers until the program ends.
async fn listen(id: Arc<str>, shared: Arc<Shared>, stdout: ChildStdout, line_bytes_max: u64) {
    let mut lines = BufReader::new(stdout);
    loop {
        match line(&mut lines, line_bytes_max).await {
            Ok(Some(text)) => {
                let Ok(body) = serde_json::from_slice::<Json>(&text) else {
                    // Many programs greet people there.
                    tracing::debug!(server = %id, "an MCP server said something that is no message");
                    continue;
                };
                shared.heard();
                for answer in shared.waiting.take_in(&body) {
                    // Whoever writes has ended only if the program has.
                    drop(shared.say(&answer));
                }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(server = %id, %error, "an MCP server cannot be listened to");
                break;
            }
        }
    }
    tracing::warn!(server = %id, "an MCP server has ended");
    shared.waiting.close();
}

/// The next line, if it is not too long.
async fn line(lines: &mut BufReader<ChildStdout>, max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    let read = lines.take(max.saturating_add(1)).read_until(b'\n', &mut text).await?;
    if read == 0 {
        return Ok(None);
    }
    if text.len() as u64 > max {
        return Err(std::io::Error::other(format!(
            "a line has more than {max} bytes (tools.answer_bytes_max)"
        )));
    }
    Ok(Some(text))
}

/// Tells what the program says besides.
async fn log(id: Arc<str>, stderr: ChildStderr, secrets: Arc<[String]>) {
    let mut lines = BufReader::new(stderr);
    let mut text = Vec::new();
    while let Ok(1..) = (&mut lines).take(LOG_LINE_MAX).read_until(b'\n', &mut text).await {
        let said = hidden(&secrets, String::from_utf8_lossy(&text).into_owned());
        tracing::info!(server = %id, said = said.trim_end(), "an MCP server says");
        text.clear();
    }
}

fn hidden(secrets: &[String], text: String) -> String {
    without(secrets.iter().map(String::as_str), text)
}

impl Program {
    async fn ask(&self, method: &str, params: Json, silence: Duration) -> Result<Json, McpError> {
        let running = self.running().await?;
        let asked = running.shared.ask(method, &params, silence).await;
        if matches!(asked, Err(McpError::Silent(_))) && running.shared.hangs(silence, self.silence_max) {
            tracing::warn!(server = %self.id, "an MCP server does not answer; it is ended, and started anew for the next call");
            running.shared.waiting.close();
            let mut known = self.running.lock().await;
            if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &running)) {
                *known = None;
            }
        }
        asked
    }
}

#[async_trait::async_trait]
impl Transport for Program {
    async fn request(&self, method: &str, params: Json, silence: Duration) -> Result<Json, McpError> {
        let asked = self.ask(method, params, silence).await;
        asked.map_err(|error| error.worded(|text| hidden(&self.secrets, text)))
    }
}
