//! The worker's side of reading one document in a separate process.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tidemill_common::nodes::document_extractor::Format;
use tidemill_documents::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::helper::{PANICKED, READ, Settings, WRONG};
use super::{Apart, DocumentError};
use crate::confine::{self, Confinement};
use crate::frame::COMPLAINT_BYTES_MAX;
use crate::helper::WORD;

const NO_HOST: &str = "code and documents need the tidemill program as a helper, and this program is not it; name it with code.helper";
/// Rust's message for a failed allocation, before it aborts the process.
const NO_MEMORY: &str = "memory allocation of";
/// Bytes of an answer besides the document's text: one byte, or a reason.
const REASON_BYTES_MAX: u64 = 64 * 1024;

/// Reads a document. The process is killed at the time limit, and when the future is dropped.
pub(super) async fn read(
    apart: &Apart,
    format: Format,
    bytes: &[u8],
    limits: Limits,
    timeout: Duration,
) -> Result<String, DocumentError> {
    let mut process = start(apart, format, limits, timeout)?;
    let exchanged = tokio::time::timeout(timeout, exchange(&mut process, bytes, limits)).await;
    let ended = exchanged.map_err(|_| DocumentError::Time(millis(timeout)))?;
    let (answer, complaints, status) = ended.map_err(|error| DocumentError::Parser(error.to_string()))?;
    match (answer.split_first(), status.code()) {
        (Some((&READ, text)), Some(0)) => String::from_utf8(text.to_vec())
            .map_err(|_| DocumentError::Parser("its text is not UTF-8".into())),
        (Some((&WRONG, reason)), Some(0)) => {
            match String::from_utf8_lossy(reason).into_owned() {
                // Some parsers survive a failed allocation and report it.
                reason if reason == "out of memory" => Err(DocumentError::Memory(apart.memory_bytes)),
                reason => Err(DocumentError::Document(reason)),
            }
        }
        (Some((&PANICKED, _)), Some(0)) => Err(DocumentError::Parser(last_line(&complaints))),
        (_, _) => Err(ended_badly(apart, status, &complaints, timeout)),
    }
}

/// Returns the reason why no process can be started, if there is one.
pub(super) fn refusal(apart: &Apart) -> Option<String> {
    if apart.host.is_none() {
        return Some(NO_HOST.into());
    }
    let missing = confine::missing().filter(|_| !apart.allow_weaker)?;
    Some(format!(
        "this machine's kernel lacks {missing}; set code.allow_weaker_sandbox to read them without it"
    ))
}

fn start(apart: &Apart, format: Format, limits: Limits, timeout: Duration) -> Result<Child, DocumentError> {
    if let Some(reason) = refusal(apart) {
        return Err(DocumentError::Refused(reason));
    }
    let host = apart.host.as_ref().ok_or_else(|| DocumentError::Refused(NO_HOST.into()))?;
    let settings = Settings {
        confinement: Confinement {
            user: apart.user,
            reads: Vec::new(),
            writes: Vec::new(),
            allow_weaker: apart.allow_weaker,
        },
        format: format.name().into(),
        memory_bytes: apart.memory_bytes,
        unpacked_bytes: limits.unpacked_bytes,
        text_bytes: limits.text_bytes,
        seconds: timeout.as_secs().saturating_add(1),
    };
    Command::new(&host.0)
        .args([WORD, "document", &serde_json::to_string(&settings).unwrap_or_default()])
        .env_clear()
        // Memory that the allocator reserves in advance must not count towards the document's limit.
        .envs([("TZ", "UTC"), ("MIMALLOC_ARENA_EAGER_COMMIT", "0")])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| DocumentError::Parser(format!("its process cannot be started: {error}")))
}

/// Sends the document and returns the answer, the error output and the exit status.
async fn exchange(
    process: &mut Child,
    bytes: &[u8],
    limits: Limits,
) -> std::io::Result<(Vec<u8>, String, ExitStatus)> {
    let no_pipe = || std::io::Error::other("it has no pipe");
    let mut stdin = process.stdin.take().ok_or_else(no_pipe)?;
    let stdout = process.stdout.take().ok_or_else(no_pipe)?;
    let stderr = process.stderr.take().ok_or_else(no_pipe)?;
    let give = async move {
        // A process that ends early reports its reason, so a write error does not matter.
        drop(stdin.write_all(bytes).await);
    };
    let (mut answer, mut complaints) = (Vec::new(), Vec::new());
    let mut answered = stdout.take(limits.text_bytes.saturating_add(REASON_BYTES_MAX));
    let mut complained = stderr.take(COMPLAINT_BYTES_MAX as u64);
    let ((), answered, complained) =
        tokio::join!(give, answered.read_to_end(&mut answer), complained.read_to_end(&mut complaints));
    answered.and(complained)?;
    Ok((answer, String::from_utf8_lossy(&complaints).into_owned(), process.wait().await?))
}

fn ended_badly(apart: &Apart, status: ExitStatus, complaints: &str, timeout: Duration) -> DocumentError {
    let signal = status.signal().and_then(|number| Signal::try_from(number).ok());
    match signal {
        Some(Signal::SIGXCPU) => DocumentError::Time(millis(timeout)),
        Some(Signal::SIGKILL) => DocumentError::Memory(apart.memory_bytes),
        _ if complaints.contains(NO_MEMORY) => DocumentError::Memory(apart.memory_bytes),
        Some(signal) => DocumentError::Parser(format!("ended by {signal}")),
        None => DocumentError::Parser(last_line(complaints)),
    }
}

fn millis(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
}

/// The last line of the error output.
fn last_line(complaints: &str) -> String {
    let mut lines =
        complaints.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("note:"));
    lines.next_back().unwrap_or("it printed no reason").to_owned()
}
