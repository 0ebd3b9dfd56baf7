//! Looks for signs of life of the workers that hold a run's jobs, when the time of the run may be over. The time after
//! the last sign does not count, and the engine reads no store. Nothing is read for runs without such jobs, or at any
//! other time.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_common::ids::EntryId;
use tidemill_common::machine::RunState;
use tidemill_common::machine::fact::LastSign;
use tidemill_common::machine::state::run::NodeStatus;
use tidemill_common::wire::timers::is_run_deadline;

use crate::shards::batch::Input;
use crate::shards::shard_loop::{End, ShardLoop};

impl ShardLoop<'_> {
    /// Adds the signs of life to the timers of time limits among the inputs.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn look_for_signs(&mut self, inputs: &mut [Input]) -> Result<(), End> {
        for input in inputs {
            let Input::Timer(member) = &*input else { continue };
            if !is_run_deadline(member) {
                continue;
            }
            let Some(run) = input.run().and_then(|id| self.cache.get(&id)) else { continue };
            let mut signs = Vec::new();
            for (queue, entries) in held_jobs(run) {
                let idle = self.context.store.idle_of(self.shard, &queue, &entries).await;
                let (idle, now) = (idle.map_err(End::Retake)?, self.now());
                let found = entries.into_iter().zip(idle).filter_map(|(entry, idle)| Some((entry, idle?)));
                signs.extend(found.map(|(entry, idle)| LastSign { entry, at: now.before(idle) }));
            }
            if !signs.is_empty() {
                *input = Input::TimeLimit(member.clone(), signs);
            }
        }
        Ok(())
    }
}

/// The jobs of a run that workers have begun, by queue.
fn held_jobs(run: &RunState) -> BTreeMap<Arc<str>, Vec<EntryId>> {
    let mut held: BTreeMap<Arc<str>, Vec<EntryId>> = BTreeMap::new();
    for frame in run.frames.values() {
        for (state, node) in frame.nodes.iter().zip(&run.graph.nodes) {
            if let (NodeStatus::Running, Some(entry)) = (state.status, state.job) {
                held.entry(node.settings.queue.clone()).or_default().push(entry);
            }
        }
    }
    held
}
