//! The Python environment of code nodes: the packages that `code.python` declares.
//!
//! `tidemill code install` chooses versions ([`lock`]) and makes the environment ([`install`]). A worker only looks
//! for it: at run time nothing is built or changed. Each lock has a folder of its own, which is complete as soon as it
//! exists, so workers that still use an older one go on with it.

#[cfg(target_os = "linux")]
pub mod install;
mod lock;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidemill_common::nodes::code::{PythonTable, modules};

use lock::Lock;

/// The file in an environment that describes it.
const MANIFEST: &str = "tidemill-environment.json";
/// The start of names of folders that are not complete.
pub(crate) const MAKING: &str = ".making-";
const COMMAND: &str = "run `tidemill code install` with these settings on this host";

/// The environment of the settings is not there.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// No lock file.
    #[error("code.python declares packages, but its lock file {} cannot be read ({error}): {COMMAND}", .path.display())]
    Lock { path: PathBuf, error: std::io::Error },
    /// The lock file is no lock file, or of other packages.
    #[error("the lock file {} is not of code.python.packages as they are now: {COMMAND}", .0.display())]
    Stale(PathBuf),
    /// No environment of this lock.
    #[error("the environment of code.python is not in {} yet: {COMMAND}", .0.display())]
    NotInstalled(PathBuf),
}

/// Code cannot read an environment that is there.
#[derive(Debug, thiserror::Error)]
#[error(
    "code.sandbox_uid cannot read {} ({error}): every user must be able to read code.python.environments",
    .folder.display()
)]
pub struct Unreadable {
    folder: PathBuf,
    error: std::io::Error,
}

/// An environment that is there.
#[derive(Debug, Clone)]
pub struct Environment {
    pub folder: PathBuf,
    pub manifest: Manifest,
}

/// The description of an environment, stored in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The Python that it is for, such as `3.11`.
    pub python: String,
    /// As the settings declared them.
    pub declared: Vec<String>,
    pub packages: Vec<Package>,
    /// The top-level modules that code can import.
    pub modules: Vec<String>,
}

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    pub name: String,
    pub version: String,
}

impl Environment {
    fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join(MANIFEST)).ok()?;
        Some(Self { folder: folder.into(), manifest: serde_json::from_str(&text).ok()? })
    }

    /// Its interpreter.
    pub fn interpreter(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// The interpreter of the machine that it was made with.
    pub fn made_with(&self) -> PathBuf {
        let own = self.interpreter();
        own.canonicalize().unwrap_or(own)
    }

    fn packages(&self) -> PathBuf {
        self.folder.join(format!("lib/python{}/site-packages", self.manifest.python))
    }
}

/// The environment of these settings.
///
/// # Errors
/// [`Missing`].
pub fn find(python: &PythonTable) -> Result<Environment, Missing> {
    let path = python.lock_file();
    let text = std::fs::read_to_string(&path).map_err(|error| Missing::Lock { path: path.clone(), error })?;
    let lock = Lock::parse(&text).filter(|lock| lock.packages == python.packages);
    let lock = lock.ok_or(Missing::Stale(path))?;
    let folder = python.path(&python.environments).join(lock.id());
    Environment::read(&folder).ok_or(Missing::NotInstalled(folder))
}

/// Tests whether code can read an environment, because root may enter folders that `code.sandbox_uid` may not.
///
/// # Errors
/// It cannot.
#[cfg(target_os = "linux")]
pub(crate) fn readable(
    config: &tidemill_common::nodes::code::CodeConfig,
    environment: &Environment,
) -> Result<(), Unreadable> {
    let read = || {
        std::fs::File::open(environment.interpreter())?;
        std::fs::read_dir(environment.packages()).map(drop)
    };
    crate::scratch::as_user(config, read)
        .map_err(|error| Unreadable { folder: environment.folder.clone(), error })
}

/// All environments in the folder of the settings, by their names.
pub fn all(python: &PythonTable) -> Vec<Environment> {
    let entries = std::fs::read_dir(python.path(&python.environments)).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort();
    let is_whole = |folder: &&PathBuf| {
        !folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(MAKING))
    };
    folders.iter().filter(is_whole).filter_map(|folder| Environment::read(folder)).collect()
}

/// Whether code can import a top-level module of a package with these settings, without running anything: by the
/// environment if it is there, else by the names of the declared packages. An interpreter that is named by its path has
/// the modules in the folder beside it.
pub fn provides(python: &PythonTable, module: &str) -> bool {
    if !python.has_environment() {
        return python.interpreter.contains('/')
            && beside(&python.path(&python.interpreter)).iter().any(|known| known == module);
    }
    match find(python) {
        Ok(found) => found.manifest.modules.iter().any(|known| known == module),
        Err(_) => modules::holds(&python.packages, module),
    }
}

/// The modules of a virtual environment, by the path of its interpreter.
fn beside(interpreter: &Path) -> Vec<String> {
    let libraries = interpreter.parent().and_then(Path::parent).map(|folder| folder.join("lib"));
    let releases = libraries.into_iter().flat_map(std::fs::read_dir).flatten().flatten();
    let of_python = releases.filter(|entry| entry.file_name().to_string_lossy().starts_with("python"));
    of_python.flat_map(|entry| top_level(&entry.path().join("site-packages"))).collect()
}

/// The modules in a folder of packages.
pub(crate) fn top_level(site: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(site).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_folder = entry.file_type().ok()?.is_dir();
        match name.split_once('.') {
            // A module of Python or C, such as `six.py` or `_cffi.cpython-311-x86_64-linux-gnu.so`.
            Some((module, end)) if !is_folder && (end == "py" || end.ends_with("so")) => {
                Some(module.to_owned())
            }
            // Any folder is a package, also without an __init__.py.
            None if is_folder && name != "__pycache__" => Some(name),
            Some(_) | None => None,
        }
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(folder: &Path) -> PythonTable {
        let environments = folder.join("environments").display().to_string();
        PythonTable {
            packages: vec!["requests".into()],
            environments,
            folder: folder.into(),
            ..PythonTable::default()
        }
    }

    #[test]
    fn an_environment_is_found_by_the_lock_of_the_declared_packages() {
        let folder = tempfile::tempdir().unwrap();
        let python = settings(folder.path());
        let told = |python: &PythonTable| find(python).unwrap_err().to_string();
        assert!(told(&python).contains("tidemill-code.lock cannot be read"), "{}", told(&python));
        assert!(provides(&python, "requests") && !provides(&python, "numpy"));

        let lock = Lock { packages: python.packages.clone(), python: "3.11 linux".into(), pins: Vec::new() };
        std::fs::write(python.lock_file(), lock.to_text()).unwrap();
        assert!(told(&python).contains("is not in"), "{}", told(&python));
        assert!(told(&python).contains("tidemill code install"), "{}", told(&python));

        let own = folder.path().join("environments").join(lock.id());
        std::fs::create_dir_all(&own).unwrap();
        let modules = vec!["requests".into(), "idna".into()];
        let manifest = Manifest {
            python: "3.11".into(),
            declared: lock.packages.clone(),
            packages: Vec::new(),
            modules,
        };
        std::fs::write(own.join(MANIFEST), serde_json::to_string(&manifest).unwrap()).unwrap();
        assert_eq!(find(&python).unwrap().interpreter(), own.join("bin/python"));
        assert!(provides(&python, "idna") && !provides(&python, "numpy"));
        assert_eq!(all(&python).len(), 1);

        let other = PythonTable { packages: vec!["numpy".into()], ..python };
        assert!(told(&other).contains("is not of code.python.packages"), "{}", told(&other));
    }
}
