//! `GET /v1/workflow/{id}/events`: resumes a run's stream. Beyond Dify, with `Last-Event-ID` no event is repeated and
//! none is missing, even after the run has ended.

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::stream::{Stream, Wanted};
use super::{NO_USER, find};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::events::After;
use crate::api::request::{IdInPath, Params};

/// Follows a run that this user has started.
///
/// # Errors
/// 400 without a user, 404 for a run that is not of this user.
pub async fn follow(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let user = params.get("user").filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| ApiError::invalid_param(NO_USER))?;
    let gone = || ApiError::not_found("Workflow run not found");
    let run = id.run().map_err(|_| gone())?;
    let record = find(&state, &app, run).await?.filter(|record| record.user == user).ok_or_else(gone)?;
    let says = |name: &str| params.get(name) == Some("true");
    let wanted = Wanted { snapshot: false, beyond_pauses: says("continue_on_pause") };
    match After::of_header(&headers)? {
        Some(after) => Stream::answer(&state, record, after, wanted).await,
        None if record.status.is_over() => Stream::last_event(&state, record).await,
        None => {
            let wanted = Wanted { snapshot: says("include_state_snapshot"), ..wanted };
            Stream::answer(&state, record, After::Now, wanted).await
        }
    }
}
