//! Metadata: the fields of a dataset, the built-in ones, and the values of documents. Searches filter by these values.

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::knowledge::built_in as built_in_fields;
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentRecord, MetadataField};
use uuid::Uuid;

use super::payload::Payload;
use super::{change, dataset, views};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::Body;

/// The longest name of a field, in characters, as on Dify.
const NAME_CHARS_MAX: usize = 255;
/// The id that Dify shows for built-in fields.
const BUILT_IN: &str = "built-in";

/// All fields of a dataset: those that clients made, those that documents have besides, and built-in ones.
pub(super) fn all_fields<'a>(
    dataset: &DatasetRecord,
    documents: impl Iterator<Item = &'a DocumentRecord>,
) -> Vec<Json> {
    let mut all: Vec<Json> = own_fields(dataset, documents).iter().map(shown).collect();
    if dataset.notes.has_built_in {
        let built_in = |(name, kind): &(&str, &str)| json!({"id": BUILT_IN, "name": name, "type": kind});
        all.extend(built_in_fields::FIELDS.iter().map(built_in));
    }
    all
}

/// The fields of a dataset without built-in ones. Documents may have fields that no client has made here, such as those
/// of `tidemill knowledge add --meta`; their ids follow from their names.
fn own_fields<'a>(
    dataset: &DatasetRecord,
    documents: impl Iterator<Item = &'a DocumentRecord>,
) -> Vec<MetadataField> {
    let mut all = dataset.notes.metadata_fields.clone();
    for (name, value) in documents.flat_map(|it| &it.doc_metadata) {
        if !all.iter().any(|field| field.name == *name) {
            let kind = if value.is_number() { "number" } else { "string" };
            all.push(MetadataField {
                id: derived_id(&dataset.id, name),
                name: name.clone(),
                kind: kind.into(),
            });
        }
    }
    all
}

fn derived_id(dataset: &str, name: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("field\u{0}{dataset}\u{0}{name}").as_bytes()).to_string()
}

fn shown(field: &MetadataField) -> Json {
    json!({"id": field.id, "name": field.name, "type": field.kind})
}

/// The values of a document, in Dify's form.
pub(super) fn values_of(dataset: &DatasetRecord, document: Option<&DocumentRecord>) -> Vec<Json> {
    let Some(document) = document else { return Vec::new() };
    let valued = |field: &MetadataField| {
        let value = document.doc_metadata.get(&field.name)?;
        Some(json!({"id": field.id, "name": field.name, "type": field.kind, "value": value}))
    };
    let fields = own_fields(dataset, std::iter::once(document));
    let mut all: Vec<Json> = fields.iter().filter_map(valued).collect();
    if dataset.notes.has_built_in {
        let kinds = built_in_fields::FIELDS.iter().map(|(_, kind)| *kind);
        let built_in = built_in_fields::values(document).into_iter().zip(kinds);
        all.extend(built_in.map(
            |((name, value), kind)| json!({"id": BUILT_IN, "name": name, "type": kind, "value": value}),
        ));
    }
    all
}

/// Checks the name of a field.
fn check_name(fields: &[MetadataField], name: &str) -> Result<(), ApiError> {
    if name.chars().count() > NAME_CHARS_MAX {
        let message = format!("Metadata name cannot exceed {NAME_CHARS_MAX} characters.");
        return Err(ApiError::invalid_param(message));
    }
    if fields.iter().any(|field| field.name == name) {
        return Err(ApiError::invalid_param("Metadata name already exists."));
    }
    if built_in_fields::FIELDS.iter().any(|(built_in, _)| *built_in == name) {
        return Err(ApiError::invalid_param("Metadata name already exists in Built-in fields."));
    }
    Ok(())
}

/// `POST /v1/datasets/{dataset}/metadata`: creates a field. 201.
///
/// # Errors
/// 400 for a wrong or known name; 404.
pub(super) async fn create(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let dataset = dataset(&state, &id).await?;
    let payload = Payload::read("MetadataArgs", &body)?;
    let kind = payload.word("type", &["string", "number", "time"])?;
    let kind = kind.ok_or_else(|| payload.wrong("type", "Field required"))?;
    let name = payload.required("name")?;
    let documents = state.store.knowledge().documents(&id).await?.documents;
    check_name(&own_fields(&dataset, documents.iter()), name)?;
    let field = MetadataField { id: Uuid::new_v4().to_string(), name: name.into(), kind: kind.into() };
    change::of_dataset(&state, &id, |dataset| {
        check_name(&dataset.notes.metadata_fields, &field.name)?;
        dataset.notes.metadata_fields.push(field.clone());
        Ok(())
    })
    .await?;
    Ok((StatusCode::CREATED, JsonBody(shown(&field))))
}

/// `GET /v1/datasets/{dataset}/metadata`: all fields, each with the number of documents that have it.
///
/// # Errors
/// 404.
pub(super) async fn list(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let documents = state.store.knowledge().documents(&id).await?.documents;
    let fields = own_fields(&dataset, documents.iter());
    let counted = |field: &MetadataField| {
        let mut shown = shown(field);
        let count = documents.iter().filter(|it| it.doc_metadata.contains_key(&field.name)).count();
        shown["count"] = count.into();
        shown
    };
    Ok(JsonBody(json!({
        "doc_metadata": fields.iter().map(counted).collect::<Vec<_>>(),
        "built_in_field_enabled": dataset.notes.has_built_in,
    })))
}

/// Finds a field by its id.
async fn field(state: &ApiState, dataset: &DatasetRecord, id: &str) -> Result<MetadataField, ApiError> {
    let documents = state.store.knowledge().documents(&dataset.id).await?.documents;
    let found = own_fields(dataset, documents.iter()).into_iter().find(|field| field.id == id);
    found.ok_or_else(|| ApiError::not_found("Metadata not found."))
}

/// `PATCH /v1/datasets/{dataset}/metadata/{field}`: renames a field, also in its documents.
///
/// # Errors
/// 400 for a wrong or known name; 404.
pub(super) async fn rename(
    State(state): State<ApiState>,
    Path((id, field_id)): Path<(String, String)>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let payload = Payload::read("MetadataUpdatePayload", &body)?;
    let name = payload.required("name")?;
    let documents = state.store.knowledge().documents(&id).await?.documents;
    check_name(&own_fields(&dataset, documents.iter()), name)?;
    let old = field(&state, &dataset, &field_id).await?;
    let new = MetadataField { name: name.into(), ..old.clone() };
    change::of_dataset(&state, &id, |dataset| {
        let fields = &mut dataset.notes.metadata_fields;
        check_name(fields, &new.name)?;
        match fields.iter_mut().find(|field| field.id == new.id) {
            Some(field) => field.clone_from(&new),
            // It was known only from documents.
            None => fields.push(new.clone()),
        }
        Ok(())
    })
    .await?;
    for document in documents.iter().filter(|it| it.doc_metadata.contains_key(&old.name)) {
        change::of_document(&state, &id, &document.id, |document| {
            if let Some(value) = document.doc_metadata.shift_remove(&old.name) {
                document.doc_metadata.insert(new.name.clone(), value);
            }
            Ok(())
        })
        .await?;
    }
    Ok(JsonBody(shown(&new)))
}

/// `DELETE /v1/datasets/{dataset}/metadata/{field}`: removes a field, also from its documents.
///
/// # Errors
/// 404.
pub(super) async fn remove(
    State(state): State<ApiState>,
    Path((id, field_id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let field = field(&state, &dataset, &field_id).await?;
    change::of_dataset(&state, &id, |dataset| {
        dataset.notes.metadata_fields.retain(|it| it.id != field.id);
        Ok(())
    })
    .await?;
    for document in state.store.knowledge().documents(&id).await?.documents {
        change::of_document(&state, &id, &document.id, |document| {
            document.doc_metadata.shift_remove(&field.name);
            Ok(())
        })
        .await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /v1/datasets/{dataset}/metadata/built-in`: the built-in fields.
///
/// # Errors
/// 404.
pub(super) async fn built_in(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<JsonBody<Json>, ApiError> {
    dataset(&state, &id).await?;
    let field = |(name, kind): &(&str, &str)| json!({"name": name, "type": kind});
    let fields: Vec<Json> = built_in_fields::FIELDS.iter().map(field).collect();
    Ok(JsonBody(json!({ "fields": fields })))
}

/// `POST /v1/datasets/{dataset}/metadata/built-in/{action}`: switches the built-in fields on or off.
///
/// # Errors
/// 404.
pub(super) async fn switch_built_in(
    State(state): State<ApiState>,
    Path((id, action)): Path<(String, String)>,
) -> Result<JsonBody<Json>, ApiError> {
    dataset(&state, &id).await?;
    // Another action is passed over, as on Dify.
    if let Some(on) = [("enable", true), ("disable", false)].into_iter().find(|(word, _)| *word == action) {
        change::of_dataset(&state, &id, |dataset| {
            dataset.notes.has_built_in = on.1;
            Ok(())
        })
        .await?;
    }
    Ok(JsonBody(json!({"result": "success"})))
}

/// `POST /v1/datasets/{dataset}/documents/metadata`: sets the values of documents.
///
/// # Errors
/// 400 for an unknown document; 404.
pub(super) async fn of_documents(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let payload = Payload::read("MetadataOperationData", &body)?;
    let operations = payload.list("operation_data")?;
    let operations = operations.ok_or_else(|| payload.wrong("operation_data", "Field required"))?;
    let all = views::all(&state, &dataset).await?;
    for operation in operations {
        let document = operation["document_id"].as_str().unwrap_or_default();
        if !all.iter().any(|view| view.id == document && view.published.is_some()) {
            return Err(ApiError::invalid_param("Document not found."));
        }
    }
    for operation in operations {
        let values = operation["metadata_list"].as_array().cloned().unwrap_or_default();
        let is_partial = operation["partial_update"] == true;
        let document = operation["document_id"].as_str().unwrap_or_default();
        change::of_document(&state, &id, document, |document| {
            if !is_partial {
                document.doc_metadata.clear();
            }
            for value in &values {
                if let Some(name) = named(&dataset, value) {
                    document.doc_metadata.insert(name.into(), value["value"].clone());
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(JsonBody(json!({"result": "success"})))
}

/// The name of the field of a value: that of its id if this is known, else the given one.
fn named<'a>(dataset: &'a DatasetRecord, value: &'a Json) -> Option<&'a str> {
    let by_id = dataset.notes.metadata_fields.iter().find(|field| value["id"] == field.id);
    by_id.map(|field| field.name.as_str()).or_else(|| value["name"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::wire::knowledge::DatasetNotes;

    fn field(id: &str, name: &str) -> MetadataField {
        MetadataField { id: id.into(), name: name.into(), kind: "string".into() }
    }

    #[test]
    fn fields_are_those_that_clients_made_and_those_of_documents() {
        let notes = DatasetNotes { metadata_fields: vec![field("1", "author")], ..DatasetNotes::default() };
        let mut dataset = DatasetRecord { id: "k".into(), notes, ..DatasetRecord::default() };
        let metadata = json!({"author": "Ada", "year": 2026}).as_object().cloned().unwrap();
        let document = DocumentRecord { doc_metadata: metadata, ..DocumentRecord::default() };
        let shown = all_fields(&dataset, std::iter::once(&document));
        let year = derived_id("k", "year");
        let expected = [
            json!({"id": "1", "name": "author", "type": "string"}),
            json!({"id": year, "name": "year", "type": "number"}),
        ];
        assert_eq!(shown, expected);
        let values = values_of(&dataset, Some(&document));
        assert_eq!(
            (&values[0]["value"], &values[1]["value"], values.len()),
            (&json!("Ada"), &json!(2026), 2)
        );
        dataset.notes.has_built_in = true;
        assert_eq!(all_fields(&dataset, std::iter::once(&document)).len(), 7);
        assert_eq!(values_of(&dataset, Some(&document))[2]["id"], BUILT_IN);
    }

    #[test]
    fn names_of_fields_are_unique() {
        let known = [field("1", "author")];
        for (name, expected) in [
            ("year", Ok(())),
            ("author", Err("Metadata name already exists.")),
            ("source", Err("Metadata name already exists in Built-in fields.")),
            (&"x".repeat(256), Err("Metadata name cannot exceed 255 characters.")),
        ] {
            let checked = check_name(&known, name).map_err(|error| error.message().to_owned());
            assert_eq!(checked, expected.map_err(str::to_owned), "{name}");
        }
    }
}
