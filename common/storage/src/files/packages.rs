//! Packages of plugins in the storage of files, by the SHA-256 of their files. Where no storage is set, Redis has them.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ObjectStoreExt;

use super::config::FilesConfig;
use super::{FilesError, Folder, S3, folder, s3};

/// The prefix of all packages.
const PLUGINS: &str = "plugins";

/// A storage for packages.
#[async_trait]
pub trait Packages: fmt::Debug + Send + Sync {
    /// Stores a package.
    ///
    /// # Errors
    /// The storage failed.
    async fn put(&self, hash: &str, bytes: Bytes) -> Result<(), FilesError>;

    /// Reads a package of at most `max` bytes.
    ///
    /// # Errors
    /// Any [`FilesError`].
    async fn get(&self, hash: &str, max: u64) -> Result<Bytes, FilesError>;

    /// Removes a package. A missing one is no error.
    ///
    /// # Errors
    /// The storage failed.
    async fn remove(&self, hash: &str) -> Result<(), FilesError>;
}

/// The storage that `files.url` names; `None` where it has its default, a folder that other hosts may not have.
///
/// # Errors
/// [`FilesError::Url`].
pub fn open_packages(config: &FilesConfig) -> Result<Option<Arc<dyn Packages>>, FilesError> {
    if config.url == FilesConfig::default().url {
        return Ok(None);
    }
    match config.url.split_once("://") {
        Some(("s3", place)) => Ok(Some(Arc::new(S3::at(place, config)?))),
        Some(_) | None => Ok(Some(Arc::new(Folder::at(&config.url)?))),
    }
}

/// The path of a package.
fn reference(hash: &str) -> Result<String, FilesError> {
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Ok(format!("{PLUGINS}/{hash}")) } else { Err(FilesError::Missing(hash.to_owned())) }
}

#[async_trait]
impl Packages for Folder {
    async fn put(&self, hash: &str, bytes: Bytes) -> Result<(), FilesError> {
        folder::write(&self.path.join(reference(hash)?), &bytes).await.map_err(FilesError::Folder)
    }

    async fn get(&self, hash: &str, max: u64) -> Result<Bytes, FilesError> {
        let reference = reference(hash)?;
        let path = self.path.join(&reference);
        let of_io = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => FilesError::Missing(reference.clone()),
            _ => FilesError::Folder(error),
        };
        let bytes = tokio::fs::metadata(&path).await.map_err(of_io)?.len();
        if bytes > max {
            return Err(FilesError::TooLarge { bytes, max });
        }
        Ok(tokio::fs::read(&path).await.map_err(of_io)?.into())
    }

    async fn remove(&self, hash: &str) -> Result<(), FilesError> {
        match tokio::fs::remove_file(self.path.join(reference(hash)?)).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(FilesError::Folder(error)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Packages for S3 {
    async fn put(&self, hash: &str, bytes: Bytes) -> Result<(), FilesError> {
        let stored = self.store.put(&self.path(&reference(hash)?), bytes.into()).await;
        stored.map(drop).map_err(s3::failed)
    }

    async fn get(&self, hash: &str, max: u64) -> Result<Bytes, FilesError> {
        self.get(&reference(hash)?, max).await
    }

    async fn remove(&self, hash: &str) -> Result<(), FilesError> {
        self.delete(vec![self.path(&reference(hash)?)]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_package_is_stored_read_and_removed_under_its_hash_alone() {
        let folder = tempfile::tempdir().unwrap();
        let config = |url: &str| FilesConfig { url: url.into(), ..FilesConfig::default() };
        assert!(open_packages(&FilesConfig::default()).unwrap().is_none());
        let packages = open_packages(&config(&folder.path().display().to_string())).unwrap().unwrap();
        let hash = "ab".repeat(32);
        packages.put(&hash, Bytes::from_static(b"zip")).await.unwrap();
        assert_eq!(packages.get(&hash, 10).await.unwrap(), Bytes::from_static(b"zip"));
        assert!(matches!(packages.get(&hash, 2).await, Err(FilesError::TooLarge { .. })));
        for wrong in ["../../etc/passwd", "ab", ""] {
            assert!(matches!(packages.get(wrong, 10).await, Err(FilesError::Missing(_))), "{wrong}");
        }
        packages.remove(&hash).await.unwrap();
        packages.remove(&hash).await.unwrap();
        assert!(matches!(packages.get(&hash, 10).await, Err(FilesError::Missing(_))));
    }
}
