//! Selects the Python that runs the code: the first candidate of the setting that is new enough. Starting it shows
//! whether the sandbox's user can read it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tidemill_common::nodes::code::CodeConfig;
use tokio::process::Command;

use crate::scratch;

const PROBE: &str = include_str!("probe.py");
/// Longest time for an interpreter to report its paths.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// Folders with Pythons that others in `PATH` may hide.
const USUAL_FOLDERS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];
/// Paths that every program on Linux reads to start, and the time zones.
const SYSTEM_PATHS: [&str; 9] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/usr/share/zoneinfo",
    "/etc/localtime",
    "/dev/urandom",
];

/// A Python interpreter.
#[derive(Debug, Clone, Deserialize)]
pub struct Interpreter {
    pub(crate) executable: PathBuf,
    version: (u32, u32),
    /// The system and machine, such as `linux-x86_64`.
    platform: String,
    /// The paths it must be able to read.
    pub(crate) paths: Vec<PathBuf>,
    /// Those of its own library, without packages that are installed for it.
    library: Vec<PathBuf>,
}

impl Interpreter {
    /// Its file.
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// The paths that it reads to run a program with packages of its own.
    pub fn library(&self) -> &[PathBuf] {
        &self.library
    }

    /// Its release, such as `3.11`: packages are for one release.
    pub fn release(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// The release and the machine, such as `3.11 linux-x86_64`.
    pub fn kind(&self) -> String {
        format!("{} {}", self.release(), self.platform)
    }
}

/// Tests whether the sandbox's user can read an interpreter and its library.
///
/// # Errors
/// It cannot.
pub(crate) fn readable(interpreter: &Interpreter, config: &CodeConfig) -> Result<(), String> {
    let read = || {
        std::fs::File::open(&interpreter.executable)?;
        // Each path that exists, because some of them may not.
        for path in interpreter.paths.iter().filter(|path| path.is_dir()) {
            std::fs::read_dir(path)?;
        }
        Ok::<(), std::io::Error>(())
    };
    scratch::as_user(config, read).map_err(|error| format!("code.sandbox_uid cannot read it: {error}"))
}

/// The candidates for the setting, best first.
pub(crate) fn candidates(setting: &str) -> Vec<PathBuf> {
    if setting.contains('/') {
        return vec![setting.into()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(USUAL_FOLDERS.map(PathBuf::from));
    let mut found: Vec<PathBuf> = Vec::new();
    for file in folders.map(|folder| folder.join(setting)).filter(|file| file.is_file()) {
        if !found.contains(&file) {
            found.push(file);
        }
    }
    found
}

/// Asks an interpreter for its version and paths.
///
/// # Errors
/// It does not answer, or is too old.
pub(crate) async fn probe(file: &Path) -> Result<Interpreter, String> {
    let kept = ["PATH", "HOME"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut command = Command::new(file);
    command.args(["-I", "-B", "-c", PROBE]).env_clear().envs(kept).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PROBE_MAX, command.output())
        .await
        .map_err(|_| "does not answer".to_string())?
        .map_err(|error| format!("cannot be started: {error}"))?;
    let mut interpreter: Interpreter = serde_json::from_slice(&output.stdout).map_err(|_| {
        format!("is not a working Python: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    if interpreter.version < (3, 9) {
        return Err(format!("is Python {}.{}; 3.9 is needed", interpreter.version.0, interpreter.version.1));
    }
    interpreter.paths.extend(SYSTEM_PATHS.map(PathBuf::from));
    interpreter.library.extend(SYSTEM_PATHS.map(PathBuf::from));
    Ok(interpreter)
}
