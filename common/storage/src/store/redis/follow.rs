//! Followers of runs, and how they learn about new events. Commits publish the runs that have new events; the
//! events are then read once for all followers, many runs in one command. Nothing relies on it: followers
//! also look once in a while. What this process has committed itself is not read at all ([`super::told`]).
//!
//! One read per shard is in flight. Runs published meanwhile wait for the next one, so under load reads
//! become larger, not more frequent.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use uuid::Uuid;

use super::asked::complete;
use super::connection::Connector;
use super::keys::Keys;
use crate::store::following::{Followed, Following, Page, Tick};
use crate::store::redis::connection::pubsub::Messages;
use crate::store::redis::connection::replies::{Entry, streams, unexpected};
use crate::store::{StoreError, unreadable_events};
use tidemill_base::ids::{EntryId, RunId, ShardId};
use tidemill_wire::entry::EventEntry;

/// The most entries of one run in a read; a hint mostly means one or two.
const ENTRIES_MAX: usize = 32;
/// The most runs in one read; more would delay the first for the last.
const RUNS_MAX: usize = 128;
/// The most bytes of events kept for a run until the next read. Followers read larger pages themselves.
pub(super) const PAGE_BYTES_MAX: usize = 64 * 1024;

/// A followed run and its followers' shared state.
type FollowedRun = (RunId, Arc<Followed>);

/// The followers of all runs, and how they learn about new events.
#[derive(Default)]
pub(super) struct Ticks {
    followers: Arc<Followers>,
    started: OnceLock<()>,
    refusal: Arc<Refusal>,
}

/// Whether it was logged that the ACL refuses the subscription. It is refused at each retry.
#[derive(Default)]
struct Refusal(AtomicBool);

impl Refusal {
    fn note(&self, error: &StoreError) {
        let is_refused = matches!(error, StoreError::Denied { .. });
        if is_refused && !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %error,
                "the ACL of Redis refuses the subscription to changes of runs: streams are late by up to a second; see \
                 `tidemill doctor`"
            );
        } else {
            tracing::debug!(%error, "subscription to ticks failed; retrying");
        }
    }
}

/// The followers of all runs.
pub(super) struct Followers {
    runs: Mutex<HashMap<RunId, (Arc<Followed>, usize)>>,
    /// The mark of commits whose events these followers get without a read. It is no run's id.
    pub(super) mark: String,
}

impl Default for Followers {
    fn default() -> Self {
        Self { runs: Mutex::default(), mark: format!("by:{}", Uuid::new_v4().simple()) }
    }
}

impl Ticks {
    /// Another one with the same followers, for a store with connections of its own.
    pub(super) fn beside(&self) -> Self {
        Self { followers: self.followers.clone(), ..Self::default() }
    }

    /// The followers, for owners of shards.
    pub(super) fn followers(&self) -> Arc<Followers> {
        self.followers.clone()
    }

    /// Logs a warning if the user may not subscribe.
    pub(super) async fn probe(&self, connector: &Connector, keys: &Keys) {
        let (connector, keys) = (connector.clone(), keys.clone());
        let reader = Reader { connector, keys, refusal: self.refusal.clone() };
        if let Err(error) = reader.subscribe().await {
            self.refusal.note(&error);
        }
    }

    /// Adds a follower of a run.
    pub(super) fn follow(&self, connector: &Connector, keys: &Keys, run: RunId) -> Following {
        self.started.get_or_init(|| {
            let (connector, keys) = (connector.clone(), keys.clone());
            let reader = Reader { connector, keys, refusal: self.refusal.clone() };
            tokio::spawn(listen(reader, Arc::downgrade(&self.followers)));
        });
        let followed = self.followers.enter(run);
        let followers = Arc::downgrade(&self.followers);
        let leave = move || followers.upgrade().into_iter().for_each(|followers| followers.leave(run));
        Following::new(followed, Some(Box::new(leave)))
    }
}

impl Followers {
    fn enter(&self, run: RunId) -> Arc<Followed> {
        let mut runs = self.lock();
        let (followed, count) = runs.entry(run).or_default();
        *count += 1;
        followed.clone()
    }

    fn leave(&self, run: RunId) {
        let mut runs = self.lock();
        let Some((_, count)) = runs.get_mut(&run) else { return };
        *count -= 1;
        if *count == 0 {
            runs.remove(&run);
        }
    }

    /// The followed runs among `named`, a list of run ids. None if they were told by the commit itself.
    fn among(&self, named: &str) -> Vec<FollowedRun> {
        if named.ends_with(&self.mark) {
            return Vec::new();
        }
        let runs = self.lock();
        let ids = named.split(' ').filter_map(|id| id.parse::<RunId>().ok());
        ids.filter_map(|run| Some((run, runs.get(&run)?.0.clone()))).collect()
    }

    fn wake_all(&self) {
        let all: Vec<_> = self.lock().values().map(|(followed, _)| followed.clone()).collect();
        all.iter().for_each(|followed| followed.publish(None));
    }

    /// The followers of a run.
    pub(super) fn of(&self, run: RunId) -> Option<Arc<Followed>> {
        self.lock().get(&run).map(|(followed, _)| followed.clone())
    }

    /// True when no run is followed.
    pub(super) fn are_none(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, (Arc<Followed>, usize)>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on published runs until the store is dropped; reconnects when the connection breaks.
async fn listen(reader: Reader, followers: Weak<Followers>) {
    const PAUSE: Duration = Duration::from_millis(50);
    let mut pause = PAUSE;
    while followers.strong_count() > 0 {
        match reader.subscribe().await {
            Ok(messages) => {
                pause = PAUSE;
                // Messages from before the subscription may be lost, so all followers look once.
                followers.upgrade().into_iter().for_each(|followers| followers.wake_all());
                pass_on(messages, &reader, &followers).await;
            }
            Err(error) => reader.refusal.note(&error),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}

/// Reads the events of published runs and informs their followers, until the messages end or the store is
/// dropped.
async fn pass_on(mut messages: Messages, reader: &Reader, followers: &Weak<Followers>) {
    let (mut due, mut reads) = (Due::default(), FuturesUnordered::new());
    loop {
        tokio::select! {
            message = messages.next() => {
                let (Some(message), Some(followers)) = (message, followers.upgrade()) else { return };
                let named = String::from_utf8_lossy(message.get_payload_bytes());
                followers.among(&named).into_iter().for_each(|(run, followed)| due.note(run, followed));
            }
            Some(shard) = reads.next() => due.is_read(shard),
        }
        while let Some((shard, runs)) = due.next() {
            reads.push(async move {
                reader.publish(runs).await;
                shard
            });
        }
    }
}

/// Runs that were published and not read since.
#[derive(Default)]
struct Due {
    shards: HashMap<ShardId, DueShard>,
}

#[derive(Default)]
struct DueShard {
    runs: HashMap<RunId, Arc<Followed>>,
    is_being_read: bool,
}

impl Due {
    fn note(&mut self, run: RunId, followed: Arc<Followed>) {
        if followed.reached().is_some() {
            self.shards.entry(run.shard()).or_default().runs.insert(run, followed);
        } else {
            // All followers still read older events; their positions are unknown.
            followed.publish(None);
        }
    }

    /// The next runs to read, from a shard without a read in flight.
    fn next(&mut self) -> Option<(ShardId, Vec<FollowedRun>)> {
        let is_next = |(_, due): &(&ShardId, &mut DueShard)| !due.is_being_read && !due.runs.is_empty();
        let (shard, due) = self.shards.iter_mut().find(is_next)?;
        due.is_being_read = true;
        if due.runs.len() <= RUNS_MAX {
            return Some((*shard, due.runs.drain().collect()));
        }
        let ids: Vec<RunId> = due.runs.keys().copied().take(RUNS_MAX).collect();
        Some((*shard, ids.into_iter().filter_map(|run| due.runs.remove_entry(&run)).collect()))
    }

    fn is_read(&mut self, shard: ShardId) {
        if let Some(due) = self.shards.get_mut(&shard) {
            due.is_being_read = false;
        }
    }
}

struct Reader {
    connector: Connector,
    keys: Keys,
    refusal: Arc<Refusal>,
}

impl Reader {
    async fn subscribe(&self) -> Result<Messages, StoreError> {
        Messages::of(&self.connector, &self.keys.ticks()).await
    }

    /// Reads the new events of runs of one shard and informs their followers.
    async fn publish(&self, runs: Vec<FollowedRun>) {
        let from = runs.iter().map(|(run, followed)| (*run, followed.reached().unwrap_or(EntryId::ZERO)));
        let from: Vec<(RunId, EntryId)> = from.collect();
        let pages = self.read(&from).await.unwrap_or_else(|error| {
            // Each follower then reads its run itself, and reports the error if it has one.
            tracing::debug!(%error, "cannot read events of several runs at once");
            Vec::new()
        });
        let mut pages = pages.into_iter().map(Arc::new);
        for (_, followed) in runs {
            match pages.next() {
                Some(page) => followed.publish_read(&page, tick(&page)),
                None => followed.publish(None),
            }
        }
    }

    /// The events after each entry, in the order of the runs.
    async fn read(&self, from: &[(RunId, EntryId)]) -> Result<Vec<Page>, StoreError> {
        const DOING: &str = "reading events of several runs";
        let keys: Vec<String> = from.iter().map(|(run, _)| self.keys.events(*run)).collect();
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(ENTRIES_MAX).arg("STREAMS").arg(&keys);
        from.iter().for_each(|(_, after)| {
            command.arg(after.to_string());
        });
        let value: Value = self.connector.ask(DOING, &command).await?;
        // The reply leaves out streams without new entries; the others keep the order of the request.
        let mut told =
            streams(value).ok_or_else(|| unexpected(DOING, "not a list of streams"))?.into_iter().peekable();
        let mut pages = Vec::with_capacity(from.len());
        for (key, (run, after)) in keys.iter().zip(from) {
            let entries = told.next_if(|(name, _)| name == key).map(|(_, entries)| entries);
            let mut entries = read_entries(entries.unwrap_or_default())?;
            complete(&self.connector, &self.keys, *run, &mut entries).await?;
            pages.push(page(*after, entries));
        }
        Ok(pages)
    }
}

fn read_entries(entries: Vec<Entry>) -> Result<Vec<EventEntry>, StoreError> {
    let read = entries.into_iter().map(|(id, fields)| EventEntry::read(id, fields));
    read.collect::<Result<_, _>>().map_err(unreadable_events)
}

fn page(after: EntryId, entries: Vec<EventEntry>) -> Page {
    let is_whole = entries.len() < ENTRIES_MAX;
    Page { after, entries: entries.into_iter().map(Arc::new).collect(), is_whole }
}

/// A tick with the page, or without it if the page is too large.
fn tick(page: &Arc<Page>) -> Tick {
    let bytes: usize = page.entries.iter().map(|entry| entry.bytes()).sum();
    (bytes <= PAGE_BYTES_MAX).then(|| page.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: u16, shard: u16) -> RunId {
        RunId::new(1_754_339_718_571 + u64::from(n), 0, ShardId(shard))
    }

    fn caught_up() -> Arc<Followed> {
        let followed = Arc::new(Followed::default());
        followed.advance(EntryId::ZERO, 0);
        followed
    }

    #[test]
    fn a_run_is_known_while_it_has_followers() {
        let followers = Followers::default();
        let (one, other) = (run(1, 0), run(2, 0));
        let named = format!("{other} nonsense {one}");
        followers.enter(one);
        followers.enter(one);
        for expected in [1, 1, 0] {
            assert_eq!(followers.among(&named).len(), expected);
            followers.leave(one);
        }
    }

    #[test]
    fn of_each_shard_one_read_is_under_way_and_the_next_has_what_came_meanwhile() {
        let mut due = Due::default();
        due.note(run(1, 0), caught_up());
        due.note(run(2, 1), caught_up());
        let mut shards = [due.next().unwrap().0, due.next().unwrap().0];
        shards.sort();
        assert_eq!(shards, [ShardId(0), ShardId(1)]);
        for n in [1, 3, 3] {
            due.note(run(n, 0), caught_up());
        }
        assert!(due.next().is_none());
        due.is_read(ShardId(0));
        assert_eq!(due.next().unwrap().1.len(), 2);
        due.is_read(ShardId(0));
        assert!(due.next().is_none());
    }

    #[test]
    fn many_runs_are_read_in_several_goes() {
        let mut due = Due::default();
        let runs = u16::try_from(RUNS_MAX).unwrap() + 2;
        (0..runs).for_each(|n| due.note(run(n, 0), caught_up()));
        assert_eq!(due.next().unwrap().1.len(), RUNS_MAX);
        due.is_read(ShardId(0));
        assert_eq!(due.next().unwrap().1.len(), 2);
    }

    #[test]
    fn those_who_still_read_what_there_was_are_only_woken() {
        let mut due = Due::default();
        let followed = Arc::new(Followed::default());
        let mut following = Following::new(followed.clone(), None);
        due.note(run(1, 0), followed);
        assert!(due.next().is_none());
        assert!(following.take().unwrap().is_none());
    }

    #[test]
    fn a_page_that_is_too_large_to_keep_is_a_hint_alone() {
        let of = |bytes: usize| {
            let fields =
                [("tick".to_string(), format!("{{\"seq\":1,\"ts\":0,\"x\":\"{}\"}}", "x".repeat(bytes)))];
            let entries = read_entries(vec![(EntryId::new(1, 0), fields.to_vec())]).unwrap();
            Arc::new(page(EntryId::ZERO, entries))
        };
        assert!(tick(&of(10)).is_some());
        assert!(tick(&of(PAGE_BYTES_MAX)).is_none());
    }
}
