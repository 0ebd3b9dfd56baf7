//! Files that a plugin uploads. They become files of the run.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use tidemill_plugins::process::{Offered, Upload};

use super::Answering;

impl Answering<'_> {
    /// The address to which the SDK sends a file.
    pub(super) fn upload_address(&self) -> Json {
        json!({"url": Offered::upload_address(&self.place)})
    }

    /// Stores a file that was sent there.
    pub(super) async fn keep(&self, upload: Upload) -> Result<Json, String> {
        let Upload { filename, mime_type, bytes } = upload;
        let size = bytes.len();
        let reference = self.keep_bytes(bytes).await?;
        let extension = Path::new(&filename).extension().unwrap_or_default().to_string_lossy().into_owned();
        Ok(json!({
            "id": reference, "name": filename, "size": size, "extension": extension, "mime_type": mime_type,
            "preview_url": null,
        }))
    }

    /// Stores the content of a file of the run, and returns its reference.
    pub(super) async fn keep_bytes(&self, bytes: Bytes) -> Result<String, String> {
        let (size, bounds) = (bytes.len() as u64, &self.asker.http.bounds);
        let (most, all) = (bounds.file_bytes_max, bounds.upload_bytes_max);
        if size > most {
            return Err(format!("the file has {size} bytes, and {most} are allowed (http.file_bytes_max)"));
        }
        let counted = Counted::new(&self.kept, size, all).ok_or_else(|| {
            format!("the files of the invocation have more than {all} bytes (http.upload_bytes_max)")
        })?;
        let kept = self.asker.files.keep(self.asker.run, bytes).await;
        let reference = kept.map_err(|error| format!("the file cannot be stored: {error}"))?;
        counted.stay();
        Ok(reference)
    }
}

/// The bytes of a file that is being stored. Dropping it gives them back.
struct Counted<'a> {
    all: &'a AtomicU64,
    size: u64,
}

impl<'a> Counted<'a> {
    /// Counts a file, unless there would be more bytes than `most`.
    fn new(all: &'a AtomicU64, size: u64, most: u64) -> Option<Self> {
        let add = |before: u64| before.checked_add(size).filter(|sum| *sum <= most);
        all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Self { all, size })
    }

    /// The file is stored.
    fn stay(mut self) {
        self.size = 0;
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_stored_count() {
        let all = AtomicU64::new(0);
        Counted::new(&all, 6, 10).unwrap().stay();
        assert!(Counted::new(&all, 5, 10).is_none());
        drop(Counted::new(&all, 4, 10).unwrap());
        assert_eq!(all.load(Ordering::Relaxed), 6);
        assert!(Counted::new(&all, 4, 10).is_some());
    }
}
