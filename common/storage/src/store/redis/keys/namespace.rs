//! The keys of the namespace, and those with a hash tag of their own.

use sha2::{Digest, Sha256};

use super::Keys;
use crate::store::CatalogKind;

impl Keys {
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
    /// set: the plugins (`author/name`) that have ever stored a value
    pub fn plugin_storages(&self) -> String {
        self.global("plugin-storages")
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
}
