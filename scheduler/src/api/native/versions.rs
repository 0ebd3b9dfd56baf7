//! `GET /api/v1/apps/{id}/versions`: the versions of an app that a request may pin.

use axum::Json as JsonBody;
use axum::extract::State;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::store::{App, AppVersion};

use super::apps::find;
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
