//! `/api/v1/apps/{id}/versions`: the versions of an app that a request may pin. They are listed and removed here.

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::limits::VERSION_RUNS_LOOKED_MAX;
use tidemill_common::store::{App, AppVersion};

use super::apps::find;
use super::version_use::{Use, uses};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::IdInPath;
use crate::runs::ids::workflow_uuid;

/// Lists the versions of an app, newest first.
///
/// # Errors
/// 404 for an unknown app.
pub async fn list(State(state): State<ApiState>, IdInPath(id): IdInPath) -> Result<JsonBody<Json>, ApiError> {
    let app = find(&state, &id).await?;
    let known = state.store.app_records().versions(&id).await?;
    let data: Vec<Json> = with_current(&app, known).iter().map(|version| to_json(&app, version)).collect();
    Ok(JsonBody(json!({"data": data})))
}

/// `DELETE /api/v1/apps/{id}/versions/{hash}`: removes a version, which can no longer be pinned. Runs that have ended keep
/// their workflow.
///
/// # Errors
/// 404 for an unknown app or version; 409 `version_is_current`, or `version_in_use` when a run that has not ended uses it.
pub async fn remove(
    State(state): State<ApiState>,
    Path((id, version)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let app = find(&state, &id).await?;
    let conflict = |code, message: String| ApiError::new(StatusCode::CONFLICT, code, message);
    if version == app.version {
        let message = format!(
            "{version} is the current version of the app {id}; publish another one first, then this one can be removed"
        );
        return Err(conflict("version_is_current", message));
    }
    let unknown = || {
        let message =
            format!("the app {id} has no version {version}; GET /api/v1/apps/{id}/versions lists them");
        ApiError::not_found(message)
    };
    let records = state.store.app_records();
    if !records.versions(&id).await?.iter().any(|known| known.version == version) {
        return Err(unknown());
    }
    match uses(&state, &id, std::slice::from_ref(&version)).await?.first() {
        Some(Use::By(run)) => {
            let message = format!(
                "the run {run} uses the version {version} and has not ended; wait for its end, or stop it"
            );
            return Err(conflict("version_in_use", message).with("run", run.to_string().into()));
        }
        Some(Use::Unknown) => {
            let message = format!(
                "runs of the version {version} are kept, and more than {VERSION_RUNS_LOOKED_MAX} runs have not ended: too \
                 many to find out whether one of them uses it; try again when fewer are open"
            );
            return Err(conflict("version_in_use", message));
        }
        Some(Use::Free) | None => {}
    }
    if !records.drop_version(&id, &version).await? {
        return Err(unknown());
    }
    tracing::info!(app = id, version, "a version was removed");
    Ok(StatusCode::NO_CONTENT)
}

/// Adds the current version where an older process published it and did not keep it.
fn with_current(app: &App, mut known: Vec<AppVersion>) -> Vec<AppVersion> {
    if !known.iter().any(|version| version.version == app.version) {
        let published_at = Timestamp::from_millis(app.created_at_ms);
        known.push(AppVersion { version: app.version.clone(), published_at });
    }
    known
}

fn to_json(app: &App, version: &AppVersion) -> Json {
    json!({
        "version": version.version,
        "workflow_id": workflow_uuid(&app.id, &version.version),
        "created_at": version.published_at.seconds_f64(),
        "is_current": version.version == app.version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_version_is_always_listed_once() {
        let app = App { id: "app".into(), version: "b".into(), created_at_ms: 5, ..App::default() };
        let of = |version: &str, at| AppVersion {
            version: version.into(),
            published_at: Timestamp::from_millis(at),
        };
        for (known, listed) in [
            (vec![], vec!["b"]),
            (vec![of("b", 9), of("a", 5)], vec!["b", "a"]),
            (vec![of("a", 1)], vec!["a", "b"]),
        ] {
            let found = with_current(&app, known);
            assert_eq!(found.iter().map(|it| it.version.as_str()).collect::<Vec<_>>(), listed);
        }
    }
}
