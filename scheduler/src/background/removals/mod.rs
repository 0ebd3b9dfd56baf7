//! Removes apps, and users of apps, with all that belongs to them. A request stores a removal ([`record`]); the owner of shard
//! 0 does the work in pieces of bounded size, and stores after each how far it is. So a process that dies leaves a removal
//! that another one continues. What a piece does may be repeated: two owners at the same time do no harm.
//!
//! [`runs`] stops and removes runs, which [`found`] finds, [`kept`] all that apps keep besides them.

mod found;
mod kept;
mod record;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::files::{Each, FilesError};
use tidemill_common::ids::ShardId;
use tidemill_common::store::{Outage, Runs, StoreError};
use tokio::sync::Mutex;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

pub(crate) use record::{Removal, RunsFate};

use self::record::Stage;
use crate::shards::lease::Lease;
use crate::submit::Submitter;

/// The pause between two looks for removals.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// The pause between two pieces, so that other requests come between them.
const PIECE_PAUSE: Duration = Duration::from_millis(5);
/// The first pause before runs that are not done yet are looked at again; each next one is longer.
const WAIT: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The error that a removal shows from a refused stop on, until a run is stopped or it looks at its runs again.
const UNSTOPPED: &str =
    "Redis is full, so runs that are under way cannot be stopped yet; what has ended is removed meanwhile";

/// The reason why a piece was not done.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Files(#[from] FilesError),
}

/// What a piece has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// There is more to do in this stage.
    More,
    /// The stage is looked through, but something is not done yet: it is looked through again after a pause.
    Again,
    /// The stage is done.
    Done,
}

/// Does the removals.
pub(crate) struct Removals {
    store: Arc<dyn Runs>,
    submitter: Arc<Submitter>,
    /// Looks at the uploads that go on with the next piece, by their removals; a bounded number, because each holds a folder
    /// open.
    looks_at_uploads: Mutex<HashMap<LookOf, LookAtUploads>>,
}

/// The id, the time and the stage of a removal.
type LookOf = (String, i64, Stage);
/// The day that was reached, and the uploads that are left.
type LookAtUploads = (String, Each);

impl Removals {
    pub(crate) fn new(store: Arc<dyn Runs>, submitter: Arc<Submitter>) -> Self {
        Self { store, submitter, looks_at_uploads: Mutex::default() }
    }

    /// Works until `stop` is set, while this process owns the first shard.
    pub(crate) async fn run(self, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        let mut waiting: Vec<(String, Instant)> = Vec::new();
        while !*stop.borrow() {
            let mut pause = LOOK_PAUSE;
            if lease.shards().contains(&ShardId(0)) {
                match self.look(&mut waiting).await {
                    Ok(true) => pause = PIECE_PAUSE,
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(%error, "removals of apps and users cannot be continued yet")
                    }
                }
            } else {
                // Another process goes on with them.
                self.looks_at_uploads.lock().await.clear();
            }
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does one piece of each removal. Returns true when there is more to do at once.
    async fn look(&self, waiting: &mut Vec<(String, Instant)>) -> Result<bool, Failed> {
        let now = Instant::now();
        waiting.retain(|(_, until)| *until > now);
        let mut is_more = false;
        let under_way = self.store.removals().removals_under_way().await?;
        self.drop_looks(&under_way).await;
        for (id, text) in under_way {
            if waiting.iter().any(|(known, _)| *known == id) {
                continue;
            }
            let Some(mut removal) = Removal::read(&text) else {
                tracing::error!(id, "a removal cannot be read: another version of Tidemill has stored it");
                waiting.push((id, now + WAIT_MAX));
                continue;
            };
            if removal.place.is_empty() || removal.error.as_deref() != Some(UNSTOPPED) {
                removal.error = None;
            }
            let error = match self.piece(&mut removal, &text).await {
                Ok(Piece::More) => {
                    is_more = true;
                    removal.error.take()
                }
                Ok(Piece::Done) if removal.advance() => {
                    is_more = true;
                    None
                }
                Ok(Piece::Done) => {
                    // That of an app is gone with the app.
                    self.store.removals().move_removal(&id, Some(&text), None).await?;
                    tracing::info!(app = removal.app, of_user = removal.user.is_some(), removed = ?removal.removed, "removed");
                    continue;
                }
                Ok(Piece::Again) => {
                    removal.looks = removal.looks.saturating_add(1);
                    (removal.place, removal.is_left) = Default::default();
                    let pause = WAIT.saturating_mul(removal.looks).min(WAIT_MAX);
                    waiting.push((id.clone(), now + pause));
                    removal.error.take()
                }
                // In a full Redis other removals may go on, and so free its memory.
                Err(Failed::Store(error))
                    if error.is_passing() && Outage::of(&error) != Some(Outage::Full) =>
                {
                    return Err(error.into());
                }
                // The others go on.
                Err(error) => {
                    tracing::warn!(app = removal.app, stage = removal.stage.name(), %error, "a removal has to wait; it is tried again");
                    waiting.push((id.clone(), now + WAIT_MAX));
                    Some(error.to_string())
                }
            };
            removal.error = error;
            // If another process has moved it meanwhile, that one goes on.
            self.store.removals().move_removal(&id, Some(&text), Some(&removal.to_text())).await?;
        }
        Ok(is_more)
    }

    /// Does a piece of a removal, which is stored as this text.
    async fn piece(&self, removal: &mut Removal, stored: &str) -> Result<Piece, Failed> {
        let is_app = removal.user.is_none();
        match removal.stage {
            Stage::Begin => self.begin(removal).await,
            Stage::Stop if removal.runs == RunsFate::Keep => Ok(Piece::Done),
            Stage::Stop => self.stop_some(removal).await,
            Stage::DeadLetters | Stage::Runs | Stage::LateDeadLetters if removal.runs != RunsFate::Remove => {
                Ok(Piece::Done)
            }
            Stage::DeadLetters | Stage::LateDeadLetters => self.some_dead_letters(removal).await,
            Stage::Annotations => self.annotations(removal).await,
            Stage::Conversations => self.some_conversations(removal).await,
            Stage::Users => self.users(removal).await,
            Stage::Requests if is_app => self.some_requests(removal).await,
            Stage::Requests => Ok(Piece::Done),
            Stage::Uploads | Stage::LateUploads => self.some_uploads(removal).await,
            Stage::Runs => match self.remove_some(removal).await? {
                Piece::Done if std::mem::take(&mut removal.is_unstopped) => {
                    // Those that could not be stopped at their time have left more since.
                    removal.stage = Stage::Begin;
                    Ok(Piece::Done)
                }
                piece => Ok(piece),
            },
            Stage::End if is_app => {
                // A request that was under way may have added a key or a trigger since.
                self.begin(removal).await?;
                self.store.removals().drop_applied().await?;
                self.store.removals().drop_app(&removal.app, stored).await?;
                Ok(Piece::Done)
            }
            Stage::End => {
                self.store.removals().drop_applied().await?;
                Ok(Piece::Done)
            }
        }
    }
}
