//! Triggers in Redis: a hash each, and on each shard a sorted set of due times, which alone decides when.

use std::collections::HashMap;

use redis::Pipeline;

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{
    DueSchedule, Fired, Meta, Runs, StoreError, Trigger, TriggerChanges, TriggerKind, TriggerState, shard_of,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::ShardId;

/// The most schedules that one call takes from a shard; the others follow later.
const LOOK_MAX: usize = 1000;

impl RedisStore {
    /// Adds the changes to the transaction that publishes an app.
    pub(super) fn change_triggers(&self, changes: &TriggerChanges, pipe: &mut Pipeline) {
        let keys = &self.keys;
        for (trigger, _) in &changes.put {
            pipe.cmd("HSET").arg(keys.trigger(&trigger.id));
            for (field, value) in [
                ("kind", trigger.kind.name()),
                ("app", &trigger.app),
                ("node", &trigger.node),
                ("name", &trigger.name),
                ("cron", &trigger.cron),
                ("zone", &trigger.zone),
            ] {
                pipe.arg(field).arg(value);
            }
            pipe.ignore();
            pipe.cmd("SADD").arg(keys.triggers()).arg(&trigger.id).ignore();
        }
        for id in &changes.removed {
            pipe.cmd("DEL").arg(keys.trigger(id)).ignore();
            pipe.cmd("SREM").arg(keys.triggers()).arg(id).ignore();
        }
    }

    /// Sets the due times of schedules before the transaction that publishes their app. They are on shards, so on a
    /// cluster on other servers than the app. If the transaction fails, publishing again repeats this; a due time
    /// without a trigger starts nothing.
    pub(super) async fn set_due(&self, changes: &TriggerChanges, meta: Meta) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        for (trigger, due) in &changes.put {
            let is_kept = changes.unchanged.contains(&trigger.id);
            due.iter().for_each(|due| self.add_due(&trigger.id, *due, is_kept, meta, &mut pipe));
        }
        if pipe.is_empty() { Ok(()) } else { self.connector.ask_all("setting schedules", &pipe).await }
    }

    /// Settles the due times after the transaction: those of removed triggers go, and those that a scheduler dropped
    /// because it looked before the transaction are set again.
    pub(super) async fn settle_due(&self, changes: &TriggerChanges, meta: Meta) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        for (trigger, due) in &changes.put {
            due.iter().for_each(|due| self.add_due(&trigger.id, *due, true, meta, &mut pipe));
        }
        for id in &changes.removed {
            pipe.cmd("ZREM").arg(self.keys.schedules(shard_of(id, meta))).arg(id).ignore();
        }
        if pipe.is_empty() { Ok(()) } else { self.connector.ask_all("settling schedules", &pipe).await }
    }

    fn add_due(&self, id: &str, due: Timestamp, is_kept: bool, meta: Meta, pipe: &mut Pipeline) {
        pipe.cmd("ZADD").arg(self.keys.schedules(shard_of(id, meta)));
        if is_kept {
            pipe.arg("NX");
        }
        pipe.arg(due.millis()).arg(id).ignore();
    }

    pub(super) async fn find_trigger(&self, id: &str) -> Result<Option<TriggerState>, StoreError> {
        const DOING: &str = "reading a trigger";
        let meta = Runs::meta(self).await?;
        let mut pipe = redis::pipe();
        self.ask_for(id, meta, &mut pipe);
        let (fields, due): (HashMap<String, String>, Option<f64>) =
            self.connector.ask_all(DOING, &pipe).await?;
        Ok(state(id, fields, due))
    }

    pub(super) async fn list_triggers(&self) -> Result<Vec<TriggerState>, StoreError> {
        const DOING: &str = "listing triggers";
        let meta = Runs::meta(self).await?;
        let mut members = redis::cmd("SMEMBERS");
        members.arg(self.keys.triggers());
        let mut ids: Vec<String> = self.connector.ask(DOING, &members).await?;
        ids.sort();
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(100) {
            let mut pipe = redis::pipe();
            some.iter().for_each(|id| self.ask_for(id, meta, &mut pipe));
            let answers: Vec<redis::Value> = self.connector.ask_all(DOING, &pipe).await?;
            for (id, answer) in some.iter().zip(answers.chunks(2)) {
                let [fields, due] = answer else { return Err(unexpected(DOING, "an answer is missing")) };
                let wrong = |error: redis::ParsingError| unexpected(DOING, error.to_string());
                let fields = redis::FromRedisValue::from_redis_value(fields.clone()).map_err(wrong)?;
                let due = redis::FromRedisValue::from_redis_value(due.clone()).map_err(wrong)?;
                found.extend(state(id, fields, due));
            }
        }
        Ok(found)
    }

    fn ask_for(&self, id: &str, meta: Meta, pipe: &mut Pipeline) {
        pipe.cmd("HGETALL").arg(self.keys.trigger(id));
        pipe.cmd("ZSCORE").arg(self.keys.schedules(shard_of(id, meta))).arg(id);
    }

    pub(super) async fn look_for_due(
        &self,
        shards: &[ShardId],
    ) -> Result<(Timestamp, Vec<DueSchedule>), StoreError> {
        const DOING: &str = "looking for due schedules";
        let now = Runs::time(self).await?;
        let mut pipe = redis::pipe();
        for shard in shards {
            pipe.cmd("ZRANGEBYSCORE").arg(self.keys.schedules(*shard)).arg("-inf").arg(now.millis());
            pipe.arg("WITHSCORES").arg("LIMIT").arg(0).arg(LOOK_MAX);
        }
        if shards.is_empty() {
            return Ok((now, Vec::new()));
        }
        let answers: Vec<Vec<(String, f64)>> = self.connector.ask_those(DOING, &pipe).await?;
        let entry = |(trigger, at): (String, f64)| DueSchedule { trigger, due: moment(at) };
        Ok((now, answers.into_iter().flatten().map(entry).collect()))
    }

    pub(super) async fn move_due(
        &self,
        trigger: &str,
        from: Timestamp,
        to: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        const DOING: &str = "moving a schedule";
        let keys = [self.keys.schedules(shard_of(trigger, Runs::meta(self).await?))];
        let to = to.map(|to| to.millis().to_string()).unwrap_or_default();
        let args = args![trigger, from.millis(), to];
        let word: String = self.connector.run(DOING, &self.scripts.move_schedule, &keys, &args).await?;
        Ok(word == "MOVED")
    }

    pub(super) async fn note(&self, trigger: &str, fired: &Fired) -> Result<(), StoreError> {
        let keys = [self.keys.trigger(trigger)];
        let run = fired.run.map(|run| run.to_string()).unwrap_or_default();
        let at = fired.at.map(|at| at.micros().to_string()).unwrap_or_default();
        let args = args![run, at, fired.error.as_deref().unwrap_or_default()];
        let _: String = self
            .connector
            .run("storing the result of a trigger", &self.scripts.note_trigger, &keys, &args)
            .await?;
        Ok(())
    }
}

fn state(id: &str, mut fields: HashMap<String, String>, due: Option<f64>) -> Option<TriggerState> {
    let kind = TriggerKind::from_name(fields.get("kind")?)?;
    let mut take = |name: &str| fields.remove(name).unwrap_or_default();
    let trigger = Trigger {
        id: id.to_string(),
        kind,
        app: take("app"),
        node: take("node"),
        name: take("name"),
        cron: take("cron"),
        zone: take("zone"),
    };
    let fired = Fired {
        at: take("fired_at").parse().ok().map(Timestamp::from_micros),
        run: take("run").parse().ok(),
        error: Some(take("error")).filter(|error| !error.is_empty()),
    };
    Some(TriggerState { trigger, fired, due: due.map(moment) })
}

/// Scores are whole milliseconds, which a double of this size holds exactly.
fn moment(score: f64) -> Timestamp {
    Timestamp::from_millis(score as i64)
}
