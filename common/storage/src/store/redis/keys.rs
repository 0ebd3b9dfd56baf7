//! All key names, and the only place that builds them. `docs/redis.md` has a row for each.
//!
//! `{n}` is the shard's hash tag: one commit touches one slot, so the same code also runs on a cluster. There the keys
//! of the namespace have a tag too (`{tm}:meta`), so that transactions over them stay in one slot. On one server they
//! have none, as always.

use sha2::{Digest, Sha256};

use crate::store::CatalogKind;
use crate::store::ConversationsBy;
use tidemill_base::ids::{BlobId, RunId, ShardId};
use tidemill_engine::state::run::RunStatus;

/// The consumer group of every jobs stream.
pub const GROUP: &str = "workers";

/// The beginnings of keys of the namespace that have a hash tag of their own.
const OWN_TAGS: [&str; 6] = ["limit:", "limits:", "uploads:", "knowledge:", "annotations:", "plugin-values:"];

/// The first words of the other keys of the namespace. [`Keys::in_copy`] takes what has none of them for another
/// namespace's.
const FAMILIES: [&str; 40] = [
    "meta",
    "schedulers",
    "workers",
    "worker",
    "queues",
    "cleared",
    "knowing",
    "app",
    "apps",
    "audit",
    "end_user",
    "key",
    "keys",
    "budgets",
    "limits",
    "trigger",
    "triggers",
    "provider",
    "providers",
    "profile",
    "profiles",
    "library",
    "libraries",
    "call",
    "calls",
    "service",
    "services",
    "datasource",
    "datasources",
    "knowledge",
    "knowledge-tags",
    "plugin",
    "plugin-credential",
    "plugin-credentials",
    "plugin-package",
    "plugins",
    "probe",
    "removals",
    "nothing",
    "webhooks",
];
/// Those of them that are about living processes.
const OF_PROCESSES: [&str; 5] = ["schedulers", "workers", "worker", "knowing", "probe"];
/// The same of a shard.
const OF_PROCESSES_IN_SHARDS: [&str; 2] = ["owner", "probe"];

/// What a copy of a namespace does with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InCopy {
    /// It is copied under this name.
    As(String),
    /// It is about a living process, so it is not copied.
    Left,
    /// It belongs to no namespace of this name.
    Foreign,
}

/// Builds the keys of one namespace.
#[derive(Debug, Clone)]
pub struct Keys {
    namespace: String,
    /// The beginning of keys that all shards share: the namespace, on a cluster in braces.
    common: String,
}

impl Keys {
    /// Keys with this prefix, as they are on one server.
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_string(), common: namespace.to_string() }
    }
    /// Keys with this prefix, as they are on a cluster: `{tm}:meta` for `tm:meta`.
    pub fn on_cluster(namespace: &str) -> Self {
        Self { namespace: namespace.to_string(), common: format!("{{{namespace}}}") }
    }
    /// Its name.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }
    /// The text that decides the slot of a key on a cluster: its hash tag. A key without one belongs to the namespace,
    /// and has the namespace's tag on a cluster.
    pub fn tag_of<'a>(&'a self, key: &'a str) -> &'a str {
        let rest = key.strip_prefix(self.namespace.as_str()).and_then(|rest| rest.strip_prefix(':'));
        let tag =
            |rest: &'a str| Some(rest.strip_prefix('{')?.split_once('}')?.0).filter(|tag| !tag.is_empty());
        let own = |rest: &'a str| {
            let of_family = OWN_TAGS.iter().find_map(|family| rest.strip_prefix(family));
            tag(of_family.unwrap_or(rest))
        };
        rest.and_then(own).unwrap_or(&self.namespace)
    }
    fn global(&self, rest: &str) -> String {
        debug_assert!(FAMILIES.contains(&first_word(rest)), "{rest} is missing in FAMILIES");
        format!("{}:{rest}", self.common)
    }
    /// A key of the namespace whose name has its own hash tag.
    fn own(&self, rest: &str) -> String {
        format!("{}:{rest}", self.namespace)
    }
    fn shard(&self, shard: ShardId, rest: &str) -> String {
        self.tagged(shard, &["}:", rest])
    }

    fn of_run(&self, run: RunId, rest: &str) -> String {
        self.tagged(run.shard(), &["}:run:", run.encode(&mut RunId::buffer()), rest])
    }

    /// Without `format!`, because a commit builds several keys for each run.
    fn tagged(&self, shard: ShardId, parts: &[&str]) -> String {
        let mut number = itoa::Buffer::new();
        let number = number.format(shard.0);
        let rest: usize = parts.iter().map(|part| part.len()).sum();
        let mut key = String::with_capacity(self.namespace.len() + 2 + number.len() + rest);
        key.push_str(&self.namespace);
        key.push_str(":{");
        key.push_str(number);
        parts.iter().for_each(|part| key.push_str(part));
        key
    }

    // ---- the namespace

    /// hash: `v`, `shards`, `shards_first`, `form_secret`, `seal_salt`, `fingerprint_salt`, `catalog`, `default_profile`
    pub fn meta(&self) -> String {
        self.global("meta")
    }
    /// zset: live schedulers by their last announcement (server time, ms)
    pub fn schedulers(&self) -> String {
        self.global("schedulers")
    }
    /// zset: live workers by their last announcement (server time, ms)
    pub fn workers(&self) -> String {
        self.global("workers")
    }
    /// hash PX: a live worker's record: `held`, `about`
    pub fn worker(&self, name: &str) -> String {
        self.global(&format!("worker:{name}"))
    }
    /// set: names of queues that runs have used
    pub fn queues(&self) -> String {
        self.global("queues")
    }
    /// list: origins of suspects that are cleared, newest first
    pub fn cleared(&self) -> String {
        self.global("cleared")
    }
    /// zset: live processes that know [`tidemill_wire::VERSION`], by their last announcement (server time, ms)
    pub fn knowing(&self) -> String {
        self.global(&format!("knowing:{}", tidemill_wire::VERSION))
    }
    /// hash: a registered app
    pub fn app(&self, id: &str) -> String {
        self.global(&format!("app:{id}"))
    }
    /// set: ids of apps
    pub fn apps(&self) -> String {
        self.global("apps")
    }
    /// never exists: scripts without a shard that must work in a full Redis begin by unlinking it
    pub fn common_nothing(&self) -> String {
        self.global("nothing")
    }
    /// hash: the webhook of each app, by the app's id, as JSON
    pub fn webhooks(&self) -> String {
        self.global("webhooks")
    }
    /// hash: the progress of each removal of an app or a user, as JSON
    pub fn removals(&self) -> String {
        self.global("removals")
    }
    /// stream: the audit log
    pub fn audit(&self) -> String {
        self.global("audit")
    }
    /// hash: the versions of an app and when each was first published (ms)
    pub fn app_versions(&self, id: &str) -> String {
        self.global(&format!("app:{id}:versions"))
    }
    /// string: the document of a version of an app
    pub fn app_version(&self, id: &str, version: &str) -> String {
        self.global(&format!("app:{id}:version:{version}"))
    }
    /// hash EX: a user of an app
    pub fn end_user(&self, id: &str) -> String {
        self.global(&format!("end_user:{id}"))
    }
    /// string: the app that a key opens, by the key's SHA-256
    pub fn api_key(&self, hash: &str) -> String {
        self.global(&format!("key:{hash}"))
    }
    /// hash: the app of each valid key, by key id
    pub fn api_keys(&self) -> String {
        self.global("keys")
    }
    /// hash: the note of each key, by key id, as JSON
    pub fn keys_made(&self) -> String {
        self.global("keys:made")
    }
    /// hash: revoked keys by id, as JSON
    pub fn keys_revoked(&self) -> String {
        self.global("keys:revoked")
    }
    /// hash: when each key was last used (ms), by its id
    pub fn keys_used(&self) -> String {
        self.global("keys:used")
    }
    /// hash: the budgets of keys by id, as JSON
    pub fn key_budgets(&self) -> String {
        self.global("budgets")
    }
    /// hash: the limits that are set for apps and keys, by their owner, as JSON
    pub fn limits_set(&self) -> String {
        self.global("limits")
    }
    /// What an app and its keys count, all in one slot. `runs`, zset: places of runs by the time when they were taken (ms).
    /// `requests`, string PX: the time up to which the allowed requests are used (us).
    pub fn limited(&self, app: &str, kind: &str, key: Option<&str>) -> String {
        match key {
            Some(key) => self.own(&format!("limits:{{{app}}}:{kind}:{key}")),
            None => self.own(&format!("limits:{{{app}}}:{kind}")),
        }
    }
    /// hash: a trigger
    pub fn trigger(&self, id: &str) -> String {
        self.global(&format!("trigger:{id}"))
    }
    /// set: ids of triggers
    pub fn triggers(&self) -> String {
        self.global("triggers")
    }
    /// hash: a catalog entry
    pub fn entry(&self, kind: CatalogKind, id: &str) -> String {
        self.global(&format!("{}:{id}", kind.name()))
    }
    /// set: the ids of a kind of catalog entries
    pub fn entries(&self, kind: CatalogKind) -> String {
        match kind {
            CatalogKind::Provider => self.global("providers"),
            CatalogKind::Profile => self.global("profiles"),
            CatalogKind::Library => self.global("libraries"),
            CatalogKind::Call => self.global("calls"),
            CatalogKind::Service => self.global("services"),
            CatalogKind::Datasource => self.global("datasources"),
            CatalogKind::Plugin => self.global("plugins"),
            CatalogKind::PluginCredentials => self.global("plugin-credentials"),
        }
    }
    /// string: the package of a plugin, a zip archive, by the SHA-256 of its files
    pub fn plugin_package(&self, hash: &str) -> String {
        self.global(&format!("plugin-package:{hash}"))
    }
    /// hash: what a plugin (`author/name`) has stored: `k:<key>`, the value in hexadecimal digits; `bytes`, of all of them
    pub fn plugin_values(&self, plugin: &str) -> String {
        self.own(&format!("plugin-values:{{{plugin}}}"))
    }
    /// Rate limits of models. `level`, hash: what is left of its limits, and the end of its pause. `calls`,
    /// zset: calls in flight by the end of their lease. `queue`, zset: waiting calls by due time. `refused`,
    /// string: the number of refusals of a call. `of` is a model, `*`, or a call. An account is in one slot.
    pub fn limit(&self, account: &str, kind: &str, of: &str) -> String {
        self.own(&format!("limit:{{{account}}}:{kind}:{of}"))
    }
    /// hash: bytes of uploads by day, of an app or of one of its users. An app is in one slot; a user is hashed (the
    /// first half of a SHA-256), because it may contain any character.
    pub fn uploads(&self, app: &str, user: Option<&str>) -> String {
        let of = user.map_or_else(
            || "app".to_owned(),
            |user| {
                let whose =
                    Sha256::digest(user)[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                format!("user:{whose}")
            },
        );
        self.own(&format!("uploads:{{{app}}}:{of}"))
    }
    /// hash: datasets of knowledge bases
    pub fn knowledge(&self) -> String {
        self.global("knowledge")
    }
    /// hash: tags of datasets
    pub fn knowledge_tags(&self) -> String {
        self.global("knowledge-tags")
    }
    /// A part of a dataset, all in one slot. `version`, string: grows with each change. `documents`, hash:
    /// searchable documents. `indexing`, hash: documents that are not searchable yet. `hits`, hash: hit
    /// counts of segments.
    pub fn of_dataset(&self, dataset: &str, kind: &str) -> String {
        self.own(&format!("knowledge:{{{dataset}}}:{kind}"))
    }
    /// hash: `segments` or `vectors` of one version of a document, by position
    pub fn of_generation(&self, dataset: &str, kind: &str, generation: &str) -> String {
        self.own(&format!("knowledge:{{{dataset}}}:{kind}:{generation}"))
    }
    /// A part of an app's annotations, all in one slot. `records`, hash: annotations. `order`, zset: their ids by creation
    /// (us). `questions`, hash: key of a question, and its ids. `counts`, hash: the number of uses.
    /// `messages`, hash: id of a message that was answered, and its annotation.
    pub fn annotations(&self, app: &str, kind: &str) -> String {
        self.own(&format!("annotations:{{{app}}}:{kind}"))
    }
    /// `hits`, list: uses of an annotation, newest first. `job`, string EX: a job that switches the annotation reply
    pub fn annotation(&self, app: &str, kind: &str, id: &str) -> String {
        self.own(&format!("annotations:{{{app}}}:{kind}:{id}"))
    }
    /// string: written to test whether the server accepts writes
    pub fn probe(&self) -> String {
        self.global("probe")
    }

    // ---- a shard

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
    /// pattern of the jobs streams of all queues and shards
    pub(super) fn all_jobs(&self) -> String {
        format!("{}:jobs:*", self.glob())
    }
    /// The shard and the queue of a jobs stream.
    pub(super) fn shard_and_queue<'a>(&self, key: &'a str) -> Option<(ShardId, &'a str)> {
        let (shard, queue) = key.strip_prefix(&self.namespace)?.strip_prefix(":{")?.split_once("}:jobs:")?;
        Some((ShardId(shard.parse().ok()?), queue))
    }
    /// The beginning of a pattern of keys of all shards.
    fn glob(&self) -> String {
        format!("{}:{{*}}", escaped(&self.namespace))
    }
    /// pattern of the conversations of all shards, and of their parts
    pub(super) fn all_conversations(&self) -> String {
        format!("{}:conversation:*", self.glob())
    }
    /// The shard and the id of a conversation; `None` for the key of a part of one.
    pub(super) fn shard_and_conversation<'a>(&self, key: &'a str) -> Option<(ShardId, &'a str)> {
        let rest = key.strip_prefix(&self.namespace)?.strip_prefix(":{")?;
        let (shard, id) = rest.split_once("}:conversation:")?;
        // An id has no colon.
        Some((ShardId(shard.parse().ok()?), id)).filter(|(_, id)| !id.contains(':'))
    }
    /// pattern of the idempotency keys of all shards
    pub(super) fn all_idempotency(&self) -> String {
        format!("{}:idem:*", self.glob())
    }
    /// pattern of all users of apps
    pub(super) fn all_end_users(&self) -> String {
        format!("{}:end_user:*", escaped(&self.common))
    }
    /// pattern of what counts the uploads of the users of an app
    pub(super) fn uploads_of_users(&self, app: &str) -> String {
        format!("{}:uploads:{{{}}}:user:*", escaped(&self.namespace), escaped(app))
    }
    /// Patterns that all keys of the namespace fit. So may keys of others, such as `tm:x`.
    pub(super) fn everything(&self) -> Vec<String> {
        let mut beginnings = vec![&self.namespace, &self.common];
        beginnings.dedup();
        beginnings.into_iter().map(|begin| format!("{}:*", escaped(begin))).collect()
    }
    /// What a copy of the namespace to `to` does with a key that fits [`Self::everything`].
    pub(super) fn in_copy(&self, key: &str, to: &Self) -> InCopy {
        let after = |begin: &str| key.strip_prefix(begin)?.strip_prefix(':');
        let has_tag = |rest: &&str| {
            let of_family = OWN_TAGS.iter().find_map(|family| rest.strip_prefix(family));
            of_family.unwrap_or(rest).starts_with('{')
        };
        if let Some(rest) = after(&self.namespace).filter(has_tag) {
            let of_shard = rest.strip_prefix('{').and_then(|rest| Some(rest.split_once("}:")?.1));
            let is_left = of_shard.is_some_and(|part| OF_PROCESSES_IN_SHARDS.contains(&part));
            return if is_left { InCopy::Left } else { InCopy::As(to.own(rest)) };
        }
        match after(&self.common) {
            Some(rest) if OF_PROCESSES.contains(&first_word(rest)) => InCopy::Left,
            Some(rest) if FAMILIES.contains(&first_word(rest)) => InCopy::As(to.global(rest)),
            Some(_) | None => InCopy::Foreign,
        }
    }
    /// hash: the records of suspects of a jobs stream, by entry
    pub fn suspects(&self, shard: ShardId, queue: &str) -> String {
        self.tagged(shard, &["}:suspects:", queue])
    }
    /// channel: runs that a commit touched
    pub fn tick(&self, shard: ShardId) -> String {
        self.shard(shard, "tick")
    }
    /// pattern of all tick channels
    pub fn ticks(&self) -> String {
        self.own("{*}:tick")
    }
    /// channel: executions to stop
    pub fn cancel(&self, shard: ShardId) -> String {
        self.shard(shard, "cancel")
    }
    /// pattern of all cancel channels
    pub fn cancels(&self) -> String {
        self.own("{*}:cancel")
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

    // ---- a run

    /// hash: the run
    pub fn run(&self, run: RunId) -> String {
        self.of_run(run, "")
    }
    /// For callers that build several keys of one run.
    pub(super) fn of_run_by_part(&self, run: RunId) -> RunKeys {
        RunKeys(self.run(run))
    }
    /// hash: its state
    pub fn state(&self, run: RunId) -> String {
        self.of_run(run, STATE)
    }
    /// hash: results of closed frames, for open containers
    pub fn collected(&self, run: RunId) -> String {
        self.of_run(run, ":collected")
    }
    /// hash: its pauses and the answers to them
    pub fn pauses(&self, run: RunId) -> String {
        self.of_run(run, ":pauses")
    }
    /// hash: keys of commands and the hashes of their requests
    pub fn commands(&self, run: RunId) -> String {
        self.of_run(run, ":commands")
    }
    /// hash: results of journal entries; expires on its own
    pub fn journal(&self, run: RunId) -> String {
        self.of_run(run, ":journal")
    }
    /// hash: the cost of each model call
    pub fn ledger(&self, run: RunId) -> String {
        self.of_run(run, ":ledger")
    }
    /// hash: its sub-workflow runs and their orders; expires on its own
    pub fn calls(&self, run: RunId) -> String {
        self.of_run(run, ":calls")
    }
    /// the keys that every run may have
    pub fn all_of(&self, run: RunId) -> [String; 8] {
        [
            self.run(run),
            self.state(run),
            self.held(run),
            self.events(run),
            self.blobs(run),
            self.collected(run),
            self.pauses(run),
            self.commands(run),
        ]
    }
    /// A part named by the end of its key. `messages:<list>`, list: messages. `rt`, hash: runtime values.
    /// `history`, list: history records.
    pub fn object(&self, run: RunId, part: &str) -> String {
        self.of_run(run, &format!(":{part}"))
    }
    /// list: chunks that are held back
    pub fn held(&self, run: RunId) -> String {
        self.of_run(run, ":held")
    }
    /// stream: its events
    pub fn events(&self, run: RunId) -> String {
        self.of_run(run, EVENTS)
    }
    /// stream: a copy of its events, only within a commit
    pub fn events_copy(&self, run: RunId) -> String {
        self.of_run(run, ":events:copy")
    }
    /// hash: its blobs and their sizes
    pub fn blobs(&self, run: RunId) -> String {
        self.of_run(run, ":blobs")
    }
}

/// The part of a key before its first colon.
fn first_word(rest: &str) -> &str {
    rest.split(':').next().unwrap_or(rest)
}

/// The text in a pattern. It may have characters with a meaning there.
fn escaped(text: &str) -> String {
    let special = |c| matches!(c, '*' | '?' | '[' | ']' | '\\');
    text.chars().flat_map(|c| if special(c) { vec!['\\', c] } else { vec![c] }).collect()
}

const STATE: &str = ":state";
const EVENTS: &str = ":events";

/// The keys of one run that nearly every commit writes: the run key, and suffixes for the others.
#[derive(Debug)]
pub(super) struct RunKeys(String);

impl RunKeys {
    /// As [`Keys::run`].
    pub(super) fn run(&self) -> &str {
        &self.0
    }
    /// As [`Keys::state`].
    pub(super) fn state(&self) -> [&str; 2] {
        [&self.0, STATE]
    }
    /// As [`Keys::events`].
    pub(super) fn events(&self) -> [&str; 2] {
        [&self.0, EVENTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_of_a_shard_carries_its_hash_tag() {
        let (keys, shard) = (Keys::new("tm"), ShardId(3));
        let run = RunId::new(1, 2, shard);
        assert_eq!(keys.state(run), format!("tm:{{3}}:run:{run}:state"));
        for key in [
            keys.owner(shard),
            keys.fence(shard),
            keys.jobs(shard, "gpu"),
            keys.blob(shard, &"b".into()),
            keys.run(run),
            keys.events(run),
        ] {
            assert!(key.starts_with("tm:{3}:"), "{key}");
        }
    }

    #[test]
    fn on_a_cluster_the_keys_of_the_namespace_have_its_tag_and_the_others_their_own() {
        let (one, cluster) = (Keys::new("tm"), Keys::on_cluster("tm"));
        assert_eq!([one.meta(), one.app("a")], ["tm:meta", "tm:app:a"]);
        assert_eq!([cluster.meta(), cluster.app("a")], ["{tm}:meta", "{tm}:app:a"]);
        let of = |keys: &Keys| {
            [
                keys.limit("account", "level", "*"),
                keys.limited("app", "runs", Some("k")),
                keys.uploads("app", None),
                keys.of_dataset("set", "hits"),
                keys.annotation("app", "hits", "1"),
                keys.inbox(ShardId(3)),
                keys.ticks(),
            ]
        };
        assert_eq!(of(&one), of(&cluster));
        for keys in [one, cluster] {
            let tags = of(&keys).map(|key| keys.tag_of(&key).to_string());
            assert_eq!(tags, ["account", "app", "app", "set", "app", "3", "*"]);
            for key in [keys.meta(), keys.app("{3}"), keys.knowledge(), keys.worker("limit:{3}")] {
                assert_eq!(keys.tag_of(&key), "tm", "{key}");
            }
        }
    }

    #[test]
    fn a_copy_has_the_names_of_its_servers_and_nothing_of_living_processes() {
        let (one, cluster) = (Keys::new("tm"), Keys::on_cluster("new"));
        let run = RunId::new(1, 2, ShardId(3));
        let names = |keys: &Keys| {
            vec![
                keys.meta(),
                keys.app_version("a", "b"),
                keys.keys_made(),
                keys.keys_used(),
                keys.end_user("{u}"),
                keys.entry(CatalogKind::Library, "x"),
                keys.knowledge(),
                keys.of_dataset("d", "hits"),
                keys.limit("a", "level", "*"),
                keys.limits_set(),
                keys.limited("a", "requests", None),
                keys.annotation("app", "hits", "1"),
                keys.uploads("app", Some("u")),
                keys.fence(ShardId(0)),
                keys.jobs(ShardId(3), "owner"),
                keys.object(run, "messages:main"),
            ]
        };
        for (from, to) in [(&one, &cluster), (&cluster, &one), (&one, &one), (&cluster, &cluster)] {
            for (name, copy) in names(from).iter().zip(names(to)) {
                assert_eq!(from.in_copy(name, to), InCopy::As(copy), "{name}");
            }
            let (probe, owner) = (from.probe_of(ShardId(3)), from.owner(ShardId(3)));
            for left in [from.schedulers(), from.worker("w"), from.knowing(), from.probe(), owner, probe] {
                assert_eq!(from.in_copy(&left, to), InCopy::Left, "{left}");
            }
        }
        for foreign in ["tm:other:meta", "tmx:meta", "{tm}:meta", "new:meta"] {
            assert_eq!(one.in_copy(foreign, &cluster), InCopy::Foreign, "{foreign}");
        }
        assert_eq!(one.everything(), ["tm:*"]);
        assert_eq!(cluster.everything(), ["new:*", "{new}:*"]);
    }

    #[test]
    fn a_jobs_stream_names_its_shard_and_queue() {
        let keys = Keys::new("t[m");
        assert_eq!(keys.all_jobs(), "t\\[m:{*}:jobs:*");
        let key = keys.jobs(ShardId(7), "gpu:large");
        assert_eq!(keys.shard_and_queue(&key), Some((ShardId(7), "gpu:large")));
        assert_eq!(keys.shard_and_queue("other:{7}:jobs:x"), None);
    }

    #[test]
    fn keys_by_part_are_those_that_are_spelled_whole() {
        let (keys, run) = (Keys::new("tm"), RunId::new(1, 2, ShardId(3)));
        let by_part = keys.of_run_by_part(run);
        assert_eq!(by_part.run(), keys.run(run));
        assert_eq!(
            [by_part.state().concat(), by_part.events().concat()],
            [keys.state(run), keys.events(run)]
        );
    }
}
