//! Files in a folder: local, or on a network file system that all machines mount.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;

use super::{Files, FilesError, RUNS, is_reference, new_reference};
use tidemill_base::hidden::masked_url;
use tidemill_base::ids::RunId;

/// Files in a folder. The folder is created on first use: a worker without files needs none.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder that `files.url` names. Does not touch it yet.
    ///
    /// # Errors
    /// [`FilesError::Url`].
    pub fn at(url: &str) -> Result<Self, FilesError> {
        let path = match url.split_once("://") {
            None if !url.is_empty() => url,
            Some(("file", path)) if path.starts_with('/') => path,
            None | Some(_) => {
                let reason = "it is neither a folder, file:///folder nor s3://bucket/prefix".to_owned();
                return Err(FilesError::Url { url: masked_url(url), reason });
            }
        };
        Ok(Self { path: path.into() })
    }
}

#[async_trait]
impl Files for Folder {
    async fn keep(&self, run: &RunId, bytes: Bytes) -> Result<String, FilesError> {
        let reference = new_reference(run);
        let path = self.path.join(&reference);
        write(&path, &bytes).await.map_err(FilesError::Folder)?;
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
            _ => FilesError::Folder(error),
        };
        let bytes = tokio::fs::metadata(&path).await.map_err(of_io)?.len();
        if bytes > max {
            return Err(FilesError::TooLarge { bytes, max });
        }
        Ok(tokio::fs::read(&path).await.map_err(of_io)?.into())
    }

    async fn remove(&self, run: &RunId, most: usize) -> Result<bool, FilesError> {
        remove(&self.path, run, most).await.map_err(FilesError::Folder)
    }
}

/// Writes a temporary file and renames it, so that readers never see half a file.
async fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    let beside = path.with_extension("part");
    tokio::fs::write(&beside, bytes).await?;
    tokio::fs::rename(&beside, path).await
}

/// Removes files of a run one by one and then its folder.
async fn remove(root: &Path, run: &RunId, most: usize) -> std::io::Result<bool> {
    let folder = root.join(RUNS).join(run.to_string());
    let mut entries = match tokio::fs::read_dir(&folder).await {
        // If the root is missing (for example not mounted), the files may still exist elsewhere, so that is
        // an error.
        Err(error) if is_gone(&error) => return tokio::fs::metadata(root).await.map(|_| true),
        entries => entries?,
    };
    let mut left = most;
    while let Some(entry) = entries.next_entry().await? {
        if left == 0 {
            return Ok(false);
        }
        left -= 1;
        tokio::fs::remove_file(entry.path()).await.or_else(unless_gone)?;
    }
    tokio::fs::remove_dir(&folder).await.or_else(unless_gone)?;
    Ok(true)
}

fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
}
/// A missing file counts as removed.
fn unless_gone(error: std::io::Error) -> std::io::Result<()> {
    if is_gone(&error) { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use tidemill_base::ids::ShardId;

    #[tokio::test]
    async fn stored_bytes_can_be_read_within_a_limit() {
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
    async fn unknown_references_name_nothing() {
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
        for url in ["", "ftp://x/y", "file://x", "http://bucket"] {
            assert!(matches!(Folder::at(url), Err(FilesError::Url { .. })), "{url}");
        }
    }

    #[tokio::test]
    async fn the_files_of_a_run_are_removed_in_pieces_and_those_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
        let (run, other) = (RunId::generate(ShardId(0)), RunId::generate(ShardId(0)));
        let stays = files.keep(&other, Bytes::from_static(b"1")).await.unwrap();
        for _ in 0..3 {
            files.keep(&run, Bytes::from_static(b"1")).await.unwrap();
        }
        // A file left by a worker that died during a write is removed, too.
        std::fs::write(folder.path().join(format!("runs/{run}/x.part")), "").unwrap();
        for done in [false, true, true] {
            assert_eq!(files.remove(&run, 3).await.unwrap(), done);
        }
        assert!(!folder.path().join(format!("runs/{run}")).exists());
        assert_eq!(files.read(&stays, 1).await.unwrap(), "1");
    }

    #[tokio::test]
    async fn a_place_that_is_not_there_is_not_taken_for_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::at(folder.path().join("elsewhere").to_str().unwrap()).unwrap();
        let removed = files.remove(&RunId::generate(ShardId(0)), 1).await;
        assert!(matches!(removed, Err(FilesError::Folder(_))), "{removed:?}");
    }
}
