//! The file in which `tidemill run` keeps a run that has not ended: its snapshot, from which another call goes on.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tidemill_embed::{EmbedError, check_snapshot};

use crate::client::{Client, ClientError};
use crate::console::Console;
use crate::error::Error;

/// The file of `--keep`.
#[derive(Debug)]
pub(super) struct Keep(PathBuf);

impl Keep {
    /// A file at this place.
    ///
    /// # Errors
    /// There is no folder for it, or a folder is in its place.
    pub(super) fn at(path: PathBuf) -> Result<Self, Error> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) || path.is_dir() || path.file_name().is_none() {
            let text = format!("--keep {}: name a file in a folder that exists", path.display());
            return Err(Error::Usage(text));
        }
        Ok(Self(path))
    }

    /// Writes the snapshot of a run, and says how to go on. Returns false if the run has ended.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) async fn write(
        &self,
        client: &Client,
        run: &str,
        console: &mut Console,
    ) -> Result<bool, Error> {
        let snapshot = match client.snapshot(run).await {
            Err(ClientError::Refused { code, .. }) if code == "run_over" => return Ok(false),
            snapshot => snapshot?,
        };
        write(&self.0, &snapshot)?;
        console.note(format_args!(
            "the run is kept; it goes on with: tidemill run --resume {}",
            self.0.display()
        ));
        Ok(true)
    }
}

/// Writes a file whole or not at all. Only its owner can read it, because it holds the values of the run.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Failed(format!("cannot write {}: {error}", path.display()));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    match fs::remove_file(&part) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&part).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&part, path).map_err(failed)
}

/// Reads a snapshot.
///
/// # Errors
/// The file cannot be read, or it is something else.
pub(super) fn read(path: &Path) -> Result<String, Error> {
    let wrong = |reason: String| Error::Usage(format!("--resume {}: {reason}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    match check_snapshot(text.as_bytes()) {
        Err(EmbedError::Refused { message, .. }) => Err(wrong(message)),
        Err(error) => Err(wrong(error.to_string())),
        Ok(()) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_file_is_replaced_whole_and_is_for_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        for text in ["{\"a\": 1}", "{\"b\": 2}"] {
            write(&path, text).expect("it is written");
            assert_eq!(read(&path).expect("it is read"), text);
        }
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "a part is left");
        for wrong in [Path::new("/nowhere/run.json"), folder.path(), Path::new("/")] {
            let refused = Keep::at(wrong.into()).expect_err("it is no place for a file");
            assert!(refused.to_string().contains(&wrong.display().to_string()), "{refused}");
        }
        fs::write(&path, "kind: app").expect("it is written");
        let refused = read(&path).expect_err("a workflow is no snapshot").to_string();
        assert!(refused.contains("run.json: the snapshot cannot be read: it is not JSON"), "{refused}");
        assert!(Keep::at(path).is_ok() && Keep::at("run.json".into()).is_ok());
        let refused = write(Path::new("/nowhere/run.json"), "x").expect_err("no such folder");
        assert!(refused.to_string().contains("/nowhere/run.json"), "{refused}");
    }
}
