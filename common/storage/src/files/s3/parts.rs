//! Writes an upload to a bucket as it comes. A small one is one request. A larger one is a multipart upload of S3, one part
//! after the other, so that no more than a part is in memory.
//!
//! If it fails, or the client is gone and its future is dropped, the parts are removed. Only a process that dies in between
//! leaves them; buckets remove such parts by a rule of their life cycle (docs/operations.md).

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt};

use super::failed;
use crate::files::FilesError;
use crate::files::uploads::Pieces;
use tidemill_base::limits::UPLOAD_PART_BYTES;

/// Parts in a bucket, which are removed unless they were made one object.
struct Parts(Option<Box<dyn MultipartUpload>>);

impl Parts {
    /// Writes a part; begins the upload for the first one.
    async fn add(&mut self, store: &dyn ObjectStore, path: &Path, part: Vec<u8>) -> Result<(), FilesError> {
        let upload = match &mut self.0 {
            Some(upload) => upload,
            none => none.insert(store.put_multipart(path).await.map_err(failed)?),
        };
        upload.put_part(part.into()).await.map_err(failed)
    }

    async fn remove(mut self) {
        if let Some(mut upload) = self.0.take() {
            abort(&mut *upload).await;
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let Some(mut upload) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { abort(&mut *upload).await });
        }
    }
}

async fn abort(upload: &mut dyn MultipartUpload) {
    if let Err(error) = upload.abort().await {
        tracing::warn!(%error, "parts of an upload are left in the bucket");
    }
}

/// Writes all pieces as one object; returns the number of bytes.
///
/// # Errors
/// [`FilesError::UploadTooLarge`], [`FilesError::Broken`], or that of the service; nothing is left then.
pub(super) async fn receive(
    store: &dyn ObjectStore,
    path: &Path,
    pieces: Pieces<'_>,
    max: u64,
) -> Result<u64, FilesError> {
    let mut parts = Parts(None);
    match write(store, path, pieces, max, &mut parts).await {
        Ok(size) => Ok(size),
        Err(error) => {
            parts.remove().await;
            Err(error)
        }
    }
}

async fn write(
    store: &dyn ObjectStore,
    path: &Path,
    mut pieces: Pieces<'_>,
    max: u64,
    parts: &mut Parts,
) -> Result<u64, FilesError> {
    let (mut part, mut size) = (Vec::new(), 0_u64);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(FilesError::Broken)?;
        size = size.saturating_add(piece.len() as u64);
        if size > max {
            return Err(FilesError::UploadTooLarge { max });
        }
        part.extend_from_slice(&piece);
        if part.len() >= UPLOAD_PART_BYTES {
            parts.add(store, path, std::mem::take(&mut part)).await?;
        }
    }
    if parts.0.is_none() {
        store.put(path, part.into()).await.map_err(failed)?;
        return Ok(size);
    }
    if !part.is_empty() {
        parts.add(store, path, part).await?;
    }
    if let Some(upload) = &mut parts.0 {
        upload.complete().await.map_err(failed)?;
        parts.0 = None;
    }
    Ok(size)
}
