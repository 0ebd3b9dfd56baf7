//! A worker's copy of the catalog in Redis: of the providers and profiles, and of the registered calls. Nodes need it
//! all the time and it changes rarely, so it is read at the first use and again only after its version changed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill_common::store::{Catalog, Jobs, StoreError};
use tokio::time::Instant;

/// The view that a worker has built from the newest catalog it has read.
pub(crate) struct CatalogCopy<T> {
    jobs: Arc<dyn Jobs>,
    /// Names the entries in the log.
    what: &'static str,
    /// The longest age of the copy.
    refresh: Duration,
    known: Mutex<Option<Known<T>>>,
    /// Held while checking for changes, so that one task checks for all.
    looking: tokio::sync::Mutex<()>,
}

struct Known<T> {
    made: Arc<T>,
    version: u64,
    looked_at: Instant,
}

impl<T> Clone for Known<T> {
    fn clone(&self) -> Self {
        Self { made: self.made.clone(), ..*self }
    }
}

impl<T> CatalogCopy<T> {
    /// Creates an empty copy, which will be at most `refresh` old.
    pub(crate) fn new(jobs: Arc<dyn Jobs>, what: &'static str, refresh: Duration) -> Self {
        Self { jobs, what, refresh, known: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    /// Returns the copy. When it is too old, or with `newest`, asks Redis for changes; `make` converts a changed
    /// catalog and gets the earlier copy. If Redis does not answer, the copy stays.
    ///
    /// # Errors
    /// There is no copy and Redis does not answer.
    pub(crate) async fn get(
        &self,
        newest: bool,
        make: impl FnOnce(Catalog, Option<&T>) -> T,
    ) -> Result<Arc<T>, StoreError> {
        let started = Instant::now();
        if let Some(fresh) = self.fresh().filter(|_| !newest) {
            return Ok(fresh);
        }
        let _looking = self.looking.lock().await;
        // Another task may have checked while this one waited.
        if let Some(known) = self.known().filter(|known| known.looked_at > started) {
            return Ok(known.made);
        }
        if let Some(fresh) = self.fresh().filter(|_| !newest) {
            return Ok(fresh);
        }
        let (began, before) = (Instant::now(), self.known());
        let known = match (self.look(before.as_ref(), make).await, before) {
            (Ok((made, version)), _) => Known { made, version, looked_at: began },
            (Err(error), Some(before)) => {
                let what = self.what;
                tracing::warn!(%error, "{what} in Redis cannot be read, the cached ones are used");
                // Count from now, so that not every caller waits for the same timeout.
                Known { looked_at: Instant::now(), ..before }
            }
            (Err(error), None) => return Err(error),
        };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
        Ok(known.made)
    }

    async fn look(
        &self,
        before: Option<&Known<T>>,
        make: impl FnOnce(Catalog, Option<&T>) -> T,
    ) -> Result<(Arc<T>, u64), StoreError> {
        if let Some(before) = before
            && self.jobs.catalog_version().await? == before.version
        {
            return Ok((before.made.clone(), before.version));
        }
        let catalog = self.jobs.load_catalog().await?;
        let version = catalog.version;
        Ok((Arc::new(make(catalog, before.map(|before| &*before.made))), version))
    }

    fn known(&self) -> Option<Known<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fresh(&self) -> Option<Arc<T>> {
        let known = self.known()?;
        (known.looked_at.elapsed() < self.refresh).then_some(known.made)
    }
}

impl<T> fmt::Debug for CatalogCopy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogCopy")
            .field("what", &self.what)
            .field("refresh", &self.refresh)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fake::FakeJobs;

    const REFRESH: Duration = Duration::from_secs(5);

    fn copy() -> (Arc<FakeJobs>, CatalogCopy<(u64, Option<u64>)>) {
        let jobs = FakeJobs::new();
        (jobs.clone(), CatalogCopy::new(jobs, "tests", REFRESH))
    }

    /// The version of a catalog, with that of the copy before.
    fn versions(catalog: Catalog, before: Option<&(u64, Option<u64>)>) -> (u64, Option<u64>) {
        (catalog.version, before.map(|(version, _)| *version))
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_read_at_first_use_and_again_when_the_version_has_changed() {
        let (jobs, copy) = copy();
        assert_eq!(jobs.state().catalog_asked, (0, 0), "nothing has needed it");
        let first = copy.get(false, versions).await.unwrap();
        assert_eq!((*first, jobs.state().catalog_asked), ((0, None), (0, 1)));
        jobs.state().catalog.version = 7;
        assert_eq!(*copy.get(false, versions).await.unwrap(), (0, None), "it holds for the interval");
        tokio::time::advance(REFRESH).await;
        let second = copy.get(false, versions).await.unwrap();
        assert_eq!((*second, jobs.state().catalog_asked), ((7, Some(0)), (1, 2)));
        tokio::time::advance(REFRESH).await;
        let same = copy.get(false, versions).await.unwrap();
        copy.get(false, versions).await.unwrap();
        assert!(Arc::ptr_eq(&second, &same));
        assert_eq!(jobs.state().catalog_asked, (2, 2), "once an interval it is checked for changes");
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_is_asked_for_whatever_the_age_of_the_copy() {
        let (jobs, copy) = copy();
        copy.get(false, versions).await.unwrap();
        jobs.state().catalog.version = 1;
        assert_eq!(*copy.get(true, versions).await.unwrap(), (1, Some(0)));
        copy.get(true, versions).await.unwrap();
        assert_eq!(jobs.state().catalog_asked, (2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_ask_at_once_are_one_look() {
        let (jobs, copy) = copy();
        let get = || copy.get(false, versions);
        let all = tokio::join!(get(), get(), get(), get());
        assert!(all.0.is_ok() && all.3.is_ok());
        assert_eq!(jobs.state().catalog_asked, (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn without_redis_the_copy_stays_and_no_copy_is_an_error() {
        let (jobs, copy) = copy();
        jobs.state().catalog_silent = true;
        copy.get(false, versions).await.unwrap_err();
        jobs.state().catalog_silent = false;
        let known = copy.get(false, versions).await.unwrap();
        jobs.state().catalog_silent = true;
        tokio::time::advance(REFRESH).await;
        let asked = jobs.state().catalog_asked.0;
        for _ in 0..3 {
            assert_eq!(copy.get(false, versions).await.unwrap(), known);
        }
        assert_eq!(jobs.state().catalog_asked.0, asked + 1, "it is not asked again within the interval");
    }
}
