//! Files that nodes make and read: bytes under a reference, in a folder that all workers share (`files.url`), never in Redis.
//!
//! A reference is a path that nobody can guess, below the run that made the file, so that whoever removes a run can
//! remove its files. Workers write and read; values carry the reference.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use crate::ids::RunId;

/// Under which all files of runs lie.
const RUNS: &str = "runs";

/// Why a file cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The setting.
    #[error("files.url {url:?} cannot be used: {reason}")]
    Url {
        /// What it says.
        url: String,
        /// Why not.
        reason: String,
    },
    /// No file has this name.
    #[error("there is no file {0:?} (files.url)")]
    Missing(String),
    /// It is larger than whoever reads it can take.
    #[error("the file has {bytes} bytes, and {max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// The place does not answer, or refuses.
    #[error("files.url does not serve: {0}")]
    Place(#[source] std::io::Error),
}

/// A place for files.
#[async_trait]
pub trait Files: fmt::Debug + Send + Sync {
    /// Keeps the bytes; the answer is their reference.
    ///
    /// # Errors
    /// [`FilesError::Url`] or [`FilesError::Place`].
    async fn keep(&self, run: &RunId, bytes: Bytes) -> Result<String, FilesError>;

    /// The bytes of a reference, if there are at most `max`.
    ///
    /// # Errors
    /// Any [`FilesError`]; a text that was never a reference is [`FilesError::Missing`].
    async fn read(&self, reference: &str, max: u64) -> Result<Bytes, FilesError>;
}

/// Files in a folder, which is made at the first use: a worker that touches no files needs none.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder that `files.url` names. Nothing is touched yet.
    ///
    /// # Errors
    /// [`FilesError::Url`].
    pub fn at(url: &str) -> Result<Self, FilesError> {
        let path = match url.split_once("://") {
            None if !url.is_empty() => url,
            Some(("file", path)) if path.starts_with('/') => path,
            None | Some(_) => {
                let reason = "it is neither a folder nor file:///folder".to_owned();
                return Err(FilesError::Url { url: url.to_owned(), reason });
            }
        };
        Ok(Self { path: path.into() })
    }
}

#[async_trait]
impl Files for Folder {
    async fn keep(&self, run: &RunId, bytes: Bytes) -> Result<String, FilesError> {
        let reference = format!("{RUNS}/{run}/{}", Uuid::new_v4().simple());
        let path = self.path.join(&reference);
        write(&path, &bytes).await.map_err(FilesError::Place)?;
        Ok(reference)
    }

    async fn read(&self, reference: &str, max: u64) -> Result<Bytes, FilesError> {
        let missing = || FilesError::Missing(reference.to_owned());
        if !is_reference(reference) {
            return Err(missing());
        }
        let path = self.path.join(reference);
        let of_io = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => missing(),
            _ => FilesError::Place(error),
        };
        let bytes = tokio::fs::metadata(&path).await.map_err(of_io)?.len();
        if bytes > max {
            return Err(FilesError::TooLarge { bytes, max });
        }
        Ok(tokio::fs::read(&path).await.map_err(of_io)?.into())
    }
}

/// Writes beside and renames, so that nobody ever reads half a file.
async fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    let beside = path.with_extension("part");
    tokio::fs::write(&beside, bytes).await?;
    tokio::fs::rename(&beside, path).await
}

/// Whether a text is a reference of the kind that is given out here: values come from callers too, who may have made
/// one up.
fn is_reference(text: &str) -> bool {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [RUNS, run, file] => run.parse::<RunId>().is_ok() && Uuid::try_parse(file).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ShardId;

    #[tokio::test]
    async fn what_is_kept_can_be_read_within_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().join("files").display().to_string();
        for url in [url.clone(), format!("file://{url}")] {
            let files = Folder::at(&url).unwrap();
            let reference =
                files.keep(&RunId::generate(ShardId(1)), Bytes::from_static(b"12345")).await.unwrap();
            assert_eq!(files.read(&reference, 5).await.unwrap(), "12345");
            assert!(matches!(
                files.read(&reference, 4).await,
                Err(FilesError::TooLarge { bytes: 5, max: 4 })
            ));
        }
    }

    #[tokio::test]
    async fn references_that_were_never_given_out_name_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        let files = Folder::at(&folder.path().display().to_string()).unwrap();
        let (run, file) = (RunId::generate(ShardId(0)), Uuid::new_v4().simple());
        for reference in [
            "secret",
            "runs/../secret",
            "",
            "/etc/passwd",
            &format!("runs/{run}/{file}"),
            &format!("runs/x/{file}"),
        ] {
            assert!(matches!(files.read(reference, 9).await, Err(FilesError::Missing(_))), "{reference}");
        }
    }

    #[test]
    fn places_of_other_kinds_are_refused() {
        for url in ["", "ftp://x/y", "file://x", "s3://bucket"] {
            assert!(matches!(Folder::at(url), Err(FilesError::Url { .. })), "{url}");
        }
    }
}
