//! Files that nodes create and read: bytes under a reference, in storage that all processes share
//! (`files.url`), never in Redis.
//!
//! A reference is an unguessable path below the run that created the file, so that the files can be removed
//! with the run. Workers write and read; the owner of a run's shard removes; values carry the reference. Files that
//! clients send before there is a run are [`uploads`]; a run adopts them. Only [`open`] and [`open_uploads`] know the
//! kind of storage (a folder, a bucket).

mod config;
mod folder;
mod names;
mod packages;
mod s3;
mod uploads;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

pub use self::config::FilesConfig;
use tidemill_base::ids::RunId;

pub use folder::Folder;
pub use packages::{Packages, open_packages};
pub use s3::S3;
pub use uploads::{Content, Each, Pieces, Place, Upload, UploadId, Uploads, day_of, open_uploads};

/// The prefix of all files of runs.
const RUNS: &str = "runs";

/// The failure to store, read or remove a file.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The setting is invalid.
    #[error("files.url {url:?} cannot be used: {reason}")]
    Url {
        /// Masked.
        url: String,
        /// The problem, and what to set.
        reason: String,
    },
    /// No file has this reference.
    #[error("there is no file {0:?} (files.url)")]
    Missing(String),
    /// The file is larger than the reader allows.
    #[error("the file has {bytes} bytes, and {max} are allowed")]
    TooLarge {
        /// In bytes.
        bytes: u64,
        /// In bytes.
        max: u64,
    },
    /// An upload is larger than the scheduler allows.
    #[error("the file has more than {max} bytes")]
    UploadTooLarge {
        /// In bytes.
        max: u64,
    },
    /// The bytes of an upload did not all arrive.
    #[error("the upload broke off: {0}")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The folder does not answer, or refuses.
    #[error("the storage of files.url failed: {0}")]
    Folder(#[source] std::io::Error),
    /// The service does not answer, or refuses.
    #[error("the storage of files.url failed: {source}; {hint}")]
    Service {
        /// A setting or fact to check.
        hint: &'static str,
        /// The service's answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The run that creates the file was removed in between.
    #[error("the run {0} has been removed, so it keeps no more files")]
    RunGone(RunId),
    /// The run may not read this file.
    #[error(
        "the run {run} may not read the file {reference:?}: it belongs to a run of another app or user, or to one that was removed"
    )]
    NotOfRun {
        /// The path of the file.
        reference: String,
        /// The run that wants to read.
        run: RunId,
    },
    /// Could not find out whose the file is.
    #[error("the owner of the file cannot be looked up: {0}")]
    Owner(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Could not mark that the run has files.
    #[error("the run cannot be noted as one that has files: {0}")]
    Note(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A storage for files.
#[async_trait]
pub trait Files: fmt::Debug + Send + Sync {
    /// Stores the bytes; returns their reference.
    ///
    /// # Errors
    /// Any [`FilesError`] except [`FilesError::Missing`] and [`FilesError::TooLarge`].
    async fn keep(&self, run: &RunId, bytes: Bytes) -> Result<String, FilesError>;

    /// Reads the bytes of a reference, if there are at most `max`.
    ///
    /// # Errors
    /// Any [`FilesError`]; an invalid reference is [`FilesError::Missing`].
    async fn read(&self, reference: &str, max: u64) -> Result<Bytes, FilesError>;

    /// Removes at most `most` files of a run; returns whether none is left. Missing files are not an error.
    ///
    /// # Errors
    /// [`FilesError::Folder`] or [`FilesError::Service`]; a later call can remove the rest.
    async fn remove(&self, run: &RunId, most: usize) -> Result<bool, FilesError>;
}

/// The storage that `files.url` names. Does not touch it yet, so a process without files needs none.
///
/// # Errors
/// [`FilesError::Url`].
pub fn open(config: &FilesConfig) -> Result<Arc<dyn Files>, FilesError> {
    match config.url.split_once("://") {
        Some(("s3", place)) => Ok(Arc::new(S3::at(place, config)?)),
        Some(_) | None => Ok(Arc::new(Folder::at(&config.url)?)),
    }
}

/// A reference for a new file of a run.
fn new_reference(run: &RunId) -> String {
    format!("{RUNS}/{run}/{}", Uuid::new_v4().simple())
}

/// Whether a text has the form of our references. Values also come from callers, who may have invented one.
fn is_reference(text: &str) -> bool {
    run_of(text).is_some()
}

/// The run whose file a reference names; `None` for a text that is no reference.
pub fn run_of(reference: &str) -> Option<RunId> {
    match reference.split('/').collect::<Vec<_>>().as_slice() {
        [RUNS, run, file] if Uuid::try_parse(file).is_ok() => run.parse().ok(),
        _ => None,
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
            ("ftp://u:hush@x/y", "files.url \"ftp://***@x/***\" cannot be used"),
        ] {
            assert!(kind(url).starts_with(begin), "{url}: {}", kind(url));
        }
    }
}
