//! The program that hosts the sandbox, started anew as a helper: `PROGRAM __sandbox KIND SETTINGS`. It confines itself and
//! then serves executions, until the descriptor that it is led by ends; one of kind `document` reads one document.
//!
//! A program that is to host the sandbox calls [`run_if_asked`] first thing in its `main`, while it has one thread.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

/// The word that makes a program a helper.
pub(crate) const WORD: &str = "__sandbox";

static HOSTS: OnceLock<()> = OnceLock::new();

/// A program that can be started as a helper.
#[derive(Debug, Clone)]
pub struct Host(pub(crate) PathBuf);

impl Host {
    /// The running program, if its `main` called [`run_if_asked`].
    pub fn this_program() -> Option<Self> {
        // The image itself, so that an upgrade that replaces the file breaks nothing.
        HOSTS.get().map(|()| Self("/proc/self/exe".into()))
    }
    /// Another program whose `main` calls [`run_if_asked`].
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self(program.into())
    }
}

/// Serves as a helper if the command line says so, and answers how that ended; else remembers that this program can be one.
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
        "document" => crate::documents::helper::serve(settings),
        other => Err(format!("there is no helper of kind {other:?}")),
    }
}

#[cfg(not(target_os = "linux"))]
fn serve(_: &str, _: &str) -> Result<(), String> {
    Err("the built-in sandbox needs Linux".into())
}

#[allow(clippy::print_stderr, reason = "whoever started the helper reads it from there")]
fn complain(reason: &str) {
    eprintln!("{reason}");
}
