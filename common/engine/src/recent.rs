//! The executions that were asked for last. Their ids are hashes, asked for several times in a step, and mostly once more in
//! the next one, which hears how the job has ended that this one has ordered.

use tidemill_base::ids::{ExecutionId, FramePath};
use tidemill_workflow::graph::NodeIx;

/// How many are remembered: as few as cost nothing, enough for a few branches side by side.
const MOST: usize = 4;

/// Some executions with their ids. It is no part of a run's state: two are always equal.
#[derive(Debug, Clone, Default)]
pub struct Recent {
    known: Vec<(FramePath, NodeIx, ExecutionId)>,
    /// Which one makes room for the next.
    oldest: usize,
}

impl PartialEq for Recent {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Recent {
    /// The id of an execution, if it is remembered.
    pub(super) fn find(&self, frame: &FramePath, node: NodeIx) -> Option<ExecutionId> {
        let is_asked = |(of, at, _): &&(FramePath, NodeIx, ExecutionId)| *at == node && of == frame;
        self.known.iter().find(is_asked).map(|(_, _, execution)| *execution)
    }
    /// Remembers one, in place of the oldest.
    pub(super) fn keep(&mut self, frame: &FramePath, node: NodeIx, execution: ExecutionId) {
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
