//! What plugins learn about an app: its id, its name and its mode, and its form and features in the form of `GET /v1/parameters`.
//! What names models and keys stays here, and so do the rules of moderation.

use serde_json::{Value as Json, json};
use tidemill_common::annotations::ReplySetting;
use tidemill_common::app_parameters::{AppSettings, ShownApp};
use tidemill_common::dsl::Document;
use tidemill_common::nodes::tool::form;
use tidemill_common::store::App;

/// The answer about an app. A feature is on if the settings of this worker serve it.
///
/// # Errors
/// Its published version cannot be read.
pub(super) fn of(app: &App, settings: &AppSettings) -> Result<Json, String> {
    let document = Document::from_stored(&app.document)
        .map_err(|error| format!("the published version of the app {} cannot be read: {error}", app.id))?;
    let (features, is_simple) = (&document.features, document.front.mode.is_some());
    let form = form::start_of(&document).map(|start| form::shown(start, is_simple)).unwrap_or_default();
    let has_annotation_reply = ReplySetting::in_force(app.annotation_reply.as_deref(), features).is_some();
    let mut data = settings.for_plugins(ShownApp { features, is_simple, form, has_annotation_reply });
    for (key, value) in [("id", &app.id), ("name", &app.name), ("mode", &app.mode)] {
        data.insert(key.into(), value.as_str().into());
    }
    Ok(json!({"data": data}))
}
