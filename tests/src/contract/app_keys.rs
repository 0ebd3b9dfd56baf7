//! API keys of apps: an app has several keys, and each can be revoked.

use super::{Outcome, Subject, holds, same};
use tidemill_common::clock::Timestamp;
use tidemill_common::store::{App, AppKey, Revoked, TriggerChanges, key_id};

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
    }
}

fn key(hash: &str, created_at: Timestamp, is_first: bool) -> AppKey {
    let (app, created_at) = ("one".into(), Some(created_at));
    AppKey { id: key_id(hash), app, created_at, is_first, revoked_at: None }
}

/// Publishes an app with two keys.
async fn published(s: &Subject) -> Outcome {
    s.store().put_app(&app("v1"), Some(FIRST), &TriggerChanges::default()).await?;
    Ok(s.store().add_key("one", SECOND, LATER).await?)
}

pub(super) async fn an_app_has_several_keys_and_each_is_listed(s: Subject) -> Outcome {
    published(&s).await?;
    for hash in [FIRST, SECOND] {
        same("the app", s.store().app_of_key(hash).await?, Some("one".to_string()))?;
    }
    let expected = vec![key(FIRST, MADE, true), key(SECOND, LATER, false)];
    same("the list", s.store().keys().await?, expected)
}

pub(super) async fn a_revoked_key_opens_nothing_and_stays_listed(s: Subject) -> Outcome {
    published(&s).await?;
    let (store, first) = (s.store(), key_id(FIRST));
    same("nothing is revoked yet", store.revoked_of(std::slice::from_ref(&first)).await?, vec![])?;
    same("no keys are asked for", store.revoked_of(&[]).await?, vec![])?;
    let before = store.time().await?;
    same("an unknown id", store.revoke_key("0000000000000009").await?, Revoked::Unknown)?;
    same("the first time", store.revoke_key(&first).await?, Revoked::Now)?;
    same("the second time", store.revoke_key(&first).await?, Revoked::Before)?;
    same("it is refused", store.app_of_key(FIRST).await?, None)?;
    same("the other key still works", store.app_of_key(SECOND).await?, Some("one".to_string()))?;
    let asked = [key_id(SECOND), first, "unknown".to_string()];
    same("the revoked ones", store.revoked_of(&asked).await?, vec![asked[1].clone()])?;
    let mut all = store.keys().await?;
    let at = all.first_mut().and_then(|key| key.revoked_at.take());
    // A note has whole milliseconds.
    holds("the time is stored", at.is_some_and(|at| at.millis() >= before.millis()))?;
    same("all are listed", all, vec![key(FIRST, MADE, true), key(SECOND, LATER, false)])?;
    same("the last key, too", store.revoke_key(&asked[0]).await?, Revoked::Now)?;
    same("the app still exists", store.app("one").await?, Some(app("v1")))
}

pub(super) async fn a_new_version_of_an_app_brings_no_key_back(s: Subject) -> Outcome {
    published(&s).await?;
    same("revoked", s.store().revoke_key(&key_id(FIRST)).await?, Revoked::Now)?;
    s.store().put_app(&app("v2"), None, &TriggerChanges::default()).await?;
    same("it is refused", s.store().app_of_key(FIRST).await?, None)?;
    same("the other key still works", s.store().app_of_key(SECOND).await?, Some("one".to_string()))
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
