//! The worker's side of a fork server: starts it, passes it a program and three pipes, and reads how the program ended.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::{Child, Command};

use super::discover::Interpreter;
use super::helper::{Reach, Settings};
use crate::builtin::Shared;
use crate::confine::Confinement;
use crate::frame::{Bounds, COMPLAINT_BYTES_MAX, Verdict};
use crate::helper::WORD;
use crate::network::{Gate, Network};
use crate::pool::Failed;

/// Longest time for a server to load.
const START_MAX: Duration = Duration::from_secs(20);
/// Extra time after the program's own limit for the server to report its end.
const GRACE: Duration = Duration::from_secs(5);
/// Memory of the interpreter before the program begins, in bytes; it does not count towards the program's limit.
const BASE_BYTES: u64 = 64 << 20;

/// Files that OpenSSL reads before it makes a connection.
const SETTINGS_OF_TLS: [&str; 3] = ["/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf", "/etc/ssl/certs"];

/// A running fork server. Dropping it kills it and the program it runs.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) version: String,
    /// The landlock version of the kernel.
    pub(super) landlock: i64,
    control: BufReader<UnixStream>,
    _process: Child,
    _scratch: TempDir,
}

/// The message of a server that is ready.
#[derive(Deserialize)]
struct Ready {
    python: String,
    landlock: i64,
}

impl Slot {
    /// Starts a server that creates the folders of its executions in `scratch`.
    pub(super) async fn start(
        shared: &Shared,
        interpreter: &Interpreter,
        scratch: TempDir,
    ) -> Result<Self, String> {
        let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
        let settings = settings(shared, interpreter, &scratch)?;
        let (ours, theirs) =
            std::os::unix::net::UnixStream::pair().map_err(|error| failed("no socket", error))?;
        ours.set_nonblocking(true).map_err(|error| failed("no socket", error))?;
        let ours = UnixStream::from_std(ours).map_err(|error| failed("no socket", error))?;
        let mut process = Command::new(&shared.host.0)
            .args([WORD, "python", &settings])
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed("the helper cannot be started", error))?;
        let complaints = process.stderr.take();
        let mut control = BufReader::new(ours);
        let mut line = String::new();
        let heard = tokio::time::timeout(START_MAX, control.read_line(&mut line)).await;
        match (heard, serde_json::from_str::<Ready>(&line)) {
            (Ok(Ok(_)), Ok(ready)) => {
                if let Some(complaints) = complaints {
                    tokio::spawn(log(complaints));
                }
                let Ready { python: version, landlock } = ready;
                Ok(Self { version, landlock, control, _process: process, _scratch: scratch })
            }
            (Err(_), _) => Err("it is not ready in time".into()),
            (Ok(_), _) => {
                let mut text = String::new();
                if let Some(mut complaints) = complaints {
                    drop(tokio::time::timeout(GRACE, complaints.read_to_string(&mut text)).await);
                }
                Err(text.trim().lines().last().unwrap_or("it ended at once").to_owned())
            }
        }
    }

    /// Runs one program. After a failure the slot must be dropped.
    pub(super) async fn run(
        &mut self,
        program: &[u8],
        bounds: &Bounds,
        network: Option<&Network>,
    ) -> Result<(Verdict, String, String), Failed> {
        let most = bounds.timeout + GRACE;
        let (far, mut gate) = match network.map(Gate::open).transpose() {
            Ok(opened) => opened.unzip(),
            Err(error) => return Err(Failed::Helper(error.to_string())),
        };
        let ran = tokio::select! {
            ran = tokio::time::timeout(most, self.exchange(program, bounds, far)) => ran,
            never = Gate::serve(gate.as_mut()) => match never {},
        };
        let ran = ran.unwrap_or_else(|_| Err(Failed::Execution(Verdict::Timeout, String::new())));
        match gate {
            Some(gate) => gate.conclude(ran),
            None => ran,
        }
    }

    async fn exchange(
        &mut self,
        program: &[u8],
        bounds: &Bounds,
        network: Option<OwnedFd>,
    ) -> Result<(Verdict, String, String), Failed> {
        let broken = |error: std::io::Error| Failed::Helper(error.to_string());
        let (program_in, output, complaints) = self.hand_over(network).await.map_err(broken)?;
        let write = async {
            let mut program_in = program_in;
            // A program that dies before it has read everything reports that in its verdict.
            drop(program_in.write_all(program).await);
            Ok::<(), Failed>(())
        };
        let output = read_all(output, bounds.output_bytes);
        let complaints = async { Ok(read_some(complaints).await) };
        let control = &mut self.control;
        let verdict = async {
            let mut line = String::new();
            control.read_line(&mut line).await.map_err(broken)?;
            serde_json::from_str(&line).map_err(|_| Failed::Helper("it does not answer".into()))
        };
        let ((), output, complaints, verdict): ((), String, String, Verdict) =
            tokio::try_join!(write, output, complaints, verdict)?;
        Ok((verdict, output, complaints))
    }

    /// Sends the server's ends of three pipes, and the way to the network if there is one; returns the other ends.
    async fn hand_over(&mut self, network: Option<OwnedFd>) -> std::io::Result<(Sender, Receiver, Receiver)> {
        let (program_far, program) = pipe_with(PipeFlags::CLOEXEC)?;
        let (output, output_far) = pipe_with(PipeFlags::CLOEXEC)?;
        let (complaints, complaints_far) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut far = vec![program_far.as_fd(), output_far.as_fd(), complaints_far.as_fd()];
        far.extend(network.as_ref().map(AsFd::as_fd));
        let control = self.control.get_ref();
        control
            .async_io(Interest::WRITABLE, || {
                let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
                let mut rights = SendAncillaryBuffer::new(&mut space);
                rights.push(SendAncillaryMessage::ScmRights(&far));
                let message = [IoSlice::new(b"R")];
                Ok(rustix::net::sendmsg(control, &message, &mut rights, SendFlags::NOSIGNAL)?)
            })
            .await?;
        Ok((
            Sender::from_owned_fd(program)?,
            Receiver::from_owned_fd(output)?,
            Receiver::from_owned_fd(complaints)?,
        ))
    }
}

/// Reads the whole output, up to the limit.
async fn read_all(pipe: Receiver, bytes_max: u64) -> Result<String, Failed> {
    let mut bytes = Vec::new();
    let mut limited = pipe.take(bytes_max + 1);
    limited.read_to_end(&mut bytes).await.map_err(|error| Failed::Helper(error.to_string()))?;
    if bytes.len() as u64 > bytes_max {
        return Err(Failed::Execution(Verdict::Output, String::new()));
    }
    Ok(text(bytes))
}

/// Returns the end of the error output. All of it is read, so that the program is not blocked.
async fn read_some(mut pipe: Receiver) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 8192];
    while let Ok(read @ 1..) = pipe.read(&mut piece).await {
        kept.extend_from_slice(&piece[..read]);
        if kept.len() > 2 * COMPLAINT_BYTES_MAX {
            kept.drain(..kept.len() - COMPLAINT_BYTES_MAX);
        }
    }
    let from = kept.len().saturating_sub(COMPLAINT_BYTES_MAX);
    text(kept.split_off(from))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Logs the error output of the server itself, which is a bug in it.
async fn log(complaints: impl AsyncRead + Unpin) {
    let mut lines = BufReader::new(complaints).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::warn!(line, "the Python sandbox wrote to standard error");
    }
}

fn settings(shared: &Shared, interpreter: &Interpreter, scratch: &TempDir) -> Result<String, String> {
    let config = &shared.config;
    let mut reads = interpreter.paths.clone();
    let mut reach = None;
    if let Some(network) = &shared.network {
        let certificates = network.write_certificates(scratch.path())?;
        reads.extend(certificates.clone());
        reads.extend(SETTINGS_OF_TLS.map(PathBuf::from));
        reach = Some(Reach { connections_max: network.connections_max, certificates });
    }
    let settings = Settings {
        confinement: Confinement {
            user: (config.sandbox_uid, config.sandbox_gid),
            reads,
            writes: vec![scratch.path().into(), "/dev/null".into()],
            allow_weaker: config.allow_weaker_sandbox,
        },
        executable: interpreter.executable.clone(),
        scratch: scratch.path().into(),
        timeout_ms: config.timeout_ms,
        memory_bytes: config.memory_bytes_max + BASE_BYTES,
        scratch_bytes: config.scratch_bytes_max,
        network: reach,
        preload: config.python.preload.clone(),
    };
    serde_json::to_string(&settings).map_err(|error| format!("settings: {error}"))
}
