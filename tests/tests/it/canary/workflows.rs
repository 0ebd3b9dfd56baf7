//! A workflow for each type of node, in which the node is given secrets wherever it takes a value, and fails if it can.

use serde_json::{Value as Json, json};

use super::super::called::file;
use super::with_secrets;

/// A secret that nodes are given as it is. JSON, Python, headers and addresses each write it in another way.
pub(super) const DIRECT: &str = "CANARY-\"dir\\ect0123456789\"\nÄB";
/// What of it is looked for.
pub(super) const DIRECT_PART: &str = "ect0123456789";
/// A secret that nodes are given within a text that a template has made. It can stand in a header.
pub(super) const DERIVED: &str = "CANARY-\"/derived0123456789\\/\"-B";
/// What of it is looked for.
pub(super) const DERIVED_PART: &str = "derived0123456789";
/// Both, in a text that is filled in.
const BOTH: &str = "{{#env.DIRECT#}} and {{#t.output#}}";

/// A run.
pub(super) struct Case {
    /// The type that it is about, and perhaps what of it.
    pub(super) name: &'static str,
    /// What is submitted.
    pub(super) body: Json,
    /// Whether a node of that type is to fail.
    pub(super) fails: bool,
}

/// Types whose nodes have no way to fail: they only show, choose or pass on what is there.
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
    /// The type of node that it is about.
    pub(super) fn kind(&self) -> &'static str {
        self.name.split('/').next().expect("there is a first part")
    }

    fn of(name: &'static str, document: Json) -> Self {
        let document = with_secrets(document, &[("DIRECT", DIRECT), ("DERIVED", DERIVED)]);
        let body = json!({"workflow": document.to_string(), "inputs": {}, "user": "canary", "options": {"interactive": false}});
        let fails = !NEVER_FAIL.contains(&name.split('/').next().unwrap_or(name));
        Self { name, body, fails }
    }

    /// What goes well, and shows what it was given.
    fn passing(self) -> Self {
        Self { fails: false, ..self }
    }

    /// A node between a template with the derived secret and the end.
    fn node(name: &'static str, mut data: Json) -> Self {
        if data["type"].is_null() {
            data["type"] = name.split('/').next().into();
        }
        data["title"] = name.into();
        let text = file(name, &[], &[("t", template("t-{{ k }}", "DERIVED")), ("n", data)], &[]);
        Self::of(name, parsed(&text))
    }

    /// Nodes in a container between the template and the end.
    fn container(name: &'static str, mut data: Json, inner: &[(&str, Json)]) -> Self {
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

    /// A node at which the run begins, with what `sys` has.
    fn root(name: &'static str, data: Json, inputs: Json, sys: Json) -> Self {
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

fn parsed(text: &str) -> Json {
    serde_json::from_str(text).expect("JSON")
}

pub(super) fn template(text: &str, secret: &str) -> Json {
    json!({"type": "template-transform", "title": "T", "template": text,
        "variables": [{"variable": "k", "value_selector": ["env", secret]}]})
}

fn given() -> Json {
    json!([{"variable": "d", "value_selector": ["env", "DIRECT"]}, {"variable": "t", "value_selector": ["t", "output"]}])
}

fn model() -> Json {
    json!({"provider": "mirror", "name": "m", "mode": "chat", "completion_params": {}})
}

fn code(language: &str, code: &str) -> Json {
    json!({"type": "code", "code_language": language, "code": code, "variables": given(),
        "outputs": {"x": {"type": "number", "children": null}}})
}

fn http(url: &str, scheme: &Json) -> Json {
    json!({"method": "post", "url": url, "params": format!("p:{BOTH}"), "headers": "X-Derived:{{#t.output#}}",
        "authorization": scheme, "body": {"type": "raw-text", "data": [{"type": "text", "value": BOTH}]}})
}

fn key(kind: &str) -> Json {
    json!({"type": "api-key", "config": {"type": kind, "api_key": "{{#t.output#}}", "header": "X-Own"}})
}

fn tool(kind: &str, provider: &str, name: &str) -> Json {
    let mixed = json!({"type": "mixed", "value": BOTH});
    json!({"type": "tool", "provider_id": provider, "provider_type": kind, "provider_name": provider, "tool_name": name,
        "tool_label": name, "tool_configurations": {}, "tool_parameters": {"q": mixed, "expression": mixed}})
}

fn agent() -> Json {
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

fn condition() -> Json {
    json!({"id": "c", "variable_selector": ["t", "output"], "varType": "number", "comparison_operator": ">", "value": BOTH})
}

fn loop_of(more: Json) -> Json {
    let mut data = json!({"type": "loop", "loop_count": 2, "logical_operator": "and", "break_conditions": [], "loop_variables": [
        {"label": "d", "var_type": "string", "value_type": "variable", "value": ["env", "DIRECT"]}]});
    data.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    data
}

fn iteration(over: [&str; 2]) -> Json {
    json!({"type": "iteration", "iterator_selector": over, "output_selector": ["inner", "x"], "is_parallel": false})
}

/// All of them. `dead` is an address where nobody listens, `mirror` one whose server answers with 400 and what it was sent.
pub(super) fn all(dead: &str, mirror: &str) -> Vec<Case> {
    let mut all = pure();
    all.extend(models());
    all.extend(outside(dead, mirror));
    all.extend(containers());
    all.extend(roots());
    all
}

/// Nodes that the scheduler evaluates.
fn pure() -> Vec<Case> {
    let on_worker = json!({"template": "{{ d }}{{ t.no.such.thing }}{{ 1 / 0 }}", "variables": given(), "tidemill": {"runs_on": "worker"}});
    let branch = json!({"branch_id": "b", "conditions": [
        {"left": {"step_id": "env", "name": "DIRECT"}, "operate": "string_regex_match", "right": {"value": "("}}]});
    let case =
        json!({"case_id": "true", "id": "true", "logical_operator": "and", "conditions": [condition()]});
    let message = json!({"role": "user", "content": "{{#env.DIRECT#}} {{t}} {{no_such_name}}"});
    let mut assigner = Case::node(
        "assigner",
        json!({"version": "2", "items": [
        {"variable_selector": ["conversation", "n"], "input_type": "variable", "operation": "+=", "value": ["t", "output"]}]}),
    );
    let mut document = parsed(assigner.body["workflow"].as_str().expect("a text"));
    document["workflow"]["conversation_variables"] =
        json!([{"id": "c", "name": "n", "value_type": "number", "value": 1}]);
    assigner.body["workflow"] = document.to_string().into();
    vec![
        Case::node(
            "template-transform",
            json!({"template": "{{ d }}{{ t.no.such.thing }}{{ 1 / 0 }}", "variables": given()}),
        ),
        Case::node("template-transform/on a worker", on_worker),
        Case::node("if-else", json!({"cases": [case]})),
        Case::node("choice", json!({"choices": [branch, {"branch_id": "o", "is_default": true}]})),
        Case::node("variable-aggregator", json!({"output_type": "string", "variables": [["env", "DIRECT"]]})),
        assigner,
        Case::node(
            "list-operator",
            json!({"variable": ["t", "output"], "filter_by": {"enabled": false, "conditions": []},
            "order_by": {"enabled": false}, "limit": {"enabled": false}}),
        ),
        Case::node(
            "human-input",
            json!({"form_content": BOTH, "inputs": [], "user_actions": [{"id": "go", "title": "Go"}],
            "delivery_methods": [], "timeout": 1, "timeout_unit": "day"}),
        ),
        Case::node("user-interaction", json!({"interaction_type": "ask_for_approval", "show_message": BOTH})),
        Case::node("context-processor", json!({"operation": "append", "append": {"messages": [message]}})),
        Case::node(
            "document-extractor",
            json!({"variable_selector": ["t", "output"], "is_array_file": false}),
        ),
        Case::node(
            "knowledge-index",
            json!({"chunk_structure": "text_model", "index_chunk_variable_selector": ["t", "output"],
            "indexing_technique": "economy"}),
        ),
    ]
}

/// Nodes that ask a model, which refuses and says what it was asked.
fn models() -> Vec<Case> {
    let extracted = json!([{"name": "x", "type": "string", "description": BOTH, "required": true}]);
    vec![
        Case::node(
            "llm",
            json!({"model": model(), "prompt_template": [{"role": "user", "text": BOTH}],
            "context": {"enabled": true, "variable_selector": ["t", "output"]},
            "retry_config": {"retry_enabled": true, "max_retries": 1, "retry_interval": 10}}),
        ),
        Case::node("llm/profile", json!({"profile_id": "p", "prompt": BOTH})),
        Case::node("llm/step", json!({"profile_id": "p", "system_prompt": BOTH, "user_prompt": BOTH})),
        Case::node(
            "question-classifier",
            json!({"model": model(), "query_variable_selector": ["t", "output"], "instruction": BOTH,
            "classes": [{"id": "1", "name": BOTH}, {"id": "2", "name": "b"}]}),
        ),
        Case::node(
            "parameter-extractor",
            json!({"model": model(), "query": ["t", "output"], "instruction": BOTH,
            "parameters": extracted, "reasoning_mode": "prompt"}),
        ),
        Case::node("agent", agent()),
        Case::node("summary", json!({"profile_id": "p", "question": BOTH})),
        Case::node("facts", json!({"profile_id": "p", "question": BOTH})),
        Case::node(
            "slot",
            json!({"profile_id": "p", "question": BOTH, "params": {"data": {"note": BOTH}}, "data": {"note": BOTH}, "on_missing": "pause",
            "schema": {"type": "object", "properties": {"city": {"type": "number"}}, "required": ["city"]}}),
        ),
        Case::node(
            "empty",
            json!({"profile_id": "p", "question": BOTH, "enable_filling": true, "params": {"note": BOTH, "city": BOTH},
            "input_schema": {"type": "object", "properties": {"city": {"type": "number"}}, "required": ["city"]}}),
        ),
    ]
}

/// Nodes that run code, or call a server.
fn outside(dead: &str, mirror: &str) -> Vec<Case> {
    let (none, refused) = (json!({"type": "no-auth"}), format!("{mirror}/x?q={{{{#t.output#}}}}"));
    let with = |mut data: Json, name: &str, value: Json| {
        data[name] = value;
        data
    };
    let api = |url: &str| {
        json!({"params": {"url": url, "method": "post", "content_type": "application/json", "body": {"k": BOTH},
            "query": {"q": BOTH}, "headers": {"X-Derived": "{{#t.output#}}"}}})
    };
    let sql = |source: &str| json!({"datasource": source, "sql": "select 'x' from no_such_table where a = :a and b = :b", "bind": {"a": BOTH, "b": BOTH}});
    vec![
        Case::node(
            "code",
            code("python3", "def main(d, t):\n    print(d, t)\n    raise ValueError(d + t)\n"),
        ),
        Case::node(
            "code/javascript",
            code("javascript", "function main({d, t}) { console.log(d, t); throw new Error(d + t) }"),
        ),
        Case::node("code/of another type", code("python3", "def main(d, t):\n    return {'x': d + t}\n")),
        Case::node("code/of no type", code("python3", "def main(d, t):\n    return {d: {t: d}}\n")),
        Case::node("http-request", http(&format!("{dead}/{{{{#env.DIRECT#}}}}"), &none)),
        Case::node("http-request/address", http("no-scheme {{#t.output#}} {{#env.DIRECT#}}", &none)),
        Case::node(
            "http-request/header",
            with(
                http(mirror, &none),
                "headers",
                "X-Direct:{{#env.DIRECT#}}\nbad name {{#t.output#}}:x".into(),
            ),
        ),
        Case::node("http-request/basic", http(&refused, &key("basic"))).passing(),
        Case::node("http-request/bearer", http(&refused, &key("bearer"))).passing(),
        Case::node("http-request/custom", http(&refused, &key("custom"))).passing(),
        Case::node(
            "http-request/form",
            with(
                http(mirror, &none),
                "body",
                json!({"type": "x-www-form-urlencoded",
            "data": [{"type": "text", "key": "k", "value": BOTH}]}),
            ),
        )
        .passing(),
        Case::node("tool", tool("builtin", "no_such", "find")),
        Case::node("tool/builtin", tool("builtin", "maths", "eval_expression")).passing(),
        Case::node("tool/mcp", tool("mcp", "one", "find")),
        Case::node("tool/api", tool("api", "pets", "find_pet")),
        Case::node("tool/workflow", tool("workflow", "no_such", "find")),
        Case::node(
            "knowledge-retrieval",
            json!({"dataset_ids": ["two"], "query_variable_selector": ["t", "output"],
            "retrieval_mode": "multiple", "multiple_retrieval_config": {"top_k": 1, "reranking_enable": false}}),
        ),
        Case::node("api", api(&refused)),
        Case::node("api/service", with(api("/x"), "service_id", "svc".into())),
        Case::node("api/dead", api(&format!("{dead}/{{{{#t.output#}}}}"))),
        Case::node("sql", sql("db")),
        Case::node("sql/away", sql("away")),
        Case::node("call", json!({"node": "greet", "params": {"who": BOTH}, "question": BOTH})),
        Case::node("call/process", json!({"node": "shout", "params": {"who": BOTH}, "question": BOTH})),
    ]
}

fn containers() -> Vec<Case> {
    let inner = |container: &str, mut data: Json| {
        data[container] = "n".into();
        data
    };
    let fails = |container: &str| {
        let mut data = code("python3", "def main(d, t):\n    raise ValueError(d + t)\n");
        data["title"] = "I".into();
        inner(container, data)
    };
    vec![
        Case::container(
            "iteration",
            iteration(["t", "output"]),
            &[("is", json!({"type": "iteration-start"})), ("inner", fails("iteration_id"))],
        ),
        Case::container(
            "iteration-start",
            iteration(["list", "x"]),
            &[("is", json!({"type": "iteration-start"})), ("inner", fails("iteration_id"))],
        ),
        Case::container(
            "loop",
            loop_of(json!({"break_conditions": [condition()]})),
            &[
                ("ls", json!({"type": "loop-start"})),
                ("inner", inner("loop_id", template("{{ k }}", "DIRECT"))),
            ],
        ),
        Case::container(
            "loop-start",
            loop_of(json!({})),
            &[("ls", json!({"type": "loop-start"})), ("inner", fails("loop_id"))],
        ),
        Case::container(
            "loop-end",
            loop_of(json!({})),
            &[
                ("ls", json!({"type": "loop-start"})),
                ("inner", inner("loop_id", template("{{ k }}", "DERIVED"))),
                ("le", json!({"type": "loop-end", "loop_id": "n"})),
            ],
        ),
    ]
}

/// Where runs begin and end.
fn roots() -> Vec<Case> {
    let object = json!([{"variable": "p", "label": "p", "type": "json_object", "required": true,
        "json_schema": "{\"type\": \"object\", \"properties\": {\"age\": {\"type\": \"integer\"}}, \"required\": [\"age\"]}"}]);
    let source = json!({"title": "D", "plugin_id": "p", "provider_name": "p", "provider_type": "local_file", "datasource_name": "d",
        "datasource_parameters": {"m": {"type": "mixed", "value": "{{#env.DIRECT#}}"}, "v": {"type": "variable", "value": ["env", "DERIVED"]}}});
    let plugin = json!({"title": "P", "plugin_id": "a/b", "provider_id": "a/b/b", "event_name": "opened", "subscription_id": "",
        "plugin_unique_identifier": "a/b:1@x", "event_parameters": {}});
    let end = file(
        "end",
        &[],
        &[("t", template("t-{{ k }}", "DERIVED"))],
        &[("d", ["env", "DIRECT"]), ("t", ["t", "output"])],
    );
    let mut answer = parsed(&file("answer", &[], &[("t", template("t-{{ k }}", "DERIVED"))], &[]));
    answer["app"]["mode"] = "advanced-chat".into();
    answer["workflow"]["graph"]["nodes"][2]["data"] = json!({"type": "answer", "title": "A", "answer": BOTH});
    vec![
        Case::root(
            "start",
            json!({"title": "S", "variables": object}),
            json!({"p": {"age": "old"}}),
            json!({}),
        ),
        Case::root(
            "datasource",
            source,
            json!({}),
            json!({"datasource_type": "local_file", "datasource_info": {"related_id": "gone"}}),
        ),
        Case::root(
            "trigger-webhook",
            json!({"title": "W", "method": "POST", "tidemill": {"secret": "DIRECT"}}),
            json!({"q": "x"}),
            json!({}),
        ),
        Case::root(
            "trigger-schedule",
            json!({"title": "S", "mode": "cron", "cron_expression": "0 0 1 1 *"}),
            json!({}),
            json!({}),
        ),
        Case::root("trigger-plugin", plugin, json!({"q": "x"}), json!({})),
        Case::of("end", parsed(&end)),
        Case::of("answer", answer),
    ]
}
