//! The parent folder of execution folders (`code.scratch_folder`), and errors when it cannot be used.

use std::path::PathBuf;

use tempfile::TempDir;
use tidemill_common::nodes::code::CodeConfig;

/// The folder for written files cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "code nodes have no folder to work in: {doing} in {} fails: {error}; give the worker a folder that it may write to there, or name another one in code.scratch_folder (now {setting})",
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

/// Creates such a folder, writes a file in it, and deletes both.
///
/// # Errors
/// One of these steps fails.
pub(crate) fn try_out(config: &CodeConfig) -> Result<(), ScratchError> {
    let folder = make(config)?;
    let written = std::fs::write(folder.path().join("tried"), "a worker asked whether it may write here");
    written.map_err(|error| failed(config, "writing a file", error))
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
        let folder = tempfile::tempdir().unwrap();
        let scratch_folder = folder.path().display().to_string();
        let config = CodeConfig { scratch_folder, ..CodeConfig::default() };
        try_out(&config).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
