//! Apps of this namespace as tools: the published workflow runs as a run of its own, and its outputs are what the tool
//! answers. Nobody waits for it: see [`Steps::call`].

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use tidemill_common::machine::RunStatus;
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::tool::outputs::RESERVED;
use tidemill_common::nodes::tool::{Declaration, Message, ParameterType};
use tidemill_common::value::pyrepr::json_line;
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap, Stored};
use tidemill_common::wire::value::{MARK, stored_from_json};

use super::{MessageSink, Stage, ToolCall, ToolError, ToolName, ToolRuntime};
use crate::steps::{CallEnd, Steps};

/// See the module.
pub struct Workflows;

/// What stands for a secret of the called workflow.
const MASK: &str = "********************";

#[async_trait::async_trait]
impl ToolRuntime for Workflows {
    async fn parameters(&self, _: &ToolName<'_>) -> Result<Option<Declaration>, ToolError> {
        // Its start form is looked at when the run is made.
        Ok(None)
    }

    async fn list(&self, _: &str) -> Result<Vec<Declaration>, ToolError> {
        Ok(Vec::new())
    }

    async fn invoke(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError> {
        let Some((steps, step, number)) = call.step else {
            return Err(ToolError::unavailable("a workflow can be called by a job with a journal only"));
        };
        let called = steps.call(step, number, tool.provider_id, given(&call)).await;
        let (run, end) = called.map_err(|reason| ToolError::new(Stage::Invoke, reason))?;
        let fields = match end {
            CallEnd::Refused(reason) => return Err(ToolError::new(Stage::Read, reason)),
            CallEnd::Ended(fields) => fields,
        };
        sink(Message::Spent { run: Some(run), usage: Box::new(usage(&fields)) });
        if let Some(error) = error(&fields) {
            return Err(ToolError::new(Stage::Tool, error));
        }
        let mut outputs = opened(&fields, steps).await?;
        // The called run goes first, and its files with it.
        for value in outputs.values_mut() {
            match value {
                Json::Array(items) => {
                    for item in items {
                        take_over(item, &call).await?;
                    }
                }
                other => take_over(other, &call).await?,
            }
        }
        answer(outputs, sink);
        Ok(())
    }
}

/// What the run is given: arguments of type `system-files` are its files.
fn given(call: &ToolCall<'_>) -> Json {
    let (mut inputs, mut files) = (JsonMap::new(), Vec::new());
    for (name, value) in call.arguments {
        let is_files = call.known.find(name).is_some_and(|one| one.ty == ParameterType::SystemFiles);
        match value {
            Json::Array(items) if is_files => files.extend(items.iter().cloned()),
            Json::Null if is_files => {}
            other if is_files => files.push(other.clone()),
            other => {
                inputs.insert(name.clone(), other.clone());
            }
        }
    }
    json!({"inputs": inputs, "files": files})
}

/// Why there is no result.
fn error(fields: &HashMap<String, String>) -> Option<String> {
    let status = fields.get("status").and_then(|name| RunStatus::from_name(name));
    match status {
        Some(RunStatus::Succeeded | RunStatus::PartialSucceeded) => None,
        other => Some(fields.get("error").cloned().unwrap_or_else(|| {
            format!("the called run ended as {}", other.map_or("nobody knows what", RunStatus::name))
        })),
    }
}

/// What the run cost. It tells the sum of its tokens alone, which Dify takes for tokens out.
fn usage(fields: &HashMap<String, String>) -> Usage {
    let tokens: u64 = fields.get("tokens").and_then(|text| text.parse().ok()).unwrap_or(0);
    let text = |key: &str, default: &str| fields.get(key).map_or(default, String::as_str).to_owned();
    let record = json!({
        "prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens,
        "total_price": text("price", "0.0"), "currency": text("currency", "USD"),
    });
    Usage::from_record(record.as_object().cloned().unwrap_or_default())
}

/// The run's outputs, with what lies apart.
async fn opened(fields: &HashMap<String, String>, steps: &Steps) -> Result<JsonMap, ToolError> {
    let unreadable = |reason: String| {
        ToolError::new(Stage::Read, format!("the outputs of the called run cannot be read: {reason}"))
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
                    let part = open(part.clone(), steps).await.map_err(unreadable)?;
                    text.push_str(&tidemill_common::value::pyrepr::str_of(&part));
                }
                Json::String(text)
            }
            None => open(value, steps).await.map_err(unreadable)?,
        };
        outputs.insert(name, value);
    }
    Ok(outputs)
}

async fn open(value: Json, steps: &Steps) -> Result<Json, String> {
    let (blob, at) = match stored_from_json(value).map_err(|error| error.to_string())? {
        Stored::Inline(segment) => return Ok(segment.value),
        Stored::Secret(_) => return Ok(MASK.into()),
        Stored::Blob(blob) => (blob, None),
        Stored::Item { list, at } => (list, Some(at)),
    };
    let text = steps.blob(&blob.id).await.ok_or_else(|| format!("blob {} is gone", blob.id))?;
    let value: Json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok(match at.and_then(|at| usize::try_from(at).ok()) {
        Some(at) => value.get(at).cloned().unwrap_or_default(),
        None => value,
    })
}

/// A file that the called run has kept becomes one of the caller.
async fn take_over(value: &mut Json, call: &ToolCall<'_>) -> Result<(), ToolError> {
    let text = |key: &str| value.get(key).and_then(Json::as_str);
    if text(FILE_IDENTITY_KEY) != Some(FILE_IDENTITY) || text("transfer_method") != Some("tool_file") {
        return Ok(());
    }
    let Some(reference) = text("reference").map(str::to_owned) else { return Ok(()) };
    let failed = |reason: String| {
        ToolError::new(Stage::Read, format!("a file of the called run cannot be kept: {reason}"))
    };
    let bytes = call.files.read(&reference, call.http.bounds.file_bytes_max).await;
    let kept = call.files.keep(call.run, bytes.map_err(|error| failed(error.to_string()))?).await;
    value["reference"] = json!(kept.map_err(|error| failed(error.to_string()))?);
    Ok(())
}

/// The messages of Dify, in its order.
fn answer(outputs: JsonMap, sink: MessageSink<'_>) {
    let is_file = |value: &&Json| value.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY);
    for value in outputs.values() {
        let several = value.as_array().map(Vec::as_slice).unwrap_or_default();
        for file in several.iter().chain([value]).filter(is_file) {
            sink(Message::File(Some(json!({"file": file}))));
        }
    }
    for (name, value) in outputs.iter().filter(|(name, _)| !RESERVED.contains(&name.as_str())) {
        sink(Message::Variable { name: name.clone(), value: value.clone(), stream: false });
    }
    let outputs = Json::Object(outputs);
    sink(Message::Text(json_line(&outputs)));
    sink(Message::Json(outputs));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(outputs: Json) -> Vec<Message> {
        let mut said = Vec::new();
        answer(outputs.as_object().cloned().unwrap(), &mut |message| said.push(message));
        said
    }

    #[test]
    fn outputs_are_told_as_files_variables_a_text_and_an_object() {
        let file = json!({FILE_IDENTITY_KEY: FILE_IDENTITY, "filename": "a.txt"});
        let outputs = json!({"name": "Ünal", "text": "hidden", "docs": [file, 1], "n": 2});
        let variable =
            |name: &str, value: Json| Message::Variable { name: name.into(), value, stream: false };
        assert_eq!(
            said(outputs.clone()),
            [
                Message::File(Some(json!({"file": file}))),
                variable("name", json!("Ünal")),
                variable("docs", json!([file, 1])),
                variable("n", json!(2)),
                Message::Text(json_line(&outputs)),
                Message::Json(outputs.clone()),
            ]
        );
        assert!(json_line(&outputs).starts_with(r#"{"name": "Ünal", "text": "hidden", "#));
    }

    #[test]
    fn a_run_that_did_not_succeed_says_why() {
        let fields = |status: &str, error: Option<&str>| {
            let error = error.map(|error| ("error".to_string(), error.to_string()));
            error.into_iter().chain([("status".to_string(), status.to_string())]).collect::<HashMap<_, _>>()
        };
        assert_eq!(error(&fields("succeeded", None)), None);
        assert_eq!(error(&fields("partial-succeeded", None)), None);
        assert_eq!(error(&fields("failed", Some("boom"))), Some("boom".into()));
        assert_eq!(error(&fields("stopped", None)), Some("the called run ended as stopped".into()));
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
