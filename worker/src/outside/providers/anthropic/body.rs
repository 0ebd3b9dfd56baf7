//! Writes the JSON body of a request to Anthropic.

use serde_json::{Map, Value as Json, json};
use tidemill_common::nodes::llm::message::ToolSpec;

use crate::outside::providers::anthropic::conversation;
use crate::outside::providers::anthropic::conversation::Conversation;
use crate::outside::providers::params::{ANSWER, bare_schema, take_schema};
use crate::outside::providers::{ChatRequest, ModelError};

/// Longest reply in tokens when neither the workflow nor the profile (`max_tokens_default`) sets one. The API requires
/// a number, and all its models accept this one.
const MAX_TOKENS: u64 = 4096;
/// Tokens for thinking when a workflow enables it without a number; the API's minimum.
const THINKING_TOKENS: u64 = 1024;
/// Fields the client sets itself.
const OWN: [&str; 7] =
    ["model", "messages", "system", "stream", "stop_sequences", "max_tokens_to_sample", "thinking_budget"];
/// Parameters of other APIs that this one refuses. The workflow may be written for another provider.
const FOREIGN: [&str; 9] = [
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "n",
    "logit_bias",
    "logprobs",
    "response_format",
    "stream_options",
    "user",
];

/// A written request.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) body: String,
    /// True when the answer is a call of the tool named [`ANSWER`].
    pub(super) answers_with_tool: bool,
    /// True when the model may think and call tools; then its reasoning must be sent back.
    pub(super) thinks_with_tools: bool,
}

pub(super) fn write(request: &ChatRequest) -> Result<Written, ModelError> {
    let Conversation { system, messages, thoughts_lost } =
        conversation::arrange(&request.label, &request.messages)?;
    let mut params = request.params.clone();
    let schema = take_schema(&request.label, &mut params)?.map(bare_schema);
    let max_tokens = ["max_tokens", "max_tokens_to_sample"].iter().find_map(|key| params.get(*key)?.as_u64());
    let user = params.get("user").cloned();
    let budget = params.get("thinking_budget").and_then(Json::as_u64).unwrap_or(THINKING_TOKENS);

    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("max_tokens".into(), json!(max_tokens.unwrap_or(MAX_TOKENS)));
    if !system.is_empty() {
        body.insert("system".into(), json!(system));
    }
    body.insert("messages".into(), Json::Array(messages));
    for (key, value) in params {
        if !OWN.contains(&key.as_str()) && !FOREIGN.contains(&key.as_str()) && key != "max_tokens" {
            body.insert(key, value);
        }
    }
    if let Some(user) = user {
        body.entry("metadata").or_insert_with(|| json!({"user_id": user}));
    }
    thinking(&mut body, budget, thoughts_lost);
    let thinks_with_tools = body.contains_key("thinking") && !request.tools.is_empty();
    let answers_with_tool = schema.is_some();
    tools(&mut body, &request.tools, schema);
    let stop: Vec<&String> = request.stop.iter().filter(|text| !text.trim().is_empty()).collect();
    if !stop.is_empty() {
        body.insert("stop_sequences".into(), json!(stop));
    }
    body.insert("stream".into(), json!(request.stream));
    Ok(Written { body: Json::Object(body).to_string(), answers_with_tool, thinks_with_tools })
}

/// Workflows enable thinking with a boolean (Dify). The API wants an object, a temperature of 1, and more tokens than
/// the thinking budget.
fn thinking(body: &mut Map<String, Json>, budget: u64, thoughts_lost: bool) {
    match body.get("thinking") {
        Some(Json::Bool(true)) => {
            body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": budget}));
        }
        Some(Json::Object(_)) => {}
        Some(Json::Null | Json::Bool(false) | Json::Number(_) | Json::String(_) | Json::Array(_)) | None => {
            body.shift_remove("thinking");
        }
    }
    // During tool use, a model with forced thinking must have started with reasoning and must see it again. Models with
    // adaptive thinking may start without.
    if thoughts_lost && body.get("thinking").is_some_and(|thinking| thinking["type"] == "enabled") {
        body.shift_remove("thinking");
    }
    let Some(enabled) = body.get("thinking").filter(|thinking| thinking["type"] == "enabled") else { return };
    let budget = enabled.get("budget_tokens").and_then(Json::as_u64).unwrap_or(THINKING_TOKENS);
    for key in ["temperature", "top_p", "top_k"] {
        body.shift_remove(key);
    }
    let max_tokens = body.get("max_tokens").and_then(Json::as_u64).unwrap_or(MAX_TOKENS);
    if max_tokens <= budget {
        body.insert("max_tokens".into(), json!(max_tokens.saturating_add(budget)));
    }
}

/// Adds the tools. A structured answer is a call of one extra tool. The model must call it, unless it may need other
/// tools first, or thinks, because thinking does not allow forced calls.
fn tools(body: &mut Map<String, Json>, offered: &[ToolSpec], schema: Option<Json>) {
    let mut written: Vec<Json> = offered.iter().map(write_tool).collect();
    if let Some(schema) = schema {
        let description = "Gives the answer. Call it once, at the end, with the whole answer.";
        written.push(json!({"name": ANSWER, "description": description, "input_schema": schema}));
        let forced = offered.is_empty() && !body.contains_key("thinking");
        let choice = if forced { json!({"type": "tool", "name": ANSWER}) } else { json!({"type": "auto"}) };
        body.insert("tool_choice".into(), choice);
    }
    if written.is_empty() {
        body.shift_remove("tool_choice");
        return;
    }
    body.insert("tools".into(), Json::Array(written));
    // Translate the other APIs' values.
    let choice = match body.get("tool_choice").and_then(Json::as_str) {
        Some("required") => json!({"type": "any"}),
        Some(word) => json!({"type": word}),
        None => body.get("tool_choice").cloned().unwrap_or_else(|| json!({"type": "auto"})),
    };
    body.insert("tool_choice".into(), choice);
}

fn write_tool(tool: &ToolSpec) -> Json {
    let mut written = json!({"name": tool.name, "input_schema": tool.parameters});
    if !tool.description.is_empty() {
        written["description"] = json!(tool.description);
    }
    written
}
