//! MCP with a program as the server: one message per line, through its standard input and output; its standard error
//! goes to the log. The program is started when needed, serves all calls, and ends with the worker. If it stops
//! answering, it is killed and started again. Secrets of its environment appear in no error and no log.

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

use crate::outside::hide::Hide;
use crate::outside::tools::mcp::Transport;
use crate::outside::tools::mcp::protocol::{McpError, chosen_version, introduction, notification};
use crate::outside::tools::mcp::waiting::Waiting;

/// Variables of the worker's environment that most programs need.
const PASSED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// The message when the program has ended.
const ENDED: &str = "the program has ended; its log is in the worker's";
/// Longest logged line of the program, in bytes.
const LOG_LINE_MAX: u64 = 4096;

/// An MCP server as a program; see the module.
pub(super) struct Program {
    id: Arc<str>,
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    /// Values set for this program, which may be keys.
    hide: Arc<Hide>,
    silence: Duration,
    /// The longest wait of any call.
    silence_max: Duration,
    line_bytes_max: u64,
    running: Mutex<Option<Arc<Running>>>,
}

/// A running program. Dropping it kills the program.
struct Running {
    shared: Arc<Shared>,
    _child: Child,
    tasks: [JoinHandle<()>; 3],
}

/// State shared by the reading task and the callers.
struct Shared {
    /// Lines for the program. A separate task writes them, because a caller may be dropped at any time and a
    /// half-written line would break all later ones.
    lines: mpsc::Sender<String>,
    waiting: Waiting,
    /// The start of the current silence while a caller waits.
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
        // A key of several lines appears in the log line by line.
        let secrets: Vec<String> =
            own.values().flat_map(|value| value.lines().chain([value.as_str()])).map(str::to_owned).collect();
        let mut environment: BTreeMap<String, String> =
            PASSED.iter().filter_map(|name| found(&(*name).to_owned())).collect();
        environment.extend(own);
        let silence = Duration::from_secs(config.timeout_seconds);
        Self {
            id: id.into(),
            command: config.command.0.clone(),
            environment,
            hide: Arc::new(Hide::of(secrets)),
            silence,
            silence_max: silence.max(Duration::from_secs(config.read_seconds)),
            line_bytes_max,
            running: Mutex::new(None),
        }
    }

    /// Returns the running program, started again if it has ended.
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
            tokio::spawn(log(self.id.clone(), stderr, self.hide.clone())),
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

    /// Returns true if a program hangs that left a question unanswered for `silence`: nothing arrived meanwhile, and no
    /// other caller may wait longer. Many programs serve one call at a time.
    fn hangs(&self, silence: Duration, silence_max: Duration) -> bool {
        let quiet = self.quiet_since.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        quiet >= silence_max || (quiet >= silence && self.waiting.is_idle())
    }
}

/// Writes lines until the program accepts no more.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        // The listening task notices the end.
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
                    // Many programs print a greeting there.
                    tracing::debug!(server = %id, "an MCP server printed a line that is not a message");
                    continue;
                };
                shared.heard();
                for answer in shared.waiting.take_in(&body) {
                    // The writing task ends only with the program.
                    drop(shared.say(&answer));
                }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(server = %id, %error, "an MCP server cannot be read");
                break;
            }
        }
    }
    tracing::warn!(server = %id, "an MCP server has ended");
    shared.waiting.close();
}

/// Reads the next line, up to the size limit.
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

/// Logs the program's standard error.
async fn log(id: Arc<str>, stderr: ChildStderr, hide: Arc<Hide>) {
    let mut lines = BufReader::new(stderr);
    let mut text = Vec::new();
    while let Ok(1..) = (&mut lines).take(LOG_LINE_MAX).read_until(b'\n', &mut text).await {
        let output = hide.text(&String::from_utf8_lossy(&text));
        tracing::info!(server = %id, output = output.trim_end(), "an MCP server says");
        text.clear();
    }
}

impl Program {
    async fn ask(&self, method: &str, params: Json, silence: Duration) -> Result<Json, McpError> {
        let running = self.running().await?;
        let answered = running.shared.ask(method, &params, silence).await;
        if matches!(answered, Err(McpError::Silent(_))) && running.shared.hangs(silence, self.silence_max) {
            tracing::warn!(server = %self.id, "an MCP server does not answer; it is killed and started again for the next call");
            running.shared.waiting.close();
            let mut known = self.running.lock().await;
            if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &running)) {
                *known = None;
            }
        }
        answered
    }
}

#[async_trait::async_trait]
impl Transport for Program {
    async fn request(&self, method: &str, params: Json, silence: Duration) -> Result<Json, McpError> {
        let answered = self.ask(method, params, silence).await;
        answered.map_err(|error| error.worded(|text| self.hide.text(&text)))
    }
}
