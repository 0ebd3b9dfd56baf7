//! Writes a batch as one transaction under WATCH of the fence: cursor, changed fields, jobs, timers and
//! events, or nothing.
//!
//! Each EXEC is followed, in the same request, by the next WATCH and a read of the fence. The answer must be
//! what the next commit builds on, so the guard costs no round trip. The connection belongs to the shard and
//! never reconnects: a silent reconnect would lose the WATCH, and the next EXEC would be unguarded.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::RedisError;

use super::RedisStore;
use super::connection::{Connector, is_cut_off, is_read_only, one_slot};
use super::follow::Followers;
use super::keys::{Keys, RunKeys};
use crate::store::redis::connection::wire_connection::{Line, Replies, Reply, Request, Word, error_of};
use crate::store::{Claim, Commit, CommitError, Owner, StoreError};
use tidemill_base::ids::{EntryId, RunId};
use tidemill_base::limits;
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::commit::{ConversationWrite, RunWrite};

/// The owner's connection to a shard.
pub(super) struct RedisOwner {
    claim: Claim,
    holder: String,
    /// The number of the last successful commit.
    last: u64,
    line: Line,
    /// The next request; reused for its buffer.
    request: Request,
    connector: Connector,
    keys: Keys,
    run_events_max: usize,
    ttl_seconds: u64,
    conversation_seconds: u64,
    /// Those who follow runs in this process.
    followers: Arc<Followers>,
}

impl RedisOwner {
    /// Opens the connection and watches the fence; `None` when the shard was lost in between.
    pub(super) async fn open(
        store: &RedisStore,
        claim: Claim,
        holder: &str,
    ) -> Result<Option<Self>, StoreError> {
        const DOING: &str = "watching a shard";
        let mut owner = Self {
            last: claim.commit,
            holder: holder.to_string(),
            line: store.connector.open_line(&store.keys.fence(claim.shard)).await?,
            request: Request::default(),
            connector: store.connector.clone(),
            keys: store.keys.clone(),
            run_events_max: store.limits.run_events_max,
            ttl_seconds: store.ttl_seconds(),
            conversation_seconds: store.limits.conversation_seconds,
            followers: store.ticks.followers(),
            claim,
        };
        let mut request = Request::default();
        owner.watch(&mut request);
        let answer = owner.line.ask(&request, Duration::ZERO).await;
        let mut answer = answer.map_err(|e| store.connector.error(DOING, &e))?;
        let fence = Fence { epoch: owner.claim.epoch, holder, commit: owner.last };
        let is_ours = match answer.pass(1) {
            Some(error) => return Err(store.connector.error(DOING, &error_of(error))),
            None => fence.is_next(&mut answer),
        };
        Ok(is_ours.then_some(owner))
    }

    fn watch(&self, request: &mut Request) {
        let fence = self.keys.fence(self.claim.shard);
        request.command("WATCH", 1).word(&fence);
        request.command("HMGET", 4).word(&fence).word("epoch").word("holder").word("commit");
    }

    fn write(&self, request: &mut Request, commit: &Commit) {
        let shard = self.claim.shard;
        request.command("MULTI", 0);
        let words = if commit.cursor.is_some() { 5 } else { 3 };
        request.command("HSET", words).word(self.keys.fence(shard)).word("commit").word(commit.number);
        if let Some(cursor) = commit.cursor {
            request.word("cursor").word(cursor);
        }
        for write in &commit.writes {
            self.write_run(request, write, commit.number);
        }
        self.add_jobs(request, commit);
        for member in &commit.timers_cleared {
            request.command("ZREM", 2).word(self.keys.timers(shard)).word(member);
        }
        for dead in &commit.dead {
            let fields = dead.fields();
            request.command("XADD", 5 + fields.len() * 2).word(self.keys.dead(shard));
            request.word("MAXLEN").word("~").word(limits::DEAD_MAX).word("*");
            for (field, value) in fields {
                request.word(field).word(value);
            }
        }
        self.publish(request, commit);
        request.command("EXEC", 0);
        self.watch(request);
    }

    /// Enqueues jobs in the order of their entries across runs: a stream accepts only increasing ids.
    fn add_jobs(&self, request: &mut Request, commit: &Commit) {
        let mut jobs: Vec<_> = commit.writes.iter().flat_map(|write| &write.jobs).collect();
        jobs.sort_unstable_by_key(|job| job.entry);
        let (mut queue, mut stream) = (None, String::new());
        for job in jobs {
            if queue != Some(&*job.queue) {
                (queue, stream) = (Some(&*job.queue), self.keys.jobs(self.claim.shard, &job.queue));
            }
            request.command("XADD", 6).word(&stream).word(job.entry);
            request.word("run").word(job.run).word("job").word(&job.body);
        }
    }

    fn write_run(&self, request: &mut Request, write: &RunWrite, number: u64) {
        let (keys, run, shard) = (&self.keys, write.run, self.claim.shard);
        let of_run = keys.of_run_by_part(run);
        for (id, content) in &write.blobs {
            request.command("SET", 2).word(keys.blob(shard, id)).word(content);
            request.command("HSET", 3).word(keys.blobs(run)).word(id.as_str()).word(content.len());
        }
        if !write.fields.is_empty() {
            request.command("HSET", 1 + write.fields.len() * 2).word(of_run.run());
            for (field, value) in &write.fields {
                request.word(*field).word(value);
            }
        }
        self.write_state(request, write, &of_run);
        self.add_events(request, write, &of_run, number);
        for job in &write.taken_back {
            let stream = keys.jobs(shard, &job.queue);
            request.command("XACK", 3).word(&stream).word(super::keys::GROUP).word(job.entry);
            request.command("XDEL", 2).word(&stream).word(job.entry);
        }
        for member in &write.timers_cleared {
            request.command("ZREM", 2).word(keys.timers(shard)).word(member);
        }
        for (due, member) in &write.timers_set {
            // Rounded up: a timer that fires before its time would be set again.
            let due = due.plus(Duration::from_micros(999)).millis();
            request.command("ZADD", 3).word(keys.timers(shard)).word(due).word(member);
        }
        if let Some(calls) = &write.calls {
            super::calls::write(request, keys, run, calls, number);
        }
        if write.continue_due {
            request.command("XADD", 8).word(keys.inbox(shard)).word("*");
            request.word("kind").word("continue").word("run").word(run).word("fact").word("{}");
        }
        self.move_in_index(request, write, number);
    }

    fn add_events(&self, request: &mut Request, write: &RunWrite, of_run: &RunKeys, number: u64) {
        if write.entries.is_empty() {
            return;
        }
        // Each entry has at least one event, so a run with few events needs no trimming.
        let cut = write.seq > self.run_events_max as u64;
        for (index, entry) in write.entries.iter().enumerate() {
            request.command("XADD", 2 + entry.len() * 2 + if cut { 3 } else { 0 }).word(of_run.events());
            if cut {
                request.word("MAXLEN").word("~").word(self.run_events_max);
            }
            request.word(EntryId::new(number, index as u64));
            for (kind, data) in entry {
                request.word(kind).word(data);
            }
        }
    }

    fn write_state(&self, request: &mut Request, write: &RunWrite, of_run: &RunKeys) {
        let keys = &self.keys;
        write_fields(request, || of_run.state(), write.state.iter());
        if write.collected_cleared {
            request.command("UNLINK", 1).word(keys.collected(write.run));
        }
        write_fields(request, || keys.collected(write.run), write.collected.iter());
        set_fields(request, || keys.pauses(write.run), &write.pauses);
        set_fields(request, || keys.ledger(write.run), &write.ledger);
        if let Some(charges) = &write.charges {
            super::costs::write(request, &self.keys, self.claim.shard, charges);
        }
        if let Some(messages) = &write.messages {
            super::messages::write(request, keys, write.run, messages);
        }
        if let Some(kept) = &write.conversation {
            self.write_conversation(request, kept);
        }
        if write.held_cleared {
            request.command("UNLINK", 1).word(keys.held(write.run));
        }
        if !write.held.is_empty() {
            request.command("RPUSH", 1 + write.held.len()).word(keys.held(write.run));
            write.held.iter().for_each(|held| {
                request.word(held);
            });
        }
    }

    /// Each write restarts the time to live of all parts of the conversation.
    fn write_conversation(&self, request: &mut Request, write: &ConversationWrite) {
        let shard = self.claim.shard;
        let blob = |id| self.keys.blob(shard, id);
        let key = self.keys.conversation(shard, &write.id);
        set_fields(request, || key.clone(), &write.fields);
        for (from, to) in &write.copies {
            request.command("COPY", 3).word(blob(from)).word(blob(to)).word("REPLACE");
        }
        let messages = write.messages.map(|run| {
            let (from, to) = (self.keys.object(run, "messages:main"), self.keys.messages(shard, &write.id));
            request.command("COPY", 3).word(from).word(&to).word("REPLACE");
            to
        });
        if !write.dropped.is_empty() {
            request.command("UNLINK", write.dropped.len());
            write.dropped.iter().for_each(|id| {
                request.word(blob(id));
            });
        }
        let copies = write.copies.iter().map(|(_, to)| to).chain(&write.kept).map(blob);
        for key in std::iter::once(key).chain(copies).chain(messages) {
            match self.conversation_seconds {
                0 => request.command("PERSIST", 1).word(key),
                seconds => request.command("EXPIRE", 2).word(key).word(seconds),
            };
        }
    }

    fn move_in_index(&self, request: &mut Request, write: &RunWrite, number: u64) {
        let (keys, run, shard) = (&self.keys, write.run, self.claim.shard);
        let Some((from, to)) = write.status else {
            if write.ended_at.is_some() {
                // Parts written after the run's end expire with the run. What it has called must not expire before.
                for key in [keys.run(run), keys.state(run), keys.ledger(run), keys.calls(run)] {
                    request.command("EXPIRE", 2).word(key).word(self.ttl_seconds);
                }
            }
            return;
        };
        if from != to {
            request.command("ZREM", 2).word(keys.runs_of(shard, from)).word(run);
            request.command("ZADD", 3).word(keys.runs_of(shard, to));
            request.word(write.created_at.micros()).word(run);
        }
        if from == RunStatus::Scheduled && to.is_over() {
            // A run that began and ended in one commit was never listed as running.
            request.command("ZREM", 2).word(keys.runs_of(shard, RunStatus::Running)).word(run);
        }
        if to == RunStatus::Paused && write.seq <= EVENTS_COPIED_MAX {
            // Redis gives the last node of a stream 4 KiB at once. A copy has only what it needs, and many runs wait.
            let (events, copy) = (keys.events(run), keys.events_copy(run));
            request.command("COPY", 3).word(&events).word(&copy).word("REPLACE");
            request.command("COPY", 3).word(&copy).word(&events).word("REPLACE");
            request.command("UNLINK", 1).word(&copy);
        }
        if write.leaves_turn {
            request.command("SADD", 2).word(keys.unsettled(shard)).word(run);
        }
        if let Some(notice) = &write.notice {
            let (app, due) = (notice.app.as_str(), keys.notices(shard, &notice.app, "due"));
            request.command("SADD", 2).word(keys.noticed(shard)).word(app);
            request.command("ZADD", 3).word(due).word(notice.at.millis());
            request.word(crate::store::webhooks::member(run, number, notice.at, notice.event));
        }
        if let Some(at) = write.ended_at {
            request.command("ZADD", 3).word(keys.ended(shard)).word(at.micros()).word(run);
            let ledger = write.has_ledger.then(|| keys.ledger(run));
            let messages = write.messages.iter().flat_map(|messages| &messages.expire);
            let messages = messages.map(|part| keys.object(run, part));
            for key in keys.all_of(run).into_iter().chain(ledger).chain(messages) {
                request.command("EXPIRE", 2).word(key).word(self.ttl_seconds);
            }
        }
    }

    fn publish(&self, request: &mut Request, commit: &Commit) {
        let shard = self.claim.shard;
        let mut touched = String::new();
        for write in commit.writes.iter().filter(|w| !w.entries.is_empty()) {
            touched.push_str(write.run.encode(&mut RunId::buffer()));
            touched.push(' ');
        }
        if !touched.is_empty() {
            touched.push_str(&self.followers.mark);
            request.command("PUBLISH", 2).word(self.keys.tick(shard)).word(&touched);
        }
        let stop: Vec<String> =
            commit.writes.iter().flat_map(|w| &w.taken_back).map(|j| j.execution.to_string()).collect();
        if !stop.is_empty() {
            request.command("PUBLISH", 2).word(self.keys.cancel(shard)).word(stop.join(" "));
        }
    }
}

/// The most events of a run whose stream is copied when the run begins to wait. In longer streams the free room of the
/// last node counts little, and a copy would block the server.
const EVENTS_COPIED_MAX: u64 = 200;
/// The most fields that one command deletes; more would block the server.
const FIELDS_MAX: usize = 500;

/// Writes fields of a hash and deletes those without a value.
pub(super) fn write_fields<'a, K: Word>(
    request: &mut Request,
    key: impl Fn() -> K,
    fields: impl Iterator<Item = (&'a str, Option<&'a str>)> + Clone,
) {
    let kept = fields.clone().filter(|(_, value)| value.is_some()).count();
    if kept > 0 {
        request.command("HSET", 1 + kept * 2).word(key());
        for (field, value) in fields.clone() {
            if let Some(value) = value {
                request.word(field).word(value);
            }
        }
    }
    let gone: Vec<&str> = fields.filter(|(_, value)| value.is_none()).map(|(field, _)| field).collect();
    for slice in gone.chunks(FIELDS_MAX) {
        request.command("HDEL", 1 + slice.len()).word(key());
        slice.iter().for_each(|field| {
            request.word(*field);
        });
    }
}

/// Writes fields of a hash.
fn set_fields(request: &mut Request, key: impl Fn() -> String, fields: &[(String, String)]) {
    if fields.is_empty() {
        return;
    }
    request.command("HSET", 1 + fields.len() * 2).word(key());
    for (field, value) in fields {
        request.word(field).word(value);
    }
}

/// The expected content of the fence.
struct Fence<'a> {
    epoch: u64,
    holder: &'a str,
    commit: u64,
}

impl Fence<'_> {
    /// Whether the next reply is this content.
    fn is_next(&self, replies: &mut Replies<'_>) -> bool {
        let (mut epoch, mut commit) = (itoa::Buffer::new(), itoa::Buffer::new());
        let want = [epoch.format(self.epoch), self.holder, commit.format(self.commit)];
        replies.list() == Some(want.len())
            && want.into_iter().all(|want| replies.text().is_some_and(|found| found == want))
    }
}

#[async_trait]
impl Owner for RedisOwner {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    async fn commit(&mut self, commit: &Commit) -> Result<(), CommitError> {
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        self.write(&mut request, commit);
        if one_slot::IS_CHECKED {
            one_slot::check_request(&self.keys, DOING, &request);
        }
        let answer = self.line.ask(&request, Duration::ZERO).await;
        let fence = |commit| Fence { epoch: self.claim.epoch, holder: &self.holder, commit };
        let done = match answer {
            Ok(replies) => outcome(replies, request.commands(), &fence(self.last), &fence(commit.number)),
            Err(error) => Err(NotCommitted::Unknown(error)),
        };
        self.request = request;
        if matches!(done, Err(NotCommitted::Unknown(_) | NotCommitted::Refused(_) | NotCommitted::Odd(_))) {
            self.followers.wake(commit);
        }
        let error = |error| self.connector.error(DOING, &error);
        done.map_err(|failed| match failed {
            NotCommitted::Lost => CommitError::Lost(self.claim.shard),
            NotCommitted::Refused(refused) => match error(refused) {
                refused @ StoreError::Refused { .. } => CommitError::NotDone(refused),
                other => CommitError::Unknown(other),
            },
            NotCommitted::Unknown(unknown) => CommitError::Unknown(error(unknown)),
            NotCommitted::Odd(reason) => {
                CommitError::Unknown(StoreError::Unexpected { doing: DOING, reason })
            }
        })?;
        self.last = commit.number;
        self.followers.tell(commit);
        Ok(())
    }
}

const DOING: &str = "committing";

/// A commit that did not succeed.
enum NotCommitted {
    /// The shard belongs to another owner.
    Lost,
    /// The server did nothing and the fence is watched again: after a passing error the same commit may be
    /// retried.
    Refused(RedisError),
    Unknown(RedisError),
    Odd(String),
}

/// Evaluates the replies to a commit with `commands` commands: the queued replies, EXEC, the next WATCH and
/// the fence. The fence must be as before or as after the commit.
fn outcome(
    mut replies: Replies<'_>,
    commands: usize,
    before: &Fence<'_>,
    behind: &Fence<'_>,
) -> Result<(), NotCommitted> {
    // EXEC itself only reports that an earlier command failed. These need a new connection.
    if let Some(error) = replies.pass(commands - 3).map(error_of)
        && (is_read_only(&error) || is_cut_off(&error))
    {
        return Err(NotCommitted::Unknown(error));
    }
    let exec = replies.next();
    let failed = match exec {
        Some(Reply::List(results)) => replies.pass(results),
        _ => None,
    };
    if let Some(Reply::Error(error)) = replies.next() {
        return Err(NotCommitted::Unknown(error_of(error)));
    }
    match exec {
        Some(Reply::List(_)) => match failed {
            None if behind.is_next(&mut replies) => Ok(()),
            None => Err(NotCommitted::Lost),
            // Neither MULTI nor Lua rolls back: a key has the wrong type, and part of the commit is missing.
            Some(error) => Err(NotCommitted::Odd(String::from_utf8_lossy(error).into_owned())),
        },
        Some(Reply::Nil) => Err(NotCommitted::Lost),
        Some(Reply::Error(error)) if before.is_next(&mut replies) => {
            Err(NotCommitted::Refused(error_of(error)))
        }
        Some(Reply::Error(error)) => Err(NotCommitted::Unknown(error_of(error))),
        other => Err(NotCommitted::Odd(format!("EXEC answered {other:?}"))),
    }
}
