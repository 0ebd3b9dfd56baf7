//! Collects the changes of the runs in a batch until they are written. The buffers are reused, because each batch of a
//! busy shard fills about the same.

use tidemill_common::ids::RunId;
use tidemill_common::machine::order::changes::Changes;

/// A buffer is freed when its run has written more bytes than this.
const KEPT_BYTES: usize = 16 * 1024;

/// The changes of several runs, in the order of their last change. When two runs write the same value (what their
/// conversation remembers), the later one wins, however facts are split into batches.
#[derive(Debug, Default)]
pub struct StepBuffers {
    /// Each run with the index of its buffer.
    runs: Vec<(RunId, usize)>,
    /// The buffers: those of `runs` first, then empty ones. The first empty one takes the changes of the next step.
    buffers: Vec<Changes>,
}

impl StepBuffers {
    /// The empty buffer for the changes of the next step.
    pub(crate) fn next(&mut self) -> &mut Changes {
        let at = self.runs.len();
        if self.buffers.len() == at {
            self.buffers.push(Changes::default());
        }
        &mut self.buffers[at]
    }

    /// Assigns the changes in [`Self::next`] to a run, after its earlier ones.
    pub(crate) fn keep(&mut self, run: RunId) {
        let at = self.runs.len();
        let Some(known) = self.runs.iter().position(|(known, _)| *known == run) else {
            return self.runs.push((run, at));
        };
        let later = std::mem::take(&mut self.buffers[at]);
        let changes = &mut self.buffers[self.runs[known].1];
        if !later.is_empty() {
            self.runs[known..].rotate_left(1);
        }
        changes.append(later);
    }

    /// The runs that have changed.
    pub(crate) fn runs(&self) -> impl Iterator<Item = RunId> {
        self.runs.iter().map(|(run, _)| *run)
    }

    /// Passes the changes of each run to `write` and empties the buffers. `write` returns the number of bytes that it
    /// wrote.
    pub(crate) fn hand_over(&mut self, mut write: impl FnMut(RunId, &mut Changes) -> usize) {
        for (run, buffer) in self.runs.drain(..) {
            let changes = &mut self.buffers[buffer];
            if write(run, changes) > KEPT_BYTES {
                *changes = Changes::default();
            } else {
                changes.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_common::ids::ShardId;

    use super::*;

    fn run(number: u64) -> RunId {
        RunId::new(number, 0, ShardId(0))
    }

    /// Adds a step that spends this many tokens, so that a test can recognise it.
    fn spend(buffers: &mut StepBuffers, run: RunId, tokens: u64) {
        let next = buffers.next();
        assert!(next.is_empty());
        next.continue_due = true;
        next.ledger.push((tokens.to_string(), String::new()));
        buffers.keep(run);
    }

    fn handed_over(buffers: &mut StepBuffers, bytes: usize) -> Vec<(RunId, Vec<String>)> {
        let mut all = Vec::new();
        buffers.hand_over(|run, changes| {
            all.push((run, changes.ledger.iter().map(|(tokens, _)| tokens.clone()).collect()));
            bytes
        });
        all
    }

    #[test]
    fn changes_of_a_run_are_joined_at_the_position_of_its_last_change() {
        let mut buffers = StepBuffers::default();
        for (at, tokens) in [(2, 1), (1, 2), (2, 3), (3, 4), (2, 5), (4, 6)] {
            spend(&mut buffers, run(at), tokens);
        }
        // A step without changes does not count.
        assert!(buffers.next().is_empty());
        buffers.keep(run(1));
        assert_eq!(buffers.runs().collect::<Vec<_>>(), [run(1), run(3), run(2), run(4)]);
        let of = |run, tokens: &[u64]| (run, tokens.iter().map(u64::to_string).collect::<Vec<_>>());
        let all = [of(run(1), &[2]), of(run(3), &[4]), of(run(2), &[1, 3, 5]), of(run(4), &[6])];
        assert_eq!(handed_over(&mut buffers, 0), all);
        assert!(buffers.buffers.iter().all(Changes::is_empty));
        // The same buffer is used again.
        spend(&mut buffers, run(1), 6);
        assert_eq!(handed_over(&mut buffers, 0), [of(run(1), &[6])]);
        assert!(buffers.runs().next().is_none() && handed_over(&mut buffers, 0).is_empty());
    }

    #[test]
    fn a_buffer_is_kept_unless_it_has_grown_large() {
        for (bytes, is_kept) in [(KEPT_BYTES, true), (KEPT_BYTES + 1, false)] {
            let mut buffers = StepBuffers::default();
            spend(&mut buffers, run(1), 1);
            handed_over(&mut buffers, bytes);
            assert_eq!(buffers.next().ledger.capacity() > 0, is_kept, "{bytes}");
        }
    }
}
