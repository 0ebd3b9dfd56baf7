//! Handles facts whose step panics or kills the process. No fact may stop its shard.

use tidemill_common::limits;
use tidemill_common::store::StoreError;

use crate::metrics as names;
use crate::shards::batch;
use crate::shards::batch::{Batch, Input};
use crate::shards::shard_loop::{End, QUEUE_MAX, ShardLoop, poll};

/// Take-overs without progress after which each fact is noted before it is applied.
pub(super) const POISON_CHECK_AFTER: u32 = 3;
/// The number of facts that are noted then: all that the last owner may have read ahead. Later facts are applied as
/// usual.
pub(super) const POISON_CHECK_FACTS: usize = QUEUE_MAX + 2 * limits::COMMIT_FACTS_MAX;
/// How many owners a fact may bring down.
const TRIES_MAX: usize = 3;

impl ShardLoop<'_> {
    /// Handles a panic: the inputs of the batch are done again one by one. The input that panics alone fails its run.
    pub(super) async fn after_panic(
        &mut self,
        inputs: Vec<Input>,
        panicked: batch::Panicked,
    ) -> Result<(), End> {
        metrics::counter!(names::PANICS.name).increment(1);
        tracing::error!(shard = %self.shard, reason = panicked.reason, "a step panicked");
        // Commits that are in flight must be written before the states can be loaded again.
        while self.committing.is_some() || self.next.is_some() {
            self.send();
            let done = poll(&mut self.committing).await;
            self.committed(done)?;
        }
        for run in &panicked.touched {
            self.cache.remove(run);
        }
        let [only] = inputs.as_slice() else {
            self.singly = inputs.len();
            inputs.into_iter().rev().for_each(|input| self.queue.push_front(input));
            return Ok(());
        };
        self.load_missing(&inputs).await?;
        self.number += 1;
        let (number, now) = (self.number, self.now());
        self.next = Some(batch::end_by_defect(only, &mut self.cache, &panicked.reason, number, now));
        Ok(())
    }

    /// Notes a fact before it is applied. A fact that has brought down several owners fails its run instead.
    pub(super) async fn check_for_poison(&mut self, inputs: &[Input]) -> Result<Option<Batch>, End> {
        let [only] = inputs else { return Ok(None) };
        let Some(entry) = only.entry() else { return Ok(None) };
        if self.tried.get(&entry).copied().unwrap_or(0) >= TRIES_MAX {
            self.load_missing(inputs).await?;
            self.number += 1;
            let reason = format!("applying this fact brought down {TRIES_MAX} schedulers");
            let (number, now) = (self.number, self.now());
            return Ok(Some(batch::end_by_defect(only, &mut self.cache, &reason, number, now)));
        }
        match self.context.store.note_trying(self.shard, &[entry]).await {
            Ok(()) => {}
            // Redis is full. Do not stop here: the commit will wait, and the sweep that makes room must go on.
            Err(error @ StoreError::Refused { .. }) => {
                tracing::debug!(%error, "a fact is applied without a note")
            }
            Err(error) => return Err(End::Retake(error)),
        }
        self.poison_checks = self.poison_checks.saturating_sub(1);
        Ok(None)
    }
}
