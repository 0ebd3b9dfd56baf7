//! Makes an environment: chooses versions where the lock does not fit, installs exactly the files of the lock, and gives
//! the folder its name when all of it is there. Installs on one host wait for each other.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tidemill_common::nodes::code::{CodeConfig, PythonTable, modules};

use super::lock::Lock;
use super::{Environment, MAKING, MANIFEST, Manifest, Package, Unreadable, find, readable, top_level};
use crate::python::discover::{self, Interpreter};

pub(crate) mod pip;

use pip::Pip;

/// How to treat the lock.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    /// Choose the newest versions instead of those of the lock.
    pub update: bool,
    /// Fail if the lock would have to change.
    pub locked: bool,
}

/// What was done.
#[derive(Debug)]
pub struct Installed {
    pub environment: Environment,
    /// It was there before.
    pub was_there: bool,
    /// The lock file was written.
    pub lock_written: bool,
}

/// Reasons why there is no environment.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Nothing is declared.
    #[error(
        "the settings declare no packages; write them in code.python.packages, such as packages = [\"requests\"]"
    )]
    NoPackages,
    /// No interpreter.
    #[error("{0}")]
    NoPython(String),
    /// No pip.
    #[error(
        "there is no pip of version 22.3 or newer (tried: {0}); install it, for example the package python3-pip"
    )]
    NoPip(String),
    /// The lock does not fit, and may not change.
    #[error("the lock file {} does not fit: {reason}; run `tidemill code install` without --locked", .path.display())]
    Locked { path: PathBuf, reason: &'static str },
    /// The lock file is there, but is none.
    #[error(
        "{} is no lock file that `tidemill code install` can read; restore it, or run `tidemill code install --update` to choose all versions again", .0.display()
    )]
    Broken(PathBuf),
    /// The folder of wheels is not there.
    #[error("code.python.wheels: no such folder: {}", .0.display())]
    NoWheels(PathBuf),
    /// Code cannot read the environment.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A file cannot be written or read.
    #[error("{doing} {}: {error}", .path.display())]
    File { doing: &'static str, path: PathBuf, error: std::io::Error },
    /// A program failed.
    #[error("{doing} failed: {reason}")]
    Program { doing: &'static str, reason: String },
}

/// Makes the environment of the settings, unless it is there. `say` gets what is done, in words.
///
/// # Errors
/// [`InstallError`]. What was begun is removed.
pub async fn install(
    config: &CodeConfig,
    how: How,
    say: &(dyn Fn(String) + Sync),
) -> Result<Installed, InstallError> {
    let python = &*config.python;
    if !python.has_environment() {
        return Err(InstallError::NoPackages);
    }
    let folder = python.path(&python.environments);
    create(&folder).map_err(|error| file("creating code.python.environments", &folder, error))?;
    let _alone = alone(&folder, say)?;
    remove_unfinished(&folder);
    let interpreter = interpreter(config).await?;
    let known = known(&python.lock_file(), how)?;
    let installed = match unfit(known.as_ref(), python, &interpreter, how) {
        None => as_locked(python, known, &interpreter, say).await?,
        Some(reason) if how.locked => return Err(InstallError::Locked { path: python.lock_file(), reason }),
        Some(reason) => {
            say(format!("choosing versions, because {reason}"));
            chosen(python, known, how, &interpreter, say).await?
        }
    };
    readable(config, &installed.environment)?;
    for module in absent(&python.preload, &installed.environment.manifest) {
        say(format!("warning: code.python.preload names {module}, which is not in the environment"));
    }
    Ok(installed)
}

/// Makes the environment of a lock that fits.
async fn as_locked(
    python: &PythonTable,
    known: Option<Lock>,
    interpreter: &Interpreter,
    say: &(dyn Fn(String) + Sync),
) -> Result<Installed, InstallError> {
    if let Ok(environment) = find(python) {
        return Ok(Installed { environment, was_there: true, lock_written: false });
    }
    let lock =
        known.unwrap_or_else(|| Lock { packages: Vec::new(), python: String::new(), pins: Vec::new() });
    let environment = Place::new(python, interpreter).await?.make(python, &lock, say).await?;
    Ok(Installed { environment, was_there: false, lock_written: false })
}

/// Chooses versions, makes their environment, and writes the lock if it is another one than before.
async fn chosen(
    python: &PythonTable,
    known: Option<Lock>,
    how: How,
    interpreter: &Interpreter,
    say: &(dyn Fn(String) + Sync),
) -> Result<Installed, InstallError> {
    let place = Place::new(python, interpreter).await?;
    let kept = known.as_ref().filter(|_| !how.update).map(Lock::constraints);
    let report = place.pip.resolve(python, &place.folder, kept.as_deref()).await?;
    let lock = Lock::of_report(&python.packages, &interpreter.kind(), &report)
        .map_err(|reason| InstallError::Program { doing: "choosing versions", reason })?;
    let (was_there, environment) = match Environment::read(&python.path(&python.environments).join(lock.id()))
    {
        Some(environment) => (true, environment),
        None => (false, place.make(python, &lock, say).await?),
    };
    // Last: workers follow the lock, so until here they use the environment of before, also after a failure.
    let lock_written = known.as_ref() != Some(&lock);
    if lock_written {
        write_whole(&python.lock_file(), &lock.to_text())?;
    }
    Ok(Installed { environment, was_there, lock_written })
}

/// Creates a folder. Every user may enter what is created, whatever the umask is, because code reads there.
fn create(folder: &Path) -> std::io::Result<()> {
    let absent: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    std::fs::create_dir_all(folder)?;
    // An empty path is the working folder, which was there.
    for created in absent.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        std::fs::set_permissions(created, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Reads the lock, if there is one. What is no lock may be a mistake of a merge, so only `--update` writes over it.
fn known(path: &Path, how: How) -> Result<Option<Lock>, InstallError> {
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).ok(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file("reading the lock file", path, error)),
    };
    match text.and_then(|text| Lock::parse(&text)) {
        None if !how.update => Err(InstallError::Broken(path.into())),
        known => Ok(known),
    }
}

/// The modules of these that are neither in the environment nor in Python's own library.
fn absent<'a>(preload: &'a [String], manifest: &Manifest) -> Vec<&'a String> {
    let is_there = |module: &&String| {
        let top = module.split('.').next().unwrap_or_default();
        modules::is_standard(top) || manifest.modules.iter().any(|known| known == top)
    };
    preload.iter().filter(|module| !is_there(module)).collect()
}

/// Why a lock cannot be used as it is.
fn unfit(
    lock: Option<&Lock>,
    python: &PythonTable,
    interpreter: &Interpreter,
    how: How,
) -> Option<&'static str> {
    match lock {
        _ if how.update => Some("--update asks for the newest"),
        None => Some("there is no lock file yet"),
        Some(lock) if lock.packages != python.packages => Some("code.python.packages have changed"),
        Some(lock) if lock.python != interpreter.kind() => Some("it was made for another Python or machine"),
        Some(_) => None,
    }
}

/// Waits until no other process installs here.
fn alone(folder: &Path, say: &(dyn Fn(String) + Sync)) -> Result<File, InstallError> {
    let path = folder.join(".installing");
    let failed = |error| file("locking", &path, error);
    let lock = File::create(&path).map_err(failed)?;
    if lock.try_lock().is_err() {
        say(format!("waiting for another install into {}", folder.display()));
        lock.lock().map_err(failed)?;
    }
    Ok(lock)
}

/// Removes what an install left that was killed.
fn remove_unfinished(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(MAKING) {
            remove(&entry.path());
        }
    }
}

/// Removes a folder whose folders may be read-only.
pub(crate) fn remove(folder: &Path) {
    // What cannot be removed is tried again by the next install.
    let _ = permit(folder, 0o755, 0o644);
    let _ = std::fs::remove_dir_all(folder);
}

/// The first interpreter that the sandbox's user can use.
async fn interpreter(config: &CodeConfig) -> Result<Interpreter, InstallError> {
    let setting = &config.python.interpreter;
    let mut reasons = Vec::new();
    for candidate in discover::candidates(setting) {
        let probed = discover::probe(&candidate).await;
        match probed.and_then(|found| discover::readable(&found, config).map(|()| found)) {
            Ok(found) => return Ok(found),
            Err(reason) => reasons.push(format!("{}: {reason}", candidate.display())),
        }
    }
    let tried = if reasons.is_empty() { "no candidate exists".into() } else { reasons.join("; ") };
    Err(InstallError::NoPython(format!(
        "no usable Python for code nodes ({tried}); install python3 3.9 or newer where every user may read it, or set code.python.interpreter (now {setting:?})"
    )))
}

/// A new environment under a name for the time of its making. Dropping it removes it.
struct Place {
    pip: Pip,
    folder: PathBuf,
    python: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.folder.exists() {
            remove(&self.folder);
        }
    }
}

impl Place {
    async fn new(python: &PythonTable, interpreter: &Interpreter) -> Result<Self, InstallError> {
        let wheels = python.path(&python.wheels);
        if !python.wheels.is_empty() && !wheels.is_dir() {
            return Err(InstallError::NoWheels(wheels));
        }
        let pip = Pip::find(&interpreter.executable).await?;
        let folder = python.path(&python.environments).join(format!("{MAKING}{}", std::process::id()));
        let own = Self { pip, folder, python: interpreter.release() };
        let arguments = ["-I", "-m", "venv", "--without-pip"].map(Into::into);
        let arguments = arguments.into_iter().chain([own.folder.clone().into_os_string()]);
        pip::output("making an environment", &interpreter.executable, arguments, &[]).await?;
        Ok(own)
    }

    /// Installs the lock's files, and gives the environment its name.
    async fn make(
        &self,
        python: &PythonTable,
        lock: &Lock,
        say: &(dyn Fn(String) + Sync),
    ) -> Result<Environment, InstallError> {
        let packages = lock.pins.len();
        say(format!("installing {packages} package{}", if packages == 1 { "" } else { "s" }));
        let requirements = self.folder.join("tidemill-code.lock");
        write_whole(&requirements, &lock.to_text())?;
        self.pip.install(python, &self.folder, &requirements).await?;
        let site = self.folder.join(format!("lib/python{}/site-packages", self.python));
        let manifest = Manifest {
            python: self.python.clone(),
            declared: python.packages.clone(),
            packages: lock
                .pins
                .iter()
                .map(|pin| Package { name: pin.name.clone(), version: pin.version.clone() })
                .collect(),
            modules: top_level(&site),
        };
        remove_programs(&self.folder.join("bin"));
        for passing in pip::PASSING {
            let _ = std::fs::remove_file(self.folder.join(passing));
        }
        let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
        write_whole(&self.folder.join(MANIFEST), &text)?;
        permit(&self.folder, 0o555, 0o444).map_err(|error| file("making read-only", &self.folder, error))?;
        let folder = self.folder.with_file_name(lock.id());
        if std::fs::symlink_metadata(&folder).is_ok() {
            // A damaged one, whose manifest cannot be read.
            remove(&folder);
        }
        std::fs::rename(&self.folder, &folder).map_err(|error| file("naming", &folder, error))?;
        Ok(Environment { folder, manifest })
    }
}

/// The programs of packages name a path that is gone after the renaming; code cannot start programs anyway.
pub(crate) fn remove_programs(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with("python") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Sets the permissions of folders and files below a folder, deepest first. Links stay as they are.
pub(crate) fn permit(path: &Path, folders: u32, files: u32) -> std::io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    if found.is_symlink() {
        return Ok(());
    }
    if found.is_dir() {
        // A folder must be open while its entries are changed.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
        for entry in std::fs::read_dir(path)? {
            permit(&entry?.path(), folders, files)?;
        }
    }
    let mode = if found.is_dir() { folders } else { files };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Writes a file so that others see the old one or the whole new one.
fn write_whole(path: &Path, text: &str) -> Result<(), InstallError> {
    let beside = path.with_extension("new");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| file("writing", path, error))
}

pub(crate) fn file(doing: &'static str, path: &Path, error: std::io::Error) -> InstallError {
    InstallError::File { doing, path: path.into(), error }
}
