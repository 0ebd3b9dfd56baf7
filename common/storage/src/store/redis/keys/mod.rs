//! All key names, and the only place that builds them. `docs/redis.md` has a row for each.
//!
//! `{n}` is the shard's hash tag: one commit touches one slot, so the same code also runs on a cluster. There the keys
//! of the namespace have a tag too (`{tm}:meta`), so that transactions over them stay in one slot. On one server they
//! have none, as always.

mod copy;
mod namespace;
mod patterns;
mod run;
mod shard;

use tidemill_base::ids::{RunId, ShardId};

pub(super) use copy::InCopy;
pub(super) use run::RunKeys;

/// The consumer group of every jobs stream.
pub const GROUP: &str = "workers";

/// The beginnings of keys of the namespace that have a hash tag of their own.
const OWN_TAGS: [&str; 6] = ["limit:", "limits:", "uploads:", "knowledge:", "annotations:", "plugin-values:"];

/// The first words of the other keys of the namespace. [`Keys::in_copy`] takes what has none of them for another
/// namespace's.
const FAMILIES: [&str; 41] = [
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
    "plugin-storages",
    "plugins",
    "probe",
    "removals",
    "nothing",
    "webhooks",
];

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

#[cfg(test)]
mod tests;
