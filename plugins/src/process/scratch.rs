//! The folder that the processes of a plugin may write.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_common::http::Http;
use tidemill_sandbox::guest;
use tidemill_sandbox::guest::environment::exceeds;

use crate::settings::{ProcessLimits, Settings};

/// The certificates of the system: the first file that exists.
const CERTIFICATES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The start of the name of the folder of a process of the host.
const PREFIX: &str = "tidemill-plugins-";
/// The file in it that the process holds locked.
const LOCK: &str = "lock";

/// The folder of this process of the host, with the folders of its plugins. The system releases its lock also when the process
/// is killed; then another process removes the folder.
pub(super) struct Base {
    path: PathBuf,
    _lock: File,
}

impl Base {
    pub(super) fn new() -> io::Result<Self> {
        // Each plugin may enter its own folder in it, and list nothing.
        let only_enter = std::fs::Permissions::from_mode(0o711);
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir()?.keep();
        std::fs::set_permissions(&path, only_enter)?;
        // The folder is locked before it gets its name, so no other worker finds it unlocked.
        let making = path.join(".making");
        let lock = File::options().create_new(true).write(true).open(&making)?;
        lock.try_lock().map_err(io::Error::from)?;
        std::fs::rename(&making, path.join(LOCK))?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        guest::remove(&self.path);
    }
}

/// Removes the folders of processes of the host that were killed.
pub fn remove_left_over() {
    remove_from(&std::env::temp_dir());
}

fn remove_from(folder: &Path) {
    let Ok(own) = std::fs::metadata("/proc/self").map(|about| about.uid()) else { return };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // Another user may have put something else there.
        let is_own = entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == own);
        if !is_own || !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        let Ok(lock) = File::options().write(true).open(path.join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            guest::remove(&path);
        }
    }
}

/// A folder that only the plugin's user and root may enter. Dropping it removes it, with whatever the plugin has made in it.
pub(super) struct Scratch {
    path: PathBuf,
    _base: Arc<Base>,
}

impl Scratch {
    /// Makes the folder. With `http.ca_file` it has the certificates to trust.
    pub(super) fn new(base: Arc<Base>, settings: &Settings, http: &Http) -> io::Result<Self> {
        let only_own = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("plugin-").permissions(only_own).tempdir_in(&base.path)?;
        let own = Self { path: made.keep(), _base: base };
        std::fs::create_dir(own.home())?;
        let file = http.ca_file.as_str();
        if !file.is_empty() {
            let known = CERTIFICATES.iter().find_map(|file| std::fs::read(file).ok()).unwrap_or_default();
            let all = [known, b"\n".to_vec(), std::fs::read(file)?].concat();
            std::fs::write(own.certificates(), all)?;
        }
        guest::give(&own.home(), settings.user)?;
        guest::give(&own.path, settings.user)?;
        Ok(own)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the plugin may write.
    pub(super) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// The certificates to trust, if the file exists.
    pub(super) fn certificates(&self) -> PathBuf {
        self.path.join("certificates.pem")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        guest::remove(&self.path);
    }
}

/// The reason to end a process for what is in its folder, if there is one.
pub(super) async fn too_much(folder: &Path, limits: &ProcessLimits) -> Option<String> {
    let (folder, bytes, entries) = (folder.to_owned(), limits.scratch_bytes_max, limits.scratch_entries_max);
    let is_over = tokio::task::spawn_blocking(move || exceeds(&folder, bytes, entries)).await;
    is_over.is_ok_and(|is_over| is_over).then(|| {
        format!(
            "its folder has more than {bytes} bytes (scratch_bytes_max), more than {entries} entries (scratch_entries_max), or a folder that cannot be read"
        )
    })
}

#[cfg(test)]
mod tests {
    use tidemill_common::config::HttpConfig;

    use super::*;

    #[tokio::test]
    async fn the_folder_is_private_and_goes_with_folders_that_nobody_may_read() {
        let settings = Settings::new(PathBuf::new());
        let base = Arc::new(Base::new().unwrap());
        let scratch = Scratch::new(base, &settings, &Http::new(&HttpConfig::default()).unwrap()).unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(too_much(&path, &settings.process).await, None);
        let hidden = scratch.home().join("a");
        std::fs::create_dir_all(hidden.join("b")).unwrap();
        std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o000)).unwrap();
        let few = ProcessLimits { scratch_entries_max: 1, ..ProcessLimits::default() };
        assert!(too_much(&path, &few).await.unwrap().contains("scratch_entries_max"));
        let base = path.parent().unwrap().to_owned();
        drop(scratch);
        assert!(!path.exists() && !base.exists());
    }

    #[test]
    fn only_folders_whose_process_is_gone_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str, has_lock: bool| {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.join("plugin-a/home")).unwrap();
            has_lock.then(|| File::create(path.join(LOCK)).unwrap())
        };
        let alive = folder("tidemill-plugins-alive", true).unwrap();
        alive.try_lock().unwrap();
        folder("tidemill-plugins-gone", true);
        folder("tidemill-plugins-new", false);
        folder("other", true);
        remove_from(place.path());
        let mut left: Vec<_> =
            std::fs::read_dir(place.path()).unwrap().flatten().map(|it| it.file_name()).collect();
        left.sort();
        assert_eq!(left, ["other", "tidemill-plugins-alive", "tidemill-plugins-new"]);
    }
}
