//! A simulated scheduler: it lives, dies, freezes, and owns shards.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::ShardId;
use tidemill_common::limits;
use tidemill_common::store::Shards;

use super::ground::{Ground, at_once};
use super::wheel::{End, Wheel};

const LEASE: Duration = Duration::from_millis(limits::SHARD_LEASE_MS);
const RENEW: Duration = Duration::from_millis(limits::SHARD_RENEW_MS);

/// A scheduler with the shards that it owns.
pub(crate) struct Scheduler {
    number: usize,
    life: u32,
    frozen_until: Option<Timestamp>,
    renewed_at: Timestamp,
    owned: BTreeMap<ShardId, Wheel>,
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
    fn is_awake(&mut self, ground: &mut Ground) -> bool {
        if self.frozen_until.is_some_and(|until| until > ground.now()) {
            return false;
        }
        if self.frozen_until.take().is_some() {
            let id = self.id();
            ground.tell(|| format!("{id} wakes up"));
            // It does not know that it was frozen: it first sends what it had computed.
            if ground.dice.percent(70) {
                self.on_some_wheel(ground, Wheel::send);
            }
        }
        true
    }

    /// Work by the clock: renews leases and releases shards that are lost.
    pub(crate) fn tick(&mut self, ground: &mut Ground) {
        if !self.is_awake(ground) || self.renewed_at.plus(RENEW) > ground.now() {
            return;
        }
        self.renewed_at = ground.now();
        let shards: Vec<ShardId> = self.owned.keys().copied().collect();
        let lost = at_once(ground.store.renew(&shards, &self.id(), LEASE)).unwrap_or_default();
        for shard in lost {
            let id = self.id();
            ground.tell(|| format!("{id} learns that it lost shard {shard}"));
            ground.count("leases lost");
            self.owned.remove(&shard);
        }
    }

    /// Does one thing, or has a fault.
    pub(crate) fn turn(&mut self, ground: &mut Ground) {
        if !self.is_awake(ground) {
            return;
        }
        let id = self.id();
        if ground.strikes(|f| f.scheduler_dies) {
            return self.die(ground);
        }
        if ground.strikes(|f| f.scheduler_freezes) {
            // In most cases this is between computing a commit and sending it.
            if ground.dice.percent(70) {
                self.on_some_wheel(ground, Wheel::read);
                self.on_some_wheel(ground, Wheel::compute);
            }
            let ms = ground.dice.between(100, 15_000);
            ground.tell(|| format!("{id} freezes for {ms} ms"));
            ground.count("schedulers frozen");
            self.frozen_until = Some(ground.now().plus(Duration::from_millis(ms)));
            return;
        }
        if self.owned.is_empty() || ground.dice.percent(8) {
            return self.look_around(ground);
        }
        if ground.strikes(|f| f.shard_moves) {
            return self.give_up_one(ground);
        }
        match ground.dice.below(12) {
            0..=2 => self.on_some_wheel(ground, Wheel::read),
            3..=5 => self.on_some_wheel(ground, Wheel::compute),
            6..=9 => self.on_some_wheel(ground, Wheel::send),
            10 => self.on_some_wheel(ground, Wheel::take_due_timers),
            _ => self.on_some_wheel(ground, Wheel::keep_house),
        }
    }

    /// Does all pending work, without faults.
    pub(crate) fn settle(&mut self, ground: &mut Ground) {
        self.frozen_until = None;
        self.look_around(ground);
        for step in [Wheel::read, Wheel::take_due_timers, Wheel::compute, Wheel::send, Wheel::keep_house] {
            for shard in self.owned.keys().copied().collect::<Vec<_>>() {
                self.on_wheel(shard, ground, step);
            }
        }
    }

    fn on_some_wheel(&mut self, ground: &mut Ground, step: fn(&mut Wheel, &mut Ground) -> Result<(), End>) {
        let shards: Vec<ShardId> = self.owned.keys().copied().collect();
        if let Some(shard) = ground.dice.pick(&shards) {
            self.on_wheel(*shard, ground, step);
        }
    }

    fn on_wheel(
        &mut self,
        shard: ShardId,
        ground: &mut Ground,
        step: fn(&mut Wheel, &mut Ground) -> Result<(), End>,
    ) {
        let Some(wheel) = self.owned.get_mut(&shard) else { return };
        let Err(end) = step(wheel, ground) else { return };
        let id = self.id();
        ground.tell(|| format!("{id} releases shard {shard}: {end:?}"));
        match end {
            End::Died => self.die(ground),
            End::LetGo => {
                self.owned.remove(&shard);
            }
        }
    }

    /// Takes free shards, also those that it released before.
    fn look_around(&mut self, ground: &mut Ground) {
        for shard in ground.shards() {
            if self.owned.contains_key(&shard) {
                continue;
            }
            let id = self.id();
            let holder = at_once(ground.store.holder(shard)).ok().flatten();
            if holder.is_some_and(|holder| holder != id) {
                continue;
            }
            let Some(owner) = at_once(ground.store.claim(shard, &id, LEASE)).ok().flatten() else { continue };
            let owner = Rc::new(RefCell::new(owner));
            ground.desk.taken(&owner);
            ground.count("shards taken");
            ground.tell(|| {
                let claim = owner.borrow().claim().clone();
                format!("{id} takes shard {shard}, epoch {}, cursor {}", claim.epoch, claim.cursor)
            });
            self.owned.insert(shard, Wheel::new(id, owner, ground.cache_bytes));
        }
    }

    /// Gives up a shard together with its computed commits, so that another scheduler can take it.
    fn give_up_one(&mut self, ground: &mut Ground) {
        let shards: Vec<ShardId> = self.owned.keys().copied().collect();
        let Some(shard) = ground.dice.pick(&shards) else { return };
        let id = self.id();
        ground.tell(|| format!("{id} gives shard {shard} up"));
        ground.count("shards given up");
        self.owned.remove(shard);
        at_once(ground.store.release(*shard, &id)).ok();
    }

    fn die(&mut self, ground: &mut Ground) {
        let id = self.id();
        ground.tell(|| format!("{id} dies"));
        ground.count("schedulers killed");
        *self = Self { life: self.life + 1, ..Self::new(self.number) };
    }
}
