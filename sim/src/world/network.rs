//! Messages from workers to the store. They can be lost, late, out of order or doubled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::{Accepted, Completion, Jobs};

use super::shared::{Shared, at_once};
use crate::script::AttemptName;

/// Number of facts that are remembered, to arrive again.
const ECHOES_MAX: usize = 32;

/// A message of a worker.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    /// A report of progress or a piece of text.
    Report(RunId, &'static str, String),
    /// A result.
    Result(Box<HandIn>),
}

impl Message {
    fn shard(&self) -> ShardId {
        match self {
            Self::Report(run, ..) => run.shard(),
            Self::Result(it) => it.shard,
        }
    }
}

/// A result on its way.
#[derive(Debug, Clone)]
pub(crate) struct HandIn {
    /// The shard of the job.
    pub(crate) shard: ShardId,
    /// The queue of the job.
    pub(crate) queue: Arc<str>,
    /// The worker that waits for the answer, which of its lives, and for which of its jobs.
    pub(crate) sender: (usize, u32, u64),
    /// The worker's name as a consumer.
    pub(crate) consumer: String,
    /// The result.
    pub(crate) completion: Completion,
    /// The attempt, if this gives it up because no worker could return a result.
    pub(crate) gives_up: Option<AttemptName>,
}

/// Messages on their way.
#[derive(Debug, Default)]
pub(crate) struct Network {
    due: BTreeMap<(Timestamp, u64), Message>,
    count: u64,
    past: Vec<(RunId, &'static str, String)>,
}

impl Network {
    /// Forgets the facts of these shards: they cannot arrive again.
    pub(crate) fn forget(&mut self, shards: &[ShardId]) {
        self.past.retain(|(run, ..)| !shards.contains(&run.shard()));
    }

    /// Returns true if no message is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

impl Shared {
    /// Sends a message: it may be lost, late or doubled.
    pub(crate) fn send(&mut self, message: Message) {
        if self.strikes(|f| f.message_lost) {
            self.count("messages lost");
            return;
        }
        let copies = if self.strikes(|f| f.message_twice) { 2 } else { 1 };
        for _ in 0..copies {
            // A few messages may overtake it, or its sender may have lost the job long ago when it arrives.
            let late =
                if self.strikes(|f| f.message_late) { [300, 3_000, 15_000][self.dice.below(3)] } else { 0 };
            let late = self.dice.between(0, late);
            let due = self.now().plus(Duration::from_millis(late));
            self.network.count += 1;
            self.network.due.insert((due, self.network.count), message.clone());
        }
    }

    /// Delivers one of the due messages, chosen at random. For a result, returns the sender and the answer.
    pub(crate) fn deliver(&mut self) -> Option<((usize, u32, u64), Accepted)> {
        let now = self.now();
        let due: Vec<(Timestamp, u64)> =
            self.network.due.range(..=(now, u64::MAX)).map(|(key, _)| *key).take(8).collect();
        let key = *self.dice.pick(&due)?;
        let message = self.network.due.remove(&key)?;
        if self.is_still(message.shard()) {
            // It was refused and not executed, so it is sent again.
            self.count("requests sent again");
            let later = now.plus(Duration::from_millis(50));
            self.network.due.insert((later, key.1), message);
            return None;
        }
        match message {
            Message::Report(run, kind, body) => {
                self.arrive(run, kind, body);
                None
            }
            Message::Result(it) => {
                let accepted = self.take_result(&it);
                if self.strikes(|f| f.message_lost) {
                    self.count("answers to results lost");
                    return None;
                }
                Some((it.sender, accepted))
            }
        }
    }

    fn take_result(&mut self, it: &HandIn) -> Accepted {
        let off = self.off;
        let accepted =
            self.gate.complete(&self.store, it.shard, &it.queue, &it.consumer, &it.completion, off);
        let (run, kind, entry) = (it.completion.run, it.completion.kind, it.completion.entry);
        self.log(|| format!("result of {entry} from {}: {kind}, {accepted:?}", it.consumer));
        match accepted {
            Accepted::Stored => {
                self.watch.result_taken(it.shard, entry);
                self.remember(run, kind, it.completion.body.clone());
                if let (Some(attempt), Some(plan)) = (&it.gives_up, self.plans.get_mut(&run)) {
                    plan.script.given_up.insert(attempt.clone());
                    self.count("jobs given up");
                }
            }
            Accepted::NotYours => self.count("results refused"),
            Accepted::BlobMissing => {}
        }
        accepted
    }

    /// Puts a fact into its inbox.
    fn arrive(&mut self, run: RunId, kind: &'static str, body: String) {
        self.log(|| format!("fact {kind} of {run} {body}"));
        at_once(self.store.report(run.shard(), &[(run, kind, body.clone())])).ok();
        self.remember(run, kind, body);
    }

    /// Remembers a fact, so that it can arrive again.
    pub(crate) fn remember(&mut self, run: RunId, kind: &'static str, body: String) {
        if self.network.past.len() >= ECHOES_MAX {
            let at = self.dice.below(ECHOES_MAX);
            self.network.past.swap_remove(at);
        }
        self.network.past.push((run, kind, body));
    }

    /// Lets an old fact arrive again.
    pub(crate) fn echo(&mut self) {
        // Prefer facts of open runs; a run that has ended ignores all facts.
        let is_open = |it: &&(RunId, &'static str, String)| !self.watch.is_over(&it.0);
        let open: Vec<_> = self.network.past.iter().filter(is_open).cloned().collect();
        let past = if self.dice.percent(90) { &open } else { &self.network.past };
        if let Some((run, kind, body)) = self.dice.pick(past).cloned() {
            self.count("facts repeated");
            self.arrive(run, kind, body);
        }
    }
}
