//! The names of keys in a copy of the namespace.

use super::{FAMILIES, Keys, OWN_TAGS, escaped, first_word};

/// The first words of keys of the namespace that are about living processes.
const OF_PROCESSES: [&str; 5] = ["schedulers", "workers", "worker", "knowing", "probe"];
/// The same of a shard.
const OF_PROCESSES_IN_SHARDS: [&str; 2] = ["owner", "probe"];

/// What a copy of a namespace does with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::redis) enum InCopy {
    /// It is copied under this name.
    As(String),
    /// It is about a living process, so it is not copied.
    Left,
    /// It belongs to no namespace of this name.
    Foreign,
}

impl Keys {
    /// Patterns that all keys of the namespace fit. So may keys of others, such as `tm:x`.
    pub(in crate::store::redis) fn everything(&self) -> Vec<String> {
        let mut beginnings = vec![&self.namespace, &self.common];
        beginnings.dedup();
        beginnings.into_iter().map(|begin| format!("{}:*", escaped(begin))).collect()
    }
    /// What a copy of the namespace to `to` does with a key that fits [`Self::everything`].
    pub(in crate::store::redis) fn in_copy(&self, key: &str, to: &Self) -> InCopy {
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
}
