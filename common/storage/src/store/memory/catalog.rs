//! The catalog, with the behaviour of `put_entry.lua` and `remove_entry.lua`.

use std::collections::BTreeMap;

use crate::store::{Catalog, CatalogEntry, CatalogKind, EntryPut, EntryRemoved, Expected, PutEntry};
use tidemill_base::clock::Timestamp;
use tidemill_base::limits::CATALOG_ENTRIES_MAX;

/// The catalog.
#[derive(Default)]
pub(super) struct MemoryCatalog {
    version: u64,
    entries: BTreeMap<(CatalogKind, String), CatalogEntry>,
    default_profile: Option<String>,
}

impl MemoryCatalog {
    pub(super) fn put(&mut self, put: PutEntry<'_>, now: Timestamp) -> EntryPut {
        let key = (put.kind, put.id.to_owned());
        let there = self.entries.get(&key);
        let expected = match put.expected {
            Expected::Absent => None,
            Expected::Version(version) => Some(version),
        };
        if there.map(|entry| entry.version) != expected {
            return EntryPut::Differs;
        }
        if there.is_none() && self.of(put.kind).count() >= CATALOG_ENTRIES_MAX {
            return EntryPut::Full;
        }
        let created_at = there.map_or(now, |entry| entry.created_at);
        self.grow(now);
        let entry = CatalogEntry {
            id: put.id.into(),
            version: self.version,
            created_at,
            updated_at: now,
            fields: put.fields.clone(),
        };
        self.entries.insert(key, entry);
        let is_there = |id: &String| self.entries.contains_key(&(CatalogKind::Profile, id.clone()));
        if put.kind == CatalogKind::Profile
            && (put.make_default || !self.default_profile.as_ref().is_some_and(is_there))
        {
            self.default_profile = Some(put.id.into());
        }
        EntryPut::Stored(self.version)
    }

    pub(super) fn remove(
        &mut self,
        (kind, id): (CatalogKind, &str),
        heir: &str,
        version: Option<u64>,
        now: Timestamp,
    ) -> EntryRemoved {
        let key = (kind, id.to_owned());
        let there = self.entries.get(&key).map(|entry| entry.version);
        if there.is_none() {
            return EntryRemoved::Gone;
        }
        if version.is_some() && version != there {
            return EntryRemoved::Differs;
        }
        self.entries.remove(&key);
        self.grow(now);
        if kind == CatalogKind::Profile && self.default_profile.as_deref() == Some(id) {
            let named = self.of(kind).find(|entry| entry.id == heir);
            let next = named.or_else(|| self.of(kind).next()).map(|entry| entry.id.clone());
            self.default_profile = next;
        }
        EntryRemoved::Removed
    }

    /// At least the time, so that no version is reused after lost writes.
    fn grow(&mut self, now: Timestamp) {
        self.version = (self.version + 1).max(u64::try_from(now.millis()).unwrap_or(0));
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn all(&self) -> Catalog {
        let default_profile = self.default_profile.clone();
        let mut catalog = Catalog { version: self.version, default_profile, ..Catalog::default() };
        for kind in CatalogKind::ALL {
            *catalog.of_mut(kind) = self.of(kind).cloned().collect();
        }
        catalog
    }

    fn of(&self, kind: CatalogKind) -> impl Iterator<Item = &CatalogEntry> {
        self.entries.iter().filter(move |((of, _), _)| *of == kind).map(|(_, entry)| entry)
    }
}
