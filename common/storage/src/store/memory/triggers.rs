//! Triggers and their schedules in the store in memory, which tests and the simulator use. It must behave like
//! `store/redis/triggers.rs`; the contract suite runs on both.

use crate::store::{DueSchedule, Fired, FromSchedule, Meta, Trigger, TriggerChanges, TriggerState, shard_of};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::ShardId;

use super::Namespace;
use super::shard::Shard;

/// A trigger and its last result.
pub(super) struct StoredTrigger {
    trigger: Trigger,
    fired: Fired,
}

impl Namespace {
    pub(super) fn change_triggers(&mut self, changes: &TriggerChanges, meta: Meta) {
        for (trigger, due) in &changes.put {
            let fired = self.triggers.remove(&trigger.id).map(|kept| kept.fired).unwrap_or_default();
            self.triggers.insert(trigger.id.clone(), StoredTrigger { trigger: trigger.clone(), fired });
            let schedules = &mut self.shard(shard_of(&trigger.id, meta)).schedules;
            match due {
                Some(due) if changes.unchanged.contains(&trigger.id) => {
                    schedules.entry(trigger.id.clone()).or_insert(*due);
                }
                Some(due) => {
                    schedules.insert(trigger.id.clone(), *due);
                }
                None => {}
            }
        }
        for id in &changes.removed {
            self.triggers.remove(id);
            self.shard(shard_of(id, meta)).schedules.remove(id);
        }
    }

    pub(super) fn trigger(&mut self, id: &str, meta: Meta) -> Option<TriggerState> {
        let due = self.shard(shard_of(id, meta)).schedules.get(id).copied();
        let kept = self.triggers.get(id)?;
        Some(TriggerState { trigger: kept.trigger.clone(), fired: kept.fired.clone(), due })
    }

    pub(super) fn all_triggers(&mut self, meta: Meta) -> Vec<TriggerState> {
        let ids: Vec<String> = self.triggers.keys().cloned().collect();
        ids.iter().filter_map(|id| self.trigger(id, meta)).collect()
    }

    pub(super) fn due(&mut self, shards: &[ShardId], now: Timestamp) -> Vec<DueSchedule> {
        let mut found = Vec::new();
        for shard in shards {
            let mut due: Vec<_> =
                self.shard(*shard).schedules.iter().filter(|(_, due)| **due <= now).collect();
            due.sort_by_key(|(id, due)| (**due, (*id).clone()));
            found.extend(due.into_iter().map(|(id, due)| DueSchedule { trigger: id.clone(), due: *due }));
        }
        found
    }

    pub(super) fn note_fired(&mut self, trigger: &str, fired: &Fired) {
        if let Some(kept) = self.triggers.get_mut(trigger) {
            if fired.run.is_some() {
                (kept.fired.run, kept.fired.at) = (fired.run, fired.at);
            }
            kept.fired.error = fired.error.clone();
        }
    }
}

impl Shard {
    pub(super) fn is_due(&self, trigger: &str, due: Timestamp) -> bool {
        self.schedules.get(trigger) == Some(&due)
    }
    pub(super) fn move_schedule(&mut self, trigger: &str, to: Option<Timestamp>) {
        match to {
            Some(to) => self.schedules.insert(trigger.to_string(), to),
            None => self.schedules.remove(trigger),
        };
    }
    pub(super) fn moved_by(&mut self, from: Option<&FromSchedule>) {
        if let Some(from) = from {
            self.move_schedule(&from.trigger, from.next);
        }
    }
}
