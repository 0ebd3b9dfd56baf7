//! Commits and results on their way into the store. With all guards the store decides about them; without a guard this
//! file lets pass what that guard would have stopped. A commit needs the connection on which its owner took the shard: a
//! fail-over ends it.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use tidemill_common::ids::ShardId;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{Accepted, Claim, Commit, CommitError, Completion, Jobs, Owner, StoreError};

use super::shared::at_once;
use crate::guards::Guard;

/// An owner, shared with those of its commits that may still be on the way.
pub(crate) type SharedOwner = Rc<RefCell<Line>>;

/// An owner and its connection.
pub(crate) struct Line {
    owner: Box<dyn Owner>,
    /// The life of the server to which it leads.
    life: u64,
}

impl Line {
    /// Connects an owner to a server of this life.
    pub(crate) fn to_server(owner: Box<dyn Owner>, life: u64) -> SharedOwner {
        Rc::new(RefCell::new(Self { owner, life }))
    }

    pub(crate) fn claim(&self) -> &Claim {
        self.owner.claim()
    }

    /// Returns true if the server has failed over since.
    pub(crate) fn is_broken(&self, life: u64) -> bool {
        self.life != life
    }
}

/// What a commit meets on its way.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// The life of the server that has the shard now.
    pub(crate) life: u64,
    /// The shard refuses requests.
    pub(crate) is_still: bool,
    /// The guard that is removed.
    pub(crate) off: Option<Guard>,
}

/// Passes commits and results to the store, and acts as if the removed guard did not exist.
#[derive(Default)]
pub(crate) struct StoreGate {
    /// The current owner of each shard and the number of its last commit. A writer without a fence uses them.
    present: HashMap<ShardId, (SharedOwner, u64)>,
    /// Timers that were handed out, if the guard that keeps them is removed.
    popped: BTreeSet<String>,
}

impl StoreGate {
    /// Records that a shard was taken.
    pub(crate) fn taken(&mut self, owner: &SharedOwner) {
        let (shard, number) = (owner.borrow().claim().shard, owner.borrow().claim().commit);
        self.present.insert(shard, (owner.clone(), number));
    }

    /// Sends a commit. Puts what was really written into `commit`.
    ///
    /// # Errors
    /// The errors of the store.
    pub(crate) fn commit(
        &mut self,
        owner: &SharedOwner,
        commit: &mut Commit,
        way: Way,
    ) -> Result<(), CommitError> {
        let (doing, off) = ("a commit", way.off);
        if owner.borrow().is_broken(way.life) && off != Some(Guard::Line) {
            let (address, reason) = ("the old master".into(), "the connection is closed".into());
            return Err(CommitError::Unknown(StoreError::Unreachable { address, doing, reason }));
        }
        if way.is_still && off != Some(Guard::Again) {
            return Err(CommitError::NotDone(StoreError::Refused { doing, reason: "TRYAGAIN".into() }));
        }
        if off == Some(Guard::Cursor) {
            commit.cursor = None;
        }
        let shard = owner.borrow().claim().shard;
        let mut done = at_once(owner.borrow_mut().owner.commit(commit));
        if way.is_still && done.is_ok() {
            // Its answer looked like a refusal.
            commit.number += 1;
            done = at_once(owner.borrow_mut().owner.commit(commit));
        }
        if let (Err(CommitError::Lost(_)), Some(Guard::Fence), Some((present, last))) =
            (&done, off, self.present.get(&shard))
        {
            commit.number = last + 1;
            done = at_once(present.borrow_mut().owner.commit(commit));
        }
        if let (Ok(()), Some((_, last))) = (&done, self.present.get_mut(&shard)) {
            *last = commit.number;
        }
        done
    }

    /// Passes a result to the store.
    pub(crate) fn complete(
        &self,
        store: &MemoryStore,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        it: &Completion,
        off: Option<Guard>,
    ) -> Accepted {
        let answers = at_once(store.complete(shard, queue, consumer, std::slice::from_ref(it)));
        let answer = answers.ok().and_then(|answers| answers.first().copied()).unwrap_or(Accepted::NotYours);
        if answer == Accepted::NotYours && off == Some(Guard::Holder) {
            let fact = (it.run, it.kind, it.body.clone());
            return at_once(store.report(shard, &[fact])).map_or(answer, |()| Accepted::Stored);
        }
        answer
    }

    /// Returns true if a due timer can still be seen.
    pub(crate) fn sees_timer(&mut self, member: &str, off: Option<Guard>) -> bool {
        off != Some(Guard::Timers) || self.popped.insert(member.to_string())
    }
}
