//! Rewrites alternative spellings of an `llm` node in its profile form: `profileId` to `profile_id`, and the
//! like.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

/// Alternative and canonical spelling.
const SPELLINGS: [(&str, &str); 12] = [
    ("profileId", "profile_id"),
    ("maxToolCallsPerRequest", "max_tool_calls_per_request"),
    ("maxToolRounds", "max_tool_rounds"),
    ("parallelToolCalls", "parallel_tool_calls"),
    ("onToolError", "on_tool_error"),
    ("toolChoiceMode", "tool_choice_mode"),
    ("outputAs", "output_as"),
    ("emitContext", "emit_context"),
    ("reasoningFormat", "reasoning_format"),
    ("promptLevelsMax", "prompt_levels_max"),
    ("retryConfig", "retry_config"),
    ("errorStrategy", "error_strategy"),
];

pub(super) fn rewrite(data: &mut JsonMap) {
    let is_llm = data.get("type").and_then(Json::as_str).is_some_and(|name| name.eq_ignore_ascii_case("llm"));
    // Nodes in Dify's form are left unchanged.
    if !is_llm || !["profileId", "profile_id"].iter().any(|key| data.contains_key(*key)) {
        return;
    }
    for (theirs, ours) in SPELLINGS {
        if let Some(value) = data.remove(theirs)
            && !data.contains_key(ours)
        {
            data.insert(ours.into(), value);
        }
    }
}
