//! Files that a plugin uploads. They become files of the run.

use std::path::Path;
use std::sync::atomic::Ordering;

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
        let before = self.kept.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > all {
            return Err(format!(
                "the files of the invocation have more than {all} bytes (http.upload_bytes_max)"
            ));
        }
        let kept = self.asker.files.keep(self.asker.run, bytes).await;
        kept.map_err(|error| format!("the file cannot be stored: {error}"))
    }
}
