//! Documents from texts, their status, and their end.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::knowledge::process::{ProcessRule, ProcessRuleError};
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentNotes, DocumentRecord, SourceFile};
use uuid::Uuid;

use super::absent::absent;
use super::documents_shown::{self, Hits};
use super::payload::Payload;
use super::views::{self, View};
use super::{bases, change, dataset, retrieval, shown};
use crate::api::ApiState;
use crate::api::auth::CallingKey;
use crate::api::error::ApiError;
use crate::api::indexing::{self, Content, Order};
use crate::api::native::knowledge::check_name;
use crate::api::request::Body;

const FORMS: [&str; 3] = ["text_model", "hierarchical_model", "qa_model"];
const NOT_FOUND: &str = "Document not found.";
const NO_FORM: &str = "Only doc_form text_model is supported: knowledge bases here have no parent and child chunks, and \
    make no questions; add questions with their answers as chunks (/segments, with content and answer).";
const NO_TEXT: &str = "The text of a document is not kept as a whole, so it cannot be split again: send text with the \
    new process_rule.";
const ACTIONS: [&str; 4] = ["enable", "disable", "archive", "un_archive"];

/// What a request says about a document besides its text.
pub(super) struct Settings {
    /// The rule by which the text is split, as given; `None`: the automatic one.
    pub(super) rule: Option<Json>,
    pub(super) language: String,
}

/// Reads the settings of a new version, and sets those that the request chooses for its dataset.
pub(super) async fn settings(
    state: &ApiState,
    dataset: &DatasetRecord,
    payload: &Payload,
) -> Result<Settings, ApiError> {
    if payload.word("doc_form", &FORMS)?.is_some_and(|form| form != shown::DOC_FORM) {
        return Err(absent(NO_FORM));
    }
    let given = payload.object("process_rule")?.cloned().map(Json::Object);
    if let Some(rule) = &given {
        ProcessRule::parse(rule).map_err(refused)?;
    }
    let technique = bases::technique(payload)?;
    if dataset.notes.is_undecided && technique.is_none() {
        return Err(ApiError::invalid_param("indexing_technique is required."));
    }
    let (embedding, search) = (bases::embedding(payload)?, payload.object("retrieval_model")?);
    let search = search.map(retrieval::read).transpose()?;
    let usual = state.config.knowledge.default_embedding();
    change::of_dataset(state, &dataset.id, |record| {
        if record.notes.is_undecided
            && let Some(technique) = technique
        {
            if let Some(embedding) = &embedding {
                record.embedding = Some(embedding.clone());
            }
            if let Some(search) = &search {
                record.retrieval = search.clone();
            }
            bases::decide(record, technique, usual.as_ref())?;
        }
        if given.is_some() {
            record.notes.process_rule.clone_from(&given);
        } else if record.notes.process_rule.is_none() {
            // Later files need no rule then, as on Dify.
            record.notes.process_rule = Some(json!({"mode": "automatic"}));
        }
        Ok(())
    })
    .await?;
    let language = payload.text("doc_language")?.unwrap_or_default().to_owned();
    Ok(Settings { rule: given.or_else(|| dataset.notes.process_rule.clone()), language })
}

fn refused(error: ProcessRuleError) -> ApiError {
    match error {
        ProcessRuleError::Invalid(message) => ApiError::invalid_param(message),
        ProcessRuleError::Hierarchical => absent(&ProcessRuleError::Hierarchical.to_string()),
    }
}

/// The answer to a request that makes a version of a document.
pub(super) async fn answer(
    state: &ApiState,
    dataset: &DatasetRecord,
    document: &str,
) -> Result<JsonBody<Json>, ApiError> {
    let view = views::one(state, dataset, document, NOT_FOUND).await?;
    let document = documents_shown::document(dataset, &view, &Hits::new());
    Ok(JsonBody(json!({"document": document, "batch": view.batch()})))
}

/// A document that may be replaced.
pub(super) async fn replaceable(
    state: &ApiState,
    dataset: &DatasetRecord,
    id: &str,
) -> Result<View, ApiError> {
    let view = views::one(state, dataset, id, NOT_FOUND).await?;
    match view.display_status() {
        // A version that failed may be replaced, too: otherwise nothing could repair the document.
        "available" | "error" => Ok(view),
        _ => Err(ApiError::invalid_param("Document is not available")),
    }
}

/// `POST /v1/datasets/{dataset}/document/create-by-text`: makes a document; a run indexes it.
///
/// # Errors
/// 400 for a wrong field; 404; 501 for another form of documents.
pub(super) async fn create_by_text(
    State(state): State<ApiState>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    Path(id): Path<String>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let payload = Payload::read("DocumentTextCreatePayload", &body)?;
    let (name, text) = (payload.required("name")?, payload.required("text")?);
    let document = match payload.text("original_document_id")?.filter(|id| !id.is_empty()) {
        Some(original) => replaceable(&state, &dataset, original).await?.id,
        None => Uuid::new_v4().to_string(),
    };
    store_text(&state, &dataset, &payload, (&document, name, text), key).await?;
    answer(&state, &dataset, &document).await
}

async fn store_text(
    state: &ApiState,
    dataset: &DatasetRecord,
    payload: &Payload,
    (document, name, text): (&str, &str, &str),
    key: String,
) -> Result<(), ApiError> {
    check_name("name", name)?;
    let settings = settings(state, dataset, payload).await?;
    let rule = settings.rule.as_ref().map_or_else(|| Ok(ProcessRule::default()), ProcessRule::parse);
    let pieces = rule.map_err(refused)?.pieces(text);
    if pieces.is_empty() {
        return Err(ApiError::invalid_param("There is no text in the document."));
    }
    let segments = pieces.into_iter().map(|content| json!({ "content": content })).collect();
    let source = SourceFile {
        id: Uuid::new_v4().to_string(),
        name: name.into(),
        size: text.len() as u64,
        extension: "txt".into(),
        mime_type: "text/plain".into(),
        created_at: shown::seconds(state.store.time().await?.millis()),
    };
    let notes = DocumentNotes {
        source: Some(source),
        process_rule: settings.rule,
        language: settings.language,
        ..DocumentNotes::default()
    };
    let order = Order {
        name: name.into(),
        doc_metadata: None,
        notes,
        key: Some(key),
        ..Order::of(document.into(), Content::Segments(segments))
    };
    indexing::order(state, dataset, order).await?;
    Ok(())
}

/// `POST …/documents/{document}/update-by-text`: a new version of a document, or another name.
///
/// # Errors
/// As [`create_by_text`].
pub(super) async fn update_by_text(
    State(state): State<ApiState>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    Path((id, document)): Path<(String, String)>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let payload = Payload::read("DocumentTextUpdate", &body)?;
    let (name, text) = (payload.text("name")?, payload.text("text")?);
    let view = replaceable(&state, &dataset, &document).await?;
    match (text.filter(|text| !text.is_empty()), name) {
        (Some(_), None) => return Err(ApiError::invalid_param("name is required when text is provided.")),
        (Some(text), Some(name)) => {
            store_text(&state, &dataset, &payload, (&view.id, name, text), key).await?;
        }
        (None, _) if payload.value("process_rule").is_some() => return Err(absent(NO_TEXT)),
        (None, Some(name)) => {
            check_name("name", name)?;
            change::of_document(&state, &id, &view.id, |record| {
                record.name = name.into();
                Ok(())
            })
            .await?;
        }
        (None, None) => {}
    }
    answer(&state, &dataset, &view.id).await
}

/// `DELETE …/documents/{document}`. 204.
///
/// # Errors
/// 403 for an archived document; 404.
pub(super) async fn remove(
    State(state): State<ApiState>,
    Path((id, document)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let missing = "Document Not Exists.";
    let view = views::one(&state, &dataset, &document, missing).await?;
    if view.published.as_ref().is_some_and(|it| it.archived) {
        let message = "The archived document is not editable.";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "archived_document_immutable", message));
    }
    match state.store.knowledge().drop_document(&id, &document).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::not_found(missing)),
    }
}

/// `PATCH …/documents/status/{action}`: enables, disables or archives documents. Unknown ones are passed over, as on Dify.
///
/// # Errors
/// 400 `invalid_action`, before anything is changed; 404.
pub(super) async fn set_status(
    State(state): State<ApiState>,
    Path((id, action)): Path<(String, String)>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let invalid = |message: String| ApiError::new(StatusCode::BAD_REQUEST, "invalid_action", message);
    if !ACTIONS.contains(&action.as_str()) {
        return Err(invalid(format!("Invalid action: {action}. Must be one of: {}", ACTIONS.join(", "))));
    }
    let ids = Payload::read("DocumentStatusPayload", &body)?.texts("document_ids")?;
    let all = views::all(&state, &dataset).await?;
    let chosen: Vec<&View> = all.iter().filter(|view| ids.contains(&view.id)).collect();
    for view in &chosen {
        if matches!(view.display_status(), "queuing" | "indexing") {
            return Err(invalid(format!(
                "Document:{} is being indexed, please try again later",
                view.name()
            )));
        }
        if action == "disable" && view.published.is_none() {
            return Err(invalid(format!("Document: {} is not completed.", view.name())));
        }
    }
    let now = state.store.time().await?.millis();
    for view in chosen {
        change::of_document(&state, &id, &view.id, |record| {
            apply(record, &action, now);
            Ok(())
        })
        .await?;
    }
    Ok(JsonBody(json!({"result": "success"})))
}

fn apply(record: &mut DocumentRecord, action: &str, now: i64) {
    match action {
        "enable" => (record.enabled, record.disabled_at) = (true, None),
        "disable" if record.enabled => (record.enabled, record.disabled_at) = (false, Some(now)),
        "archive" => record.archived = true,
        "un_archive" => record.archived = false,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_changes_what_searches_find() {
        let mut record = DocumentRecord::default();
        for (action, is_searched, disabled_at) in [
            ("disable", false, Some(5)),
            ("disable", false, Some(5)),
            ("enable", true, None),
            ("archive", false, None),
            ("un_archive", true, None),
        ] {
            apply(&mut record, action, if disabled_at.is_some() { 5 } else { 9 });
            assert_eq!((record.is_searched(), record.disabled_at), (is_searched, disabled_at), "{action}");
        }
    }
}
