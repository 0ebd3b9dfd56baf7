//! Sub-workflow runs: waiting orders and their outcome.

use redis::{Pipeline, Value};

use super::RedisStore;
use super::connection::args;
use super::keys::Keys;
use super::shards::word;
use crate::store::redis::connection::replies::{array, pairs, unexpected};
use crate::store::redis::connection::wire_connection::Request;
use crate::store::{Called, Refusal, StoreError, WaitingCall};
use tidemill_base::ids::{RunId, ShardId};
use tidemill_wire::commit::CallsWrite;
use tidemill_wire::fact::{self, kind};

/// About how many sub-workflow runs of a run are read at once.
const SHOWN: usize = 100;

/// Adds a run's orders, cancellations and facts for other runs to a commit.
pub(super) fn write(request: &mut Request, keys: &Keys, caller: RunId, calls: &CallsWrite, number: u64) {
    let shard = caller.shard();
    for (run, order) in &calls.ordered {
        request.command("HSET", 3).word(keys.calls(caller)).word(run).word(order);
        let member = WaitingCall::member(*run, caller);
        request.command("ZADD", 3).word(keys.calling(shard)).word(number).word(member);
    }
    let mut tell = |kind: &str, run: RunId, body: &str| {
        request.command("XADD", 8).word(keys.inbox(shard)).word("*");
        request.word("kind").word(kind).word("run").word(run).word("fact").word(body);
    };
    for run in &calls.dropped {
        tell(kind::STOP, *run, &fact::stop_body(fact::NOBODY_WAITS));
    }
    if let Some((caller, body)) = &calls.ended {
        tell(kind::CALL_ENDED, *caller, body);
    }
    for (run, kind, body) in &calls.parent_facts {
        tell(kind, *run, body);
    }
    for run in &calls.dropped {
        request.command("ZREM", 2).word(keys.calling(shard)).word(WaitingCall::member(*run, caller));
    }
}

impl RedisStore {
    pub(super) async fn some_calls(
        &self,
        shards: &[ShardId],
        most: usize,
    ) -> Result<Vec<WaitingCall>, StoreError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let mut pipe = Pipeline::with_capacity(shards.len());
        for shard in shards {
            pipe.cmd("ZRANGE").arg(self.keys.calling(*shard)).arg(0).arg(most - 1).arg("WITHSCORES");
        }
        let found: Vec<Vec<(String, u64)>> =
            self.connector.ask_those("listing ordered sub-workflow runs", &pipe).await?;
        Ok(found.iter().flatten().filter_map(|(member, since)| WaitingCall::read(member, *since)).collect())
    }

    pub(super) async fn order_of(&self, caller: RunId, run: RunId) -> Result<Option<String>, StoreError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.calls(caller)).arg(run.to_string());
        self.connector.ask("reading the order of a sub-workflow run", &command).await
    }

    pub(super) async fn some_calls_of(
        &self,
        caller: RunId,
    ) -> Result<(Vec<(RunId, String)>, u64), StoreError> {
        let key = self.keys.calls(caller);
        let mut pipe = redis::pipe();
        pipe.cmd("HLEN").arg(&key);
        pipe.cmd("HSCAN").arg(&key).arg(0).arg("COUNT").arg(SHOWN);
        let (count, (_, fields)): (u64, (u64, Vec<(String, String)>)) =
            self.connector.ask_all("reading the sub-workflow runs of a run", &pipe).await?;
        let read = |(run, order): (String, String)| Some((run.parse().ok()?, order));
        let mut calls: Vec<(RunId, String)> = fields.into_iter().filter_map(read).collect();
        calls.truncate(SHOWN);
        Ok((calls, count))
    }

    pub(super) async fn refuse(&self, it: &WaitingCall, why: &Refusal) -> Result<bool, StoreError> {
        let shard = it.caller.shard();
        let keys = [self.keys.calling(shard), self.keys.calls(it.caller), self.keys.inbox(shard)];
        let list = args![
            WaitingCall::member(it.run, it.caller),
            it.run.to_string(),
            &why.order,
            it.caller.to_string(),
            kind::CALL_ENDED,
            &why.fact,
        ];
        let word: String = self
            .connector
            .run("refusing a sub-workflow run", &self.scripts.refuse_call, &keys, &list)
            .await?;
        Ok(word == "REFUSED")
    }

    pub(super) async fn what_was_called(&self, caller: RunId, run: RunId) -> Result<Called, StoreError> {
        const DOING: &str = "reading a sub-workflow run";
        let keys = [self.keys.calls(caller), self.keys.calling(caller.shard()), self.keys.run(run)];
        let list = args![run.to_string(), WaitingCall::member(run, caller)];
        let answer: Value = self.connector.run(DOING, &self.scripts.called, &keys, &list).await?;
        let parts = array(answer).and_then(|parts| <[Value; 3]>::try_from(parts).ok());
        let [order, pending, fields] = parts.ok_or_else(|| unexpected(DOING, "not three parts"))?;
        let fields = pairs(fields).ok_or_else(|| unexpected(DOING, "the run is not a hash"))?;
        let order = word(order);
        let order = Some(order.as_str()).filter(|order| !order.is_empty());
        Ok(Called::of(order, word(pending) == "1", fields.into_iter().collect()))
    }
}
