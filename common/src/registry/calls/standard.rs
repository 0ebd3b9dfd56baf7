//! The built-in Calls as they describe themselves: names, schemas, and what they do by default. Workers run them, and the
//! API shows them like registered Calls.

use serde_json::{Value as Json, json};

use super::built_in;
use tidemill_base::language::Text;
use tidemill_base::value::JsonMap;
use tidemill_workflow::nodes::step::HISTORY_SIZE;

/// The default temperature of `LLM`.
pub const LLM_TEMPERATURE: f64 = 0.7;
/// The default timeout of `API`, in seconds.
pub const API_TIMEOUT_SECONDS: u64 = 300;

/// The description of a built-in Call.
#[derive(Debug, Clone)]
pub struct Standard {
    /// Its id, in its own spelling.
    pub id: &'static str,
    pub name: Text,
    /// One sentence about what it does.
    pub description: Text,
    /// The JSON schema of the input.
    pub input_schema: Json,
    /// The JSON schema of the output.
    pub output_schema: Json,
    /// True if missing input is searched by default.
    pub enable_filling: bool,
    /// True if the user sees the pieces by default.
    pub to_user: bool,
    /// True if it chooses the branch.
    pub branch: bool,
}

impl Standard {
    /// The description in the form of a registered Call, without a transport.
    pub fn to_json(&self) -> JsonMap {
        let info = |pick: fn(&Text) -> &str| json!({"name": pick(&self.name), "description": pick(&self.description)});
        let shown = json!({
            "id": self.id,
            "built_in": true,
            "info": {"zh": info(|text| text.zh), "en": info(|text| text.en)},
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "operations": ["init", "exec"],
            "streaming": true,
            "enable_filling": self.enable_filling,
            "to_user": self.to_user,
            "branch": self.branch,
        });
        shown.as_object().cloned().unwrap_or_default()
    }
}

/// Returns the description of a built-in Call; the id ignores case.
pub fn standard(id: &str) -> Option<Standard> {
    let id = built_in(id)?;
    let (name, description) = texts(id);
    Some(Standard {
        id,
        name,
        description,
        input_schema: input_schema(id),
        output_schema: output_schema(id),
        enable_filling: id == "API",
        to_user: id == "LLM",
        branch: id == "Choice",
    })
}

fn texts(id: &str) -> (Text, Text) {
    let both = |name: (&'static str, &'static str), about: (&'static str, &'static str)| {
        (Text { zh: name.0, en: name.1 }, Text { zh: about.0, en: about.1 })
    };
    match id {
        "Summary" => both(
            ("理解上下文", "Summary"),
            ("使用大模型理解对话上下文", "Sums up the conversation with a model"),
        ),
        "Facts" => both(("提取事实", "Facts"), ("从对话中提取事实", "Draws facts from the conversation")),
        "Slot" => both(
            ("参数自动填充", "Slot"),
            ("根据对话填充参数", "Fills fields of a schema from the conversation"),
        ),
        "LLM" => both(
            ("大模型", "LLM"),
            ("以指定的提示词和上下文调用大模型", "Asks a model with given prompts and the context"),
        ),
        "API" => both(
            ("API 调用", "API"),
            ("调用一个 HTTP 接口，返回其 JSON", "Calls an HTTP interface and gives its JSON"),
        ),
        "SQL" => both(("SQL 查询", "SQL"), ("查询数据库，返回各行", "Asks a database and gives its rows")),
        "Choice" => both(("选择器", "Choice"), ("按条件选择分支", "Chooses a branch by conditions")),
        _ => both(("空白", "Empty"), ("空白节点，用于占位", "Does nothing; holds a place")),
    }
}

fn input_schema(id: &str) -> Json {
    match id {
        "Summary" => object(json!({"profile_id": {"type": "string"}}), &[]),
        "Facts" => object(
            json!({
                "message": {"type": "array", "items": {"type": "object"}},
                "profile_id": {"type": "string"},
            }),
            &[],
        ),
        "Slot" => object(
            json!({
                "schema": {"type": "object"}, "data": {"type": "object"}, "target_node": {"type": "string"},
                "on_missing": {"enum": ["output", "pause"]},
            }),
            &[],
        ),
        "LLM" => object(
            json!({
                "system_prompt": {"type": "string"},
                "user_prompt": {"type": "string"},
                "temperature": {"type": "number", "minimum": 0, "maximum": 2, "default": LLM_TEMPERATURE},
                "enable_context": {"type": "boolean", "default": true},
                "step_history_size": {"type": "integer", "minimum": 1, "maximum": 10, "default": HISTORY_SIZE},
                "profile_id": {"type": "string"},
            }),
            &[],
        ),
        "API" => api_input(),
        "SQL" => sql_input(),
        "Choice" => object(json!({"choices": {"type": "array", "items": {"type": "object"}}}), &["choices"]),
        _ => json!({"type": "object"}),
    }
}

fn api_input() -> Json {
    let properties = json!({
        "url": {"type": "string"},
        "method": {"type": "string", "default": "get"},
        "content_type": {"type": "string"},
        "timeout": {"type": "number", "exclusiveMinimum": 30, "default": API_TIMEOUT_SECONDS},
        "operation": {"type": "string"},
        "path": {"type": "object"},
        "query": {"type": "object"},
        "body": {},
        "headers": {"type": "object"},
        "accept_text": {"type": "boolean"},
        "idempotent": {"type": "boolean"},
        "service_id": {"type": "string"},
    });
    object(properties, &["url"])
}

fn sql_input() -> Json {
    let properties = json!({
        "mode": {"enum": ["query", "generate", "service"]},
        "datasource": {"type": "string"},
        "sql": {"type": "string"},
        "bind": {"type": "object"},
        "question": {"type": "string"},
        "table_name_list": {"type": "array", "items": {"type": "string"}},
        "read_only": {"type": "boolean", "default": true},
        "rows_max": {"type": "integer", "minimum": 1},
        "timeout": {"type": "number", "exclusiveMinimum": 0},
        "profile_id": {"type": "string"},
    });
    object(properties, &["datasource"])
}

fn output_schema(id: &str) -> Json {
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    match id {
        "Summary" => object(json!({"summary": {"type": "string"}, "text": {"type": "string"}}), &["summary"]),
        "Facts" => object(json!({"facts": texts(), "domain": texts()}), &["facts", "domain"]),
        "Slot" => object(
            json!({
                "slot_data": {"type": "object"}, "remaining_schema": {"type": ["object", "null"]},
                "filled_fields": texts(),
            }),
            &["slot_data", "remaining_schema", "filled_fields"],
        ),
        "LLM" => object(json!({"text": {"type": "string"}}), &["text"]),
        "API" => object(json!({"http_code": {"type": "integer"}, "result": {}}), &["http_code", "result"]),
        "SQL" => object(
            json!({
                "result": {"type": "array", "items": {"type": "object"}},
                "sql": {"type": "string"},
                "risk": {"type": "string"},
                "rows_affected": {"type": "integer"},
            }),
            &["result", "sql"],
        ),
        "Choice" => object(json!({"branch_id": {"type": "string"}}), &["branch_id"]),
        _ => json!({"type": "object"}),
    }
}

fn object(properties: Json, required: &[&str]) -> Json {
    match required {
        [] => json!({"type": "object", "properties": properties}),
        _ => json!({"type": "object", "properties": properties, "required": required}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::calls::BUILT_IN;

    #[test]
    fn every_built_in_call_describes_itself() {
        for id in BUILT_IN {
            let shown = Json::Object(standard(&id.to_lowercase()).expect("it is built in").to_json());
            assert_eq!((&shown["id"], &shown["built_in"]), (&json!(id), &json!(true)));
            for language in ["zh", "en"] {
                let info = &shown["info"][language];
                assert!(!info["name"].as_str().unwrap_or("").is_empty(), "{id} {language}");
                assert!(!info["description"].as_str().unwrap_or("").is_empty(), "{id} {language}");
            }
            for schema in ["input_schema", "output_schema"] {
                let schema = &shown[schema];
                assert_eq!(schema["type"], "object", "{id}");
                assert!(jsonschema::draft7::new(schema).is_ok(), "{id}: {schema}");
            }
            // Only `Empty` takes and gives whatever it is given.
            let has_properties = shown["input_schema"].get("properties").is_some();
            assert_eq!(has_properties, id != "Empty", "{id}");
        }
        assert!(standard("greet").is_none());
    }
}
