//! The prompt of an app, as an llm node.

use serde_json::{Value as Json, json};

use super::start::Form;
use super::{KNOWLEDGE, SimpleMode, files_of, model_of, text};
use tidemill_base::value::JsonMap;

/// The instruction before the passages of the datasets, for apps whose author wrote a simple prompt.
const WITH_CONTEXT: &str = "Answer with the help of the text between <context> and </context>. If the answer is not \
                            in it, say that you do not know. Do not mention this text, and answer in the language of \
                            the question.\n\n<context>\n{{#context#}}\n</context>";

/// The `data` of the node.
///
/// # Errors
/// The prompt has a form that cannot be read.
pub(super) fn node(
    mode: SimpleMode,
    config: &JsonMap,
    form: &Form,
    has_knowledge: bool,
) -> Result<Json, String> {
    let model = model_of(config);
    let is_completion = model["mode"] == "completion";
    let prompt = match (text(config, "prompt_type"), is_completion) {
        ("advanced", false) => messages(config, form)?,
        ("advanced", true) => json!({"text": form.referring(advanced_text(config))}),
        (_, is_completion) => simple(mode, is_completion, &instruction(config, form, has_knowledge)),
    };
    let mut data = json!({
        "type": "llm", "title": "LLM", "model": model, "prompt_template": prompt,
        "context": {"enabled": has_knowledge,
            "variable_selector": if has_knowledge { json!([KNOWLEDGE, "result"]) } else { json!([]) }},
        "vision": vision(config),
    });
    if mode == SimpleMode::Chat {
        data["memory"] = json!({
            "role_prefix": role_prefix(config), "window": {"enabled": false, "size": 50},
            "query_prompt_template": "{{#sys.query#}}",
        });
    }
    Ok(data)
}

/// The author's simple prompt, with the passages of the datasets before it.
pub(super) fn instruction(config: &JsonMap, form: &Form, has_knowledge: bool) -> String {
    let own = form.referring(text(config, "pre_prompt"));
    let context = has_knowledge.then_some(WITH_CONTEXT);
    let parts: Vec<&str> = context.into_iter().chain([own.trim()]).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// As such apps send a simple prompt: before the conversation of a chat, and as the question of a completion.
fn simple(mode: SimpleMode, is_completion: bool, prompt: &str) -> Json {
    match (mode, is_completion) {
        (SimpleMode::Completion, true) => json!({"text": prompt}),
        (_, true) => {
            let text = format!("{prompt}\n\n{{{{#histories#}}}}\n\n{{{{#sys.query#}}}}");
            json!({"text": text.trim()})
        }
        (SimpleMode::Completion, false) => json!([{"role": "user", "text": prompt}]),
        (_, false) if prompt.is_empty() => json!([]),
        (_, false) => json!([{"role": "system", "text": prompt}]),
    }
}

fn messages(config: &JsonMap, form: &Form) -> Result<Json, String> {
    let prompt = config.get("chat_prompt_config").and_then(|config| config.get("prompt"));
    let Some(items) = prompt.and_then(Json::as_array) else {
        return Err("its advanced prompt (chat_prompt_config.prompt) is not a list of messages".into());
    };
    let message = |item: &Json| {
        let part = |key: &str| item.get(key).and_then(Json::as_str).unwrap_or_default();
        json!({"role": part("role"), "text": form.referring(part("text"))})
    };
    Ok(items.iter().map(message).collect())
}

fn advanced_text(config: &JsonMap) -> &str {
    let prompt = config.get("completion_prompt_config").and_then(|config| config.get("prompt"));
    prompt.and_then(|prompt| prompt.get("text")?.as_str()).unwrap_or_default()
}

fn role_prefix(config: &JsonMap) -> Json {
    let histories =
        config.get("completion_prompt_config").and_then(|all| all.get("conversation_histories_role"));
    let prefix = |key: &str| histories.and_then(|roles| roles.get(key)?.as_str()).unwrap_or_default();
    json!({"user": prefix("user_prefix"), "assistant": prefix("assistant_prefix")})
}

fn vision(config: &JsonMap) -> Json {
    let Some(upload) = files_of(config) else { return json!({"enabled": false}) };
    let detail = upload.get("image").and_then(|image| image.get("detail")?.as_str()).unwrap_or("high");
    json!({"enabled": true, "configs": {"detail": detail, "variable_selector": ["sys", "files"]}})
}
