//! Turns a helper process into a confined Python: it confines itself, then becomes the interpreter.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::confine::{self, Confinement, filter};

/// The server's program. It is passed on the command line, so that no file needs to be readable.
const SERVER: &str = concat!(include_str!("network.py"), include_str!("serve.py"));

/// The settings of a Python helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) confinement: Confinement,
    pub(crate) executable: PathBuf,
    /// The parent folder of the execution folders.
    pub(crate) scratch: PathBuf,
    pub(crate) timeout_ms: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) scratch_bytes: u64,
    /// `None`: no network.
    pub(crate) network: Option<Reach>,
    /// Modules to import at the start.
    pub(crate) preload: Vec<String>,
}

/// How a program reaches the worker's proxy.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reach {
    pub(crate) connections_max: usize,
    /// The trusted certificates, if there are any.
    pub(crate) certificates: Option<PathBuf>,
}

/// Confines this process and becomes the fork server. Returns only after a failure.
pub(crate) fn become_server(settings: &str) -> Result<(), String> {
    let settings: Settings = serde_json::from_str(settings).map_err(|error| format!("settings: {error}"))?;
    let filter = filter::python(settings.network.is_some())
        .map_err(|error| format!("the filter of system calls: {error}"))?;
    let own_filter = filter::server().map_err(|error| format!("the filter of system calls: {error}"))?;
    let server_settings = json!({
        "reads": settings.confinement.reads, "scratch": settings.scratch, "timeout_ms": settings.timeout_ms,
        "memory_bytes": settings.memory_bytes, "scratch_bytes": settings.scratch_bytes,
        "filter": STANDARD.encode(filter::bytes(&filter)), "network": settings.network, "preload": settings.preload,
    });
    confine::enter(&settings.confinement)?;
    seccompiler::apply_filter(&own_filter)
        .map_err(|error| format!("the kernel rejects the filter of system calls: {error}"))?;
    let failed = Command::new(&settings.executable)
        // Isolated mode: no environment, no user folder, no compiled files, UTF-8 everywhere.
        .args(["-I", "-B", "-X", "utf8", "-c", SERVER])
        .arg(server_settings.to_string())
        .env_clear()
        .envs([("LANG", "C.UTF-8"), ("TZ", "UTC")])
        .current_dir(&settings.scratch)
        .exec();
    Err(format!("cannot start {}: {failed}", settings.executable.display()))
}
