//! Removes what runs of a removed conversation leave: the runs themselves, the inner runs beside them with their questions
//! and answers, and the uses of annotations that answered them.

use std::collections::BTreeMap;

use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::{ConversationRef, StoreError};

use super::Submitter;
use super::gate::output_check;
use super::inner::{SPEAKS, SUGGESTS, TRIES, beside};

impl Submitter {
    /// Hides runs of a removed conversation with all that belongs to them; what has ended is removed seconds later. May
    /// be repeated.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn forget_messages(
        &self,
        of: &ConversationRef,
        runs: &[RunId],
    ) -> Result<(), StoreError> {
        self.store.app_records().forget_runs(of, runs).await?;
        self.forget_beside(&of.app, runs).await
    }

    /// Hides runs, also those of other conversations or none, with all that belongs to them. As
    /// [`Self::forget_messages`]. Returns the number of those that were not hidden before.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn forget_runs(&self, app: &str, runs: &[RunId]) -> Result<usize, StoreError> {
        let hidden = self.store.removals().discard_runs(runs).await?;
        self.forget_beside(app, runs).await?;
        Ok(hidden)
    }

    /// Forgets that a removed user was noted.
    pub(crate) fn forget_user(&self, app: &str, user: &str) {
        self.end_users.forget(app, user);
    }

    /// Removes what was made beside messages of an app.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn forget_beside(&self, app: &str, runs: &[RunId]) -> Result<(), StoreError> {
        let mut by_shard: BTreeMap<ShardId, Vec<RunId>> = BTreeMap::new();
        for run in runs {
            by_shard.entry(run.shard()).or_default().push(*run);
        }
        for (shard, runs) in by_shard {
            self.store.app_records().forget_inner_runs(shard, &beside_all(&runs)).await?;
        }
        self.store.annotations().forget_hits(app, runs).await
    }
}

/// All inner runs that may exist beside these runs.
fn beside_all(runs: &[RunId]) -> Vec<RunId> {
    let of_one = |run: &RunId| {
        let run = *run;
        let tries = move |purpose| (0..TRIES).map(move |number| beside(run, purpose, number));
        [SUGGESTS, SPEAKS].into_iter().flat_map(tries).chain([output_check(run)])
    };
    runs.iter().flat_map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_inner_runs_of_a_message_are_found_from_its_id() {
        let messages = [RunId::generate(ShardId(3)), RunId::generate(ShardId(3))];
        let found: BTreeSet<RunId> = beside_all(&messages).into_iter().collect();
        assert_eq!(found.len(), 2 * (2 * TRIES as usize + 1));
        for run in [beside(messages[1], SUGGESTS, 0), beside(messages[0], SPEAKS, TRIES - 1)] {
            assert!(found.contains(&run));
        }
        assert!(found.contains(&output_check(messages[0])) && !found.contains(&messages[0]));
        assert!(found.iter().all(|run| run.shard() == ShardId(3)));
    }
}
