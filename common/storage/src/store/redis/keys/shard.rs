//! The keys of a shard.

use sha2::{Digest, Sha256};

use super::Keys;
use crate::store::ConversationsBy;
use tidemill_base::ids::{BlobId, ShardId};
use tidemill_engine::state::run::RunStatus;

impl Keys {
    /// string: in a cluster, written to test whether the server of the shard accepts writes
    pub fn probe_of(&self, shard: ShardId) -> String {
        self.shard(shard, "probe")
    }
    /// string PX: the owner's id; the lease
    pub fn owner(&self, shard: ShardId) -> String {
        self.shard(shard, "owner")
    }
    /// hash: `epoch`, `holder`, `commit`, `cursor`, `claimed`, `takeovers`
    pub fn fence(&self, shard: ShardId) -> String {
        self.shard(shard, "fence")
    }
    /// list: facts that an owner was about to apply. Separate from the fence, which the owner's connection
    /// watches.
    pub fn trying(&self, shard: ShardId) -> String {
        self.shard(shard, "trying")
    }
    /// stream: facts
    pub fn inbox(&self, shard: ShardId) -> String {
        self.shard(shard, "inbox")
    }
    /// stream: jobs of a queue
    pub fn jobs(&self, shard: ShardId, queue: &str) -> String {
        self.tagged(shard, &["}:jobs:", queue])
    }
    /// hash: the records of suspects of a jobs stream, by entry
    pub fn suspects(&self, shard: ShardId, queue: &str) -> String {
        self.tagged(shard, &["}:suspects:", queue])
    }
    /// channel: runs that a commit touched
    pub fn tick(&self, shard: ShardId) -> String {
        self.shard(shard, "tick")
    }
    /// channel: executions to stop
    pub fn cancel(&self, shard: ShardId) -> String {
        self.shard(shard, "cancel")
    }
    /// zset: due time (ms) → timer member
    pub fn timers(&self, shard: ShardId) -> String {
        self.shard(shard, "timers")
    }
    /// stream: dead letters
    pub fn dead(&self, shard: ShardId) -> String {
        self.shard(shard, "dead")
    }
    /// string EX: an idempotency key's run and the hash of its request
    pub fn idempotency(&self, shard: ShardId, hash: &str) -> String {
        self.shard(shard, &format!("idem:{hash}"))
    }
    /// zset: run ids by creation (us)
    pub fn runs(&self, shard: ShardId) -> String {
        self.shard(shard, "runs")
    }
    /// zset: run ids of one status by creation (us)
    pub fn runs_of(&self, shard: ShardId, status: RunStatus) -> String {
        self.tagged(shard, &["}:runs:", status.name()])
    }
    /// zset: runs of one app by creation (us); `None` without an app
    pub fn runs_of_app(&self, shard: ShardId, app: Option<&str>) -> Option<String> {
        Some(self.tagged(shard, &["}:runs_of_app:", app?]))
    }
    /// zset: runs with a label by creation (us), by the label's id
    pub fn runs_of_label(&self, shard: ShardId, label: &str) -> String {
        self.tagged(shard, &["}:runs_of_label:", label])
    }
    /// zset: ids of labels by the creation of the newest run that has the label (us)
    pub fn labels(&self, shard: ShardId) -> String {
        self.shard(shard, "labels")
    }
    /// string: `off` or `removing`; this app accepts no runs on the shard
    pub fn closed(&self, shard: ShardId, app: &str) -> String {
        self.tagged(shard, &["}:closed:", app])
    }
    /// string: progress of the list of runs by app over older runs: a creation time (us), or `all`
    pub fn runs_of_apps(&self, shard: ShardId) -> String {
        self.shard(shard, "runs_of_apps")
    }
    /// zset: ended runs by their end (us)
    pub fn ended(&self, shard: ShardId) -> String {
        self.shard(shard, "ended")
    }
    /// string: the blobs of runs that ended up to this time (us) have their time to live
    pub fn expired(&self, shard: ShardId) -> String {
        self.shard(shard, "expired")
    }
    /// set: runs that have files (`files.url`)
    pub fn files(&self, shard: ShardId) -> String {
        self.shard(shard, "files")
    }
    /// zset: runs whose files were stored before the run, by the time of the note (ms)
    pub fn files_early(&self, shard: ShardId) -> String {
        self.shard(shard, "files_early")
    }
    /// set: removed runs whose files are not deleted yet
    pub fn files_left(&self, shard: ShardId) -> String {
        self.shard(shard, "files_left")
    }
    /// string: a graph document
    pub fn graph(&self, shard: ShardId, hash: &str) -> String {
        self.shard(shard, &format!("graph:{hash}"))
    }
    /// hash: the number of runs that use a graph
    pub fn graphs(&self, shard: ShardId) -> String {
        self.shard(shard, "graphs")
    }
    /// string: a large value
    pub fn blob(&self, shard: ShardId, id: &BlobId) -> String {
        self.shard(shard, &format!("blob:{id}"))
    }
    /// hash: a conversation
    pub fn conversation(&self, shard: ShardId, id: &str) -> String {
        self.shard(shard, &format!("conversation:{id}"))
    }
    /// zset: when each schedule is due (ms)
    pub fn schedules(&self, shard: ShardId) -> String {
        self.shard(shard, "schedules")
    }
    /// list: turns of a conversation, oldest first
    pub fn turns(&self, shard: ShardId, id: &str) -> String {
        self.shard(shard, &format!("conversation:{id}:turns"))
    }
    /// list: the messages of a conversation's list `main`
    pub fn messages(&self, shard: ShardId, id: &str) -> String {
        self.shard(shard, &format!("conversation:{id}:messages"))
    }
    /// hash: ratings of a conversation's messages
    pub fn ratings(&self, shard: ShardId, id: &str) -> String {
        self.shard(shard, &format!("conversation:{id}:ratings"))
    }
    /// zset: `<conversation> <message>` of an app's ratings, by the first rating of the message (ms)
    pub fn feedbacks(&self, shard: ShardId, app: &str) -> String {
        self.shard(shard, &format!("feedbacks:{app}"))
    }
    /// zset: ids of a user's conversations with an app, by last use or begin (us). App and user are hashed
    /// (the first half of a SHA-256), because they may contain any character.
    pub fn conversations(&self, shard: ShardId, app: &str, user: &str, by: ConversationsBy) -> String {
        let mut digest = Sha256::new();
        digest.update(app.len().to_string());
        digest.update([b' ']);
        digest.update(app);
        digest.update(user);
        let whose: String = digest.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let by = match by {
            ConversationsBy::Begin => "begin",
            ConversationsBy::Use => "use",
        };
        self.shard(shard, &format!("conversations:{whose}:{by}"))
    }
    /// hash: the spending of a key on this shard
    pub fn key_costs(&self, shard: ShardId, key: &str) -> String {
        self.shard(shard, &format!("spent:{key}"))
    }
    /// zset: ordered sub-workflow runs that are not created yet, `<run> <caller>`, by the commit that ordered
    /// them
    pub fn calling(&self, shard: ShardId) -> String {
        self.shard(shard, "calling")
    }
    /// set: apps for whose webhook notices wait
    pub fn noticed(&self, shard: ShardId) -> String {
        self.shard(shard, "notices")
    }
    /// Notices for an app's webhook. `due`, zset: those that wait, by due time (ms). `tries`, hash: the record of each that
    /// has failed before. `failed`, list: records of those that were given up, newest first.
    pub fn notices(&self, shard: ShardId, app: &str, kind: &str) -> String {
        self.shard(shard, &format!("notices:{app}:{kind}"))
    }
    /// set: ended runs with unsettled turns
    pub fn unsettled(&self, shard: ShardId) -> String {
        self.shard(shard, "unsettled")
    }
    /// never exists: scripts that must work in a full Redis begin by unlinking it
    pub fn nothing(&self, shard: ShardId) -> String {
        self.shard(shard, "nothing")
    }
}
