//! MCP with a program of the operator's: a line a message, in by its standard input, out by its standard output; what it
//! says besides goes to the log. The program is started when it is needed, serves all calls, and ends with the worker.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::nodes::tool::config::McpConfig;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::Transport;
use super::protocol::{Incoming, McpError, chosen_version, incoming, introduction, notification, request};
use crate::tools::ToolSettingError;

/// Handed on of the worker's environment, without which programs hardly start.
const PASSED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// Longest line of a program's log that is told, in bytes.
const LOG_LINE_MAX: u64 = 4096;

/// See the module.
pub(super) struct Program {
    id: Arc<str>,
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    silence: Duration,
    line_bytes_max: u64,
    running: Mutex<Option<Arc<Running>>>,
}

/// A program that runs. Dropped, it is killed.
struct Running {
    shared: Arc<Shared>,
    last_id: AtomicU64,
    _child: Child,
    tasks: [JoinHandle<()>; 3],
}

/// What the one who reads and those who ask have in common.
struct Shared {
    /// Lines for the program. Whoever asks may go at any time, and half a line would spoil all that follow, so another
    /// task writes.
    lines: mpsc::UnboundedSender<String>,
    /// None once the program has ended.
    waiting: StdMutex<Option<HashMap<u64, oneshot::Sender<Result<Json, McpError>>>>>,
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
        silence: Duration,
        line_bytes_max: u64,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ToolSettingError> {
        let passed = PASSED.iter().map(ToString::to_string).chain(config.pass_env.iter().cloned());
        let mut environment: BTreeMap<String, String> =
            passed.filter_map(|name| variable(&name).map(|value| (name, value))).collect();
        environment.extend(config.env.iter().map(|(name, value)| (name.clone(), value.0.clone())));
        Ok(Self {
            id: id.into(),
            command: config.command.clone(),
            environment,
            silence,
            line_bytes_max,
            running: Mutex::new(None),
        })
    }

    /// The program, started and introduced; anew if it has ended.
    async fn running(&self) -> Result<Arc<Running>, McpError> {
        let mut running = self.running.lock().await;
        if let Some(known) = &*running
            && known.shared.is_open()
        {
            return Ok(known.clone());
        }
        *running = None;
        let new = Arc::new(self.start()?);
        let result = new.ask("initialize", &introduction(), self.silence).await?;
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
        let (lines, written) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { lines, waiting: StdMutex::new(Some(HashMap::new())) });
        let tasks = [
            tokio::spawn(write(stdin, written)),
            tokio::spawn(listen(self.id.clone(), shared.clone(), stdout, self.line_bytes_max)),
            tokio::spawn(log(self.id.clone(), stderr)),
        ];
        Ok(Running { shared, last_id: AtomicU64::new(0), _child: child, tasks })
    }
}

impl Running {
    async fn ask(&self, method: &str, params: &Json, silence: Duration) -> Result<Json, McpError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = self.shared.expect(id)?;
        let _expected = Expected { shared: &self.shared, id };
        self.shared.say(&request(id, method, params))?;
        match tokio::time::timeout(silence, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(ended()),
            Err(_) => Err(McpError::Broken(format!("no answer within {} s", silence.as_secs_f64()))),
        }
    }
}

/// A question that is withdrawn when nobody waits any more.
struct Expected<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.shared.take(self.id);
    }
}

fn ended() -> McpError {
    McpError::Unreachable("the program has ended; its log is in the worker's".into())
}

type Waiting = HashMap<u64, oneshot::Sender<Result<Json, McpError>>>;

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn is_open(&self) -> bool {
        self.lock().is_some()
    }
    fn expect(&self, id: u64) -> Result<oneshot::Receiver<Result<Json, McpError>>, McpError> {
        let (send, receive) = oneshot::channel();
        self.lock().as_mut().ok_or_else(ended)?.insert(id, send);
        Ok(receive)
    }
    fn take(&self, id: u64) -> Option<oneshot::Sender<Result<Json, McpError>>> {
        self.lock().as_mut().and_then(|waiting| waiting.remove(&id))
    }
    /// Nobody waits in vain.
    fn close(&self) {
        *self.lock() = None;
    }
    fn say(&self, message: &Json) -> Result<(), McpError> {
        self.lines.send(format!("{message}\n")).map_err(|_| ended())
    }
}

/// Writes lines until the program takes no more.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
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
                for one in incoming(&body) {
                    match one {
                        Incoming::Answer { id, result } => {
                            if let Some(waiting) = shared.take(id) {
                                // Whoever asked may have gone.
                                drop(waiting.send(result));
                            }
                        }
                        Incoming::Request { answer } => drop(shared.say(&answer)),
                        Incoming::Other => {}
                    }
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
    shared.close();
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
async fn log(id: Arc<str>, stderr: ChildStderr) {
    let mut lines = BufReader::new(stderr);
    let mut text = Vec::new();
    while let Ok(1..) = (&mut lines).take(LOG_LINE_MAX).read_until(b'\n', &mut text).await {
        let said = String::from_utf8_lossy(&text);
        tracing::info!(server = %id, said = said.trim_end(), "an MCP server says");
        text.clear();
    }
}

#[async_trait::async_trait]
impl Transport for Program {
    async fn request(&self, method: &str, params: Json, silence: Duration) -> Result<Json, McpError> {
        let running = self.running().await?;
        running.ask(method, &params, silence).await
    }
}
