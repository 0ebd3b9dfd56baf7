//! Brings the runs that facts are about into memory, and says which cannot be, and why.

use std::collections::HashMap;

use tidemill_common::ids::RunId;
use tidemill_common::machine::RunState;
use tidemill_common::store::StoreError;
use tidemill_common::wire::state::AtRest;

use crate::shards::batch;
use crate::shards::batch::{Gone, Input};
use crate::shards::run_cache;
use crate::shards::run_cache::LoadError;
use crate::shards::shard_loop::{End, Wheel};

impl Wheel<'_> {
    /// Loads the runs that inputs are about. What cannot be loaded for good is answered with the reason.
    pub(super) async fn load_missing(&mut self, inputs: &[Input]) -> Result<HashMap<RunId, Gone>, End> {
        let mut gone = HashMap::new();
        for id in batch::missing(inputs, &self.cache) {
            // One that goes on with messages has more than its fact says.
            let start = batch::start_of(inputs, id).filter(|(_, head)| !head.takes_messages);
            let made_of = start.as_ref().map(|(entry, _)| *entry);
            let loaded = match start {
                Some((_, head)) => {
                    let (store, workflows) = (&*self.drive.store, &self.drive.workflows);
                    let graph = run_cache::graph_of(store, workflows, id, &head.graph).await;
                    graph.map(|graph| RunState::new(id, graph, *head))
                }
                None => run_cache::load(&*self.drive.store, &self.drive.workflows, id).await,
            };
            match loaded {
                Ok(run) if run.status.is_over() && !batch::may_cost(inputs, id) => self.cache.end(id),
                Ok(run) => {
                    if run.status.is_over() {
                        self.over.push(id);
                    }
                    match made_of {
                        Some(fact) => self.cache.insert_new(run, fact),
                        None => self.cache.insert(run),
                    }
                }
                Err(LoadError::Store(error)) if error.is_passing() => return Err(End::Retake(error)),
                // Nothing of it may be touched: whoever knows that version has to have the shard.
                Err(LoadError::Newer { run, version }) => {
                    return Err(End::Retake(StoreError::Newer { what: format!("run {run}"), version }));
                }
                // It was over; what is told of it now is too late to be counted.
                Err(_) if self.cache.has_ended(&id) => {}
                // Swept, or lost: whatever is said of it means nothing any more.
                Err(LoadError::NoRun(_)) => {
                    let reason =
                        format!("RuntimeError: the state of run {id} is not there, and its job was done");
                    gone.insert(id, Gone { reason, rest: None });
                }
                Err(error) => {
                    let rest = match self.drive.store.load_run(id).await {
                        Ok(rest) => rest.unwrap_or_default(),
                        // Its keys are none of a run; that must not hold up all the others.
                        Err(StoreError::Unexpected { reason, .. }) if reason.contains("WRONGTYPE") => {
                            AtRest::default()
                        }
                        Err(error) => return Err(End::Retake(error)),
                    };
                    gone.insert(id, Gone { reason: error.to_string(), rest: Some(rest) });
                }
            }
        }
        Ok(gone)
    }
}
