//! Creates runs.

use crate::store::redis::RedisStore;
use crate::store::redis::connection::replies::unexpected;
use crate::store::redis::connection::{Arg, args};
use crate::store::{AppState, Created, NewRun, StoreError, WaitingCall};
use tidemill_engine::state::run::RunStatus;

/// The most graphs remembered as stored in Redis.
const KNOWN_GRAPHS_MAX: usize = 10_000;

impl RedisStore {
    pub(super) async fn store_run(&self, new: &NewRun) -> Result<Created, StoreError> {
        let shard = new.id.shard();
        let known = (shard, new.graph.0.clone());
        let assumed = self.known_graphs().contains(&known);
        let mut word = self.create(new, assumed).await?;
        if word == "NOGRAPH" {
            // The graph was swept with its last run since we stored it.
            self.known_graphs().remove(&known);
            word = self.create(new, false).await?;
        }
        match word.as_str() {
            "CREATED" => {
                {
                    let mut graphs = self.known_graphs();
                    if graphs.len() >= KNOWN_GRAPHS_MAX {
                        // The worst effect is one document sent again.
                        graphs.clear();
                    }
                    graphs.insert(known);
                }
                // Only for lists of queues, so its failure must not fail the run.
                drop(self.note_queues(&new.queues).await);
                Ok(Created::Created)
            }
            "EXISTS" => Ok(Created::Exists),
            "PASSED" => Ok(Created::Passed),
            "BUSY" => Ok(Created::Busy),
            "QUEUE" => Ok(Created::QueueFull),
            "NOBLOB" => Ok(Created::BlobMissing),
            "off" | "removing" => Ok(Created::Closed(AppState::named(&word))),
            other => Err(unexpected("creating a run", other)),
        }
    }

    async fn create(&self, new: &NewRun, graph_known: bool) -> Result<String, StoreError> {
        let (keys, shard, (hash, document)) = (&self.keys, new.id.shard(), &new.graph);
        let mut script_keys = vec![
            keys.run(new.id),
            keys.inbox(shard),
            keys.runs(shard),
            keys.runs_of(shard, RunStatus::Scheduled),
            keys.graph(shard, hash),
            keys.graphs(shard),
            keys.blobs(new.id),
            if new.called.is_some() { keys.calling(shard) } else { keys.schedules(shard) },
            keys.files(shard),
            keys.runs_of_app(shard, new.app()).unwrap_or_else(|| keys.runs(shard)),
            new.app().map_or_else(|| keys.runs(shard), |app| keys.closed(shard, app)),
        ];
        script_keys.extend(new.queues.iter().map(|queue| keys.jobs(shard, queue)));
        let labels = new.labels();
        if !labels.is_empty() {
            script_keys.push(keys.labels(shard));
            script_keys.extend(labels.iter().map(|label| keys.runs_of_label(shard, label)));
        }
        script_keys.extend(new.blobs.iter().map(|(id, _)| keys.blob(shard, id)));
        if let Some(conversation) = &new.takes_messages {
            script_keys.extend([
                keys.conversation(shard, conversation),
                keys.messages(shard, conversation),
                keys.object(new.id, "messages:main"),
                keys.state(new.id),
            ]);
        }
        let (member, score, next) = match (&new.schedule, &new.called) {
            (Some(from), _) => {
                let next = from.next.map(|next| next.millis().to_string());
                (from.trigger.clone(), from.due.millis().to_string(), next.unwrap_or_default())
            }
            (None, Some(call)) => {
                (WaitingCall::member(call.run, call.caller), call.since.to_string(), String::new())
            }
            (None, None) => Default::default(),
        };
        let document: &str = if graph_known { "" } else { document };
        let mut list = Vec::from(args![
            self.limits.inbox_max,
            new.id.to_string(),
            new.created_at.micros(),
            hash,
            document,
            &new.start,
            new.kind,
            self.limits.queue_max,
            new.queues.len(),
            new.fields.len(),
            member,
            score,
            next,
            match (new.has_files, &new.takes_messages) {
                (true, None) => "files",
                (false, Some(_)) => "messages",
                (true, Some(_)) => "both",
                (false, None) => "",
            },
            labels.join(" "),
        ]);
        for (field, value) in &new.fields {
            list.extend([Arg::from(*field), Arg::from(value)]);
        }
        for (id, size) in &new.blobs {
            list.extend([Arg::from(id.as_str()), Arg::from(*size)]);
        }
        self.connector.run("creating a run", &self.scripts.create_run, &script_keys, &list).await
    }
}
