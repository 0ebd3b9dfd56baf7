//! What plugins learn about an app: its name, its mode and its form, as `GET /v1/parameters` has them. The settings of its
//! features stay here, besides whether each is on: they may name models and keys.

use serde_json::{Value as Json, json};
use tidemill_common::dsl::Document;
use tidemill_common::nodes::tool::form;
use tidemill_common::store::App;

/// Features of which plugins learn whether they are on.
const SWITCHES: [&str; 6] = [
    "suggested_questions_after_answer",
    "speech_to_text",
    "text_to_speech",
    "retriever_resource",
    "more_like_this",
    "sensitive_word_avoidance",
];

/// The answer about an app.
///
/// # Errors
/// Its published version cannot be read.
pub(super) fn of(app: &App) -> Result<Json, String> {
    let document = Document::from_stored(&app.document)
        .map_err(|error| format!("the published version of the app {} cannot be read: {error}", app.id))?;
    let is_simple = document.front.mode.is_some();
    let form = form::start_of(&document).map(|start| form::shown(start, is_simple)).unwrap_or_default();
    let feature = |name: &str| document.features.get(name).cloned().unwrap_or_default();
    let mut data = json!({
        "id": app.id,
        "name": app.name,
        "mode": app.mode,
        "opening_statement": feature("opening_statement"),
        "suggested_questions": feature("suggested_questions").as_array().cloned().unwrap_or_default(),
        "user_input_form": form,
        "file_upload": feature("file_upload"),
    });
    for name in SWITCHES {
        data[name] = json!({"enabled": feature(name)["enabled"] == true});
    }
    Ok(json!({"data": data}))
}
