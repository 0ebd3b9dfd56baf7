//! API keys of apps: an app has several keys, and each can be revoked.

use super::{Outcome, Subject, holds, same};
use tidemill_common::clock::Timestamp;
use tidemill_common::store::{
    App, AppKey, AppState, KeyGrant, KeyScope, NewKey, Revoked, TriggerChanges, key_id,
};

/// Longer than an id, as hashes are.
const FIRST: &str = "0000000000000001-of-the-first";
const SECOND: &str = "0000000000000002-of-the-second";
const MADE: Timestamp = Timestamp::from_millis(1_754_339_718_571);
const LATER: Timestamp = Timestamp::from_millis(1_754_339_999_000);

fn app(version: &str) -> App {
    App {
        id: "one".into(),
        name: "An app".into(),
        mode: "workflow".into(),
        version: version.into(),
        document: "{}".into(),
        created_at_ms: MADE.millis(),
        triggers: Vec::new(),
        annotation_reply: None,
        state: AppState::On,
    }
}

fn key(hash: &str, created_at: Timestamp, is_first: bool) -> AppKey {
    let (app, created_at) = ("one".into(), Some(created_at));
    AppKey {
        id: key_id(hash),
        app,
        created_at,
        is_first,
        revoked_at: None,
        label: None,
        scopes: None,
        expires_at: None,
        lifetime_ms: None,
        used_at: None,
    }
}

/// Publishes an app with two keys.
async fn published(s: &Subject) -> Outcome {
    s.store().put_app(&app("v1"), Some(FIRST), &TriggerChanges::default()).await?;
    let grant = KeyGrant::of("one");
    let new = NewKey { hash: SECOND.into(), grant, label: None, created_at: LATER };
    Ok(s.store().add_key(&new).await?)
}

pub(super) async fn an_app_has_several_keys_and_each_is_listed(s: Subject) -> Outcome {
    published(&s).await?;
    for hash in [FIRST, SECOND] {
        same("the app", s.store().grant_of_key(hash).await?, Some(KeyGrant::of("one")))?;
    }
    let expected = vec![key(FIRST, MADE, true), key(SECOND, LATER, false)];
    same("the list", s.store().keys().await?, expected)
}

pub(super) async fn a_revoked_key_opens_nothing_and_stays_listed(s: Subject) -> Outcome {
    published(&s).await?;
    let (store, first) = (s.store(), key_id(FIRST));
    same("nothing is revoked yet", store.ended_of(std::slice::from_ref(&first)).await?, vec![])?;
    same("no keys are asked for", store.ended_of(&[]).await?, vec![])?;
    let before = store.time().await?;
    same("an unknown id", store.revoke_key("0000000000000009").await?, Revoked::Unknown)?;
    same("the first time", store.revoke_key(&first).await?, Revoked::Now)?;
    same("the second time", store.revoke_key(&first).await?, Revoked::Before)?;
    same("it is refused", store.grant_of_key(FIRST).await?, None)?;
    same("the other key still works", store.grant_of_key(SECOND).await?, Some(KeyGrant::of("one")))?;
    let asked = [key_id(SECOND), first, "unknown".to_string()];
    same("the revoked ones", store.ended_of(&asked).await?, vec![asked[1].clone()])?;
    let mut all = store.keys().await?;
    let at = all.first_mut().and_then(|key| key.revoked_at.take());
    // A note has whole milliseconds.
    holds("the time is stored", at.is_some_and(|at| at.millis() >= before.millis()))?;
    same("all are listed", all, vec![key(FIRST, MADE, true), key(SECOND, LATER, false)])?;
    same("the last key, too", store.revoke_key(&asked[0]).await?, Revoked::Now)?;
    same("the app still exists", store.app("one").await?, Some(app("v1")))
}

pub(super) async fn a_key_keeps_its_label_its_scopes_its_end_and_its_last_use(s: Subject) -> Outcome {
    published(&s).await?;
    let (hash, ends) = ("0000000000000003-of-the-third", Timestamp::from_millis(1_854_339_999_000));
    let scopes = Some([KeyScope::Read, KeyScope::Forms].into());
    let grant = KeyGrant { app: "one".into(), scopes: scopes.clone(), expires_at: Some(ends) };
    let label = Some("the shop".to_string());
    let new = NewKey { hash: hash.into(), grant: grant.clone(), label: label.clone(), created_at: LATER };
    s.store().add_key(&new).await?;
    same("what it opens", s.store().grant_of_key(hash).await?, Some(grant.clone()))?;
    s.store().note_key_used(&key_id(hash), MADE).await?;
    let third = AppKey {
        label,
        scopes,
        expires_at: Some(ends),
        lifetime_ms: Some(ends.millis() - LATER.millis()),
        used_at: Some(MADE),
        ..key(hash, LATER, false)
    };
    let listed = s.store().keys().await?;
    same("the list", listed, vec![key(FIRST, MADE, true), key(SECOND, LATER, false), third])?;

    let (store, sooner) = (s.store(), Timestamp::from_millis(1000));
    same("none has ended", store.ended_of(&[key_id(hash), key_id(FIRST)]).await?, vec![])?;
    for (id, grant) in [(hash, grant), (FIRST, KeyGrant::of("one"))] {
        same("it has another end", store.expire_key(&key_id(id), sooner).await?, true)?;
        let expected = KeyGrant { expires_at: Some(sooner), ..grant };
        same("it opens the rest as before", store.grant_of_key(id).await?, Some(expected))?;
    }
    let both = [key_id(hash), key_id(SECOND), key_id(FIRST)];
    let ended = vec![both[0].clone(), both[2].clone()];
    same("they end", store.ended_of(&both).await?, ended)?;
    let of_third = store.keys().await?.into_iter().find(|key| key.id == both[0]);
    let lifetime = of_third.and_then(|key| key.lifetime_ms);
    same("what it was meant to live", lifetime, Some(ends.millis() - LATER.millis()))?;
    same("revoked", store.revoke_key(&key_id(hash)).await?, Revoked::Now)?;
    same("no key is brought back", store.expire_key(&key_id(hash), ends).await?, false)?;
    same("it opens nothing", store.grant_of_key(hash).await?, None)?;
    same("an unknown id", store.expire_key("0000000000000009", ends).await?, false)
}

pub(super) async fn a_new_version_of_an_app_brings_no_key_back(s: Subject) -> Outcome {
    published(&s).await?;
    same("revoked", s.store().revoke_key(&key_id(FIRST)).await?, Revoked::Now)?;
    s.store().put_app(&app("v2"), None, &TriggerChanges::default()).await?;
    same("it is refused", s.store().grant_of_key(FIRST).await?, None)?;
    same("the other key still works", s.store().grant_of_key(SECOND).await?, Some(KeyGrant::of("one")))
}

pub(super) async fn a_revoked_key_keeps_its_spending_and_budget(s: Subject) -> Outcome {
    published(&s).await?;
    let (store, first) = (s.store(), key_id(FIRST));
    let mut owning = s.running(&[1]).await?;
    owning.write(vec![super::spending::spends(1, &first, 10, "0.5")]).await?;
    store.put_key_budget(&first, Some("{}")).await?;
    same("revoked", store.revoke_key(&first).await?, Revoked::Now)?;
    same("its budget", store.key_budgets().await?, vec![(first.clone(), "{}".to_string())])?;
    same("its spending", store.key_cost(&first, None).await?.get("tokens"), 10)
}
