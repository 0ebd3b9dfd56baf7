//! Notes the users of apps, so that their ids can be looked up. A scheduler remembers whom it has noted: a start of a run
//! by a known user costs nothing, and one by a new user a write that the answer does not wait for.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::config::Config;
use tidemill_common::limits::END_USERS_KNOWN_MAX;
use tidemill_common::store::{App, Runs, StoreError};
use tokio::time::Instant;

use crate::runs::ids::end_user_uuid;

/// The longest time after which a user who is still here is noted again.
const AGAIN: Duration = Duration::from_secs(24 * 3600);

/// The users that this process has noted.
pub(super) struct EndUsers {
    store: Arc<dyn Runs>,
    /// By a hash of app and user: the id, a digest, would cost more than all else here, at each start of a run.
    known: Mutex<HashMap<u64, Instant>>,
    hasher: RandomState,
    /// The time that a note is kept, in seconds; 0: forever.
    seconds: u64,
}

impl EndUsers {
    pub(super) fn new(store: Arc<dyn Runs>, config: &Config) -> Self {
        let scheduler = &config.scheduler;
        let seconds = kept_seconds(scheduler.retention_seconds, scheduler.conversation_retention_seconds);
        Self { store, known: Mutex::default(), hasher: RandomState::new(), seconds }
    }

    /// True when a user of an app must be noted now; the caller does that. False if this was done a short time ago.
    pub(super) fn is_due(&self, app: &App, user: &str) -> bool {
        self.is_due_at(self.hashed(&app.id, user), Instant::now())
    }

    /// Notes a user of an app. A failure is only logged: it must not fail the run, and the user's next run notes the
    /// user.
    pub(super) async fn note(
        self: Arc<Self>,
        app: Arc<App>,
        user: String,
        at: Result<Timestamp, StoreError>,
    ) {
        let id = end_user_uuid(&app.id, &user);
        let noted = async {
            let records = self.store.app_records();
            records.note_end_user(&id.to_string(), &app.id, &user, at?, self.seconds).await
        };
        if let Err(error) = noted.await {
            self.known().remove(&self.hashed(&app.id, &user));
            tracing::warn!(app = app.id, %error, "a user of an app could not be noted");
        }
    }

    /// Lets a removed user be noted again at once. Another process notes the user again when its note is old.
    pub(super) fn forget(&self, app: &str, user: &str) {
        self.known().remove(&self.hashed(app, user));
    }

    fn hashed(&self, app: &str, user: &str) -> u64 {
        self.hasher.hash_one((app, user))
    }

    fn is_due_at(&self, id: u64, now: Instant) -> bool {
        let again = match self.seconds {
            0 => AGAIN,
            seconds => AGAIN.min(Duration::from_secs(seconds) / 2),
        };
        let mut known = self.known();
        if known.get(&id).is_some_and(|noted| now.duration_since(*noted) < again) {
            return false;
        }
        if known.len() >= END_USERS_KNOWN_MAX {
            // Any half of them: the worst effect is that users are noted again.
            let mut stays = false;
            known.retain(|_, _| {
                stays = !stays;
                stays
            });
        }
        known.insert(id, now);
        true
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Instant>> {
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
        let users = Arc::new(EndUsers::new(store.clone(), &config));
        let app = Arc::new(App { id: "app".into(), ..App::default() });
        assert!(users.is_due(&app, "u") && !users.is_due(&app, "u"));
        users.clone().note(app.clone(), "u".into(), store.time().await).await;
        let id = end_user_uuid("app", "u");
        let noted = store.app_records().end_user(&id.to_string()).await.unwrap().unwrap();
        assert_eq!((noted.app.as_str(), noted.user.as_str()), ("app", "u"));
        let now = Instant::now();
        let known = users.hashed("app", "u");
        assert!(!users.is_due_at(known, now + Duration::from_secs(20)));
        assert!(users.is_due_at(known, now + Duration::from_secs(31)));
        assert!(users.is_due(&app, "v"));
    }

    #[tokio::test]
    async fn a_user_who_could_not_be_noted_is_noted_at_the_next_run_and_a_full_memory_is_halved() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let users = Arc::new(EndUsers::new(store, &Config::default()));
        let app = Arc::new(App { id: "app".into(), ..App::default() });
        assert!(users.is_due(&app, "u"));
        let error = StoreError::Refused { doing: "a test", reason: String::new() };
        users.clone().note(app.clone(), "u".into(), Err(error)).await;
        assert!(users.is_due(&app, "u"));
        let now = Instant::now();
        (1..END_USERS_KNOWN_MAX).for_each(|n| assert!(users.is_due_at(n as u64, now)));
        assert_eq!(users.known().len(), END_USERS_KNOWN_MAX);
        assert!(users.is_due(&app, "v"));
        assert_eq!(users.known().len(), END_USERS_KNOWN_MAX / 2 + 1);
        assert!(!users.is_due(&app, "v"));
    }
}
