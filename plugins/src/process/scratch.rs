//! The folder that the processes of a plugin may write.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tidemill_common::http::Http;
use tidemill_sandbox::guest;
use tidemill_sandbox::guest::environment::exceeds;

use crate::settings::{ProcessLimits, Settings};

/// The certificates of the system: the first file that exists.
const CERTIFICATES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// A folder that only the plugin's user and root may enter. Dropping it removes it, with whatever the plugin has made in it.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder. With `http.ca_file` it has the certificates to trust.
    pub(super) fn new(settings: &Settings, http: &Http) -> io::Result<Self> {
        let only_own = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("tidemill-plugin-").permissions(only_own).tempdir()?;
        let own = Self(made.keep());
        std::fs::create_dir(own.home())?;
        let file = http.ca_file.as_str();
        if !file.is_empty() {
            let known = CERTIFICATES.iter().find_map(|file| std::fs::read(file).ok()).unwrap_or_default();
            let all = [known, b"\n".to_vec(), std::fs::read(file)?].concat();
            std::fs::write(own.certificates(), all)?;
        }
        guest::give(&own.home(), settings.user)?;
        guest::give(&own.0, settings.user)?;
        Ok(own)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What the plugin may write.
    pub(super) fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    /// The certificates to trust, if the file exists.
    pub(super) fn certificates(&self) -> PathBuf {
        self.0.join("certificates.pem")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        guest::remove(&self.0);
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
        let scratch = Scratch::new(&settings, &Http::new(&HttpConfig::default()).unwrap()).unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(too_much(&path, &settings.process).await, None);
        let hidden = scratch.home().join("a");
        std::fs::create_dir_all(hidden.join("b")).unwrap();
        std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o000)).unwrap();
        let few = ProcessLimits { scratch_entries_max: 1, ..ProcessLimits::default() };
        assert!(too_much(&path, &few).await.unwrap().contains("scratch_entries_max"));
        drop(scratch);
        assert!(!path.exists());
    }
}
