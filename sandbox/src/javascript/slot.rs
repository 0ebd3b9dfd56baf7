//! The worker's side of a JavaScript helper.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::helper::Settings;
use crate::builtin::Shared;
use crate::confine::Confinement;
use crate::frame::{Bounds, COMPLAINT_BYTES_MAX, Verdict};
use crate::helper::WORD;
use crate::pool::Failed;

/// Extra time after the program's limit before a helper is killed: loading, and computations the engine cannot
/// interrupt.
const GRACE: Duration = Duration::from_secs(1);
/// Executions after which a helper is replaced, so that memory kept by the allocator does not grow.
const EXECUTIONS_MAX: u32 = 1_000;

/// A running helper. Dropping it kills it and what it runs.
#[derive(Debug)]
pub(super) struct Slot {
    process: Child,
    executions: u32,
}

impl Slot {
    pub(super) fn start(shared: &Shared) -> Result<Self, String> {
        let config = &shared.config;
        let settings = Settings {
            confinement: Confinement {
                user: (config.sandbox_uid, config.sandbox_gid),
                reads: Vec::new(),
                writes: Vec::new(),
                allow_weaker: config.allow_weaker_sandbox,
            },
            timeout_ms: config.timeout_ms,
            memory_bytes: config.memory_bytes_max,
            output_bytes: config.output_bytes_max,
        };
        let process = Command::new(&shared.host.0)
            .args([WORD, "javascript", &serde_json::to_string(&settings).unwrap_or_default()])
            .env_clear()
            .env("TZ", "UTC")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the helper cannot be started: {error}"))?;
        Ok(Self { process, executions: 0 })
    }

    /// Runs one program. After a failure the slot must be dropped.
    pub(super) async fn run(
        &mut self,
        program: &[u8],
        bounds: &Bounds,
    ) -> Result<(Verdict, String, String), Failed> {
        self.executions += 1;
        let most = bounds.timeout + GRACE;
        let ran = tokio::time::timeout(most, self.exchange(program, bounds)).await;
        ran.unwrap_or_else(|_| Err(Failed::Execution(Verdict::Timeout, String::new())))
    }

    /// Returns true if the helper can be used again.
    pub(super) fn is_fit(&self, verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Exit { .. }) && self.executions < EXECUTIONS_MAX
    }

    /// The error output of a failed helper.
    pub(super) async fn complaint(mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.process.stderr.take() {
            drop(tokio::time::timeout(GRACE, stderr.read_to_string(&mut text)).await);
        }
        if text.is_empty() { text } else { format!(": {}", text.trim()) }
    }

    async fn exchange(
        &mut self,
        program: &[u8],
        bounds: &Bounds,
    ) -> Result<(Verdict, String, String), Failed> {
        let broken = |error: std::io::Error| Failed::Helper(error.to_string());
        let no_pipe = || Failed::Helper("it has no pipe".into());
        let stdin = self.process.stdin.as_mut().ok_or_else(no_pipe)?;
        stdin.write_all(program).await.map_err(broken)?;
        stdin.flush().await.map_err(broken)?;
        let stdout = self.process.stdout.as_mut().ok_or_else(no_pipe)?;
        let mut lengths = [0_usize; 3];
        let bounds = [1024, bounds.output_bytes, 2 * COMPLAINT_BYTES_MAX as u64];
        for (length, most) in lengths.iter_mut().zip(bounds) {
            let told = stdout.read_u32_le().await.map_err(broken)?;
            if u64::from(told) > most {
                return Err(Failed::Helper("its answer exceeds the limits".into()));
            }
            *length = told as usize;
        }
        let mut parts = [String::new(), String::new(), String::new()];
        for (part, length) in parts.iter_mut().zip(lengths) {
            let mut bytes = vec![0; length];
            stdout.read_exact(&mut bytes).await.map_err(broken)?;
            *part = String::from_utf8(bytes).map_err(|error| Failed::Helper(error.to_string()))?;
        }
        let [verdict, stdout, stderr] = parts;
        let verdict = serde_json::from_str(&verdict).map_err(|error| Failed::Helper(error.to_string()))?;
        Ok((verdict, stdout, stderr))
    }
}
