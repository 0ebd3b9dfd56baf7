//! `GET /v1/workflow/{id}/events`: resumes a run's stream. Beyond Dify, no event is missing: without event ids all events
//! are sent again from the beginning. With `Last-Event-ID` none is repeated, even after the run has ended. Runs of apps that
//! had no workflow can be followed only with event ids: without them they are refused, as on Dify.

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;

use super::stream::{Stream, Wanted};
use super::{check_has_workflow, event_ids, find, says_true, user_in};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::events::After;
use crate::api::request::{IdInPath, Params};

/// Follows a run that this user has started.
///
/// # Errors
/// 400 without a user, and for an app that had no workflow unless the client asks for event ids; 404 for a run that is not
/// of this user.
pub async fn follow(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
    params: Params,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    let user = user_in(&params)?;
    if !event_ids::are_wanted(&headers, &uri) {
        check_has_workflow(&app)?;
    }
    let gone = || ApiError::not_found("Workflow run not found");
    let run = id.run().map_err(|_| gone())?;
    let record = find(&state, &app, run).await?.filter(|record| record.user == user).ok_or_else(gone)?;
    let says = |name: &str| params.get(name).is_some_and(says_true);
    let wanted = Wanted { beyond_pauses: says("continue_on_pause"), ..Wanted::default() };
    match After::of_header(&headers)? {
        Some(after) => Stream::answer(&state, &app, record, after, wanted).await,
        None if record.status.is_over() => Stream::last_event(&state, record).await,
        None => {
            let snapshot = says("include_state_snapshot");
            let replays = !snapshot && !event_ids::are_wanted(&headers, &uri);
            let after = if replays { After::Start } else { After::Now };
            Stream::answer(&state, &app, record, after, Wanted { snapshot, replays, ..wanted }).await
        }
    }
}
