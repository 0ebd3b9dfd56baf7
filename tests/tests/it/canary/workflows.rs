//! The parts of workflows whose nodes get secrets.

use serde_json::{Value as Json, json};

use super::super::called::file;
use super::with_secrets;

/// A secret that nodes get directly. JSON, Python, headers and addresses each escape it in their own way.
pub(super) const DIRECT: &str = "CANARY-\"dir\\ect0123456789\"\nÄB";
/// The part of it that the tests search for.
pub(super) const DIRECT_PART: &str = "ect0123456789";
/// A secret that nodes get inside the output of a template. It is valid in a header.
pub(super) const DERIVED: &str = "CANARY-\"/derived0123456789\\/\"-B";
/// The part of it that the tests search for.
pub(super) const DERIVED_PART: &str = "derived0123456789";
/// A template text with both.
pub(super) const BOTH: &str = "{{#env.DIRECT#}} and {{#t.output#}}";

/// A run of a workflow.
pub(super) struct Case {
    /// The node type that is tested, and the variant.
    pub(super) name: &'static str,
    /// The request that submits it.
    pub(super) body: Json,
    /// True if a node of that type must fail.
    pub(super) fails: bool,
}

/// Types whose nodes cannot fail: they only select, show or pass on values.
pub(super) const NEVER_FAIL: [&str; 10] = [
    "end",
    "answer",
    "choice",
    "variable-aggregator",
    "iteration-start",
    "loop-start",
    "loop-end",
    "trigger-webhook",
    "trigger-schedule",
    "trigger-plugin",
];

impl Case {
    /// The node type that is tested.
    pub(super) fn kind(&self) -> &'static str {
        self.name.split('/').next().expect("there is a first part")
    }

    pub(super) fn of(name: &'static str, document: Json) -> Self {
        let document = with_secrets(document, &[("DIRECT", DIRECT), ("DERIVED", DERIVED)]);
        let body = json!({"workflow": document.to_string(), "inputs": {}, "user": "canary", "options": {"interactive": false}});
        let fails = !NEVER_FAIL.contains(&name.split('/').next().unwrap_or(name));
        Self { name, body, fails }
    }

    /// A case in which the node succeeds.
    pub(super) fn passing(self) -> Self {
        Self { fails: false, ..self }
    }

    /// A node between a template with the derived secret and the end.
    pub(super) fn node(name: &'static str, mut data: Json) -> Self {
        if data["type"].is_null() {
            data["type"] = name.split('/').next().into();
        }
        data["title"] = name.into();
        let text = file(name, &[], &[("t", template("t-{{ k }}", "DERIVED")), ("n", data)], &[]);
        Self::of(name, parsed(&text))
    }

    /// A container with these nodes, between the template and the end.
    pub(super) fn container(name: &'static str, mut data: Json, inner: &[(&str, Json)]) -> Self {
        data["type"] = data["type"].as_str().unwrap_or(name).into();
        data["title"] = name.into();
        data["start_node_id"] = inner[0].0.into();
        let mut nodes = vec![("t", template("t-{{ k }}", "DERIVED")), ("n", data)];
        if nodes[1].1["iterator_selector"] == json!(["list", "x"]) {
            let mut list = code("python3", "def main(d, t):\n    return {'x': [t, t]}\n");
            list["outputs"]["x"]["type"] = "array[string]".into();
            nodes.insert(1, ("list", list));
        }
        let text = file(name, &[], &nodes, &[]);
        let mut document = parsed(&text);
        let graph = &mut document["workflow"]["graph"];
        for (id, data) in inner {
            let node = json!({"id": id, "parentId": "n", "data": data});
            graph["nodes"].as_array_mut().expect("a list").push(node);
        }
        for two in inner.windows(2) {
            graph["edges"]
                .as_array_mut()
                .expect("a list")
                .push(json!({"source": two[0].0, "target": two[1].0}));
        }
        Self::of(name, document)
    }

    /// A root node, with inputs and `sys` of the run.
    pub(super) fn root(name: &'static str, data: Json, inputs: Json, sys: Json) -> Self {
        let text = file(name, &[], &[("t", template("t-{{ k }}", "DERIVED"))], &[("k", ["env", "DIRECT"])]);
        let mut document = parsed(&text);
        document["workflow"]["graph"]["nodes"][0]["data"] = data;
        document["workflow"]["graph"]["nodes"][0]["data"]["type"] = name.into();
        let mut case = Self::of(name, document);
        case.body["inputs"] = inputs;
        case.body["sys"] = sys;
        case
    }
}

pub(super) fn parsed(text: &str) -> Json {
    serde_json::from_str(text).expect("JSON")
}

pub(super) fn template(text: &str, secret: &str) -> Json {
    json!({"type": "template-transform", "title": "T", "template": text,
        "variables": [{"variable": "k", "value_selector": ["env", secret]}]})
}

pub(super) fn given() -> Json {
    json!([{"variable": "d", "value_selector": ["env", "DIRECT"]}, {"variable": "t", "value_selector": ["t", "output"]}])
}

pub(super) fn model() -> Json {
    json!({"provider": "mirror", "name": "m", "mode": "chat", "completion_params": {}})
}

pub(super) fn code(language: &str, code: &str) -> Json {
    json!({"type": "code", "code_language": language, "code": code, "variables": given(),
        "outputs": {"x": {"type": "number", "children": null}}})
}

pub(super) fn http(url: &str, scheme: &Json) -> Json {
    json!({"method": "post", "url": url, "params": format!("p:{BOTH}"), "headers": "X-Derived:{{#t.output#}}",
        "authorization": scheme, "body": {"type": "raw-text", "data": [{"type": "text", "value": BOTH}]}})
}

pub(super) fn key(kind: &str) -> Json {
    json!({"type": "api-key", "config": {"type": kind, "api_key": "{{#t.output#}}", "header": "X-Own"}})
}

pub(super) fn tool(kind: &str, provider: &str, name: &str) -> Json {
    let mixed = json!({"type": "mixed", "value": BOTH});
    json!({"type": "tool", "provider_id": provider, "provider_type": kind, "provider_name": provider, "tool_name": name,
        "tool_label": name, "tool_configurations": {}, "tool_parameters": {"q": mixed, "expression": mixed}})
}

pub(super) fn agent() -> Json {
    let constant = |value: Json| json!({"type": "constant", "value": value});
    let variable = |name: [&str; 2]| json!({"auto": 0, "value": {"type": "variable", "value": name}});
    let tool = json!({"enabled": true, "type": "builtin", "provider_name": "maths", "tool_name": "eval_expression",
        "settings": {}, "extra": {}, "parameters": {"expression": variable(["env", "DIRECT"]), "other": variable(["t", "output"])}});
    json!({"agent_strategy_name": "function_calling", "agent_strategy_provider_name": "langgenius/agent/agent",
        "agent_strategy_label": "F", "agent_parameters": {
            "model": constant(json!({"provider": "mirror", "model": "m", "mode": "chat", "completion_params": {}})),
            "tools": constant(json!([tool])), "instruction": {"type": "mixed", "value": BOTH},
            "query": {"type": "mixed", "value": BOTH}, "maximum_iterations": constant(json!(2))}})
}

pub(super) fn condition() -> Json {
    json!({"id": "c", "variable_selector": ["t", "output"], "varType": "number", "comparison_operator": ">", "value": BOTH})
}

pub(super) fn loop_of(more: Json) -> Json {
    let mut data = json!({"type": "loop", "loop_count": 2, "logical_operator": "and", "break_conditions": [], "loop_variables": [
        {"label": "d", "var_type": "string", "value_type": "variable", "value": ["env", "DIRECT"]}]});
    data.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    data
}

pub(super) fn iteration(over: [&str; 2]) -> Json {
    json!({"type": "iteration", "iterator_selector": over, "output_selector": ["inner", "x"], "is_parallel": false})
}
