//! Files that clients upload, before a run uses them: the bytes and a record about them, in the storage of `files.url`.
//!
//! An upload's id contains the day on which it was made, and its files are below that day (`uploads/<day>/<id>`). So a
//! record is found and whole days are removed without an index in Redis. A run never reads an upload: it adopts it, and
//! then has a file of its own, which stays as long as the run. The record is written last; without one there is no upload.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{FilesConfig, FilesError, Folder, S3, is_reference};
use tidemill_base::ids::RunId;

/// The prefix of all uploads.
pub(super) const UPLOADS: &str = "uploads";
/// Longest record, in bytes: a name and a user are some hundred characters each.
pub(super) const RECORD_BYTES_MAX: u64 = 64 * 1024;

/// The bytes of an upload, as they come.
pub type Pieces<'a> = BoxStream<'a, Result<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

/// Uploads, as they are found.
pub type Each = BoxStream<'static, Result<Upload, FilesError>>;

/// The id of an upload: a UUID of version 7, which contains its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UploadId(Uuid);

impl UploadId {
    /// A new id, which cannot be guessed.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// The day in the id (`2025-01-31`, UTC); `None` for a UUID that was not made here.
    pub fn day(self) -> Option<String> {
        let (seconds, _) = self.0.get_timestamp().filter(|_| self.0.get_version_num() == 7)?.to_unix();
        day_of(i64::try_from(seconds).ok()?)
    }

    /// The place of its bytes.
    pub(super) fn path(self) -> Result<String, FilesError> {
        let missing = || FilesError::Missing(self.to_string());
        Ok(format!("{UPLOADS}/{}/{}", self.day().ok_or_else(missing)?, self.0.simple()))
    }

    /// The place of its record.
    pub(super) fn record_path(self) -> Result<String, FilesError> {
        Ok(format!("{}.json", self.path()?))
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for UploadId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

/// The day of a time in Unix seconds, as in ids of uploads. Days compare as texts. `None` for a time of no calendar.
pub fn day_of(seconds: i64) -> Option<String> {
    DateTime::from_timestamp(seconds, 0).map(|moment| moment.format("%Y-%m-%d").to_string())
}

/// The record of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// The id under which requests name it.
    pub id: UploadId,
    /// The app whose runs may use it; `None`: runs of workflows that come with their request.
    pub app: Option<String>,
    /// The user whose runs may use it.
    pub user: String,
    /// The file's name.
    pub name: String,
    /// With its dot.
    pub extension: String,
    /// The media type.
    pub mime_type: String,
    /// In bytes.
    pub size: u64,
    /// Unix seconds.
    pub created_at: i64,
}

/// A stored file.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// The bytes of an upload.
    Upload(UploadId),
    /// A file of a run, by its reference.
    OfRun(&'a str),
}

/// The bytes of a stored file, as they are read.
pub struct Content {
    /// Their number.
    pub size: u64,
    /// An error ends them.
    pub pieces: Pieces<'static>,
}

impl Place<'_> {
    /// The path in the storage. A text that is no reference names nothing.
    pub(super) fn path(self) -> Result<String, FilesError> {
        match self {
            Self::Upload(id) => id.path(),
            Self::OfRun(reference) if is_reference(reference) => Ok(reference.to_owned()),
            Self::OfRun(reference) => Err(FilesError::Missing(reference.to_owned())),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upload(id) => id.fmt(f),
            Self::OfRun(reference) => f.write_str(reference),
        }
    }
}

/// A storage for uploads.
#[async_trait]
pub trait Uploads: fmt::Debug + Send + Sync {
    /// Stores the bytes of an upload as they come, and returns their number. If it fails or its future is dropped, nothing is
    /// left. At most [`UPLOAD_PART_BYTES`](tidemill_base::limits::UPLOAD_PART_BYTES) are in memory.
    ///
    /// # Errors
    /// [`FilesError::UploadTooLarge`], [`FilesError::Broken`] with the error of the pieces, or that of the storage.
    async fn receive(&self, id: UploadId, pieces: Pieces<'_>, max: u64) -> Result<u64, FilesError>;

    /// Stores the record of an upload, after its bytes. Then requests can name it.
    ///
    /// # Errors
    /// Those of the storage.
    async fn record(&self, upload: &Upload) -> Result<(), FilesError>;

    /// Removes an upload: its record, then its bytes. Missing files are not an error.
    ///
    /// # Errors
    /// Those of the storage.
    async fn forget(&self, id: UploadId) -> Result<(), FilesError>;

    /// Opens a stored file to read it piece by piece.
    ///
    /// # Errors
    /// [`FilesError::Missing`], or that of the storage.
    async fn content(&self, place: Place<'_>) -> Result<Content, FilesError>;

    /// Finds the record of an upload.
    ///
    /// # Errors
    /// [`FilesError::Missing`], or that of the storage.
    async fn find(&self, id: UploadId) -> Result<Upload, FilesError>;

    /// Gives a run its own copy of an upload; returns the reference.
    ///
    /// # Errors
    /// [`FilesError::Missing`], or that of the storage.
    async fn adopt(&self, id: UploadId, run: &RunId) -> Result<String, FilesError>;

    /// Removes a copy that no run has become the owner of.
    ///
    /// # Errors
    /// Those of the storage. A missing file is not an error.
    async fn discard(&self, reference: &str) -> Result<(), FilesError>;

    /// All uploads from a day on (empty: from the first), one day after the other; those of a day in any order. They are read
    /// as they are taken, so a large day needs no more memory than a small one. One that comes or goes meanwhile may be among
    /// them.
    fn each(&self, from_day: &str) -> Each;

    /// Removes at most `most` files of uploads from days before this one; returns whether none is left. It may be done by
    /// several processes at once.
    ///
    /// # Errors
    /// Those of the storage; a later call removes the rest.
    async fn expire(&self, before: &str, most: usize) -> Result<bool, FilesError>;
}

/// The storage of uploads at `files.url`. Does not touch it yet.
///
/// # Errors
/// [`FilesError::Url`].
pub fn open_uploads(config: &FilesConfig) -> Result<Arc<dyn Uploads>, FilesError> {
    match config.url.split_once("://") {
        Some(("s3", place)) => Ok(Arc::new(S3::at(place, config)?)),
        Some(_) | None => Ok(Arc::new(Folder::at(&config.url)?)),
    }
}

/// The text of a record.
pub(super) fn written(upload: &Upload) -> Bytes {
    // A record has only texts and numbers, so writing it as JSON does not fail.
    serde_json::to_vec(upload).unwrap_or_default().into()
}

/// Reads a record. One that cannot be read counts as missing.
pub(super) fn read(id: UploadId, bytes: &[u8]) -> Result<Upload, FilesError> {
    let read = serde_json::from_slice(bytes).ok().filter(|upload: &Upload| upload.id == id);
    read.ok_or_else(|| FilesError::Missing(id.to_string()))
}

/// The uploads whose records are at some of these places.
pub(super) fn recorded<U: Uploads + 'static>(
    uploads: U,
    places: impl Stream<Item = Result<String, FilesError>> + Send + 'static,
) -> Each {
    let uploads = Arc::new(uploads);
    let find = move |place: String| {
        let uploads = uploads.clone();
        async move {
            let Some(id) = id_in(&place) else { return Ok(None) };
            match uploads.find(id).await {
                Ok(upload) => Ok(Some(upload)),
                // It was removed meanwhile.
                Err(FilesError::Missing(_)) => Ok(None),
                Err(error) => Err(error),
            }
        }
    };
    places.try_filter_map(find).boxed()
}

/// The id of the upload whose record is at a place below [`UPLOADS`].
fn id_in(path: &str) -> Option<UploadId> {
    path.rsplit('/').next()?.strip_suffix(".json")?.parse().ok()
}

/// The day of a place below [`UPLOADS`].
pub(super) fn day_in(path: &str) -> Option<&str> {
    path.strip_prefix(UPLOADS)?.strip_prefix('/')?.split('/').next()
}

#[cfg(test)]
pub(super) mod tests;
