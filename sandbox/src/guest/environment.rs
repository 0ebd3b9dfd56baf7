//! The Python environments of guests. As with code nodes, only wheels are installed, so nothing of a package runs while it
//! is installed, and the environment gets its name when all of it is there. Other than there, the requirements come from
//! somebody else: pip gets no variable of the worker besides those for itself and for proxies.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use super::Interpreter;
use crate::environment::MAKING;
use crate::environment::install::pip::{NO_HOME, Pip, output_of};
use crate::environment::install::{InstallError, file, permit, remove, remove_programs};

/// How often the size is looked at while pip works.
const LOOK: Duration = Duration::from_secs(1);
/// Variables of the worker that pip gets, besides those that begin with `PIP_`.
const PASSED_ON: [&str; 12] = [
    "PATH",
    "LANG",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
];

const ONLY_WHEELS: &str =
    "(Only wheels are installed; pip reports a package that has none as a conflict or as not found.)";

/// What an environment is made from.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub interpreter: &'a Interpreter,
    /// Lines as pip reads them. The caller has refused options, addresses and variables.
    pub requirements: &'a [String],
    /// Versions to choose where a package is needed, such as `requests==2.31.0`.
    pub constraints: &'a [String],
    /// The index instead of the one of pip's own settings; empty: that one.
    pub index_url: &'a str,
    /// A folder with wheels instead of an index.
    pub wheels: Option<&'a Path>,
    /// Longest time.
    pub timeout: Duration,
    /// Most bytes of the environment.
    pub bytes_max: u64,
}

/// Makes an environment and gives it this path. The caller holds a lock on it.
///
/// # Errors
/// [`InstallError`]. What was begun is removed.
pub async fn make(wanted: &Wanted<'_>, path: &Path) -> Result<(), InstallError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let place = Place(path.with_file_name(format!("{MAKING}{name}")));
    // What another process left that was killed: the lock is ours now.
    remove_aside(&place.0).await;
    let doing = "making an environment for a plugin";
    let failed = |reason: String| InstallError::Program { doing, reason };
    let timeout = tokio::time::sleep(wanted.timeout);
    let made = tokio::select! {
        made = fill(wanted, &place.0) => made,
        () = timeout => Err(failed(format!("it takes longer than {} s (install_timeout)", wanted.timeout.as_secs()))),
        () = watch(&place.0, wanted.bytes_max) => {
            Err(failed(format!("it has more than {} bytes (environment_bytes_max)", wanted.bytes_max)))
        }
    };
    if let Err(error) = made {
        remove_aside(&place.0).await;
        return Err(error);
    }
    let (making, path) = (place.0.clone(), path.to_owned());
    let naming = move || {
        permit(&making, 0o555, 0o444).map_err(|error| file("making read-only", &making, error))?;
        std::fs::rename(&making, &path).map_err(|error| file("naming", &path, error))
    };
    let named = tokio::task::spawn_blocking(naming).await;
    named.unwrap_or_else(|error| Err(failed(error.to_string())))
}

/// Removes a folder on a thread for blocking work.
async fn remove_aside(folder: &Path) {
    let folder = folder.to_owned();
    // What cannot be removed is removed by the next process that makes this environment.
    let _ = tokio::task::spawn_blocking(move || remove(&folder)).await;
}

/// An environment that is not complete. It is removed here only if its making is cancelled.
struct Place(std::path::PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        if self.0.exists() {
            remove(&self.0);
        }
    }
}

async fn fill(wanted: &Wanted<'_>, place: &Path) -> Result<(), InstallError> {
    let pip = Pip::find(wanted.interpreter.executable()).await?;
    let arguments = ["-I", "-m", "venv", "--without-pip"].map(OsString::from);
    let arguments = arguments.into_iter().chain([place.as_os_str().to_owned()]);
    let mut command = Command::new(wanted.interpreter.executable());
    command.args(arguments).env_clear().envs(passed_on());
    output_of("making an environment", command).await?;
    let scratch = place.join("scratch");
    let write = |name: &str, lines: &[String]| {
        let path = scratch.join(name);
        std::fs::write(&path, lines.join("\n") + "\n").map_err(|error| file("writing", &path, error))?;
        Ok::<_, InstallError>(path)
    };
    std::fs::create_dir(&scratch).map_err(|error| file("creating", &scratch, error))?;
    let mut command = Command::new(place.join("bin/python"));
    command.arg("-I").arg(pip.runner()).args(["install", "--requirement"]);
    command.arg(write("requirements.txt", wanted.requirements)?);
    command.arg("--constraint").arg(write("constraints.txt", wanted.constraints)?);
    command.args(["--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir"]);
    command.args(["--only-binary", ":all:"]);
    if let Some(wheels) = wanted.wheels {
        command.args(["--no-index", "--find-links"]).arg(wheels);
    }
    command.env_clear().envs(passed_on()).env("HOME", &scratch).env("TMPDIR", &scratch);
    if !wanted.index_url.is_empty() {
        command.env("PIP_INDEX_URL", wanted.index_url);
    }
    // No Python that pip would start to build a package finds its library.
    command.env("PYTHONHOME", NO_HOME).current_dir(&scratch);
    const DOING: &str = "installing the packages of a plugin";
    output_of(DOING, command).await.map_err(|error| match error {
        InstallError::Program { reason, .. } => {
            InstallError::Program { doing: DOING, reason: format!("{reason}\n{ONLY_WHEELS}") }
        }
        other => other,
    })?;
    remove_aside(&scratch).await;
    // They name the path that is gone after the renaming, and a plugin cannot start them.
    remove_programs(&place.join("bin"));
    Ok(())
}

fn passed_on() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with("PIP_") || PASSED_ON.contains(&name.as_ref())
    })
}

/// Ends when a folder has more bytes than allowed.
async fn watch(folder: &Path, bytes_max: u64) {
    loop {
        tokio::time::sleep(LOOK).await;
        let folder = folder.to_owned();
        let bytes = tokio::task::spawn_blocking(move || bytes_of(&folder)).await;
        if bytes.is_ok_and(|bytes| bytes > bytes_max) {
            return;
        }
    }
}

/// The bytes of all files below a folder. What cannot be read counts nothing. Links are not followed.
pub fn bytes_of(folder: &Path) -> u64 {
    let (mut open, mut bytes) = (vec![folder.to_owned()], 0_u64);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => open.push(entry.path()),
                Ok(about) => bytes = bytes.saturating_add(about.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}
