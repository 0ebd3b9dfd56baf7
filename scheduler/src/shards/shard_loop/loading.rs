//! Loads the runs that facts are about, and gives a reason for each that cannot be loaded.

use std::collections::HashMap;

use tidemill_common::ids::RunId;
use tidemill_common::machine::RunState;
use tidemill_common::store::StoreError;
use tidemill_common::wire::state::AtRest;

use crate::shards::batch;
use crate::shards::batch::{Gone, Input};
use crate::shards::run_cache;
use crate::shards::run_cache::LoadError;
use crate::shards::shard_loop::{End, ShardLoop};

impl ShardLoop<'_> {
    /// Loads the runs of the inputs. Returns those that can never be loaded, with the reason.
    pub(super) async fn load_missing(&mut self, inputs: &[Input]) -> Result<HashMap<RunId, Gone>, End> {
        let mut gone = HashMap::new();
        for id in batch::missing(inputs, &self.cache) {
            // A run that continues with messages needs more than its start fact.
            let start = batch::start_of(inputs, id).filter(|(_, head)| !head.takes_messages);
            let made_of = start.as_ref().map(|(entry, _)| *entry);
            let loaded = match start {
                Some((_, head)) => {
                    let (store, workflows) = (&*self.context.store, &self.context.workflows);
                    let graph = run_cache::graph_of(store, workflows, id, &head.graph).await;
                    graph.map(|graph| RunState::new(id, graph, *head))
                }
                None => run_cache::load(&*self.context.store, &self.context.workflows, id).await,
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
                // This version must not touch it: a scheduler that knows the newer version has to take the shard.
                Err(LoadError::Newer { run, version }) => {
                    return Err(End::Retake(StoreError::Newer { what: format!("run {run}"), version }));
                }
                // The run had ended; a late report can no longer be counted.
                Err(_) if self.cache.has_ended(&id) => {}
                // The run was removed or lost: its facts change nothing.
                Err(LoadError::NoRun(_)) => {
                    let reason =
                        format!("RuntimeError: the state of run {id} is not there, and its job was done");
                    gone.insert(id, Gone { reason, rest: None });
                }
                Err(error) => {
                    let rest = match self.context.store.load_run(id).await {
                        Ok(rest) => rest.unwrap_or_default(),
                        // The keys have other types than a run's. This must not stop all the other runs.
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
