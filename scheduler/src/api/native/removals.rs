//! `DELETE /api/v1/apps/{id}`, `DELETE /api/v1/apps/{id}/users/{user}`, `GET /api/v1/removals`: removes apps, and users of
//! apps. A request stores a removal, which the schedulers do in the background, also when a process dies meanwhile.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::limits;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{AppState, ListRuns, StateSet};

use super::apps::{find, find_kept};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{IdInPath, Params, UserInPath};
use crate::background::removals::{Removal, RunsFate};
use crate::runs::scan::Scan;
use crate::submit::USER_CHARS_MAX;

/// Removes an app with all that belongs to it. 202: its keys are revoked and it accepts no more runs; the rest is removed in
/// the background. `runs` says what becomes of its runs. A repeated request changes nothing.
///
/// # Errors
/// 404 for an unknown app; 400 for an invalid `runs`; 409 `app_in_use` when runs are under way and `runs` is not given; 429 when
/// too many removals are under way.
pub async fn app(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    params: Params,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let told = params.get("runs").map(|name| {
        let wrong = || ApiError::invalid_param("runs must be keep, stop or remove");
        RunsFate::named(name).ok_or_else(wrong)
    });
    let told = told.transpose()?;
    find(&state, &id).await?;
    if let Some(known) = under_way(&state, &id).await? {
        return Ok((StatusCode::ACCEPTED, JsonBody(known.to_json())));
    }
    let fate = match told {
        Some(fate) => fate,
        None => {
            refuse_in_use(&state, &id).await?;
            RunsFate::Keep
        }
    };
    let removal = begin(&state, Removal::new(&id, None, fate, state.store.time().await?)).await?;
    // The background does this again: this process may die here.
    if state.store.removals().set_app_state(&id, AppState::Removing).await? == StateSet::Over {
        tracing::info!(app = id, "the app was removed meanwhile");
        return Ok((StatusCode::ACCEPTED, JsonBody(removal.to_json())));
    }
    for key in state.store.keys().await?.into_iter().filter(|key| key.app == id) {
        state.store.revoke_key(&key.id).await?;
    }
    tracing::info!(app = id, runs = fate.name(), "an app is being removed");
    Ok((StatusCode::ACCEPTED, JsonBody(removal.to_json())))
}

/// Removes all that belongs to a user of an app and began before this request. Runs under way are stopped. 202: it is done in
/// the background. A repeated request changes nothing while that goes on.
///
/// # Errors
/// 404 for an unknown app; 400 for a name that no user can have; 409 for an app that is being removed; 429 as [`app`].
pub async fn user(
    State(state): State<ApiState>,
    UserInPath(id, user): UserInPath,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    if user.is_empty() || user.chars().count() > USER_CHARS_MAX {
        let message = format!("the name of a user has 1 to {USER_CHARS_MAX} characters");
        return Err(ApiError::invalid_param(message));
    }
    find_kept(&state, &id).await?;
    let removal = Removal::new(&id, Some(&user), RunsFate::Remove, state.store.time().await?);
    let removal = begin(&state, removal).await?;
    // The name of the user is not logged.
    tracing::info!(removal = removal.id(), "a user of an app is being removed");
    Ok((StatusCode::ACCEPTED, JsonBody(removal.to_json())))
}

/// Lists the removals that are under way. One that is not listed any more is done.
///
/// # Errors
/// Errors of the store.
pub async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let all = state.store.removals().removals_under_way().await?;
    let data: Vec<Json> = all.iter().filter_map(|(_, text)| Some(Removal::read(text)?.to_json())).collect();
    Ok(JsonBody(json!({"data": data})))
}

pub(super) async fn under_way(state: &ApiState, id: &str) -> Result<Option<Removal>, ApiError> {
    let all = state.store.removals().removals_under_way().await?;
    Ok(all.iter().find(|(known, _)| known == id).and_then(|(_, text)| Removal::read(text)))
}

/// Stores a removal. If it is under way already, returns that.
async fn begin(state: &ApiState, removal: Removal) -> Result<Removal, ApiError> {
    let id = removal.id();
    let (all, max) =
        (state.store.removals().removals_under_way().await?, state.config.scheduler.removals_max);
    if max > 0 && all.len() >= max && all.iter().all(|(known, _)| *known != id) {
        return Err(too_many(all.len(), max));
    }
    if state.store.removals().move_removal(&id, None, Some(&removal.to_text())).await? {
        return Ok(removal);
    }
    Ok(under_way(state, &id).await?.unwrap_or(removal))
}

/// The error when too many removals are under way.
fn too_many(are: usize, max: usize) -> ApiError {
    let message = format!(
        "{are} removals are under way; at most {max} are allowed at the same time (scheduler.removals_max). \
         GET /api/v1/removals lists them. Try again when one is done"
    );
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_removals", message)
}

/// Refuses an app that has runs under way.
async fn refuse_in_use(state: &ApiState, id: &str) -> Result<(), ApiError> {
    match open_run(state, id).await? {
        (None, true) => Ok(()),
        (Some(run), _) => {
            let message = format!(
                "the app {id} has runs under way, such as {run}; say with `runs` what becomes of its runs: keep, stop or \
                 remove"
            );
            Err(ApiError::new(StatusCode::CONFLICT, "app_in_use", message)
                .with("run", run.to_string().into()))
        }
        (None, false) => {
            let max = limits::VERSION_RUNS_LOOKED_MAX;
            let message = format!(
                "more than {max} runs of all apps have not ended, too many to find out whether one is of the app {id}; say \
                 with `runs` what becomes of its runs: keep, stop or remove"
            );
            Err(ApiError::new(StatusCode::CONFLICT, "app_in_use", message))
        }
    }
}

/// A run of an app that has not ended, and whether all runs were looked at.
async fn open_run(state: &ApiState, id: &str) -> Result<(Option<RunId>, bool), ApiError> {
    let mut has_seen_all = true;
    // In this order a run that goes on meanwhile is in one of the lists.
    for status in [RunStatus::Scheduled, RunStatus::Running, RunStatus::Paused] {
        let query = ListRuns { status: Some(status), ..ListRuns::default() };
        let mut scan = Scan::new(query, &["app"], limits::VERSION_RUNS_LOOKED_MAX);
        while let Some(piece) = scan.next(&*state.store).await? {
            let own = piece.into_iter().find(|(_, fields)| fields.get("app").is_some_and(|app| app == id));
            if let Some((run, _)) = own {
                return Ok((Some(run), true));
            }
        }
        has_seen_all &= scan.has_seen_all();
    }
    Ok((None, has_seen_all))
}
