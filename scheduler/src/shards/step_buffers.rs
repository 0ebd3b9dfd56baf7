//! What the runs of a batch have changed, until it is written. The room for it is kept from batch to batch: each batch of a busy
//! shard fills about the same.

use tidemill_common::ids::RunId;
use tidemill_common::machine::changes::Changes;

/// Of a run that has changed more than this, in bytes written, the room is given back.
const KEPT_BYTES: usize = 16 * 1024;

/// Changes of several runs, in the order in which each has changed last: where two write the same (what their conversation
/// remembers), the later one is to stand, however facts come together in batches.
#[derive(Debug, Default)]
pub struct Changed {
    /// Each with the place of its room.
    runs: Vec<(RunId, usize)>,
    /// The changes of each, and behind them empty ones; the first of those is what the next step fills.
    rooms: Vec<Changes>,
}

impl Changed {
    /// Where the next step puts what it changes; empty.
    pub(crate) fn next(&mut self) -> &mut Changes {
        let at = self.runs.len();
        if self.rooms.len() == at {
            self.rooms.push(Changes::default());
        }
        &mut self.rooms[at]
    }

    /// What [`Self::next`] holds is what this run has changed, or has changed further.
    pub(crate) fn keep(&mut self, run: RunId) {
        let at = self.runs.len();
        let Some(known) = self.runs.iter().position(|(known, _)| *known == run) else {
            return self.runs.push((run, at));
        };
        let later = std::mem::take(&mut self.rooms[at]);
        let changes = &mut self.rooms[self.runs[known].1];
        if !later.is_empty() {
            self.runs[known..].rotate_left(1);
        }
        changes.append(later);
    }

    /// The runs that have changed.
    pub(crate) fn runs(&self) -> impl Iterator<Item = RunId> {
        self.runs.iter().map(|(run, _)| *run)
    }

    /// Hands over the changes of each run and is empty then. `write` says how many bytes it wrote of them.
    pub(crate) fn hand_over(&mut self, mut write: impl FnMut(RunId, &mut Changes) -> usize) {
        for (run, room) in self.runs.drain(..) {
            let changes = &mut self.rooms[room];
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

    /// A step that spends something, so that it can be told from others.
    fn spend(changed: &mut Changed, run: RunId, tokens: u64) {
        let next = changed.next();
        assert!(next.is_empty());
        next.go_on = true;
        next.ledger.push((tokens.to_string(), String::new()));
        changed.keep(run);
    }

    fn handed_over(changed: &mut Changed, bytes: usize) -> Vec<(RunId, Vec<String>)> {
        let mut all = Vec::new();
        changed.hand_over(|run, changes| {
            all.push((run, changes.ledger.iter().map(|(tokens, _)| tokens.clone()).collect()));
            bytes
        });
        all
    }

    #[test]
    fn what_a_run_changes_comes_together_and_stands_where_it_changed_last() {
        let mut changed = Changed::default();
        for (at, tokens) in [(2, 1), (1, 2), (2, 3), (3, 4), (2, 5), (4, 6)] {
            spend(&mut changed, run(at), tokens);
        }
        // A step that came to nothing is no change.
        assert!(changed.next().is_empty());
        changed.keep(run(1));
        assert_eq!(changed.runs().collect::<Vec<_>>(), [run(1), run(3), run(2), run(4)]);
        let of = |run, tokens: &[u64]| (run, tokens.iter().map(u64::to_string).collect::<Vec<_>>());
        let all = [of(run(1), &[2]), of(run(3), &[4]), of(run(2), &[1, 3, 5]), of(run(4), &[6])];
        assert_eq!(handed_over(&mut changed, 0), all);
        assert!(changed.rooms.iter().all(Changes::is_empty));
        // In the same room.
        spend(&mut changed, run(1), 6);
        assert_eq!(handed_over(&mut changed, 0), [of(run(1), &[6])]);
        assert!(changed.runs().next().is_none() && handed_over(&mut changed, 0).is_empty());
    }

    #[test]
    fn room_is_kept_unless_it_was_much() {
        for (bytes, is_kept) in [(KEPT_BYTES, true), (KEPT_BYTES + 1, false)] {
            let mut changed = Changed::default();
            spend(&mut changed, run(1), 1);
            handed_over(&mut changed, bytes);
            assert_eq!(changed.next().ledger.capacity() > 0, is_kept, "{bytes}");
        }
    }
}
