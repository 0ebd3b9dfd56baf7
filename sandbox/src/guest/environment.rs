//! The Python environments of guests. As with code nodes, only wheels are installed, so nothing of a package runs while it
//! is installed, and the environment gets its name when all of it is there. Other than there, the requirements come from
//! somebody else: pip gets no variable of the worker besides those for itself and for proxies. It ends with the worker, and with
//! the time limit ends everything that it started.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::Interpreter;
use crate::environment::install::pip::{NO_HOME, Pip, output_of};
use crate::environment::install::{InstallError, file, permit, remove, remove_programs};

/// Runs pip, and ends its group when the worker ends.
const WATCHED: &str = include_str!("watched.py");
/// Most bytes of pip's complaint that are shown: its end.
const COMPLAINT_BYTES_MAX: usize = 4 * 1024;
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

/// Makes an environment in the folder `making`, which is not there yet, and gives it its path. The caller has removed what other
/// processes left that were killed, and never uses their folders again: a pip of them may live for a moment. The lock of the
/// path is kept until it has its name, also if the caller does not wait for that.
///
/// # Errors
/// [`InstallError`]. What was begun is removed.
pub async fn make(wanted: &Wanted<'_>, making: PathBuf, path: &Path, lock: File) -> Result<(), InstallError> {
    let place = Place(making);
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
    let path = path.to_owned();
    let naming = move || {
        let _lock = lock;
        // It is removed before the lock is released, and not while it gets its name.
        let place = place;
        permit(&place.0, 0o555, 0o444).map_err(|error| file("making read-only", &place.0, error))?;
        std::fs::rename(&place.0, &path).map_err(|error| file("naming", &path, error))
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

/// An environment that is not complete. It is removed here only if its making is cancelled, or if it cannot get its name.
struct Place(PathBuf);

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
    command.args(["-I", "-c", WATCHED, &std::process::id().to_string()]);
    command.arg(pip.runner()).args(["install", "--requirement"]);
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
    } else if wanted.wheels.is_none()
        && std::env::var_os("PIP_CONFIG_FILE").is_none()
        && let Some(settings) = pip_settings()
    {
        // It has another home, and so would not find the index that this user has chosen.
        command.env("PIP_CONFIG_FILE", settings);
    }
    // No Python that pip would start to build a package finds its library.
    command.env("PYTHONHOME", NO_HOME).current_dir(&scratch);
    run_as_group(command).await.map_err(|reason| InstallError::Program {
        doing: "installing the packages of a plugin",
        reason: format!("{reason}\n{ONLY_WHEELS}"),
    })?;
    remove_aside(&scratch).await;
    // They name the path that is gone after the renaming, and a plugin cannot start them.
    remove_programs(&place.join("bin"));
    Ok(())
}

/// The settings of pip of this user.
fn pip_settings() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let of_home = |below: &str| folder("HOME").map(|home| home.join(below));
    let xdg =
        folder("XDG_CONFIG_HOME").or_else(|| of_home(".config")).map(|folder| folder.join("pip/pip.conf"));
    let files = [xdg, of_home(".pip/pip.conf")];
    files.into_iter().flatten().find(|file| file.is_file())
}

/// A process with a group of its own. Dropping it ends the whole group.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // There is an id as long as the end of the process was not awaited, so it is of no other group.
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

/// Runs a command in a group of its own.
async fn run_as_group(mut command: Command) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let spawned = command.process_group(0).kill_on_drop(true).spawn();
    let mut group = Group(spawned.map_err(|error| format!("cannot start: {error}"))?);
    let stderr = group.0.stderr.take();
    let mut kept = Vec::new();
    if let Some(mut stderr) = stderr {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = stderr.read(&mut piece).await {
            kept.extend_from_slice(&piece[..read]);
            kept.drain(..kept.len().saturating_sub(COMPLAINT_BYTES_MAX));
        }
    }
    let status: ExitStatus = group.0.wait().await.map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{status}\n{}", String::from_utf8_lossy(&kept).trim()))
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
        if tokio::task::spawn_blocking(move || exceeds(&folder, bytes_max, u64::MAX)).await.is_ok_and(|is| is)
        {
            return;
        }
    }
}

/// Tests whether the files below a folder have more bytes than this, or whether there are more entries. A folder that cannot be
/// read counts as too much, and one that has gone as nothing. Links are not followed.
pub fn exceeds(folder: &Path, bytes_max: u64, entries_max: u64) -> bool {
    let (mut open, mut bytes, mut entries) = (vec![folder.to_owned()], 0_u64, 0_u64);
    while let Some(folder) = open.pop() {
        let listed = match std::fs::read_dir(folder) {
            Ok(listed) => listed,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(_) => return true,
        };
        for entry in listed.flatten() {
            entries += 1;
            match entry.metadata() {
                Ok(about) if about.is_dir() => open.push(entry.path()),
                Ok(about) => bytes = bytes.saturating_add(about.len()),
                Err(_) => {}
            }
            if bytes > bytes_max || entries > entries_max {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_too_much_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b"), "12345").unwrap();
        assert!(!exceeds(folder.path(), 5, 2));
        assert!(exceeds(folder.path(), 4, 2) && exceeds(folder.path(), 5, 1));
        assert!(!exceeds(&folder.path().join("gone"), 0, 0));
        assert!(exceeds(&folder.path().join("a/b"), 5, 2), "what cannot be read counts as too much");
    }

    #[tokio::test]
    async fn pip_ends_with_the_process_that_started_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sleeps.py");
        std::fs::write(&file, "import sys, time\nassert sys.argv[1:] == ['x']\ntime.sleep(1000)\n").unwrap();
        let mut command = Command::new("python3");
        // No process has this number.
        command.args(["-I", "-c", WATCHED, "0"]).arg(&file).arg("x");
        let ended = tokio::time::timeout(Duration::from_secs(60), run_as_group(command)).await;
        let reason = ended.expect("it ends").unwrap_err();
        assert!(reason.contains("signal: 9"), "{reason}");
    }

    #[tokio::test]
    async fn a_dropped_command_ends_with_all_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display()));
        let mut running = Box::pin(run_as_group(command));
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while !file.exists() {
            assert!(std::time::Instant::now() < until);
            assert!(tokio::time::timeout(Duration::from_millis(10), &mut running).await.is_err());
        }
        let child = std::fs::read_to_string(&file).unwrap();
        drop(running);
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        while state().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(std::time::Instant::now() < until, "the child outlives its group");
            tokio::task::yield_now().await;
        }
    }
}
