//! A workflow for each type of node. The node gets secrets in every input, and fails if it can.

use serde_json::{Value as Json, json};

use super::super::called::file;
use super::workflows::{
    BOTH, Case, agent, code, condition, given, http, iteration, key, loop_of, model, parsed, template, tool,
};

/// All cases. Nothing listens at `dead`; the server at `mirror` answers 400 with the request.
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
        Case::node("moderation", json!({"order_variable_selector": ["t", "output"]})),
        Case::node("speech", json!({"operation": "to_audio", "order_selector": ["t", "output"]})),
        Case::node(
            "knowledge-index",
            json!({"chunk_structure": "text_model", "index_chunk_variable_selector": ["t", "output"],
            "indexing_technique": "economy"}),
        ),
        Case::node("speech", json!({"operation": "to_audio", "order_selector": ["t", "output"]})),
    ]
}

/// Nodes that ask a model. The model refuses and repeats the request.
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

/// Nodes that begin or end runs.
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
