//! The catalog in Redis: a hash for each entry, a set of ids for each kind, and a version in `meta` that
//! grows with each change.

use std::collections::BTreeMap;

use redis::{FromRedisValue, Value};

use super::RedisStore;
use super::connection::servers::Lane;
use super::connection::{Arg, args};
use super::shards::word;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{
    Catalog, CatalogEntry, CatalogKind, EntryPut, EntryRemoved, Expected, PutEntry, StoreError,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::limits::{CATALOG_ENTRIES_MAX, PACKAGE_UNKEPT_SECONDS};

/// The field of `meta` with the version of the catalog.
const VERSION: &str = "catalog";
/// The field of `meta` with the default profile.
const DEFAULT_PROFILE: &str = "default_profile";

impl RedisStore {
    pub(super) async fn put(&self, put: PutEntry<'_>) -> Result<EntryPut, StoreError> {
        const DOING: &str = "writing a catalog entry";
        let expected = match put.expected {
            Expected::Absent => 0,
            Expected::Version(version) => version,
        };
        let make_default = if put.make_default { "1" } else { "" };
        let mut list: Vec<Arg<'_>> =
            Vec::from(args![put.id, expected, CATALOG_ENTRIES_MAX, default_field(put.kind), make_default]);
        for (name, value) in put.fields {
            list.extend(args![name.as_str(), value.as_str()]);
        }
        let keys = self.of_entry(put.kind, put.id);
        let answer: Vec<Value> = self.connector.run(DOING, &self.scripts.put_entry, &keys, &list).await?;
        let words: Vec<String> = answer.into_iter().map(word).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["KEPT", version] => {
                let version =
                    version.parse().map_err(|_| unexpected(DOING, "a version that is not a number"))?;
                Ok(EntryPut::Stored(version))
            }
            ["DIFFERS"] => Ok(EntryPut::Differs),
            ["FULL"] => Ok(EntryPut::Full),
            _ => Err(unexpected(DOING, words.join(" "))),
        }
    }

    pub(super) async fn remove_entry(
        &self,
        kind: CatalogKind,
        id: &str,
        heir: &str,
        version: Option<u64>,
    ) -> Result<EntryRemoved, StoreError> {
        const DOING: &str = "removing a catalog entry";
        let keys = self.of_entry(kind, id);
        let version = version.map(|version| version.to_string()).unwrap_or_default();
        let list = args![id, default_field(kind), heir, version];
        let word: String = self.connector.run(DOING, &self.scripts.remove_entry, &keys, &list).await?;
        match word.as_str() {
            "REMOVED" => Ok(EntryRemoved::Removed),
            "GONE" => Ok(EntryRemoved::Gone),
            "DIFFERS" => Ok(EntryRemoved::Differs),
            _ => Err(unexpected(DOING, word)),
        }
    }

    pub(super) async fn version_of_catalog(&self) -> Result<u64, StoreError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.meta()).arg(VERSION);
        let version: Option<u64> = self.connector.ask("reading the version of the catalog", &command).await?;
        Ok(version.unwrap_or(0))
    }

    /// Reads the version first, so that the entries are at least as new. No transaction, which a full Redis refuses.
    pub(super) async fn read_catalog(&self) -> Result<Catalog, StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("HMGET").arg(self.keys.meta()).arg(VERSION).arg(DEFAULT_PROFILE);
        for kind in CatalogKind::ALL {
            pipe.cmd("SMEMBERS").arg(self.keys.entries(kind));
        }
        let answers: Vec<Value> = self.connector.ask_all(DOING_READ, &pipe).await?;
        let mut answers = answers.into_iter();
        let (version, default_profile): (Option<u64>, Option<String>) = read(answers.next())?;
        let mut catalog = Catalog { version: version.unwrap_or(0), default_profile, ..Catalog::default() };
        for kind in CatalogKind::ALL {
            *catalog.of_mut(kind) = self.read_entries(kind, read(answers.next())?).await?;
        }
        Ok(catalog)
    }

    async fn read_entries(
        &self,
        kind: CatalogKind,
        mut ids: Vec<String>,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        ids.sort();
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(100) {
            let mut pipe = redis::pipe();
            for id in some {
                pipe.cmd("HGETALL").arg(self.keys.entry(kind, id));
            }
            let answers: Vec<BTreeMap<String, String>> = self.connector.ask_all(DOING_READ, &pipe).await?;
            found.extend(some.iter().zip(answers).filter_map(|(id, fields)| entry(id, fields)));
        }
        Ok(found)
    }

    pub(super) async fn read_package(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.keys.plugin_package(hash));
        self.connector.ask_in(Lane::Blobs, "reading the package of a plugin", &command).await
    }

    pub(super) async fn write_package(&self, hash: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut command = redis::cmd("SET");
        command.arg(self.keys.plugin_package(hash)).arg(bytes);
        // One that an entry names already must not end.
        command.arg("NX").arg("EX").arg(PACKAGE_UNKEPT_SECONDS);
        self.connector.ask_in(Lane::Blobs, "storing the package of a plugin", &command).await
    }

    pub(super) async fn persist_package(&self, hash: &str) -> Result<bool, StoreError> {
        const DOING: &str = "keeping the package of a plugin";
        let key = self.keys.plugin_package(hash);
        let mut command = redis::cmd("PERSIST");
        command.arg(&key);
        if self.connector.ask(DOING, &command).await? {
            return Ok(true);
        }
        // Also false for one that is kept already.
        let mut command = redis::cmd("EXISTS");
        command.arg(&key);
        self.connector.ask(DOING, &command).await
    }

    pub(super) async fn delete_package(&self, hash: &str) -> Result<(), StoreError> {
        let mut command = redis::cmd("UNLINK");
        command.arg(self.keys.plugin_package(hash));
        self.connector.ask_in(Lane::Blobs, "removing the package of a plugin", &command).await
    }

    fn of_entry(&self, kind: CatalogKind, id: &str) -> [String; 3] {
        [self.keys.entry(kind, id), self.keys.entries(kind), self.keys.meta()]
    }
}

const DOING_READ: &str = "reading the catalog";

const fn default_field(kind: CatalogKind) -> &'static str {
    match kind {
        CatalogKind::Profile => DEFAULT_PROFILE,
        CatalogKind::Provider
        | CatalogKind::Library
        | CatalogKind::Call
        | CatalogKind::Service
        | CatalogKind::Datasource
        | CatalogKind::Plugin
        | CatalogKind::PluginCredentials => "",
    }
}

fn read<T: FromRedisValue>(answer: Option<Value>) -> Result<T, StoreError> {
    let answer = answer.ok_or_else(|| unexpected(DOING_READ, "an answer is missing"))?;
    T::from_redis_value(answer).map_err(|error| unexpected(DOING_READ, error.to_string()))
}

/// Returns `None` for an entry that was removed after the ids were read.
fn entry(id: &str, mut fields: BTreeMap<String, String>) -> Option<CatalogEntry> {
    let version = fields.remove("version")?.parse().ok()?;
    let mut time = |name: &str| {
        Timestamp::from_millis(fields.remove(name).and_then(|text| text.parse().ok()).unwrap_or(0))
    };
    let (created_at, updated_at) = (time("created_at"), time("updated_at"));
    Some(CatalogEntry { id: id.into(), version, created_at, updated_at, fields })
}
