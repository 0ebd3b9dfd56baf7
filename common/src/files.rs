//! Files that nodes make and read: bytes under a reference, in a folder or a bucket (`files.url`), never in Redis.
//!
//! A reference is a path that nobody can guess, below the run that made the file, so that whoever removes a run can
//! remove its files. Workers write and read; values carry the reference.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tokio::sync::OnceCell;
use url::Url;
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
    Place(#[source] object_store::Error),
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

/// Files in a folder or a bucket.
#[derive(Debug)]
pub struct Objects {
    at: At,
    /// Opened at the first use: a worker that touches no files needs no place for them.
    open: OnceCell<(Arc<dyn ObjectStore>, Path)>,
}

#[derive(Debug)]
enum At {
    Folder(PathBuf),
    Url(Url),
}

impl Objects {
    /// The place that `files.url` names. Nothing is touched yet. For `s3://bucket/prefix` keys, region and endpoint come
    /// from the environment under their usual names (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT`, …).
    ///
    /// # Errors
    /// [`FilesError::Url`].
    pub fn at(url: &str) -> Result<Self, FilesError> {
        let wrong = |reason: &str| FilesError::Url { url: url.to_owned(), reason: reason.to_owned() };
        if url.is_empty() {
            return Err(wrong("it is empty; give a folder or s3://bucket/prefix"));
        }
        let at = match url.split_once("://") {
            None => At::Folder(url.into()),
            Some(("file", _)) => {
                let parsed = Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
                At::Folder(parsed.ok_or_else(|| wrong("it is not file:///folder"))?)
            }
            Some(("s3", _)) => At::Url(Url::parse(url).map_err(|error| wrong(&error.to_string()))?),
            Some(_) => return Err(wrong("it is none of a folder, file:///folder and s3://bucket/prefix")),
        };
        Ok(Self { at, open: OnceCell::new() })
    }

    async fn open(&self) -> Result<&(Arc<dyn ObjectStore>, Path), FilesError> {
        self.open
            .get_or_try_init(async || match &self.at {
                At::Folder(folder) => {
                    let wrong = |reason: String| FilesError::Url { url: folder.display().to_string(), reason };
                    tokio::fs::create_dir_all(folder).await.map_err(|error| wrong(error.to_string()))?;
                    let store = LocalFileSystem::new_with_prefix(folder);
                    let store = store.map_err(|error| wrong(error.to_string()))?;
                    Ok((Arc::new(store) as Arc<dyn ObjectStore>, Path::default()))
                }
                At::Url(url) => {
                    let own = std::env::vars().map(|(name, value)| (name.to_ascii_lowercase(), value));
                    let own = own.filter(|(name, _)| name.starts_with("aws_"));
                    let opened = object_store::parse_url_opts(url, own);
                    let (store, prefix) = opened
                        .map_err(|error| FilesError::Url { url: url.to_string(), reason: error.to_string() })?;
                    Ok((Arc::from(store), prefix))
                }
            })
            .await
    }
}

#[async_trait]
impl Files for Objects {
    async fn keep(&self, run: &RunId, bytes: Bytes) -> Result<String, FilesError> {
        let (store, prefix) = self.open().await?;
        let reference = format!("{RUNS}/{run}/{}", Uuid::new_v4().simple());
        let path: Path = prefix.parts().chain(Path::from(reference.as_str()).parts()).collect();
        store.put(&path, PutPayload::from(bytes)).await.map_err(FilesError::Place)?;
        Ok(reference)
    }

    async fn read(&self, reference: &str, max: u64) -> Result<Bytes, FilesError> {
        let missing = || FilesError::Missing(reference.to_owned());
        let own = own_path(reference).ok_or_else(missing)?;
        let (store, prefix) = self.open().await?;
        let path: Path = prefix.parts().chain(own.parts()).collect();
        let found = store.get(&path).await.map_err(|error| match error {
            object_store::Error::NotFound { .. } => missing(),
            error => FilesError::Place(error),
        })?;
        let bytes = found.meta.size;
        if bytes > max {
            return Err(FilesError::TooLarge { bytes, max });
        }
        let mut content = BytesMut::new();
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.next().await {
            content.extend_from_slice(&piece.map_err(FilesError::Place)?);
        }
        Ok(content.freeze())
    }
}

/// The path of a reference that this module gave out: values come from callers too, who may have made one up.
fn own_path(reference: &str) -> Option<Path> {
    let mut parts = reference.split('/');
    let (runs, run, file, end) = (parts.next()?, parts.next()?, parts.next()?, parts.next());
    let known = runs == RUNS && run.parse::<RunId>().is_ok() && Uuid::try_parse(file).is_ok() && end.is_none();
    known.then(|| Path::from(reference))
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
            let files = Objects::at(&url).unwrap();
            let reference = files.keep(&RunId::generate(ShardId(1)), Bytes::from_static(b"12345")).await.unwrap();
            assert_eq!(files.read(&reference, 5).await.unwrap(), "12345");
            assert!(matches!(files.read(&reference, 4).await, Err(FilesError::TooLarge { bytes: 5, max: 4 })));
        }
    }

    #[tokio::test]
    async fn references_that_were_never_given_out_name_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        let files = Objects::at(&folder.path().display().to_string()).unwrap();
        let (run, file) = (RunId::generate(ShardId(0)), Uuid::new_v4().simple());
        for reference in ["secret", "runs/../secret", "", "/etc/passwd", &format!("runs/{run}/{file}"), &format!("runs/x/{file}")] {
            assert!(matches!(files.read(reference, 9).await, Err(FilesError::Missing(_))), "{reference}");
        }
    }

    #[test]
    fn places_of_other_kinds_are_refused() {
        for url in ["", "ftp://x/y", "s3://"] {
            assert!(matches!(Objects::at(url), Err(FilesError::Url { .. })), "{url}");
        }
    }
}
