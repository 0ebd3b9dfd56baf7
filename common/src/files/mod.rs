//! Files that nodes make and read: bytes under a reference, in a place that all processes share (`files.url`), never in Redis.
//!
//! A reference is a path that nobody can guess, below the run that made the file, so that whoever removes a run can
//! remove its files. Workers write and read, the owner of a run's shard removes; values carry the reference. What a
//! place is (a folder, a bucket) is told apart by [`open`] and known to nobody else.

mod folder;
mod s3;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use crate::config::FilesConfig;
use crate::ids::RunId;

pub use folder::Folder;
pub use s3::S3;

/// Under which all files of runs lie.
const RUNS: &str = "runs";

/// Why a file cannot be kept, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The setting.
    #[error("files.url {url:?} cannot be used: {reason}")]
    Url {
        /// What it says.
        url: String,
        /// Why not, and what to set.
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
    /// The folder does not answer, or refuses.
    #[error("files.url does not serve: {0}")]
    Place(#[source] std::io::Error),
    /// The service does not answer, or refuses.
    #[error("files.url does not serve: {hint}: {source}")]
    Service {
        /// What to look at.
        hint: &'static str,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The run that makes the file was removed meanwhile.
    #[error("the run {0} has been removed, so it keeps no more files")]
    RunGone(RunId),
    /// That the run has files cannot be noted.
    #[error("the run cannot be noted as one that has files: {0}")]
    Note(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A place for files.
#[async_trait]
pub trait Files: fmt::Debug + Send + Sync {
    /// Keeps the bytes; the answer is their reference.
    ///
    /// # Errors
    /// Any [`FilesError`] but [`FilesError::Missing`] and [`FilesError::TooLarge`].
    async fn keep(&self, run: &RunId, bytes: Bytes) -> Result<String, FilesError>;

    /// The bytes of a reference, if there are at most `max`.
    ///
    /// # Errors
    /// Any [`FilesError`]; a text that was never a reference is [`FilesError::Missing`].
    async fn read(&self, reference: &str, max: u64) -> Result<Bytes, FilesError>;

    /// Removes files of a run, at most `most`; answers whether none is left. Files that are gone already are no error.
    ///
    /// # Errors
    /// [`FilesError::Place`] or [`FilesError::Service`]; what was not removed can be removed by a later call.
    async fn remove(&self, run: &RunId, most: usize) -> Result<bool, FilesError>;
}

/// The place that `files.url` names. Nothing is touched yet, so a process that meets no files needs none.
///
/// # Errors
/// [`FilesError::Url`].
pub fn open(config: &FilesConfig) -> Result<Arc<dyn Files>, FilesError> {
    match config.url.split_once("://") {
        Some(("s3", place)) => Ok(Arc::new(S3::at(place, config)?)),
        Some(_) | None => Ok(Arc::new(Folder::at(&config.url)?)),
    }
}

/// A name for a new file of a run.
fn new_reference(run: &RunId) -> String {
    format!("{RUNS}/{run}/{}", Uuid::new_v4().simple())
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

    #[test]
    fn the_url_says_which_kind_of_place_it_is() {
        let kind = |url: &str| {
            let config = FilesConfig { url: url.into(), region: "r".into(), ..FilesConfig::default() };
            open(&config).map_or_else(|error| error.to_string(), |files| format!("{files:?}"))
        };
        for (url, begin) in [
            ("folder", "Folder"),
            ("file:///folder", "Folder"),
            ("s3://bucket", "S3"),
            ("s3://bucket/a/prefix/", "S3"),
            ("s3://", "files.url \"s3://\" cannot be used"),
            ("ftp://x/y", "files.url \"ftp://x/y\" cannot be used"),
        ] {
            assert!(kind(url).starts_with(begin), "{url}: {}", kind(url));
        }
    }
}
