//! Which versions of an app can be removed: neither the current one nor one that a run still uses. When an app has more
//! than `scheduler.app_versions_max`, publishing removes the oldest of them.

use std::collections::HashMap;

use tidemill_common::ids::RunId;
use tidemill_common::limits;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{App, AppVersion, ListRuns};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::runs::scan::Scan;

/// The use of a version by runs that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// None uses it.
    Free,
    /// At least this one does.
    By(RunId),
    /// There are too many open runs to look at.
    Unknown,
}

/// Finds the use of versions of an app. The open runs are looked at only if a kept run has one of these versions.
pub(super) async fn uses(state: &ApiState, app: &str, versions: &[String]) -> Result<Vec<Use>, ApiError> {
    let counts = state.store.app_records().runs_of_versions(versions).await?;
    if counts.iter().all(|count| *count == 0) {
        return Ok(vec![Use::Free; versions.len()]);
    }
    let (mut by, mut has_seen_all) = (HashMap::new(), true);
    // In this order a run that goes on meanwhile is in one of the lists.
    for status in [RunStatus::Scheduled, RunStatus::Running, RunStatus::Paused] {
        let query = ListRuns { status: Some(status), ..ListRuns::default() };
        let mut scan = Scan::new(query, &["version"], limits::VERSION_RUNS_LOOKED_MAX);
        while let Some(piece) = scan.next(&*state.store).await? {
            for (run, mut fields) in piece {
                let version =
                    fields.remove("version").filter(|_| fields.get("app").is_some_and(|of| of == app));
                if let Some(version) = version {
                    by.entry(version).or_insert(run);
                }
            }
        }
        has_seen_all &= scan.has_seen_all();
    }
    let of_version = |(version, count): (&String, u64)| match by.get(version) {
        _ if count == 0 => Use::Free,
        Some(run) => Use::By(*run),
        None if has_seen_all => Use::Free,
        None => Use::Unknown,
    };
    Ok(versions.iter().zip(counts).map(of_version).collect())
}

/// Removes the oldest versions of an app above the setting, except those in use; returns those that it removed.
///
/// # Errors
/// Errors of the store. The next publishing removes what is left.
pub(super) async fn prune(
    state: &ApiState,
    app: &App,
    earlier: Option<&App>,
) -> Result<Vec<String>, ApiError> {
    let records = state.store.app_records();
    let max = state.config.scheduler.app_versions_max;
    if max == 0 {
        return Ok(Vec::new());
    }
    let known = records.versions(&app.id).await?;
    let kept: Vec<&str> =
        [Some(app), earlier].into_iter().flatten().map(|app| app.version.as_str()).collect();
    let (candidates, excess) = candidates(&known, &kept, max);
    if candidates.is_empty() || excess == 0 {
        return Ok(Vec::new());
    }
    let uses = uses(state, &app.id, &candidates).await?;
    let free = candidates.into_iter().zip(uses).filter(|(_, of)| *of == Use::Free);
    let mut removed = Vec::new();
    for (version, _) in free.take(excess) {
        if records.drop_version(&app.id, &version).await? {
            tracing::info!(app = app.id, version, "an old version was removed (scheduler.app_versions_max)");
            removed.push(version);
        }
    }
    Ok(removed)
}

/// The versions that may go, the oldest first, and how many should. Those in `kept` stay: the current version, and the one
/// before it, to which an operator may go back.
fn candidates(known: &[AppVersion], kept: &[&str], max: usize) -> (Vec<String>, usize) {
    let others = known.iter().rev().map(|it| &it.version).filter(|version| !kept.contains(&version.as_str()));
    (others.cloned().collect(), known.len().saturating_sub(max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::clock::Timestamp;

    #[test]
    fn the_oldest_versions_go_but_not_the_current_one_and_the_one_before() {
        let known = ["e", "d", "c", "b", "a"]
            .map(|version| AppVersion { version: version.into(), published_at: Timestamp::from_millis(1) });
        for (kept, max, expected, excess) in [
            (vec!["e", "d"], 3, "a b c", 2),
            (vec!["e", "d"], 1, "a b c", 4),
            (vec!["e", "d"], 5, "a b c", 0),
            (vec!["a", "e"], 4, "b c d", 1),
        ] {
            let (candidates, number) = candidates(&known, &kept, max);
            assert_eq!((candidates.join(" ").as_str(), number), (expected, excess), "{kept:?} {max}");
        }
    }
}
