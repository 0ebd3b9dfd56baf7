//! Starts the host program again as a helper: `PROGRAM __sandbox KIND SETTINGS`. The helper confines itself and serves
//! executions until its control descriptor is closed; the kind `document` reads one document.
//!
//! A program that hosts the sandbox calls [`run_if_asked`] first in its `main`, while it has a single thread.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

/// The argument that makes a program a helper.
pub(crate) const WORD: &str = "__sandbox";

static HOSTS: OnceLock<()> = OnceLock::new();

/// A program that can be started as a helper.
#[derive(Debug, Clone)]
pub struct Host(pub(crate) PathBuf);

impl Host {
    /// The running program, if its `main` called [`run_if_asked`].
    pub fn this_program() -> Option<Self> {
        // Use the running image, so that replacing the file in an upgrade does no harm.
        HOSTS.get().map(|()| Self("/proc/self/exe".into()))
    }
    /// The program that a setting names; without one the running program, if it can be a helper.
    pub fn named(program: &str) -> Option<Self> {
        if program.is_empty() { Self::this_program() } else { Some(Self::at(program)) }
    }
    /// Another program whose `main` calls [`run_if_asked`].
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self(program.into())
    }
}

/// Serves as a helper if the command line says so, and returns its exit code. Otherwise notes that this program can
/// host helpers.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(WORD) {
        HOSTS.get_or_init(|| ());
        return None;
    }
    let (kind, settings) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let Err(reason) = serve(&kind, &settings) else { return Some(ExitCode::SUCCESS) };
    complain(&reason);
    Some(ExitCode::FAILURE)
}

#[cfg(target_os = "linux")]
fn serve(kind: &str, settings: &str) -> Result<(), String> {
    match kind {
        "python" => crate::python::helper::become_server(settings),
        "javascript" => crate::javascript::helper::serve(settings),
        "guest" => crate::guest::helper::supervise(settings),
        "guest-inside" => crate::guest::helper::become_guest(settings),
        "document" => crate::documents::helper::serve(settings),
        other => Err(format!("there is no helper of kind {other:?}")),
    }
}

#[cfg(not(target_os = "linux"))]
fn serve(_: &str, _: &str) -> Result<(), String> {
    Err("the built-in sandbox needs Linux".into())
}

#[allow(clippy::print_stderr, reason = "the worker reads it from there")]
fn complain(reason: &str) {
    eprintln!("{reason}");
}
