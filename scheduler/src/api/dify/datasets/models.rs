//! The models that are known here, by provider: those that the settings and the catalog describe or name, those of
//! profiles, and those of the datasets. Their kind follows from the settings, or else from their names.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use serde_json::{Value as Json, json};
use tidemill_common::registry::public_form;
use tidemill_common::store::CatalogKind;

use crate::api::ApiState;
use crate::api::error::ApiError;

/// Dify's kinds of models.
const KINDS: [&str; 6] = ["llm", "text-embedding", "rerank", "speech2text", "moderation", "tts"];

/// Models by provider.
type Known = BTreeMap<String, BTreeSet<(String, &'static str)>>;

/// `GET /v1/workspaces/current/models/model-types/{type}`.
///
/// # Errors
/// 400 for an unknown type.
pub(super) async fn list(
    State(state): State<ApiState>,
    Path(kind): Path<String>,
) -> Result<JsonBody<Json>, ApiError> {
    if !KINDS.contains(&kind.as_str()) {
        return Err(ApiError::invalid_param(format!("invalid model type {kind}")));
    }
    let known = known(&state).await?;
    let data: Vec<Json> = known
        .iter()
        .filter_map(|(provider, models)| {
            let models: Vec<&str> =
                models.iter().filter(|(_, of)| *of == kind).map(|(name, _)| name.as_str()).collect();
            (!models.is_empty()).then(|| shown(provider, &models, &kind))
        })
        .collect();
    Ok(JsonBody(json!({ "data": data })))
}

async fn known(state: &ApiState) -> Result<Known, ApiError> {
    let mut known = Known::new();
    for (provider, table) in &*state.config.providers {
        add_models(&mut known, provider, &json!(table));
    }
    let catalog = state.store.catalog().await?;
    for entry in catalog.of(CatalogKind::Provider) {
        add_models(&mut known, &entry.id, &json!(public_form(CatalogKind::Provider, entry)));
    }
    for entry in catalog.of(CatalogKind::Profile) {
        let profile = json!(public_form(CatalogKind::Profile, entry));
        if let (Some(provider), Some(model)) = (profile["provider"].as_str(), profile["model"].as_str()) {
            add(&mut known, provider, model, None);
        }
    }
    if let Some(model) = state.config.knowledge.default_embedding() {
        add(&mut known, &model.provider, &model.model, Some("text-embedding"));
    }
    for dataset in state.store.knowledge().datasets().await? {
        if let Some(model) = &dataset.embedding {
            add(&mut known, &model.provider, &model.model, Some("text-embedding"));
        }
        if let Some(model) = &dataset.retrieval.reranking_model {
            add(&mut known, &model.provider, &model.model, Some("rerank"));
        }
    }
    Ok(known)
}

/// Adds the models that a provider's settings describe.
fn add_models(known: &mut Known, provider: &str, table: &Json) {
    let models = table["models"].as_object().into_iter().flatten();
    for (model, settings) in models {
        let kind = (settings["mode"] == "embedding").then_some("text-embedding");
        add(known, provider, model, kind);
    }
}

fn add(known: &mut Known, provider: &str, model: &str, kind: Option<&'static str>) {
    let kind = kind.unwrap_or_else(|| kind_of(model));
    known.entry(provider.to_owned()).or_default().insert((model.to_owned(), kind));
}

/// The kind of a model, by its name.
fn kind_of(model: &str) -> &'static str {
    let name = model.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match () {
        () if has(&["rerank"]) => "rerank",
        () if has(&["embed", "bge-", "e5-"]) => "text-embedding",
        () if has(&["whisper", "transcribe"]) => "speech2text",
        () if has(&["tts"]) => "tts",
        () if has(&["moderation"]) => "moderation",
        () => "llm",
    }
}

fn shown(provider: &str, models: &[&str], kind: &str) -> Json {
    let named = |name: &str| json!({"zh_Hans": name, "en_US": name});
    let model = |name: &&str| {
        json!({
            "model": name,
            "label": named(name),
            "model_type": kind,
            "features": null,
            "fetch_from": "customizable-model",
            "model_properties": {},
            "deprecated": false,
            "status": "active",
            "load_balancing_enabled": false,
            "has_invalid_load_balancing_configs": false,
        })
    };
    json!({
        "tenant_id": super::shown::ACCOUNT,
        "provider": provider,
        "label": named(provider),
        "icon_small": null,
        "icon_small_dark": null,
        "status": "active",
        "models": models.iter().map(model).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_model_follows_from_its_settings_or_its_name() {
        let mut known = Known::new();
        add_models(&mut known, "p", &json!({"models": {"vectors": {"mode": "embedding"}, "chat-1": {}}}));
        let expected =
            BTreeSet::from([("chat-1".to_owned(), "llm"), ("vectors".to_owned(), "text-embedding")]);
        assert_eq!(known["p"], expected);
        for (name, kind) in [
            ("text-embedding-3-small", "text-embedding"),
            ("bge-reranker-v2", "rerank"),
            ("whisper-1", "speech2text"),
            ("gpt-4o-mini-tts", "tts"),
            ("omni-moderation-latest", "moderation"),
            ("gpt-4o", "llm"),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }
}
