//! The folder in which `tidemill dev` keeps its data between two starts: keys, the apps of workflow files, and the data
//! of Redis. Only the user who owns it can read it.
//!
//! ```text
//! .tidemill/
//!   dev.lock      locked while a `tidemill dev` runs here
//!   dev.json      address and admin key of the running one; other commands read it
//!   admin.key     secret.key     apps.json
//!   redis/        append-only file, log
//! ```

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use uuid::Uuid;

/// The default name of the folder.
pub(crate) const NAME_DEFAULT: &str = ".tidemill";

/// A problem with the data folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("cannot {doing} {path}: {source}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} is not a file that `tidemill dev` has written: {reason}; repair it or move it away")]
    Content { path: PathBuf, reason: String },
    #[error(
        "another `tidemill dev` uses {path}{}; stop it, or choose another folder with --data",
        url.as_ref().map(|url| format!(" (at {url})")).unwrap_or_default()
    )]
    Busy { path: PathBuf, url: Option<String> },
}

/// Address and admin key of the running `tidemill dev`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) key: String,
}

/// The app of a workflow file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AppOfFile {
    pub(crate) id: String,
    /// Empty after the key was revoked.
    pub(crate) key: String,
}

/// Apps by the full path of their workflow file.
pub(crate) type Apps = BTreeMap<String, AppOfFile>;

/// An existing data folder that only its owner can read.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
}

/// Locks the folder until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

impl DataFolder {
    /// Opens the folder, or creates it.
    pub(crate) fn open(path: &Path) -> Result<Self, FolderError> {
        let failed = |doing| move |source| FolderError::Io { doing, path: path.to_path_buf(), source };
        if !path.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("make"))?;
        }
        let path = path.canonicalize().map_err(failed("find"))?;
        let folder = Self { path };
        let ignore = folder.path.join(".gitignore");
        if !ignore.exists() {
            folder.write(&ignore, b"*\n")?;
        }
        Ok(folder)
    }

    /// Locks the folder for this process.
    pub(crate) fn lock(&self) -> Result<FolderLock, FolderError> {
        let path = self.path.join("dev.lock");
        let failed = |source| FolderError::Io { doing: "lock", path: path.clone(), source };
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(FolderLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(FolderError::Busy {
                path: self.path.clone(),
                url: address(&self.path).map(|address| address.url),
            }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// The folder for files that nodes store.
    pub(crate) fn files(&self) -> PathBuf {
        self.path.join("files")
    }

    /// The folder for the data of Redis.
    pub(crate) fn redis(&self) -> Result<PathBuf, FolderError> {
        let path = self.path.join("redis");
        if !path.is_dir() {
            let made = DirBuilder::new().mode(0o700).create(&path);
            made.map_err(|source| FolderError::Io { doing: "make", path: path.clone(), source })?;
        }
        Ok(path)
    }

    /// Returns the admin key; creates it at the first use.
    pub(crate) fn admin_key(&self) -> Result<String, FolderError> {
        self.key("admin.key", || format!("admin-{}", random()))
    }
    /// Returns the key that encrypts secrets; creates it at the first use.
    pub(crate) fn secret_key(&self) -> Result<String, FolderError> {
        self.key("secret.key", || format!("{}{}", random(), random()))
    }

    /// Reads the apps of workflow files.
    pub(crate) fn apps(&self) -> Result<Apps, FolderError> {
        let path = self.path.join("apps.json");
        let Some(text) = read(&path)? else { return Ok(Apps::new()) };
        serde_json::from_str(&text).map_err(|error| FolderError::Content { path, reason: error.to_string() })
    }
    /// Stores the apps of workflow files.
    pub(crate) fn write_apps(&self, apps: &Apps) -> Result<(), FolderError> {
        self.write_json("apps.json", apps)
    }

    /// Stores the address of this process, so that other commands find it.
    pub(crate) fn write_address(&self, address: &Address) -> Result<(), FolderError> {
        self.write_json("dev.json", address)
    }
    /// Removes the stored address.
    pub(crate) fn remove_address(&self) {
        // If the file remains, other commands find no scheduler there and report that.
        let _ = fs::remove_file(self.path.join("dev.json"));
    }

    fn key(&self, name: &str, fresh: impl FnOnce() -> String) -> Result<String, FolderError> {
        let path = self.path.join(name);
        if let Some(text) = read(&path)? {
            let key = text.trim();
            if key.is_empty() {
                return Err(FolderError::Content { path, reason: "it is empty".into() });
            }
            return Ok(key.into());
        }
        let key = fresh();
        self.write(&path, format!("{key}\n").as_bytes())?;
        Ok(key)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), FolderError> {
        let path = self.path.join(name);
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| FolderError::Content { path: path.clone(), reason: error.to_string() })?;
        self.write(&path, text.as_bytes())
    }

    /// Writes the whole file or nothing. Other users can never read it, not even for a moment.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
        let fresh = self.path.join(format!(".new-{}", random()));
        let written = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&fresh)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&fresh, path));
        written.map_err(|source| {
            // The file may not exist.
            let _ = fs::remove_file(&fresh);
            FolderError::Io { doing: "write", path: path.into(), source }
        })
    }
}

/// Returns the address of the `tidemill dev` that runs on a folder, if there is one.
pub(crate) fn address(folder: &Path) -> Option<Address> {
    let text = fs::read_to_string(folder.join("dev.json")).ok()?;
    let value: Json = serde_json::from_str(&text).ok()?;
    Address::deserialize(value).ok()
}

fn read(path: &Path) -> Result<Option<String>, FolderError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FolderError::Io { doing: "read", path: path.into(), source }),
    }
}

/// Returns 122 random bits of the operating system as hex.
pub(crate) fn random() -> String {
    Uuid::new_v4().simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_created_once_and_only_the_owner_can_read_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a/data");
        let keys = |folder: DataFolder| (folder.admin_key().expect("a"), folder.secret_key().expect("b"));
        let first = keys(DataFolder::open(&path).expect("opens"));
        assert_eq!(keys(DataFolder::open(&path).expect("opens")), first);
        assert_ne!(first.0, first.1);
        let mode = |path: PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(path.clone()), 0o700);
        assert_eq!(mode(path.join("admin.key")), 0o600);
        assert_eq!(mode(path.join("secret.key")), 0o600);
    }

    #[test]
    fn a_folder_serves_one_process_at_a_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = DataFolder::open(dir.path()).expect("opens");
        let lock = folder.lock().expect("free");
        folder.write_address(&Address { url: "http://here".into(), key: "k".into() }).expect("writes");
        let error = folder.lock().expect_err("taken").to_string();
        assert!(error.contains("another `tidemill dev`") && error.contains("http://here"), "{error}");
        drop(lock);
        folder.lock().expect("free again");
    }

    #[test]
    fn apps_survive_and_broken_files_are_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = DataFolder::open(dir.path()).expect("opens");
        let app = AppOfFile { id: "1".into(), key: "app-2".into() };
        let apps = Apps::from([("/f.yml".to_string(), app)]);
        folder.write_apps(&apps).expect("writes");
        assert!(folder.apps().expect("reads") == apps);
        fs::write(dir.path().join("apps.json"), "{").expect("writes");
        assert!(folder.apps().map(|_| ()).expect_err("broken").to_string().contains("apps.json"));
        fs::write(dir.path().join("admin.key"), "\n").expect("writes");
        assert!(folder.admin_key().expect_err("empty").to_string().contains("it is empty"));
    }
}
