//! The audit log: the newest entries first, in pages, and bounded in number and age.

use std::time::Duration;

use super::{Outcome, Subject, holds, same};
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::EntryId;
use tidemill_common::store::{AuditEntry, AuditKept, AuditPage};

const FOR_EVER: Duration = Duration::ZERO;

fn entry(route: &str) -> AuditEntry {
    AuditEntry {
        key: Some("0123456789abcdef".into()),
        role: "operator".into(),
        address: Some("192.0.2.1".into()),
        method: "POST".into(),
        route: route.into(),
        named: vec![("app".into(), "a".into())],
        status: 201,
    }
}

async fn page(
    s: &Subject,
    before: Option<EntryId>,
    count: usize,
) -> Result<Vec<(EntryId, String)>, super::Broken> {
    let page = AuditPage { before, since: Timestamp::from_millis(0), count };
    let found = s.store().audit(&page).await?;
    Ok(found.into_iter().map(|(id, entry)| (id, entry.route)).collect())
}

fn routes(found: &[(EntryId, String)]) -> Vec<&str> {
    found.iter().map(|(_, route)| route.as_str()).collect()
}

pub(super) async fn the_audit_log_has_what_was_noted_the_newest_first_in_pages(s: Subject) -> Outcome {
    same("an empty log", page(&s, None, 10).await?, Vec::new())?;
    let kept = AuditKept { entries: 100, age: FOR_EVER };
    for route in ["/1", "/2", "/3"] {
        s.store().note_audit(&entry(route), kept).await?;
    }
    let whole = AuditPage { before: None, since: Timestamp::from_millis(0), count: 1 };
    let newest = s.store().audit(&whole).await?.remove(0);
    same("the whole entry", newest.1, entry("/3"))?;
    let now = s.store().time().await?.millis().unsigned_abs();
    holds("its id is the store's time", newest.0.major.abs_diff(now) < 60_000)?;
    let first = page(&s, None, 2).await?;
    same("a page", routes(&first), vec!["/3", "/2"])?;
    // A new entry moves no page.
    s.store().note_audit(&entry("/4"), kept).await?;
    let second = page(&s, first.last().map(|(id, _)| *id), 2).await?;
    same("the next page", routes(&second), vec!["/1"])?;
    let since = Timestamp::from_millis(i64::try_from(newest.0.major).unwrap_or(0) + 3_600_000);
    let later = s.store().audit(&AuditPage { before: None, since, count: 10 }).await?;
    same("later entries", later, Vec::new())
}

pub(super) async fn the_audit_log_keeps_the_newest_entries_and_none_that_are_too_old(s: Subject) -> Outcome {
    for route in ["/1", "/2", "/3"] {
        s.store().note_audit(&entry(route), AuditKept { entries: 2, age: FOR_EVER }).await?;
    }
    same("the newest two", routes(&page(&s, None, 10).await?), vec!["/3", "/2"])?;
    s.control.advance(Duration::from_millis(50)).await;
    s.store().note_audit(&entry("/4"), AuditKept { entries: 10, age: Duration::from_millis(40) }).await?;
    same("the young one", routes(&page(&s, None, 10).await?), vec!["/4"])
}
