//! Commits and results on their way into the store. With all guards the store decides about them; without a guard this
//! file lets pass what that guard would have stopped.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use tidemill_common::ids::ShardId;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{Accepted, Commit, CommitError, Completion, Jobs, Owner};

use super::shared::at_once;
use crate::guards::Guard;

/// An owner, shared with those of its commits that may still be on the way.
pub(crate) type SharedOwner = Rc<RefCell<Box<dyn Owner>>>;

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
        off: Option<Guard>,
    ) -> Result<(), CommitError> {
        if off == Some(Guard::Cursor) {
            commit.cursor = None;
        }
        let shard = owner.borrow().claim().shard;
        let mut done = at_once(owner.borrow_mut().commit(commit));
        if let (Err(CommitError::Lost(_)), Some(Guard::Fence), Some((present, last))) =
            (&done, off, self.present.get(&shard))
        {
            commit.number = last + 1;
            done = at_once(present.borrow_mut().commit(commit));
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
