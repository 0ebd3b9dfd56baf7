//! MCP with a program of the operator's: a line a message, in by its standard input, out by its standard output; what it
//! says besides goes to the log. The program is started when it is needed, serves all calls, and ends with the worker.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::nodes::tool::config::McpConfig;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use super::Transport;
use super::protocol::{McpError, chosen_version, introduction, notification};
use super::waiting::Waiting;
use crate::tools::ToolSettingError;

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
    silence: Duration,
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
    lines: mpsc::UnboundedSender<String>,
    waiting: Waiting,
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
        let (lines, written) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { lines, waiting: Waiting::new(ENDED) });
        let tasks = [
            tokio::spawn(write(stdin, written)),
            tokio::spawn(listen(self.id.clone(), shared.clone(), stdout, self.line_bytes_max)),
            tokio::spawn(log(self.id.clone(), stderr)),
        ];
        Ok(Running { shared, _child: child, tasks })
    }
}

impl Shared {
    fn say(&self, message: &Json) -> Result<(), McpError> {
        self.lines.send(format!("{message}\n")).map_err(|_| self.waiting.ended())
    }

    async fn ask(&self, method: &str, params: &Json, silence: Duration) -> Result<Json, McpError> {
        self.waiting.ask(method, params, silence, |message| async move { self.say(&message) }).await
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
        running.shared.ask(method, &params, silence).await
    }
}
