//! Finds the version of an app that a request pins: by its UUID, which `/v1` shows as `workflow_id`, or by its hash.

use std::sync::Arc;

use axum::http::StatusCode;
use tidemill_common::store::{App, AppVersion};
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::runs::ids::workflow_uuid;

/// Characters of a hash.
const HASH_CHARS: usize = 64;

/// The app with the version that the request names, or as it is when the request names none.
///
/// # Errors
/// Dify's: 400 for text that is no id, 404 for a version that this app never had.
pub(super) async fn pinned(state: &ApiState, app: Arc<App>, id: Option<&str>) -> Result<Arc<App>, ApiError> {
    let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok(app) };
    let Some(wanted) = Wanted::read(id) else {
        let message = format!("Invalid workflow_id format: '{id}'. ");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "bad_request", message));
    };
    if wanted.is(&app.id, &app.version) {
        return Ok(app);
    }
    let gone = || ApiError::not_found(format!("Workflow not found with id: {id}"));
    let records = state.store.app_records();
    let version = wanted.among(&app.id, records.versions(&app.id).await?).ok_or_else(gone)?;
    let document = records.version_document(&app.id, &version).await?.ok_or_else(gone)?;
    let workflow = state.workflows.of_document(&version, &document)?;
    // A chat cannot answer for a workflow. On Dify an app never changes its mode.
    if workflow.graph.app_mode() != app.mode {
        return Err(gone());
    }
    Ok(Arc::new(App { version, document, ..(*app).clone() }))
}

/// The id of a version in one of its two forms.
#[derive(Debug, PartialEq)]
enum Wanted<'a> {
    Uuid(Uuid),
    Hash(&'a str),
}

impl<'a> Wanted<'a> {
    fn read(id: &'a str) -> Option<Self> {
        let is_hash = id.len() == HASH_CHARS && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if is_hash { Some(Self::Hash(id)) } else { Uuid::try_parse(id).ok().map(Self::Uuid) }
    }

    fn is(&self, app: &str, version: &str) -> bool {
        match self {
            Self::Uuid(uuid) => *uuid == workflow_uuid(app, version),
            Self::Hash(hash) => *hash == version,
        }
    }

    fn among(&self, app: &str, versions: Vec<AppVersion>) -> Option<String> {
        versions.into_iter().map(|known| known.version).find(|version| self.is(app, version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::clock::Timestamp;

    #[test]
    fn a_version_is_found_by_its_uuid_in_any_spelling_and_by_its_hash() {
        let (one, two) = ("a".repeat(HASH_CHARS), "b".repeat(HASH_CHARS));
        let published_at = Timestamp::from_millis(1);
        let known =
            || [&one, &two].map(|version| AppVersion { version: version.clone(), published_at }).to_vec();
        let uuid = workflow_uuid("app", &two);
        for (id, found) in [
            (two.clone(), Some(Some(two.clone()))),
            (uuid.to_string(), Some(Some(two.clone()))),
            (uuid.to_string().to_uppercase(), Some(Some(two.clone()))),
            (uuid.simple().to_string(), Some(Some(two.clone()))),
            (workflow_uuid("other", &two).to_string(), Some(None)),
            ("c".repeat(HASH_CHARS), Some(None)),
            ("B".repeat(HASH_CHARS), None),
            ("draft".into(), None),
            ("1".into(), None),
        ] {
            let read = Wanted::read(&id).map(|wanted| wanted.among("app", known()));
            assert_eq!(read, found, "{id}");
        }
    }
}
