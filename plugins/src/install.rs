//! Makes a package ready on this host: its files in a folder, and an environment with what it requires. Both are under the
//! cache folder, under names that follow from their contents, and get these names when they are complete. Processes
//! that share the folder wait for each other by locks on files, which the system releases when a process ends.
//!
//! Environments of plugins with the same requirements are the same: they are read-only.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tidemill_sandbox::environment::install::InstallError as SandboxError;
use tidemill_sandbox::guest::environment::{self, Wanted};
use tidemill_sandbox::guest::{Interpreter, interpreters};

use crate::package::version::Version;
use crate::package::{Package, Severity};
use crate::settings::Settings;

/// How often a lock is tried that another process holds.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// The start of names of folders that are not complete.
const MAKING: &str = ".making-";

/// A package that is ready to run.
#[derive(Debug)]
pub struct Installed {
    pub package: Arc<Package>,
    /// Its files.
    pub folder: PathBuf,
    pub environment: PathBuf,
    pub interpreter: Interpreter,
}

/// The reason why a package is not ready.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// It has problems.
    #[error("{id} cannot run here: {problem}; `tidemill plugins show` lists all problems")]
    Broken { id: String, problem: String },
    /// It requires something from a place that it chooses itself.
    #[error(
        "{id} requires {text:?}, which is {reason}; only names with versions are installed, because other lines run or download code that was not checked"
    )]
    Requirement { id: String, text: String, reason: &'static str },
    /// No interpreter fits.
    #[error(
        "{id} needs Python {needed} ({reason}), and this host has {found}; install it, and name it with --python"
    )]
    Python { id: String, needed: Version, reason: String, found: String },
    /// The environment cannot be made.
    #[error(transparent)]
    Environment(#[from] SandboxError),
    /// A file cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    File { path: PathBuf, error: std::io::Error },
    /// Another process takes too long.
    #[error("another process has been installing into {} for {} s (install_timeout)", .path.display(), .seconds)]
    Locked { path: PathBuf, seconds: u64 },
}

impl InstallError {
    /// What failed, without what other programs have written.
    pub fn brief(&self) -> String {
        match self {
            Self::Environment(SandboxError::Program { doing, .. }) => format!("{doing} failed"),
            other => other.to_string(),
        }
    }
}

/// The folder with the unpacked files of a package, if it is there.
pub fn unpacked(settings: &Settings, hash: &str) -> Option<PathBuf> {
    Some(settings.cache.join("packages").join(hash)).filter(|folder| folder.is_dir())
}

/// Makes a package ready. `say` gets what is done, in words.
///
/// # Errors
/// [`InstallError`].
pub async fn install(
    package: Arc<Package>,
    settings: &Settings,
    say: &(dyn Fn(String) + Sync),
) -> Result<Installed, InstallError> {
    let id = package.id();
    if let Some(problem) = package.problems.iter().find(|problem| problem.severity == Severity::Error) {
        return Err(InstallError::Broken { id, problem: problem.to_string() });
    }
    if let Some(found) = package.python.unusual() {
        let reason = found.unusual.unwrap_or("unusual");
        return Err(InstallError::Requirement { id, text: found.text.clone(), reason });
    }
    let interpreter = choose(&package, settings).await?;
    let cache = absolute(&settings.cache)?;
    for folder in ["packages", "environments"] {
        create(&cache.join(folder))?;
    }
    let folder = cache.join("packages").join(&package.hash);
    if !folder.is_dir() {
        let _alone = alone(&folder, settings, say).await?;
        if !folder.is_dir() {
            unpack(package.clone(), folder.clone()).await?;
        }
    }
    let environment = environment(&package, &interpreter, &cache, settings, say).await?;
    // The files are in the folder now, so they need no memory any more.
    Ok(Installed { package: Arc::new(package.without_files()), folder, environment, interpreter })
}

async fn environment(
    package: &Package,
    interpreter: &Interpreter,
    cache: &Path,
    settings: &Settings,
    say: &(dyn Fn(String) + Sync),
) -> Result<PathBuf, InstallError> {
    let requirements: Vec<String> =
        package.python.requirements.iter().map(|requirement| requirement.text.clone()).collect();
    let constraints: Vec<String> =
        package.python.locked.iter().map(|(name, version)| format!("{name}=={version}")).collect();
    let wheels = settings.wheels.as_deref().map(absolute).transpose()?;
    let key = key(&[
        &requirements.join("\n"),
        &constraints.join("\n"),
        &interpreter.kind(),
        &interpreter.executable().display().to_string(),
        &settings.index_url,
        &wheels.as_deref().unwrap_or(Path::new("")).display().to_string(),
    ]);
    let path = cache.join("environments").join(key);
    if path.is_dir() {
        return Ok(path);
    }
    let _alone = alone(&path, settings, say).await?;
    if path.is_dir() {
        return Ok(path);
    }
    say(format!("installing what {} requires, for Python {}", package.id(), interpreter.release()));
    let wanted = Wanted {
        interpreter,
        requirements: &requirements,
        constraints: &constraints,
        index_url: &settings.index_url,
        wheels: wheels.as_deref(),
        timeout: settings.install_timeout,
        bytes_max: settings.environment_bytes_max,
    };
    environment::make(&wanted, &path).await?;
    Ok(path)
}

fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A path that also programs in other folders understand.
fn absolute(path: &Path) -> Result<PathBuf, InstallError> {
    std::path::absolute(path).map_err(|error| InstallError::File { path: path.into(), error })
}

/// The interpreter of this host for a package.
///
/// # Errors
/// [`InstallError::Python`]: none fits.
pub async fn choose(package: &Package, settings: &Settings) -> Result<Interpreter, InstallError> {
    let (found, reasons) = interpreters(&settings.pythons, settings.user).await;
    let fits = |interpreter: &&Interpreter| {
        Version::read(&interpreter.release()).is_some_and(|version| package.python.allow_python(&version))
    };
    let wanted = &package.manifest.runner.version;
    let best = found.iter().find(|interpreter| fits(interpreter) && interpreter.release() == *wanted);
    if let Some(interpreter) = best.or_else(|| found.iter().find(fits)) {
        return Ok(interpreter.clone());
    }
    let (needed, reason) = package.python.oldest_python();
    let mut words: Vec<String> =
        found.iter().map(|interpreter| format!("Python {}", interpreter.release())).collect();
    words.dedup();
    words.extend(reasons.iter().filter_map(|reason| reason.lines().next()).map(String::from));
    let found = if words.is_empty() { "none".into() } else { words.join("; ") };
    Err(InstallError::Python { id: package.id(), needed, reason, found })
}

/// Creates a folder that every user may enter, because plugins read there.
fn create(folder: &Path) -> Result<(), InstallError> {
    let failed = |error| InstallError::File { path: folder.into(), error };
    let absent: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    std::fs::create_dir_all(folder).map_err(failed)?;
    for created in absent.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        std::fs::set_permissions(created, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    Ok(())
}

/// Waits until no other process makes this folder.
async fn alone(
    path: &Path,
    settings: &Settings,
    say: &(dyn Fn(String) + Sync),
) -> Result<File, InstallError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let lock = path.with_file_name(format!(".lock-{name}"));
    let file = File::options().create(true).append(true).open(&lock);
    let file = file.map_err(|error| InstallError::File { path: lock.clone(), error })?;
    let until = tokio::time::Instant::now() + settings.install_timeout;
    let mut said = false;
    while file.try_lock().is_err() {
        if tokio::time::Instant::now() >= until {
            return Err(InstallError::Locked {
                path: path.into(),
                seconds: settings.install_timeout.as_secs(),
            });
        }
        if !said {
            say(format!("waiting for another process that installs into {}", path.display()));
            said = true;
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
    Ok(file)
}

/// Writes the files of a package into a folder, on a thread for blocking work.
async fn unpack(package: Arc<Package>, folder: PathBuf) -> Result<(), InstallError> {
    let path = folder.clone();
    let written = tokio::task::spawn_blocking(move || write_all(&package, &folder)).await;
    let written = written.unwrap_or_else(|_| Err(std::io::Error::other("the thread that wrote it panicked")));
    written.map_err(|error| InstallError::File { path, error })
}

fn write_all(package: &Package, folder: &Path) -> std::io::Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let making = folder.with_file_name(format!("{MAKING}{name}"));
    if making.exists() {
        // What another process left that was killed: the lock is ours now.
        std::fs::remove_dir_all(&making)?;
    }
    std::fs::create_dir(&making)?;
    open_to_all(&making)?;
    for (name, bytes) in package.files.iter() {
        let path = making.join(name);
        let folders: Vec<&Path> = path.ancestors().skip(1).take_while(|path| **path != making).collect();
        for folder in folders.into_iter().rev().filter(|folder| !folder.exists()) {
            std::fs::create_dir(folder)?;
            open_to_all(folder)?;
        }
        std::fs::write(&path, bytes)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))?;
    }
    std::fs::rename(&making, folder)
}

fn open_to_all(folder: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}
