//! A batch as one transaction under WATCH of the fence: cursor, changed fields, jobs, timers, events; or nothing.
//!
//! Behind each EXEC go, in the same write, the next WATCH and a read of the fence, whose answer must be what the next
//! commit builds on: so the guard costs no round trip. The connection belongs to the shard and never reconnects: a
//! silent reconnect would lose the WATCH, and the next EXEC would pass unguarded.

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};

use super::RedisStore;
use super::connection::{Connector, is_read_only};
use super::keys::Keys;
use super::replies::{array, text};
use crate::ids::{EntryId, RunId};
use crate::limits;
use crate::machine::run::RunStatus;
use crate::store::{Claim, Commit, CommitError, Owner, StoreError};
use crate::wire::commit::{ConversationWrite, RunWrite};

/// The owner's side of a shard.
pub(super) struct RedisOwner {
    claim: Claim,
    holder: String,
    /// The number of the last commit that went through.
    last: u64,
    connection: MultiplexedConnection,
    connector: Connector,
    keys: Keys,
    run_events_max: usize,
    ttl_seconds: u64,
    conversation_seconds: u64,
}

impl RedisOwner {
    /// Opens the connection and begins to watch the fence; none when the shard was lost meanwhile.
    pub(super) async fn open(
        store: &RedisStore,
        claim: Claim,
        holder: &str,
    ) -> Result<Option<Self>, StoreError> {
        let connection = store.connector.open(std::time::Duration::ZERO).await?;
        let mut owner = Self {
            last: claim.commit,
            holder: holder.to_string(),
            connection,
            connector: store.connector.clone(),
            keys: store.keys.clone(),
            run_events_max: store.limits.run_events_max,
            ttl_seconds: store.ttl_seconds(),
            conversation_seconds: store.limits.conversation_seconds,
            claim,
        };
        let mut pipe = redis::pipe();
        owner.watch(&mut pipe);
        let answer: RedisResult<Vec<Value>> = pipe.query_async(&mut owner.connection).await;
        let mut answer = answer.map_err(|e| owner.connector.error("watching a shard", &e))?;
        let is_ours = answer.pop().is_some_and(|fence| owner.is_ours(fence, owner.last));
        Ok(is_ours.then_some(owner))
    }

    fn watch(&self, pipe: &mut Pipeline) {
        let fence = self.keys.fence(self.claim.shard);
        pipe.cmd("WATCH").arg(&fence);
        pipe.cmd("HMGET").arg(&fence).arg("epoch").arg("holder").arg("commit");
    }

    fn is_ours(&self, fence: Value, commit: u64) -> bool {
        let want = [self.claim.epoch.to_string(), self.holder.clone(), commit.to_string()];
        array(fence).is_some_and(|f| f.into_iter().map(text).eq(want.into_iter().map(Some)))
    }

    fn pipe(&self, commit: &Commit) -> Pipeline {
        let shard = self.claim.shard;
        let mut pipe = Pipeline::with_capacity(8 + commit.writes.len() * 8);
        pipe.ignore_errors();
        pipe.cmd("MULTI");
        pipe.cmd("HSET").arg(self.keys.fence(shard)).arg("commit").arg(commit.number);
        if let Some(cursor) = commit.cursor {
            pipe.arg("cursor").arg(cursor.to_string());
        }
        for write in &commit.writes {
            self.write_run(&mut pipe, write, commit.number);
        }
        self.add_jobs(&mut pipe, commit);
        for member in &commit.timers_cleared {
            pipe.cmd("ZREM").arg(self.keys.timers(shard)).arg(member);
        }
        for dead in &commit.dead {
            pipe.cmd("XADD").arg(self.keys.dead(shard)).arg("MAXLEN").arg("~").arg(limits::DEAD_MAX).arg("*");
            for (field, value) in dead.fields() {
                pipe.arg(field).arg(value);
            }
        }
        self.publish(&mut pipe, commit);
        pipe.cmd("EXEC");
        self.watch(&mut pipe);
        pipe
    }

    /// Enqueues jobs in the order of their entries, whatever run they are of: a stream takes only ids above its last.
    fn add_jobs(&self, pipe: &mut Pipeline, commit: &Commit) {
        let mut jobs: Vec<_> = commit.writes.iter().flat_map(|write| &write.jobs).collect();
        jobs.sort_unstable_by_key(|job| job.entry);
        for job in jobs {
            command_of(pipe, "XADD", 6, job.body.len());
            pipe.arg(self.keys.jobs(self.claim.shard, &job.queue)).arg(job.entry.spell());
            pipe.arg("run").arg(job.run.encode(&mut RunId::buffer())).arg("job").arg(&job.body);
        }
    }

    fn write_run(&self, pipe: &mut Pipeline, write: &RunWrite, number: u64) {
        let (keys, run, shard) = (&self.keys, write.run, self.claim.shard);
        for (id, content) in &write.blobs {
            command_of(pipe, "SET", 2, content.len());
            pipe.arg(keys.blob(shard, id)).arg(content);
            pipe.cmd("HSET").arg(keys.blobs(run)).arg(id.as_str()).arg(content.len());
        }
        if !write.fields.is_empty() {
            pipe.cmd("HSET").arg(keys.run(run));
            for (field, value) in &write.fields {
                pipe.arg(*field).arg(value);
            }
        }
        self.write_state(pipe, write);
        for (index, entry) in write.entries.iter().enumerate() {
            let bytes = entry.iter().map(|(kind, data)| kind.len() + data.len()).sum();
            command_of(pipe, "XADD", 5 + entry.len() * 2, bytes);
            pipe.arg(keys.events(run));
            // Each entry has an event or more: a run of few events needs no cut, and Redis no look for one.
            if write.seq > self.run_events_max as u64 {
                pipe.arg("MAXLEN").arg("~").arg(self.run_events_max);
            }
            pipe.arg(EntryId::new(number, index as u64).spell());
            for (kind, data) in entry {
                pipe.arg(*kind).arg(data);
            }
        }
        for job in &write.taken_back {
            let (stream, entry) = (keys.jobs(shard, &job.queue), job.entry.to_string());
            pipe.cmd("XACK").arg(&stream).arg(super::keys::GROUP).arg(&entry);
            pipe.cmd("XDEL").arg(&stream).arg(&entry);
        }
        for member in &write.timers_cleared {
            pipe.cmd("ZREM").arg(keys.timers(shard)).arg(member);
        }
        for (due, member) in &write.timers_set {
            pipe.cmd("ZADD").arg(keys.timers(shard)).arg(due.millis()).arg(member);
        }
        if let Some(calls) = &write.calls {
            super::calls::write(pipe, keys, run, calls, number);
        }
        if write.go_on {
            pipe.cmd("XADD").arg(keys.inbox(shard)).arg("*");
            pipe.arg("kind").arg("continue").arg("run").arg(run.to_string()).arg("fact").arg("{}");
        }
        self.move_in_index(pipe, write);
    }

    fn write_state(&self, pipe: &mut Pipeline, write: &RunWrite) {
        let held = self.keys.held(write.run);
        write_fields(pipe, &self.keys.state(write.run), &write.state);
        if write.collected_cleared {
            pipe.cmd("UNLINK").arg(self.keys.collected(write.run));
        }
        write_fields(pipe, &self.keys.collected(write.run), &write.collected);
        set_fields(pipe, &self.keys.pauses(write.run), &write.pauses);
        set_fields(pipe, &self.keys.ledger(write.run), &write.ledger);
        if let Some(spent) = &write.spent {
            super::spent::write(pipe, &self.keys, self.claim.shard, spent);
        }
        if let Some(kept) = &write.conversation {
            self.write_conversation(pipe, kept);
        }
        if write.held_cleared {
            pipe.cmd("UNLINK").arg(&held);
        }
        if !write.held.is_empty() {
            pipe.cmd("RPUSH").arg(&held).arg(&write.held);
        }
    }

    /// With every write the conversation's time begins anew, for all that belongs to it.
    fn write_conversation(&self, pipe: &mut Pipeline, write: &ConversationWrite) {
        let shard = self.claim.shard;
        let blob = |id| self.keys.blob(shard, id);
        let key = self.keys.conversation(shard, &write.id);
        set_fields(pipe, &key, &write.fields);
        for (from, to) in &write.copies {
            pipe.cmd("COPY").arg(blob(from)).arg(blob(to)).arg("REPLACE");
        }
        if !write.dropped.is_empty() {
            pipe.cmd("UNLINK").arg(write.dropped.iter().map(blob).collect::<Vec<_>>());
        }
        let copies = write.copies.iter().map(|(_, to)| to).chain(&write.kept).map(blob);
        for key in std::iter::once(key).chain(copies) {
            match self.conversation_seconds {
                0 => pipe.cmd("PERSIST").arg(key),
                seconds => pipe.cmd("EXPIRE").arg(key).arg(seconds),
            };
        }
    }

    fn move_in_index(&self, pipe: &mut Pipeline, write: &RunWrite) {
        let (keys, run, shard) = (&self.keys, write.run, self.claim.shard);
        let Some((from, to)) = write.status else { return };
        let id = run.to_string();
        if from != to {
            pipe.cmd("ZREM").arg(keys.runs_of(shard, from)).arg(&id);
            pipe.cmd("ZADD").arg(keys.runs_of(shard, to)).arg(write.created_at.micros()).arg(&id);
        }
        if from == RunStatus::Scheduled && to.is_over() {
            // Began and ended within one commit: it never was on the list of running ones.
            pipe.cmd("ZREM").arg(keys.runs_of(shard, RunStatus::Running)).arg(&id);
        }
        if write.leaves_turn {
            pipe.cmd("SADD").arg(keys.unsettled(shard)).arg(&id);
        }
        if let Some(at) = write.ended_at {
            pipe.cmd("ZADD").arg(keys.ended(shard)).arg(at.micros()).arg(&id);
            for key in keys.all_of(run) {
                pipe.cmd("EXPIRE").arg(key).arg(self.ttl_seconds);
            }
            if write.has_ledger {
                pipe.cmd("EXPIRE").arg(keys.ledger(run)).arg(self.ttl_seconds);
            }
        }
    }

    fn publish(&self, pipe: &mut Pipeline, commit: &Commit) {
        let shard = self.claim.shard;
        let mut touched = String::new();
        for write in commit.writes.iter().filter(|w| !w.entries.is_empty()) {
            if !touched.is_empty() {
                touched.push(' ');
            }
            touched.push_str(write.run.encode(&mut RunId::buffer()));
        }
        if !touched.is_empty() {
            pipe.cmd("PUBLISH").arg(self.keys.tick(shard)).arg(touched);
        }
        let stop: Vec<String> =
            commit.writes.iter().flat_map(|w| &w.taken_back).map(|j| j.execution.to_string()).collect();
        if !stop.is_empty() {
            pipe.cmd("PUBLISH").arg(self.keys.cancel(shard)).arg(stop.join(" "));
        }
    }
}

/// Fields that one command deletes: a long one would hold the server up.
const FIELDS_MAX: usize = 500;

/// Writes fields of a hash and deletes those without a value.
fn write_fields(pipe: &mut Pipeline, key: &str, fields: &[(String, Option<String>)]) {
    let set = || fields.iter().filter_map(|(field, value)| Some((field, value.as_ref()?)));
    if set().next().is_some() {
        let bytes = set().map(|(field, value)| field.len() + value.len()).sum();
        command_of(pipe, "HSET", 1 + fields.len() * 2, bytes);
        pipe.arg(key);
        for (field, value) in set() {
            pipe.arg(field).arg(value);
        }
    }
    let gone: Vec<&str> =
        fields.iter().filter(|(_, value)| value.is_none()).map(|(field, _)| field.as_str()).collect();
    for slice in gone.chunks(FIELDS_MAX) {
        pipe.cmd("HDEL").arg(key).arg(slice);
    }
}

/// Writes fields of a hash.
fn set_fields(pipe: &mut Pipeline, key: &str, fields: &[(String, String)]) {
    if fields.is_empty() {
        return;
    }
    let bytes = fields.iter().map(|(field, value)| field.len() + value.len()).sum();
    command_of(pipe, "HSET", 1 + fields.len() * 2, bytes);
    pipe.arg(key);
    for (field, value) in fields {
        pipe.arg(field).arg(value);
    }
}

/// Begins a command with room for its arguments: these make up most of a commit, and growing them by and by was most of
/// what sending it cost.
fn command_of(pipe: &mut Pipeline, name: &str, arguments: usize, bytes: usize) {
    // Keys, ids and numbers come on top of what is written.
    const BESIDES: usize = 160;
    let mut command = Cmd::with_capacity(arguments + 1, bytes + BESIDES);
    command.arg(name);
    pipe.add_command(command);
}

#[async_trait]
impl Owner for RedisOwner {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    async fn commit(&mut self, commit: &Commit) -> Result<(), CommitError> {
        const DOING: &str = "committing";
        let pipe = self.pipe(commit);
        let answer: RedisResult<Vec<RedisResult<Value>>> = pipe.query_async(&mut self.connection).await;
        let mut answer = answer.map_err(|e| CommitError::Unknown(self.connector.error(DOING, &e)))?;
        let (fence, watch, exec) = (answer.pop(), answer.pop(), answer.pop());
        // EXEC itself only says that something was wrong before it.
        if let Some(error) =
            answer.iter().filter_map(|queued| queued.as_ref().err()).find(|e| is_read_only(e))
        {
            return Err(CommitError::Unknown(self.connector.error(DOING, error)));
        }
        let missing = |what: &str| {
            CommitError::Unknown(StoreError::Unexpected {
                doing: DOING,
                reason: format!("no answer to {what}"),
            })
        };
        let (Some(fence), Some(Ok(_)), Some(exec)) = (fence, watch, exec) else {
            return Err(missing("EXEC"));
        };
        let fence = fence.map_err(|e| CommitError::Unknown(self.connector.error(DOING, &e)))?;
        match exec {
            Ok(Value::Array(results)) => {
                if let Some(Value::ServerError(error)) =
                    results.iter().find(|r| matches!(r, Value::ServerError(_)))
                {
                    // Neither MULTI nor Lua rolls back: something has the wrong type, and a part was not written.
                    let reason = format!("{error:?}");
                    return Err(CommitError::Unknown(StoreError::Unexpected { doing: DOING, reason }));
                }
                if !self.is_ours(fence, commit.number) {
                    return Err(CommitError::Lost(self.claim.shard));
                }
                self.last = commit.number;
                Ok(())
            }
            Ok(Value::Nil) => Err(CommitError::Lost(self.claim.shard)),
            Ok(other) => {
                let reason = format!("EXEC answered {other:?}");
                Err(CommitError::Unknown(StoreError::Unexpected { doing: DOING, reason }))
            }
            Err(error) => match self.connector.error(DOING, &error) {
                // Refused whole, and watched again: the same commit may be sent again.
                refused @ StoreError::Refused { .. } if self.is_ours(fence, self.last) => {
                    Err(CommitError::NotDone(refused))
                }
                other => Err(CommitError::Unknown(other)),
            },
        }
    }
}
