//! The result of a sub-workflow run, from the fields of its hash: its failure, its cost, its outputs.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use tidemill_common::dsl::moderation::OutputRules;
use tidemill_common::files::Files;
use tidemill_common::ids::RunId;
use tidemill_common::machine::RunStatus;
use tidemill_common::nodes::{Usage, WASTED};
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap, Stored};
use tidemill_common::wire::codec::value::{MARK, stored_from_json};

use crate::attempt::journal::Journal;
use crate::outside::http::Http;
use crate::outside::tools::{Stage, ToolError};

/// Stands for a secret of the called workflow.
const MASK: &str = "********************";

/// The run that gets files, the client with the limits of files, and the storage.
pub(crate) type FilesOf<'a> = (&'a RunId, &'a Http, &'a dyn Files);

/// Returns the reason if the run has no result.
pub(crate) fn error(fields: &HashMap<String, String>) -> Option<String> {
    let status = fields.get("status").and_then(|name| RunStatus::from_name(name));
    match status {
        Some(RunStatus::Succeeded | RunStatus::PartialSucceeded) => None,
        other => Some(fields.get("error").cloned().unwrap_or_else(|| {
            format!("the sub-workflow run ended as {}", other.map_or("unknown", RunStatus::name))
        })),
    }
}

/// The cost of the run. A run reports only the sum of its tokens, which Dify counts as completion tokens.
pub(crate) fn usage(fields: &HashMap<String, String>) -> Usage {
    let tokens: u64 = fields.get("tokens").and_then(|text| text.parse().ok()).unwrap_or(0);
    let text = |key: &str, default: &str| fields.get(key).map_or(default, String::as_str).to_owned();
    let mut record = json!({
        "prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens,
        "total_price": text("price", "0.0"), "currency": text("currency", "USD"),
    });
    let wasted = fields.get("wasted_tokens").and_then(|text| text.parse::<u64>().ok());
    if let Some(tokens) = wasted.filter(|tokens| *tokens > 0) {
        record[WASTED] = json!({
            "total_tokens": tokens, "total_price": text("wasted_price", "0.0"),
            "currency": text("wasted_currency", "USD"),
        });
    }
    Usage::from_record(record.as_object().cloned().unwrap_or_default())
}

/// Cleans the outputs by the rules of the called app: its moderation also holds for workflows that call it.
pub(crate) fn clean(fields: &HashMap<String, String>, outputs: &mut JsonMap) -> Result<(), ToolError> {
    let Some(rules) = fields.get(OutputRules::FIELD) else { return Ok(()) };
    let rules: OutputRules = serde_json::from_str(rules).map_err(|error| {
        let reason = format!("the moderation of the sub-workflow run cannot be read: {error}");
        ToolError::new(Stage::Read, reason)
    })?;
    rules.clean(outputs);
    Ok(())
}

/// Loads the run's outputs, including blobs.
pub(crate) async fn opened(
    fields: &HashMap<String, String>,
    journal: &Journal,
) -> Result<JsonMap, ToolError> {
    let unreadable = |reason: String| {
        ToolError::new(Stage::Read, format!("the outputs of the sub-workflow run cannot be read: {reason}"))
    };
    let stored: JsonMap = match fields.get("outputs") {
        Some(text) => serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?,
        None => JsonMap::new(),
    };
    let mut outputs = JsonMap::new();
    for (name, value) in stored {
        let parts =
            value.get(MARK).filter(|mark| **mark == "joined").and_then(|_| value.get("parts")?.as_array());
        let value = match parts {
            Some(parts) => {
                let mut text = String::new();
                for part in parts {
                    let part = open(part.clone(), journal).await.map_err(unreadable)?;
                    text.push_str(&tidemill_common::value::pyrepr::str_of(&part));
                }
                Json::String(text)
            }
            None => open(value, journal).await.map_err(unreadable)?,
        };
        outputs.insert(name, value);
    }
    Ok(outputs)
}

async fn open(value: Json, journal: &Journal) -> Result<Json, String> {
    let (blob, at) = match stored_from_json(value).map_err(|error| error.to_string())? {
        Stored::Inline(segment) => return Ok(segment.value),
        Stored::Secret(_) => return Ok(MASK.into()),
        Stored::Blob(blob) => (blob, None),
        Stored::Item { list, at } => (list, Some(at)),
    };
    let text = journal.blob(&blob.id).await.ok_or_else(|| format!("blob {} is gone", blob.id))?;
    let value: Json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok(match at.and_then(|at| usize::try_from(at).ok()) {
        Some(at) => value.get(at).cloned().unwrap_or_default(),
        None => value,
    })
}

/// Copies stored files of the sub-workflow run to the caller's run: the sub-workflow run is deleted before its caller, with
/// its files.
pub(crate) async fn take_over_files(outputs: &mut JsonMap, to: FilesOf<'_>) -> Result<(), ToolError> {
    for value in outputs.values_mut() {
        match value {
            Json::Array(items) => {
                for item in items {
                    take_over(item, to).await?;
                }
            }
            other => take_over(other, to).await?,
        }
    }
    Ok(())
}

async fn take_over(value: &mut Json, (run, http, files): FilesOf<'_>) -> Result<(), ToolError> {
    let text = |key: &str| value.get(key).and_then(Json::as_str);
    if text(FILE_IDENTITY_KEY) != Some(FILE_IDENTITY) || text("transfer_method") != Some("tool_file") {
        return Ok(());
    }
    let Some(reference) = text("reference").map(str::to_owned) else { return Ok(()) };
    let failed = |reason: String| {
        ToolError::new(Stage::Read, format!("a file of the sub-workflow run cannot be copied: {reason}"))
    };
    let bytes = files.read(&reference, http.bounds.file_bytes_max).await;
    let kept = files.keep(run, bytes.map_err(|error| failed(error.to_string()))?).await;
    value["reference"] = json!(kept.map_err(|error| failed(error.to_string()))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_did_not_succeed_says_why() {
        let fields = |status: &str, error: Option<&str>| {
            let error = error.map(|error| ("error".to_string(), error.to_string()));
            error.into_iter().chain([("status".to_string(), status.to_string())]).collect::<HashMap<_, _>>()
        };
        assert_eq!(error(&fields("succeeded", None)), None);
        assert_eq!(error(&fields("partial-succeeded", None)), None);
        assert_eq!(error(&fields("failed", Some("boom"))), Some("boom".into()));
        assert_eq!(error(&fields("stopped", None)), Some("the sub-workflow run ended as stopped".into()));
    }

    #[test]
    fn what_a_run_cost_is_its_sum() {
        let fields = [("tokens", "12"), ("price", "0.5"), ("currency", "EUR")];
        let fields = fields.map(|(key, value)| (key.to_string(), value.to_string())).into_iter().collect();
        let cost = usage(&fields);
        assert_eq!((cost.total_tokens, cost.completion_tokens, cost.prompt_tokens), (12, 12, 0));
        assert_eq!((cost.total_price.as_str(), cost.currency.as_str()), ("0.5", "EUR"));
        assert_eq!(usage(&HashMap::new()).total_tokens, 0);
    }
}
