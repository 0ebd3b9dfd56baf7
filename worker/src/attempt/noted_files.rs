//! File storage that notes in Redis that a run has files before it writes the first one. A file Redis does not know
//! about would never be deleted. The cleanup of the run then removes its files.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::files::{Files, FilesError};
use tidemill_common::ids::RunId;
use tidemill_common::store::Jobs;

use crate::jobs::backoff::Backoff;

/// File storage with notes; see the module.
pub(crate) struct NotedFiles {
    files: Arc<dyn Files>,
    jobs: Arc<dyn Jobs>,
}

impl NotedFiles {
    pub(crate) fn new(files: Arc<dyn Files>, jobs: Arc<dyn Jobs>) -> Self {
        Self { files, jobs }
    }
}

impl NotedFiles {
    /// Notes in Redis that the run has files. Waits while the store does not answer. Returns false when the run no
    /// longer exists.
    async fn note(&self, run: &RunId) -> Result<bool, FilesError> {
        let mut backoff = Backoff::default();
        loop {
            match self.jobs.note_files(*run).await {
                Ok(is_there) => return Ok(is_there),
                Err(error) if error.is_passing() => backoff.wait().await,
                Err(error) => return Err(FilesError::Note(error.into())),
            }
        }
    }
}

impl fmt::Debug for NotedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

#[async_trait]
impl Files for NotedFiles {
    async fn keep(&self, run: &RunId, bytes: Bytes) -> Result<String, FilesError> {
        if !self.note(run).await? {
            return Err(FilesError::RunGone(*run));
        }
        crash::pass(CrashPoint::FilesNoted);
        let reference = self.files.keep(run, bytes).await?;
        crash::pass(CrashPoint::FileKept);
        Ok(reference)
    }

    async fn read(&self, reference: &str, max: u64) -> Result<Bytes, FilesError> {
        self.files.read(reference, max).await
    }

    async fn remove(&self, run: &RunId, most: usize) -> Result<bool, FilesError> {
        self.files.remove(run, most).await
    }
}
