//! Quotas of uploads, of an app and of each of its users.

use super::{Outcome, Subject, same};
use tidemill_common::store::{UploadCharge, UploadCharged};

fn charge(user: &str, day: &str, bytes: u64) -> UploadCharge {
    UploadCharge {
        app: "app".into(),
        user: user.into(),
        day: day.into(),
        first_day: String::new(),
        bytes,
        app_max: 100,
        user_max: 60,
        keep_seconds: 100,
    }
}

pub(super) async fn uploads_are_refused_above_the_quota_of_their_app_or_user(s: Subject) -> Outcome {
    let store = s.store();
    let full = UploadCharged::UserFull { used: 50 };
    for (user, bytes, answer) in [
        ("u", 50, UploadCharged::Taken),
        ("u", 11, full),
        // A refused one is not counted.
        ("u", 10, UploadCharged::Taken),
        ("v", 41, UploadCharged::AppFull { used: 60 }),
        ("v", 40, UploadCharged::Taken),
        ("w", 1, UploadCharged::AppFull { used: 100 }),
    ] {
        same(user, store.charge_upload(&charge(user, "2025-01-01", bytes)).await?, answer)?;
    }
    store.refund_upload(&charge("v", "2025-01-01", 40)).await?;
    same(
        "given back",
        store.charge_upload(&charge("v", "2025-01-01", 41)).await?,
        UploadCharged::AppFull { used: 60 },
    )?;
    same("again", store.charge_upload(&charge("v", "2025-01-01", 40)).await?, UploadCharged::Taken)?;
    let other = UploadCharge { app: "other".into(), ..charge("u", "2025-01-01", 60) };
    same("another app", store.charge_upload(&other).await?, UploadCharged::Taken)?;
    let unlimited = UploadCharge { app_max: 0, user_max: 0, ..charge("u", "2025-01-01", 1000) };
    same("no limit", store.charge_upload(&unlimited).await?, UploadCharged::Taken)
}

pub(super) async fn a_removed_upload_counts_no_longer_and_takes_nothing_from_others(s: Subject) -> Outcome {
    let store = s.store();
    let give_back = async |user: &str, until: &str, kept| {
        store.removals().give_back_uploads("app", user, until, kept).await
    };
    let used_by = async |user: &str| {
        let charge = UploadCharge { app_max: 0, ..charge(user, "2025-01-02", 61) };
        store.charge_upload(&charge).await
    };
    for (user, day, bytes) in
        [("u", "2025-01-01", 10), ("u", "2025-01-02", 30), ("u", "2025-01-03", 10), ("v", "2025-01-02", 50)]
    {
        same(user, store.charge_upload(&charge(user, day, bytes)).await?, UploadCharged::Taken)?;
    }
    give_back("w", "2025-01-03", 0).await?;
    give_back("u", "2024-12-31", 0).await?;
    let full = UploadCharged::AppFull { used: 100 };
    same("nothing yet", store.charge_upload(&charge("w", "2025-01-02", 1)).await?, full)?;
    // Twice: what the user has uploaded since, and later, stays counted, and so does the other user's.
    for again in [false, true] {
        give_back("u", "2025-01-02", 20).await?;
        let full = UploadCharged::AppFull { used: 80 };
        same("the rest", store.charge_upload(&charge("w", "2025-01-02", 21)).await?, full)?;
        let full = UploadCharged::UserFull { used: 30 };
        same(if again { "again" } else { "of the user" }, used_by("u").await?, full)?;
    }
    give_back("u", "2025-01-03", 60).await?;
    let full = UploadCharged::UserFull { used: 10 };
    same("not more than was counted", used_by("u").await?, full)?;
    give_back("u", "2025-01-03", 0).await?;
    let full = UploadCharged::AppFull { used: 50 };
    same("the other one's", store.charge_upload(&charge("w", "2025-01-02", 51)).await?, full)?;
    same("all of it", store.charge_upload(&charge("u", "2025-01-02", 50)).await?, UploadCharged::Taken)
}

pub(super) async fn uploads_of_days_that_are_removed_do_not_count(s: Subject) -> Outcome {
    let store = s.store();
    same("a day", store.charge_upload(&charge("u", "2025-01-01", 60)).await?, UploadCharged::Taken)?;
    let later = UploadCharge { first_day: "2025-01-01".into(), ..charge("u", "2025-01-02", 1) };
    same("it is kept", store.charge_upload(&later).await?, UploadCharged::UserFull { used: 60 })?;
    let later = UploadCharge { first_day: "2025-01-02".into(), ..charge("u", "2025-02-01", 60) };
    same("it is gone", store.charge_upload(&later).await?, UploadCharged::Taken)
}
