//! Guests: programs of others that run for a long time and talk with the worker through pipes, such as Dify plugins.
//!
//! A guest has two processes. The first, the supervisor, is the host program again; it starts the guest in a group of its own, waits for
//! it, and ends the whole group when the guest or the worker ends ([`helper`]). The second confines itself and becomes the guest
//! ([`filter`] has its system calls). So a guest dies with its worker, also with a worker that was killed, and leaves no
//! process.

pub mod environment;
mod filter;
pub(crate) mod helper;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use crate::confine;
use crate::helper::{Host, WORD};
use crate::python::discover;
pub use crate::python::discover::Interpreter;

/// A program, and what it may do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Guest {
    pub executable: PathBuf,
    pub arguments: Vec<String>,
    /// Its folder at the start.
    pub folder: PathBuf,
    /// What it may read and execute.
    pub reads: Vec<PathBuf>,
    /// What it may write.
    pub writes: Vec<PathBuf>,
    /// User and group to become when the worker runs as root.
    pub user: (u32, u32),
    /// Continue when a part of the confinement fails.
    pub allow_weaker: bool,
    /// Most bytes of data of one of its processes.
    pub memory_bytes: u64,
    /// Largest file that it writes, in bytes.
    pub file_bytes: u64,
    /// Most processes and threads besides those that its user has already.
    pub processes_max: u64,
    /// The ports to which it may connect, on any address: the kernel compares no addresses.
    pub ports: Vec<u16>,
}

/// What the kernel does not enforce here, in words. Empty on a kernel with everything (Linux 6.12).
pub fn not_enforced() -> Vec<&'static str> {
    let mut words = Vec::new();
    if confine::missing().is_some() {
        words.push("files: the kernel has no landlock");
    }
    if !confine::limits_ports() {
        words.push("ports: the kernel cannot limit connections to the port of the proxy (Linux 6.7 can)");
    }
    if !confine::limits_signals() {
        words.push("abstract sockets of other programs (Linux 6.12 can refuse them); signals reach only the plugin's own group");
    }
    words
}

/// What the kernel must be able to do, and cannot.
fn lacking() -> Option<String> {
    if let Some(missing) = confine::missing() {
        return Some(format!("lacks {missing}"));
    }
    let ports = "cannot limit connections to the port of the proxy (Linux 6.7 can, with landlock)";
    (!confine::limits_ports()).then(|| ports.to_owned())
}

/// A guest that was started.
#[derive(Debug)]
pub struct Running {
    /// The supervisor. Its pipes are those of the guest.
    pub process: Child,
}

impl Running {
    /// Asks the guest to end.
    pub fn ask_to_end(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Ends the guest and all its processes at once.
    pub fn end_now(&self) {
        self.signal(Signal::SIGINT);
    }

    fn signal(&self, signal: Signal) {
        // There is an id as long as the end of the process was not awaited, so it is of no other process.
        if let Some(id) = self.process.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_now();
    }
}

impl Guest {
    /// Starts the guest with these variables and no others. Its three standard streams are pipes.
    ///
    /// # Errors
    /// The kernel cannot confine it, or the process cannot be started.
    pub fn start(&self, host: &Host, variables: &[(String, String)]) -> Result<Running, String> {
        if !self.allow_weaker
            && let Some(missing) = lacking()
        {
            return Err(format!(
                "this machine's kernel {missing}; set code.allow_weaker_sandbox to run plugins without it"
            ));
        }
        // The supervisor compares the number with that of its parent: the host program may end before it looks.
        let settings = serde_json::to_string(&(std::process::id(), self))
            .map_err(|error| format!("settings: {error}"))?;
        let process = Command::new(&host.0)
            .args([WORD, "guest", &settings])
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Keys pressed at a terminal are for the host program.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("its process cannot be started: {error}"))?;
        Ok(Running { process })
    }
}

/// The interpreters of a list of names and paths, in its order, and the reasons why others cannot be used.
pub async fn interpreters(settings: &[String], user: (u32, u32)) -> (Vec<Interpreter>, Vec<String>) {
    let (mut usable, mut reasons) = (Vec::<Interpreter>::new(), Vec::new());
    for candidate in settings.iter().flat_map(|setting| discover::candidates(setting)) {
        let probed = discover::probe(&candidate).await;
        match probed.and_then(|found| readable(&found, user).map(|()| found)) {
            Ok(found) if usable.iter().all(|known| known.executable() != found.executable()) => {
                usable.push(found)
            }
            Ok(_) => {}
            Err(reason) => reasons.push(format!("{}: {reason}", candidate.display())),
        }
    }
    (usable, reasons)
}

fn readable(interpreter: &Interpreter, (sandbox_uid, sandbox_gid): (u32, u32)) -> Result<(), String> {
    let config = tidemill_common::nodes::code::CodeConfig { sandbox_uid, sandbox_gid, ..Default::default() };
    discover::readable(interpreter, &config)
}

/// Removes a folder of a guest, also if the guest has made folders in it without the right to read them.
pub fn remove(folder: &Path) {
    crate::environment::install::remove(folder);
}

/// Gives a folder, and what is in it, to the user of guests when the worker runs as root.
///
/// # Errors
/// The system refuses it.
pub fn give(folder: &Path, (user, group): (u32, u32)) -> std::io::Result<()> {
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(folder, Some(user), Some(group))?;
    }
    Ok(())
}
