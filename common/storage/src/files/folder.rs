//! Files in a folder: local, or on a network file system that all machines mount.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::names::Names;
use super::uploads::{
    self, Content, Each, Pieces, Place, RECORD_BYTES_MAX, UPLOADS, Upload, UploadId, Uploads,
};
use super::{Files, FilesError, RUNS, is_reference, new_reference};
use tidemill_base::hidden::masked_url;
use tidemill_base::ids::RunId;

/// Bytes that are read from a file at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Files in a folder. The folder is created on first use: a worker without files needs none.
#[derive(Debug, Clone)]
pub struct Folder {
    pub(super) path: PathBuf,
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

#[async_trait]
impl Uploads for Folder {
    async fn receive(&self, id: UploadId, pieces: Pieces<'_>, max: u64) -> Result<u64, FilesError> {
        let path = self.path.join(id.path()?);
        if let Some(folder) = path.parent() {
            tokio::fs::create_dir_all(folder).await.map_err(FilesError::Folder)?;
        }
        let part = Part(path.with_extension("part"));
        let size = receive(&part.0, pieces, max).await?;
        tokio::fs::rename(&part.0, &path).await.map_err(FilesError::Folder)?;
        Ok(size)
    }

    async fn forget(&self, id: UploadId) -> Result<(), FilesError> {
        for path in [id.record_path()?, id.path()?] {
            let removed = tokio::fs::remove_file(self.path.join(path)).await;
            removed.or_else(unless_gone).map_err(FilesError::Folder)?;
        }
        Ok(())
    }

    async fn content(&self, place: Place<'_>) -> Result<Content, FilesError> {
        let of_io = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => FilesError::Missing(place.to_string()),
            _ => FilesError::Folder(error),
        };
        let file = tokio::fs::File::open(self.path.join(place.path()?)).await.map_err(of_io)?;
        let size = file.metadata().await.map_err(of_io)?.len();
        Ok(Content { size, pieces: read_pieces(file) })
    }

    async fn record(&self, upload: &Upload) -> Result<(), FilesError> {
        let path = self.path.join(upload.id.record_path()?);
        write(&path, &uploads::written(upload)).await.map_err(FilesError::Folder)
    }

    async fn find(&self, id: UploadId) -> Result<Upload, FilesError> {
        let path = self.path.join(id.record_path()?);
        let of_io = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => FilesError::Missing(id.to_string()),
            _ => FilesError::Folder(error),
        };
        if tokio::fs::metadata(&path).await.map_err(of_io)?.len() > RECORD_BYTES_MAX {
            return Err(FilesError::Missing(id.to_string()));
        }
        uploads::read(id, &tokio::fs::read(&path).await.map_err(of_io)?)
    }

    async fn adopt(&self, id: UploadId, run: &RunId) -> Result<String, FilesError> {
        let reference = new_reference(run);
        let (from, to) = (self.path.join(id.path()?), self.path.join(&reference));
        adopt(&from, &to).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => FilesError::Missing(id.to_string()),
            _ => FilesError::Folder(error),
        })?;
        Ok(reference)
    }

    async fn discard(&self, reference: &str) -> Result<(), FilesError> {
        if !is_reference(reference) {
            return Ok(());
        }
        let removed = tokio::fs::remove_file(self.path.join(reference)).await;
        removed.or_else(unless_gone).map_err(FilesError::Folder)
    }

    fn each(&self, from_day: &str) -> Each {
        let names = Names::new(self.path.join(UPLOADS), from_day);
        let next = async |mut names: Names| {
            let name = names.next().await.map_err(FilesError::Folder)?;
            Ok::<_, FilesError>(name.map(|name| (name, names)))
        };
        uploads::recorded(self.clone(), stream::try_unfold(names, next))
    }

    async fn expire(&self, before: &str, most: usize) -> Result<bool, FilesError> {
        expire(&self.path.join(UPLOADS), before, most).await.map_err(FilesError::Folder)
    }
}

/// A file that is being written. It is removed unless it was renamed, also when the client is gone and the future is
/// dropped.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // Usually it was renamed. What cannot be removed goes with its day.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes pieces as they come; returns the number of bytes.
async fn receive(path: &Path, mut pieces: Pieces<'_>, max: u64) -> Result<u64, FilesError> {
    let mut file = tokio::fs::File::create(path).await.map_err(FilesError::Folder)?;
    let mut size = 0_u64;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(FilesError::Broken)?;
        size = size.saturating_add(piece.len() as u64);
        if size > max {
            return Err(FilesError::UploadTooLarge { max });
        }
        file.write_all(&piece).await.map_err(FilesError::Folder)?;
    }
    file.flush().await.map_err(FilesError::Folder)?;
    Ok(size)
}

/// The bytes of a file, piece by piece.
fn read_pieces(file: tokio::fs::File) -> Pieces<'static> {
    let read = async |mut file: tokio::fs::File| {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        match file.read_buf(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(piece.freeze()), file)),
            Err(error) => Some((Err(error.into()), file)),
        }
    };
    futures_util::stream::unfold(file, read).boxed()
}

/// Makes a second name for a file, or a copy where the file system has only one name for each file.
async fn adopt(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(folder) = to.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    match tokio::fs::hard_link(from, to).await {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let beside = to.with_extension("part");
            tokio::fs::copy(from, &beside).await?;
            tokio::fs::rename(&beside, to).await
        }
        linked => linked,
    }
}

/// Removes files of days before one, and the folders of those days. What is not ours there (a file beside the days, a folder
/// in one) stays, and does not stop the removal of the rest.
async fn expire(root: &Path, before: &str, most: usize) -> std::io::Result<bool> {
    let mut days = match tokio::fs::read_dir(root).await {
        Err(error) if is_gone(&error) => return Ok(true),
        days => days?,
    };
    let mut left = most;
    while let Some(day) = days.next_entry().await? {
        if day.file_name().to_str().is_none_or(|day| day >= before) {
            continue;
        }
        if !is_folder(&day).await? {
            continue;
        }
        let mut files = match tokio::fs::read_dir(day.path()).await {
            Err(error) if is_gone(&error) => continue,
            files => files?,
        };
        while let Some(file) = files.next_entry().await? {
            if left == 0 {
                return Ok(false);
            }
            if is_folder(&file).await? {
                continue;
            }
            left -= 1;
            tokio::fs::remove_file(file.path()).await.or_else(unless_gone)?;
        }
        match tokio::fs::remove_dir(day.path()).await {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            removed => removed.or_else(unless_gone)?,
        }
    }
    Ok(true)
}

/// False for something that has gone meanwhile.
async fn is_folder(entry: &tokio::fs::DirEntry) -> std::io::Result<bool> {
    match entry.file_type().await {
        Err(error) if is_gone(&error) => Ok(false),
        kind => kind.map(|kind| kind.is_dir()),
    }
}

/// Writes a temporary file and renames it, so that readers never see half a file.
pub(super) async fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
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
    async fn uploads_are_kept_adopted_and_expire() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
        uploads::tests::contract(&files, &files).await;
        uploads::tests::failures(&files).await;
        // A half upload leaves no part.
        let mut days = std::fs::read_dir(folder.path().join(UPLOADS)).unwrap();
        let left: Vec<_> =
            days.by_ref().flat_map(|day| std::fs::read_dir(day.unwrap().path()).unwrap()).collect();
        assert_eq!(left.len(), 0, "{left:?}");
    }

    #[tokio::test]
    async fn strays_beside_the_uploads_do_not_stop_their_removal() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
        let uploads = folder.path().join(UPLOADS);
        for day in ["1999-01-01", "1999-01-02", "2999-01-01"] {
            std::fs::create_dir_all(uploads.join(day)).unwrap();
            std::fs::write(uploads.join(day).join("x"), "1").unwrap();
        }
        std::fs::create_dir(uploads.join("1999-01-01/stray")).unwrap();
        for stray in [".DS_Store", "1998", "README"] {
            std::fs::write(uploads.join(stray), "1").unwrap();
        }
        assert!(files.expire("2000-01-01", 100).await.unwrap());
        let mut left: Vec<_> = std::fs::read_dir(&uploads)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [".DS_Store", "1998", "1999-01-01", "2999-01-01", "README"]);
        assert!(!uploads.join("1999-01-01/x").exists() && uploads.join("2999-01-01/x").exists());
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
