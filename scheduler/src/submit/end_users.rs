//! Notes the users of apps, so that their ids can be looked up. A scheduler remembers whom it has noted: a start of a run
//! by a known user costs nothing, and one by a new user a write beside the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill_common::config::Config;
use tidemill_common::limits::END_USERS_KNOWN_MAX;
use tidemill_common::store::{App, Runs};
use tokio::time::Instant;
use uuid::Uuid;

use crate::runs::ids::end_user_uuid;

/// The longest time after which a user who is still here is noted again.
const AGAIN: Duration = Duration::from_secs(24 * 3600);

/// The users that this process has noted.
pub(super) struct EndUsers {
    store: Arc<dyn Runs>,
    known: Mutex<HashMap<Uuid, Instant>>,
    /// The time that a note is kept, in seconds; 0: forever.
    seconds: u64,
}

impl EndUsers {
    pub(super) fn new(store: Arc<dyn Runs>, config: &Config) -> Self {
        let scheduler = &config.scheduler;
        let seconds = kept_seconds(scheduler.retention_seconds, scheduler.conversation_retention_seconds);
        Self { store, known: Mutex::default(), seconds }
    }

    /// Notes a user of an app, unless this was done a short time ago. A failure is only logged: it must not fail the
    /// run, and the user's next run notes the user.
    pub(super) async fn note(&self, app: &App, user: &str) {
        let id = end_user_uuid(&app.id, user);
        if !self.is_due(id, Instant::now()) {
            return;
        }
        let noted = async {
            let at = self.store.time().await?;
            let records = self.store.app_records();
            records.note_end_user(&id.to_string(), &app.id, user, at, self.seconds).await
        };
        if let Err(error) = noted.await {
            self.known().remove(&id);
            tracing::warn!(app = app.id, %error, "a user of an app could not be noted");
        }
    }

    /// True when the user must be noted now; the caller does that.
    fn is_due(&self, id: Uuid, now: Instant) -> bool {
        let again = match self.seconds {
            0 => AGAIN,
            seconds => AGAIN.min(Duration::from_secs(seconds) / 2),
        };
        let mut known = self.known();
        if known.get(&id).is_some_and(|noted| now.duration_since(*noted) < again) {
            return false;
        }
        if known.len() >= END_USERS_KNOWN_MAX {
            // The worst effect is that users are noted again.
            known.clear();
        }
        known.insert(id, now);
        true
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Instant>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time that a note is kept: as long as what names the user, runs and conversations.
fn kept_seconds(runs: u64, conversations: u64) -> u64 {
    if conversations == 0 { 0 } else { runs.max(conversations) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::clock::SystemClock;
    use tidemill_common::store::memory::MemoryStore;

    #[test]
    fn a_note_is_kept_as_long_as_what_names_the_user() {
        for (runs, conversations, kept) in [(7, 30, 30), (30, 7, 30), (7, 0, 0)] {
            assert_eq!(kept_seconds(runs, conversations), kept);
        }
    }

    #[tokio::test]
    async fn a_user_is_noted_once_and_again_when_half_of_its_time_is_over() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let mut config = Config::default();
        config.scheduler.retention_seconds = 60;
        config.scheduler.conversation_retention_seconds = 60;
        let users = EndUsers::new(store.clone(), &config);
        let app = App { id: "app".into(), ..App::default() };
        users.note(&app, "u").await;
        let id = end_user_uuid("app", "u");
        let noted = store.app_records().end_user(&id.to_string()).await.unwrap().unwrap();
        assert_eq!((noted.app.as_str(), noted.user.as_str()), ("app", "u"));
        let now = Instant::now();
        assert!(!users.is_due(id, now + Duration::from_secs(20)));
        assert!(users.is_due(id, now + Duration::from_secs(31)));
        assert!(users.is_due(end_user_uuid("app", "v"), now));
    }
}
