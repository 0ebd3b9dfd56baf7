//! A cache of the ids of recent executions. An id is a hash that a step needs several times, and often once more in the
//! next step, when the job that this one ordered has ended.

use tidemill_base::ids::{ExecutionId, FramePath};
use tidemill_workflow::graph::NodeIx;

/// The size of the cache: small enough to search quickly, and enough for a few parallel branches.
const MOST: usize = 4;

/// The cache. It is not part of a run's state, so two are always equal.
#[derive(Debug, Clone, Default)]
pub struct Recent {
    known: Vec<(FramePath, NodeIx, ExecutionId)>,
    /// The index that is replaced next.
    oldest: usize,
}

impl PartialEq for Recent {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Recent {
    /// Returns the id of an execution, if it is in the cache.
    pub(crate) fn find(&self, frame: &FramePath, node: NodeIx) -> Option<ExecutionId> {
        let is_asked = |(of, at, _): &&(FramePath, NodeIx, ExecutionId)| *at == node && of == frame;
        self.known.iter().find(is_asked).map(|(_, _, execution)| *execution)
    }
    /// Adds an id, in place of the oldest if the cache is full.
    pub(crate) fn keep(&mut self, frame: &FramePath, node: NodeIx, execution: ExecutionId) {
        let new = (frame.clone(), node, execution);
        if self.known.len() < MOST {
            return self.known.push(new);
        }
        self.known[self.oldest] = new;
        self.oldest = (self.oldest + 1) % MOST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::ids::{RunId, ShardId};

    #[test]
    fn the_last_ones_are_remembered_each_with_its_own_id() {
        let run = RunId::new(1, 2, ShardId(3));
        let of = |frame: &FramePath, node: NodeIx| {
            ExecutionId::derive(&run, frame, &node.0.to_string().as_str().into())
        };
        let (root, item) = (FramePath::root(), FramePath::from("it#1"));
        let mut recent = Recent::default();
        for at in 0..10 {
            for frame in [&root, &item] {
                assert_eq!(recent.find(frame, NodeIx(at)), None);
                recent.keep(frame, NodeIx(at), of(frame, NodeIx(at)));
            }
            for at in at.saturating_sub(1)..=at {
                for frame in [&root, &item] {
                    assert_eq!(recent.find(frame, NodeIx(at)), Some(of(frame, NodeIx(at))));
                }
            }
        }
        assert_eq!((recent.find(&root, NodeIx(7)), recent.known.len()), (None, MOST));
    }
}
