//! `GET /api/v1/audit`: who changed what through this API ([`crate::api::audit`]).

use std::collections::BTreeMap;

use axum::Json as JsonBody;
use axum::extract::State;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::EntryId;
use tidemill_common::limits::AUDIT_LOOKED_MAX;
use tidemill_common::store::{AuditEntry, AuditPage};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::Params;
use crate::api::roles::Role;

const LIST_DEFAULT: usize = 50;
const LIST_MAX: usize = 500;
/// Entries in one read.
const READ_AT_ONCE: usize = 500;
/// What `who` is for the key of the settings.
const SETTINGS: &str = "settings";

/// The entries that a request asks for.
struct Wanted<'a> {
    limit: usize,
    since: Timestamp,
    before: Option<EntryId>,
    who: Option<&'a str>,
    /// In lower case.
    action: Option<String>,
}

/// Lists the entries, the newest first. `next` is the `before` of the following page; it may follow a page that is not full,
/// since one request looks at a bounded number of entries (`scanned`).
///
/// # Errors
/// 400 for invalid parameters.
pub async fn list(State(state): State<ApiState>, params: Params) -> Result<JsonBody<Json>, ApiError> {
    let mut wanted = wanted(&params)?;
    if let Some(days) = i64::try_from(state.config.scheduler.audit_days).ok().filter(|days| *days > 0) {
        // Entries that are too old are removed with the next write.
        let age = days.saturating_mul(24 * 3_600_000);
        let oldest = state.store.time().await?.millis().saturating_sub(age).max(0);
        wanted.since = wanted.since.max(Timestamp::from_millis(oldest));
    }
    let labels = labels(&state).await?;
    let (mut data, mut scanned, mut at) = (Vec::new(), 0, wanted.before);
    let next = 'pages: loop {
        let page = AuditPage { before: at, since: wanted.since, count: READ_AT_ONCE };
        let found = state.store.audit(&page).await?;
        let is_last = found.len() < READ_AT_ONCE;
        for (id, entry) in found {
            if data.len() >= wanted.limit || scanned >= AUDIT_LOOKED_MAX {
                break 'pages at;
            }
            scanned += 1;
            at = Some(id);
            let label = entry.key.as_ref().and_then(|key| labels.get(key));
            if wanted.has(&entry, label) {
                data.push(shown(id, &entry, label));
            }
        }
        if is_last {
            break None;
        }
    };
    Ok(JsonBody(json!({"data": data, "next": next.map(|id| id.to_string()), "scanned": scanned})))
}

fn wanted(params: &Params) -> Result<Wanted<'_>, ApiError> {
    let wrong = |name: &str, expected: String| ApiError::invalid_param(format!("{name} must be {expected}"));
    let limit = match params.get("limit") {
        None => LIST_DEFAULT,
        Some(text) => {
            let read = text.parse().ok().filter(|n| (1..=LIST_MAX).contains(n));
            read.ok_or_else(|| wrong("limit", format!("1 to {LIST_MAX}")))?
        }
    };
    let since =
        params.get("since").map(|text| millis(text).ok_or_else(|| wrong("since", "a Unix time".into())));
    let before = match params.get("before") {
        None => None,
        Some(text) if text.contains('-') => {
            let id = text.parse().map_err(|_| wrong("before", "the next of an earlier page".into()))?;
            Some(id)
        }
        Some(text) => {
            let at =
                millis(text).ok_or_else(|| wrong("before", "a Unix time, or the next of a page".into()))?;
            Some(EntryId::new(at.unsigned_abs(), 0))
        }
    };
    let since = Timestamp::from_millis(since.transpose()?.unwrap_or(0));
    let action = params.get("action").map(str::to_lowercase);
    Ok(Wanted { limit, since, before, who: params.get("who"), action })
}

/// A Unix time in seconds, as milliseconds.
fn millis(text: &str) -> Option<i64> {
    let seconds: f64 = text.parse().ok()?;
    // Beyond it a float has no milliseconds, and no clock is there.
    (0.0..1e12).contains(&seconds).then(|| (seconds * 1000.0).round() as i64)
}

impl Wanted<'_> {
    fn has(&self, entry: &AuditEntry, label: Option<&String>) -> bool {
        let is_of =
            |who: &str| who == entry.key.as_deref().unwrap_or(SETTINGS) || label.is_some_and(|it| it == who);
        let does = |action: &String| action_of(entry).to_lowercase().contains(action);
        self.who.is_none_or(is_of) && self.action.as_ref().is_none_or(does)
    }
}

fn action_of(entry: &AuditEntry) -> String {
    format!("{} {}", entry.method, entry.route)
}

/// The labels of admin keys, also of revoked ones.
async fn labels(state: &ApiState) -> Result<BTreeMap<String, String>, ApiError> {
    let keys = state.store.keys().await?.into_iter().filter(|key| Role::of(&key.app).is_some());
    Ok(keys.filter_map(|key| Some((key.id, key.label?))).collect())
}

fn shown(id: EntryId, entry: &AuditEntry, label: Option<&String>) -> Json {
    let named: serde_json::Map<String, Json> =
        entry.named.iter().map(|(kind, id)| (kind.clone(), id.as_str().into())).collect();
    json!({
        "id": id.to_string(),
        "at": id.major as f64 / 1000.0,
        "who": entry.key.as_deref().unwrap_or(SETTINGS),
        "label": label,
        "role": entry.role,
        "address": entry.address,
        "action": action_of(entry),
        "named": named,
        "status": entry.status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_and_nothing_else() {
        for (text, expected) in [
            ("1.5", Some(1500)),
            ("0", Some(0)),
            ("1754339718.571", Some(1_754_339_718_571)),
            ("-1", None),
            ("1e13", None),
            ("nan", None),
            ("today", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }
}
