//! A simulated scheduler: it lives, dies, freezes, and owns shards.

use std::collections::BTreeMap;
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::ShardId;
use tidemill_common::limits;
use tidemill_common::store::Shards;

use super::shard_loop::{End, ShardLoop};
use super::shared::{Shared, at_once};
use super::store_gate::Line;

const LEASE: Duration = Duration::from_millis(limits::SHARD_LEASE_MS);
const RENEW: Duration = Duration::from_millis(limits::SHARD_RENEW_MS);

/// A scheduler with the shards that it owns.
pub(crate) struct Scheduler {
    number: usize,
    life: u32,
    frozen_until: Option<Timestamp>,
    renewed_at: Timestamp,
    owned: BTreeMap<ShardId, ShardLoop>,
}

impl Scheduler {
    /// Creates a scheduler without shards.
    pub(crate) fn new(number: usize) -> Self {
        Self { number, life: 1, frozen_until: None, renewed_at: Timestamp::default(), owned: BTreeMap::new() }
    }

    fn id(&self) -> String {
        format!("s{}.{}", self.number, self.life)
    }

    /// Returns true if the scheduler is running now; wakes it up when its time has come.
    fn is_awake(&mut self, shared: &mut Shared) -> bool {
        if self.frozen_until.is_some_and(|until| until > shared.now()) {
            return false;
        }
        if self.frozen_until.take().is_some() {
            let id = self.id();
            shared.log(|| format!("{id} wakes up"));
            // It does not know that it was frozen: it first sends what it had computed.
            if shared.dice.percent(70) {
                self.on_some_loop(shared, ShardLoop::send);
            }
        }
        true
    }

    /// Work by the clock: renews leases and releases shards that are lost.
    pub(crate) fn tick(&mut self, shared: &mut Shared) {
        if !self.is_awake(shared) || self.renewed_at.plus(RENEW) > shared.now() {
            return;
        }
        self.renewed_at = shared.now();
        let shards: Vec<ShardId> =
            self.owned.keys().copied().filter(|shard| !shared.is_still(*shard)).collect();
        let lost = at_once(shared.store.renew(&shards, &self.id(), LEASE)).unwrap_or_default();
        for shard in lost {
            let id = self.id();
            shared.log(|| format!("{id} learns that it lost shard {shard}"));
            shared.count("leases lost");
            self.owned.remove(&shard);
        }
    }

    /// Does one thing, or has a fault.
    pub(crate) fn turn(&mut self, shared: &mut Shared) {
        if !self.is_awake(shared) {
            return;
        }
        let id = self.id();
        if shared.strikes(|f| f.scheduler_dies) {
            return self.die(shared);
        }
        if shared.strikes(|f| f.scheduler_freezes) {
            // In most cases this is between computing a commit and sending it.
            if shared.dice.percent(70) {
                self.on_some_loop(shared, ShardLoop::read);
                self.on_some_loop(shared, ShardLoop::compute);
            }
            let ms = shared.dice.between(100, 15_000);
            shared.log(|| format!("{id} freezes for {ms} ms"));
            shared.count("schedulers frozen");
            self.frozen_until = Some(shared.now().plus(Duration::from_millis(ms)));
            return;
        }
        if self.owned.is_empty() || shared.dice.percent(8) {
            return self.look_around(shared);
        }
        if shared.strikes(|f| f.shard_moves) {
            return self.give_up_one(shared);
        }
        match shared.dice.below(12) {
            0..=2 => self.on_some_loop(shared, ShardLoop::read),
            3..=5 => self.on_some_loop(shared, ShardLoop::compute),
            6..=9 => self.on_some_loop(shared, ShardLoop::send),
            10 => self.on_some_loop(shared, ShardLoop::take_due_timers),
            _ => self.on_some_loop(shared, ShardLoop::housekeeping),
        }
    }

    /// Does all pending work, without faults.
    pub(crate) fn settle(&mut self, shared: &mut Shared) {
        self.frozen_until = None;
        self.look_around(shared);
        for step in [
            ShardLoop::read,
            ShardLoop::take_due_timers,
            ShardLoop::compute,
            ShardLoop::send,
            ShardLoop::housekeeping,
        ] {
            for shard in self.owned.keys().copied().collect::<Vec<_>>() {
                self.on_loop(shard, shared, step);
            }
        }
    }

    fn on_some_loop(
        &mut self,
        shared: &mut Shared,
        step: fn(&mut ShardLoop, &mut Shared) -> Result<(), End>,
    ) {
        let shards: Vec<ShardId> = self.owned.keys().copied().collect();
        if let Some(shard) = shared.dice.pick(&shards) {
            self.on_loop(*shard, shared, step);
        }
    }

    fn on_loop(
        &mut self,
        shard: ShardId,
        shared: &mut Shared,
        step: fn(&mut ShardLoop, &mut Shared) -> Result<(), End>,
    ) {
        let Some(shard_loop) = self.owned.get_mut(&shard) else { return };
        let Err(end) = step(shard_loop, shared) else { return };
        let id = self.id();
        shared.log(|| format!("{id} releases shard {shard}: {end:?}"));
        match end {
            End::Died => self.die(shared),
            End::LetGo => {
                self.owned.remove(&shard);
            }
        }
    }

    /// Takes free shards, also those that it released before.
    fn look_around(&mut self, shared: &mut Shared) {
        for shard in shared.shards() {
            if self.owned.contains_key(&shard) || shared.is_still(shard) {
                continue;
            }
            let id = self.id();
            let holder = at_once(shared.store.holder(shard)).ok().flatten();
            if holder.is_some_and(|holder| holder != id) {
                continue;
            }
            let Some(owner) = at_once(shared.store.claim(shard, &id, LEASE)).ok().flatten() else { continue };
            let owner = Line::to_server(owner, shared.servers.life(shard));
            shared.gate.taken(&owner);
            shared.count("shards taken");
            shared.log(|| {
                let claim = owner.borrow().claim().clone();
                format!("{id} takes shard {shard}, epoch {}, cursor {}", claim.epoch, claim.cursor)
            });
            self.owned.insert(shard, ShardLoop::new(id, owner, shared.cache_bytes));
        }
    }

    /// Gives up a shard together with its computed commits, so that another scheduler can take it.
    fn give_up_one(&mut self, shared: &mut Shared) {
        let shards: Vec<ShardId> = self.owned.keys().copied().collect();
        let Some(shard) = shared.dice.pick(&shards) else { return };
        let id = self.id();
        shared.log(|| format!("{id} gives shard {shard} up"));
        shared.count("shards given up");
        self.owned.remove(shard);
        if !shared.is_still(*shard) {
            at_once(shared.store.release(*shard, &id)).ok();
        }
    }

    fn die(&mut self, shared: &mut Shared) {
        let id = self.id();
        shared.log(|| format!("{id} dies"));
        shared.count("schedulers killed");
        *self = Self { life: self.life + 1, ..Self::new(self.number) };
    }
}
