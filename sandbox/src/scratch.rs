//! The parent folder of execution folders (`code.scratch_folder`), and errors when it cannot be used.

use std::path::PathBuf;

use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use tempfile::TempDir;
use tidemill_common::nodes::code::CodeConfig;

/// The folder for written files cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "code nodes have no folder to work in: {doing} in {} fails: {error}; give the worker a folder there that it may write to and code.sandbox_uid may enter, or name another one in code.scratch_folder (now {setting})",
    .parent.display()
)]
pub(crate) struct ScratchError {
    doing: &'static str,
    parent: PathBuf,
    setting: &'static str,
    error: std::io::Error,
}

/// Creates a folder for execution folders, owned by the sandbox's user. It is deleted when dropped.
///
/// # Errors
/// It cannot be created, or given to that user.
pub(crate) fn make(config: &CodeConfig) -> Result<TempDir, ScratchError> {
    let folder = tempfile::Builder::new().prefix("tidemill-code-").tempdir_in(parent(config));
    let folder = folder.map_err(|error| failed(config, "making a folder", error))?;
    if nix::unistd::geteuid().is_root() {
        let (user, group) = (Some(config.sandbox_uid), Some(config.sandbox_gid));
        let given = std::os::unix::fs::chown(folder.path(), user, group);
        given.map_err(|error| failed(config, "giving a folder to code.sandbox_uid", error))?;
    }
    Ok(folder)
}

/// Creates such a folder, writes a file in it, reads it as the sandbox's user, and deletes both.
///
/// # Errors
/// One of these steps fails.
pub(crate) fn try_out(config: &CodeConfig) -> Result<(), ScratchError> {
    let folder = make(config)?;
    let file = folder.path().join("tried");
    let written = std::fs::write(&file, "a worker asked whether it may write here");
    written.map_err(|error| failed(config, "writing a file", error))?;
    let read = as_user(config, || std::fs::read(&file).map(drop));
    read.map_err(|error| failed(config, "reading a file as code.sandbox_uid", error))
}

/// Reads something as `code.sandbox_uid`, because root may enter folders that this user may not. Only a thread that
/// then ends gets the rights of this user.
pub(crate) fn as_user(
    config: &CodeConfig,
    read: impl Fn() -> std::io::Result<()> + Send + Sync,
) -> std::io::Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return read();
    }
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            setfsgid(Gid::from_raw(config.sandbox_gid));
            setfsuid(Uid::from_raw(config.sandbox_uid));
            read()
        });
        reading.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that tried it panicked")))
    })
}

fn failed(config: &CodeConfig, doing: &'static str, error: std::io::Error) -> ScratchError {
    ScratchError {
        doing,
        parent: parent(config),
        setting: if config.scratch_folder.is_empty() { "empty: the system's" } else { "that one" },
        // A library's error repeats the path with a random name, so show only the OS error.
        error: error.raw_os_error().map_or(error, std::io::Error::from_raw_os_error),
    }
}

fn parent(config: &CodeConfig) -> PathBuf {
    if config.scratch_folder.is_empty() {
        std::env::temp_dir()
    } else {
        config.scratch_folder.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_cannot_be_used_is_named_with_the_setting() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Root may write everywhere except below a file.
        let below = file.path().join("x").display().to_string();
        let config = CodeConfig { scratch_folder: below.clone(), ..CodeConfig::default() };
        let error = try_out(&config).unwrap_err().to_string();
        assert!(error.contains(&format!("making a folder in {below} fails")), "{error}");
        assert!(error.contains("code.scratch_folder") && error.contains("Not a directory"), "{error}");
    }

    #[test]
    fn what_was_tried_leaves_nothing() {
        let (folder, config) = folder_of_mode(0o755);
        try_out(&config).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_only_root_may_enter_is_named_with_the_sandbox_user() {
        // Only root has a sandbox user that differs from its own.
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let (folder, config) = folder_of_mode(0o700);
        let error = try_out(&config).unwrap_err().to_string();
        assert!(error.contains("code.sandbox_uid") && error.contains("Permission denied"), "{error}");
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
    }

    fn folder_of_mode(mode: u32) -> (TempDir, CodeConfig) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let scratch_folder = folder.path().display().to_string();
        (folder, CodeConfig { scratch_folder, ..CodeConfig::default() })
    }
}
