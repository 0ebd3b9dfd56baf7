//! The catalog that all workers share.

use std::collections::BTreeMap;

use super::{Broken, Outcome, Subject, holds, same};
use tidemill_common::store::{
    Catalog, CatalogKind, EntryPut, EntryRemoved, Expected, Jobs, PutEntry, Runs, Store,
};

const PROVIDER: CatalogKind = CatalogKind::Provider;
const PROFILE: CatalogKind = CatalogKind::Profile;

type Fields = BTreeMap<String, String>;

fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Subject {
    async fn keep(&self, kind: CatalogKind, id: &str, fields: &Fields) -> Result<u64, Broken> {
        self.keep_if(PutEntry { kind, id, fields, expected: Expected::Absent, make_default: false }).await
    }
    async fn keep_if(&self, put: PutEntry<'_>) -> Result<u64, Broken> {
        match self.store.put_entry(put).await? {
            EntryPut::Stored(version) => Ok(version),
            other => Err(Broken::Promise(format!("{} should be kept, is {other:?}", put.id))),
        }
    }
    async fn kept(&self) -> Result<Catalog, Broken> {
        let of_runs = Runs::catalog(&*self.store).await?;
        same("all traits show the same", Jobs::load_catalog(&*self.store).await?, of_runs.clone())?;
        Ok(of_runs)
    }
    async fn version(&self) -> Result<u64, Broken> {
        let store: &dyn Store = &*self.store;
        Ok(store.catalog_version().await?)
    }
}

pub(super) async fn an_entry_is_replaced_only_at_the_expected_version(s: Subject) -> Outcome {
    same("nothing at the beginning", s.kept().await?, Catalog::default())?;
    let id = "langgenius/openai/openai";
    let first = s.keep(PROVIDER, id, &fields(&[("kind", "ollama"), ("headers", "{}")])).await?;
    s.keep(PROFILE, id, &fields(&[("name", "of the same id")])).await?;
    let before = s.kept().await?;
    let entry = before.find(PROVIDER, id).cloned().ok_or_else(|| Broken::Promise("it exists".into()))?;
    same("its version", entry.version, first)?;
    same("its fields", entry.fields.clone(), fields(&[("kind", "ollama"), ("headers", "{}")]))?;

    let changed = fields(&[("kind", "anthropic")]);
    let put = |expected| PutEntry { kind: PROVIDER, id, fields: &changed, expected, make_default: false };
    same("it exists", s.store.put_entry(put(Expected::Absent)).await?, EntryPut::Differs)?;
    let of_worker = Jobs::put_call(&*s.store, put(Expected::Absent)).await?;
    same("it exists for workers, too", of_worker, EntryPut::Differs)?;
    let later = Expected::Version(first + 100);
    same("not as this version", s.store.put_entry(put(later)).await?, EntryPut::Differs)?;
    same("nothing has changed", s.kept().await?, before)?;
    let second = s.keep_if(put(Expected::Version(first))).await?;
    let after = s.kept().await?;
    let now = after.find(PROVIDER, id).cloned().ok_or_else(|| Broken::Promise("it still exists".into()))?;
    same("old fields are gone", now.fields, changed.clone())?;
    same("its creation time is unchanged", now.created_at, entry.created_at)?;
    holds("its version grows", now.version == second && second > first)?;

    let stale = s.store.remove_entry(PROVIDER, id, "", Some(1)).await?;
    same("not in another version", stale, EntryRemoved::Differs)?;
    same("it is removed", s.store.remove_entry(PROVIDER, id, "", None).await?, EntryRemoved::Removed)?;
    same("once", s.store.remove_entry(PROVIDER, id, "", Some(1)).await?, EntryRemoved::Gone)?;
    let left = s.kept().await?;
    same("the other kind stays", (left.providers.len(), left.profiles.len()), (0, 1))?;
    same("it is gone", s.store.put_entry(put(Expected::Version(second))).await?, EntryPut::Differs)?;
    let third = s.keep(PROVIDER, id, &changed).await?;
    holds("a version never comes again", third > second)
}

pub(super) async fn each_kind_has_its_own_ids(s: Subject) -> Outcome {
    let mut last = 0;
    for kind in CatalogKind::ALL {
        let version = s.keep(kind, "same", &fields(&[("kind", kind.name())])).await?;
        holds(kind.name(), version > last)?;
        last = version;
    }
    let kept = s.kept().await?;
    same("the newest", kept.version, last)?;
    for kind in CatalogKind::ALL {
        let found: Vec<_> = kept.of(kind).iter().map(|entry| (&*entry.id, entry.fields.clone())).collect();
        same(kind.name(), found, vec![("same", fields(&[("kind", kind.name())]))])?;
    }
    same("only profiles have a default", kept.default_profile, Some("same".to_owned()))?;
    for kind in CatalogKind::ALL {
        let removed = s.store.remove_entry(kind, "same", "", None).await?;
        same(kind.name(), removed, EntryRemoved::Removed)?;
        same(kind.name(), s.kept().await?.of(kind), &[])?;
    }
    same("no profile is left", s.kept().await?.default_profile, None)
}

pub(super) async fn the_version_differs_after_each_change(s: Subject) -> Outcome {
    let mut last = s.version().await?;
    same("before the first", last, 0)?;
    let none = Fields::new();
    let mut grown = async |what: &str, grows: bool| -> Outcome {
        let now = s.version().await?;
        holds(&format!("{what}: {last} to {now}"), (now > last) == grows)?;
        last = now;
        same("a reader gets the same version", s.kept().await?.version, now)
    };
    s.keep(PROVIDER, "a", &none).await?;
    grown("one more provider", true).await?;
    s.keep(PROFILE, "a", &none).await?;
    grown("one more profile", true).await?;
    let again =
        PutEntry { kind: PROFILE, id: "a", fields: &none, expected: Expected::Absent, make_default: true };
    s.store.put_entry(again).await?;
    grown("one that was refused", false).await?;
    s.store.remove_entry(PROFILE, "b", "", None).await?;
    grown("one that does not exist", false).await?;
    s.store.remove_entry(PROFILE, "a", "", None).await?;
    grown("one profile less", true).await
}

pub(super) async fn there_is_a_default_profile_while_there_are_profiles(s: Subject) -> Outcome {
    let none = Fields::new();
    let default = async || -> Result<Option<String>, Broken> { Ok(s.kept().await?.default_profile) };
    let named = |id: &str| Some(id.to_owned());
    s.keep(PROVIDER, "a", &none).await?;
    same("a provider is no default profile", default().await?, None)?;
    for id in ["c", "a", "b", "d"] {
        s.keep(PROFILE, id, &none).await?;
    }
    same("the first one", default().await?, named("c"))?;
    let put =
        PutEntry { kind: PROFILE, id: "e", fields: &none, expected: Expected::Absent, make_default: true };
    s.keep_if(put).await?;
    same("the one that was made the default", default().await?, named("e"))?;
    s.store.remove_entry(PROFILE, "b", "a", None).await?;
    same("another profile is removed", default().await?, named("e"))?;
    s.store.remove_entry(PROFILE, "e", "d", None).await?;
    same("the heir", default().await?, named("d"))?;
    s.store.remove_entry(PROFILE, "d", "b", None).await?;
    same("the new default is removed: the first", default().await?, named("a"))?;
    s.store.remove_entry(PROFILE, "a", "", None).await?;
    s.store.remove_entry(PROFILE, "c", "", None).await?;
    same("no profile is left", default().await?, None)?;
    s.keep(PROFILE, "z", &none).await?;
    same("and the first again", default().await?, named("z"))
}
