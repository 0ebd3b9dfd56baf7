//! The file storage as one run may read it. File objects are values: code, a model or a tool can write one with the path of
//! any file. So before bytes are read, the run that the path names is looked up. A run may read its own files, those of runs of
//! the same app and user, and those that the operator has handed to it in its inputs. A sub-workflow run counts as a part of the
//! run that called it.
//!
//! A file of the run itself, the usual case, costs no request to the store.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tidemill_common::files::{Files, FilesError, run_of};
use tidemill_common::ids::RunId;
use tidemill_common::limits::CALL_DEPTH_MAX;
use tidemill_common::store::{Jobs, RunOwner};

use crate::jobs::backoff::Backoff;

/// The storage for one run; see the module.
pub(crate) struct OwnFiles<'a> {
    files: &'a dyn Files,
    jobs: &'a dyn Jobs,
    run: RunId,
    allowed: Allowed,
}

/// Other runs whose files a run may read, as far as it has asked.
#[derive(Debug, Default)]
pub(crate) struct Allowed(Mutex<BTreeSet<RunId>>);

impl<'a> OwnFiles<'a> {
    pub(crate) fn new(files: &'a dyn Files, jobs: &'a dyn Jobs, run: RunId) -> Self {
        Self { files, jobs, run, allowed: Allowed::default() }
    }
}

impl fmt::Debug for OwnFiles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

#[async_trait]
impl Files for OwnFiles<'_> {
    async fn keep(&self, run: &RunId, bytes: Bytes) -> Result<String, FilesError> {
        self.files.keep(run, bytes).await
    }

    async fn read(&self, reference: &str, max: u64) -> Result<Bytes, FilesError> {
        self.allowed.check(self.jobs, self.run, reference).await?;
        self.files.read(reference, max).await
    }

    async fn remove(&self, run: &RunId, most: usize) -> Result<bool, FilesError> {
        self.files.remove(run, most).await
    }
}

impl Allowed {
    /// Checks that `reader` may read a file. It is asked once about each other run: an agent shows the same files to a model
    /// in each round. A text that is no reference is left to the storage, which has no such file.
    ///
    /// # Errors
    /// [`FilesError::NotOfRun`], or [`FilesError::Owner`] when the store refuses to answer.
    pub(crate) async fn check(
        &self,
        jobs: &dyn Jobs,
        reader: RunId,
        reference: &str,
    ) -> Result<(), FilesError> {
        let Some(of) = run_of(reference).filter(|run| *run != reader && !self.has(*run)) else {
            return Ok(());
        };
        let (ours, theirs) = (root_owner(jobs, reader).await?, root_owner(jobs, of).await?);
        if !may_read(ours.as_ref(), theirs.as_ref(), of) {
            return Err(FilesError::NotOfRun { reference: reference.to_owned(), run: reader });
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(of);
        Ok(())
    }

    fn has(&self, run: RunId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&run)
    }
}

/// Decides whether a run may read files of the run `of`, by the owners of the runs at the top of their chains of calls. A run
/// that is gone has no owner.
fn may_read(ours: Option<&RunOwner>, theirs: Option<&RunOwner>, of: RunId) -> bool {
    let Some(ours) = ours else { return false };
    let is_same = |theirs: &RunOwner| (&theirs.app, &theirs.user) == (&ours.app, &ours.user);
    ours.handed.contains(&of) || theirs.is_some_and(is_same)
}

/// The owner of the run at the top of a chain of calls; `None` if a run of the chain is gone.
async fn root_owner(jobs: &dyn Jobs, mut run: RunId) -> Result<Option<RunOwner>, FilesError> {
    for _ in 0..=CALL_DEPTH_MAX {
        let Some(owner) = owner_of(jobs, run).await? else { return Ok(None) };
        let Some(caller) = owner.caller else { return Ok(Some(owner)) };
        run = caller;
    }
    Ok(None)
}

/// Reads whose a run is. Waits while the store does not answer.
async fn owner_of(jobs: &dyn Jobs, run: RunId) -> Result<Option<RunOwner>, FilesError> {
    let mut backoff = Backoff::default();
    loop {
        match jobs.owner_of_run(run).await {
            Ok(owner) => return Ok(owner),
            Err(error) if error.is_passing() => backoff.wait().await,
            Err(error) => return Err(FilesError::Owner(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_common::ids::ShardId;

    use super::*;
    use crate::tests::fake::FakeJobs;

    #[tokio::test]
    async fn the_store_is_asked_once_about_each_other_run_and_never_about_the_run_itself() {
        // It knows no run.
        let (jobs, reader, known) =
            (FakeJobs::new(), RunId::generate(ShardId(1)), RunId::generate(ShardId(1)));
        let allowed = Allowed(Mutex::new(BTreeSet::from([known])));
        let path = |run: RunId| format!("runs/{run}/{}", "0".repeat(32));
        for (reference, is_refused) in [
            (path(reader), false),
            (path(known), false),
            (path(RunId::generate(ShardId(1))), true),
            ("no reference".to_owned(), false),
        ] {
            let checked = allowed.check(&*jobs, reader, &reference).await;
            assert_eq!(checked.is_err(), is_refused, "{reference}: {checked:?}");
        }
    }

    #[test]
    fn a_run_reads_files_of_its_app_and_user_and_those_that_the_operator_hands_to_it() {
        let of = RunId::generate(ShardId(1));
        let owner = |app: Option<&str>, user: &str, handed: &[RunId]| RunOwner {
            app: app.map(str::to_owned),
            user: user.to_owned(),
            caller: None,
            handed: handed.iter().copied().collect(),
        };
        let ours = owner(Some("a"), "u", &[]);
        for (ours, theirs, allowed) in [
            (Some(&ours), Some(owner(Some("a"), "u", &[])), true),
            (Some(&ours), Some(owner(Some("b"), "u", &[])), false),
            (Some(&ours), Some(owner(Some("a"), "v", &[])), false),
            (Some(&ours), Some(owner(None, "u", &[])), false),
            (Some(&ours), None, false),
            (None, Some(owner(Some("a"), "u", &[])), false),
            (None, None, false),
            (Some(&owner(None, "", &[])), Some(owner(None, "", &[])), true),
            (Some(&owner(None, "x", &[of])), Some(owner(Some("a"), "u", &[])), true),
            (Some(&owner(None, "x", &[])), Some(owner(Some("a"), "u", &[of])), false),
        ] {
            assert_eq!(may_read(ours, theirs.as_ref(), of), allowed, "{ours:?} {theirs:?}");
        }
    }
}
