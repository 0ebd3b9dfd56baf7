//! Makes a package ready on this host: its files in a folder, and an environment with what it requires. Both are under the
//! cache folder, under names that follow from their contents, and get these names when they are complete. Processes
//! that share the folder wait for each other by the locks of [`cache`].
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

use crate::cache::{self, Hold, InUse, PARTS};
use crate::package::version::Version;
use crate::package::{Package, Severity};
use crate::settings::Settings;

const PACKAGES: &str = PARTS[0];
const ENVIRONMENTS: &str = PARTS[1];
/// How often a lock is tried that another process holds.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// A package that is ready to run.
#[derive(Debug)]
pub struct Installed {
    pub package: Arc<Package>,
    /// Its files.
    pub folder: PathBuf,
    pub environment: PathBuf,
    pub interpreter: Interpreter,
    /// Neither folder is removed from the cache as long as this lives.
    in_use: [InUse; 2],
}

impl Installed {
    /// Notes that it is used now: what was not used for a long time is removed once no process uses it.
    pub fn touch(&self) {
        self.in_use.iter().for_each(InUse::touch);
    }
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
        "{id} needs Python {needed} ({reason}), and this host has {found}. Install it, or name it with --python{unusable}"
    )]
    Python { id: String, needed: Version, reason: String, found: String, unusable: String },
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
    Some(settings.cache.join(PACKAGES).join(hash)).filter(|folder| folder.is_dir())
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
    for folder in PARTS {
        create(&cache.join(folder))?;
    }
    let folder = cache.join(PACKAGES).join(&package.hash);
    let files = loop {
        match held(&folder, settings, say).await? {
            Held::Use(used) => break used,
            Held::Make(lock) => unpack(package.clone(), folder.clone(), lock).await?,
        }
    };
    let (environment, used) = environment(&package, &interpreter, &cache, settings, say).await?;
    let in_use = [files, used];
    // The files are in the folder now, so they need no memory any more.
    Ok(Installed { package: Arc::new(package.without_files()), folder, environment, interpreter, in_use })
}

async fn environment(
    package: &Package,
    interpreter: &Interpreter,
    cache: &Path,
    settings: &Settings,
    say: &(dyn Fn(String) + Sync),
) -> Result<(PathBuf, InUse), InstallError> {
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
    let path = cache.join(ENVIRONMENTS).join(key);
    loop {
        let lock = match held(&path, settings, say).await? {
            Held::Use(used) => return Ok((path, used)),
            Held::Make(lock) => lock,
        };
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
        // What another process left may be large.
        let beside = path.clone();
        let making = tokio::task::spawn_blocking(move || cache::making(&beside)).await;
        let making =
            making.map_err(|error| InstallError::File { path: path.clone(), error: error.into() })?;
        environment::make(&wanted, making, &path, lock).await?;
    }
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
    let found = if words.is_empty() { "none".into() } else { words.join(", ") };
    Err(InstallError::Python { id: package.id(), needed, reason, found, unusable: unusable(&reasons) })
}

/// The interpreters that cannot be used. What one that does not work has written says little: a shim of pyenv, for example, lists the
/// versions that it would start.
fn unusable(reasons: &[String]) -> String {
    let one = |reason: &String| {
        let line = reason.lines().next().unwrap_or_default();
        line.split_once(": is not a working Python").map_or(line, |(path, _)| path).to_owned()
    };
    let mut each: Vec<String> = reasons.iter().map(one).collect();
    each.dedup();
    if each.is_empty() { String::new() } else { format!("; these cannot be used: {}", each.join(", ")) }
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

/// A folder of the cache, once no other process makes or removes it.
enum Held {
    Use(InUse),
    Make(File),
}

/// Waits until no other process makes or removes this folder.
async fn held(path: &Path, settings: &Settings, say: &(dyn Fn(String) + Sync)) -> Result<Held, InstallError> {
    let until = tokio::time::Instant::now() + settings.install_timeout;
    let mut said = false;
    loop {
        let beside = path.to_owned();
        let held = tokio::task::spawn_blocking(move || cache::hold(&beside)).await;
        let held = held.unwrap_or_else(|error| Err(error.into()));
        match held.map_err(|error| InstallError::File { path: path.into(), error })? {
            Hold::Use(used) => return Ok(Held::Use(used)),
            Hold::Make(lock) => return Ok(Held::Make(lock)),
            Hold::Busy => {}
        }
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
}

/// Writes the files of a package into a folder, on a thread for blocking work. The thread keeps the lock, because it goes on if the
/// caller does not wait.
async fn unpack(package: Arc<Package>, folder: PathBuf, lock: File) -> Result<(), InstallError> {
    let path = folder.clone();
    let writing = move || {
        let _lock = lock;
        let making = cache::making(&folder);
        write_all(&package, &making)
            .and_then(|()| std::fs::rename(&making, &folder))
            .inspect_err(|_| drop(std::fs::remove_dir_all(&making)))
    };
    let written = tokio::task::spawn_blocking(writing).await;
    let written = written.unwrap_or_else(|_| Err(std::io::Error::other("the thread that wrote it panicked")));
    written.map_err(|error| InstallError::File { path, error })
}

fn write_all(package: &Package, making: &Path) -> std::io::Result<()> {
    std::fs::create_dir(making)?;
    open_to_all(making)?;
    for (name, bytes) in package.files.iter() {
        let path = making.join(name);
        let folders: Vec<&Path> = path.ancestors().skip(1).take_while(|path| *path != making).collect();
        for folder in folders.into_iter().rev().filter(|folder| !folder.exists()) {
            std::fs::create_dir(folder)?;
            open_to_all(folder)?;
        }
        std::fs::write(&path, bytes)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

fn open_to_all(folder: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_that_does_not_work_is_named_without_what_it_has_written() {
        let reasons = [
            "/shims/python3.12: is not a working Python: pyenv: python3.12: command not found\n\nmore"
                .to_owned(),
            "/usr/bin/python3: code.sandbox_uid cannot read it: denied".to_owned(),
        ];
        let expected = "; these cannot be used: /shims/python3.12, /usr/bin/python3: code.sandbox_uid cannot read it: denied";
        assert_eq!(unusable(&reasons), expected);
        assert_eq!(unusable(&[]), "");
    }
}
