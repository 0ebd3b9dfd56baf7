//! The lists of runs by label. The script that creates a run adds it, and the one that removes a run takes it off. A scheduler
//! of a version before labels removes a run but not its entries: they are found here, some at a time. Usually they are among
//! the oldest runs of the label. Others are younger, because their runs were removed before older ones: they are found among some
//! that are taken at random, so sooner or later.

use std::collections::BTreeSet;

use super::RedisStore;
use super::connection::args;
use crate::store::StoreError;
use tidemill_base::ids::{RunId, ShardId};

const DOING: &str = "looking for removed runs in lists of labels";
/// The oldest runs of a label that are looked at at once, and as many others.
const RUNS: usize = 50;

impl RedisStore {
    pub(super) async fn tidy_some_labels(&self, shard: ShardId, count: usize) -> Result<(), StoreError> {
        let k = &self.keys;
        let mut command = redis::cmd("ZRANDMEMBER");
        command.arg(k.labels(shard)).arg(count);
        let labels: Vec<String> = self.connector.ask(DOING, &command).await?;
        for label in labels {
            let key = k.runs_of_label(shard, &label);
            let mut pipe = redis::pipe();
            pipe.cmd("ZRANGE").arg(&key).arg(0).arg(RUNS - 1);
            pipe.cmd("ZRANDMEMBER").arg(&key).arg(RUNS);
            let (oldest, others): (Vec<String>, Vec<String>) = self.connector.ask_all(DOING, &pipe).await?;
            let listed: BTreeSet<String> = oldest.into_iter().chain(others).collect();
            let runs: Vec<RunId> = listed.iter().filter_map(|id| id.parse().ok()).collect();
            let mut pipe = redis::Pipeline::with_capacity(runs.len());
            for run in &runs {
                pipe.cmd("EXISTS").arg(k.run(*run));
            }
            let exist: Vec<bool> =
                if runs.is_empty() { Vec::new() } else { self.connector.ask_all(DOING, &pipe).await? };
            let gone = runs.iter().zip(exist).filter(|(_, exists)| !exists).map(|(run, _)| run.to_string());
            let gone: Vec<String> = gone.collect();
            if gone.is_empty() && !listed.is_empty() {
                continue;
            }
            let mut list = Vec::from(args![label]);
            list.extend(gone.iter().map(|run| run.as_str().into()));
            let _: String =
                self.connector.run(DOING, &self.scripts.tidy_label, &[k.labels(shard), key], &list).await?;
        }
        Ok(())
    }
}
