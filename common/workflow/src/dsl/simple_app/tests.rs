//! Apps without a workflow, the nodes that they become, and the apps that are refused.

use serde_json::{Value as Json, json};

use crate::dsl::{self, AppMode, Migrations, ParseOptions};
use crate::graph::{self, Imported};

fn app(mode: &str, config: Json) -> Json {
    json!({"kind": "app", "version": "0.1.5", "app": {"mode": mode, "name": "App"}, "model_config": config})
}

fn config(more: Json) -> Json {
    let mut config = json!({
        "model": {"provider": "openai", "name": "gpt-4o", "mode": "chat", "completion_params": {"temperature": 0.5}},
        "pre_prompt": "Write to {{name}} about {{other}}.", "prompt_type": "simple",
        "user_input_form": [{"text-input": {"variable": "name", "label": "Name", "required": true, "max_length": 48, "default": null}}],
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn imported(mode: &str, more: Json) -> Imported {
    graph::import(app(mode, config(more)).to_string().as_bytes())
}

/// The data of a node of the converted app, which must be one that can run.
fn node(imported: &Imported, id: &str) -> Json {
    assert!(imported.is_usable(), "{:?}", imported.diagnostics);
    let document = imported.document.as_ref().unwrap();
    let node = document.nodes.iter().find(|node| node.id == id);
    Json::Object(node.unwrap_or_else(|| panic!("there is no {id}")).data.clone())
}

fn ids(imported: &Imported) -> Vec<&str> {
    imported.document.as_ref().unwrap().nodes.iter().map(|node| node.id.as_str()).collect()
}

#[test]
fn a_chat_app_becomes_a_chatflow_with_memory() {
    let found = imported("chat", json!({"opening_statement": "Hello", "speech_to_text": {"enabled": false}}));
    assert_eq!(ids(&found), ["start", "llm", "answer"]);
    let document = found.document.as_ref().unwrap();
    assert_eq!((document.mode, document.name.as_str()), (AppMode::Chat, "App"));
    assert_eq!(document.features["opening_statement"], "Hello");
    let llm = node(&found, "llm");
    let text = "Write to {{#start.name#}} about {{other}}.";
    assert_eq!(llm["prompt_template"], json!([{"role": "system", "text": text}]));
    assert_eq!(llm["memory"]["query_prompt_template"], "{{#sys.query#}}");
    assert_eq!(llm["vision"], json!({"enabled": false}));
    assert_eq!(llm["model"]["completion_params"], json!({"temperature": 0.5}));
    let form = json!([{"variable": "name", "label": "Name", "required": true, "max_length": 48, "type": "text-input"}]);
    assert_eq!(node(&found, "start")["variables"], form);
    assert_eq!(found.diagnostics, [], "a conversion that loses nothing is no warning");
}

#[test]
fn a_completion_app_becomes_a_workflow_with_one_output() {
    let found = imported("completion", json!({}));
    assert_eq!(ids(&found), ["start", "llm", "end"]);
    assert_eq!(found.document.as_ref().unwrap().mode, AppMode::Workflow);
    let llm = node(&found, "llm");
    assert_eq!(llm["prompt_template"][0]["role"], "user");
    assert_eq!(llm.get("memory"), None);
    assert_eq!(found.diagnostics, [], "a conversion that loses nothing is no warning");
}

#[test]
fn an_agent_app_becomes_an_agent_node_with_its_tools() {
    let tools = json!([
        {"enabled": true, "provider_id": "time", "provider_name": "time", "provider_type": "builtin",
            "tool_name": "current_time", "tool_label": "Now", "tool_parameters": {"timezone": "UTC", "format": ""}},
        {"enabled": false, "provider_id": "off", "provider_type": "api", "tool_name": "x", "tool_parameters": {}},
        {"dataset": {"enabled": true, "id": "d1"}},
    ]);
    for (strategy, expected) in
        [("function_call", "function_calling"), ("react", "ReAct"), ("router", "function_calling")]
    {
        let mode = json!({"enabled": true, "max_iteration": 7, "strategy": strategy, "tools": tools});
        let found = imported("agent-chat", json!({"agent_mode": mode}));
        assert_eq!(ids(&found), ["start", "knowledge_retrieval", "agent", "answer"]);
        let agent = node(&found, "agent");
        assert_eq!(agent["agent_strategy_name"], expected);
        let parameters = &agent["agent_parameters"];
        assert_eq!(parameters["maximum_iterations"]["value"], 7);
        assert_eq!(parameters["model"]["value"]["model"], "gpt-4o");
        let instruction = parameters["instruction"]["value"].as_str().unwrap();
        assert!(
            instruction.contains("{{#start.name#}}")
                && instruction.contains("{{#knowledge_retrieval.result#}}")
        );
        let listed = parameters["tools"]["value"].as_array().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((&listed[0]["type"], &listed[0]["provider_name"]), (&"builtin".into(), &"time".into()));
        assert_eq!(listed[0]["settings"], json!({"timezone": {"value": "UTC"}}));
        assert_eq!(listed[0]["parameters"], json!({"format": {"auto": 1, "value": null}}));
        assert_eq!(node(&found, "knowledge_retrieval")["dataset_ids"], json!(["d1"]));
    }
}

#[test]
fn datasets_become_a_search_before_the_model() {
    let datasets = json!({"datasets": [{"dataset": {"enabled": true, "id": "d1"}}, {"dataset": {"enabled": false, "id": "d2"}}]});
    let settings = json!({"datasets": datasets, "retrieval_model": "multiple", "top_k": 3, "score_threshold": 0.4,
        "score_threshold_enabled": true, "reranking_enable": true,
        "reranking_model": {"reranking_provider_name": "cohere", "reranking_model_name": "r3"}});
    let found = imported("chat", json!({"dataset_configs": settings}));
    let search = node(&found, "knowledge_retrieval");
    assert_eq!((&search["dataset_ids"], &search["retrieval_mode"]), (&json!(["d1"]), &"multiple".into()));
    let multiple = json!({"top_k": 3, "score_threshold": 0.4, "reranking_enable": true,
        "reranking_model": {"provider": "cohere", "model": "r3"}});
    assert_eq!(search["multiple_retrieval_config"], multiple);
    let llm = node(&found, "llm");
    assert_eq!(llm["context"]["variable_selector"], json!(["knowledge_retrieval", "result"]));
    assert!(llm["prompt_template"][0]["text"].as_str().unwrap().contains("{{#context#}}"));

    // A completion searches for a field of the form, or not at all.
    let with = |variable: &str| {
        imported("completion", json!({"dataset_configs": settings, "dataset_query_variable": variable}))
    };
    assert_eq!(
        node(&with("name"), "knowledge_retrieval")["query_variable_selector"],
        json!(["start", "name"])
    );
    assert_eq!(ids(&with("")), ["start", "llm", "end"]);
    let single = json!({"datasets": settings["datasets"], "retrieval_model": "single"});
    let search = node(&imported("chat", json!({"dataset_configs": single})), "knowledge_retrieval");
    assert_eq!(search["single_retrieval_config"]["model"]["name"], "gpt-4o");
}

#[test]
fn prompts_of_experts_and_pictures_are_kept() {
    let prompt = json!([{"role": "system", "text": "{{name}} {{#context#}}"}, {"role": "user", "text": "{{#query#}}"}]);
    let upload = json!({"image": {"enabled": true, "detail": "low"}});
    let more =
        json!({"prompt_type": "advanced", "chat_prompt_config": {"prompt": prompt}, "file_upload": upload});
    let llm = node(&imported("chat", more), "llm");
    let expected = json!([{"role": "system", "text": "{{#start.name#}} {{#context#}}"}, {"role": "user", "text": "{{#sys.query#}}"}]);
    assert_eq!(llm["prompt_template"], expected);
    let vision =
        json!({"enabled": true, "configs": {"detail": "low", "variable_selector": ["sys", "files"]}});
    assert_eq!(llm["vision"], vision);

    let model = json!({"provider": "p", "name": "m", "mode": "completion", "completion_params": {}});
    let prompt = json!({"prompt": {"text": "{{#histories#}} {{#query#}}"},
        "conversation_histories_role": {"user_prefix": "Human", "assistant_prefix": "AI"}});
    let more = json!({"prompt_type": "advanced", "model": model, "completion_prompt_config": prompt});
    let llm = node(&imported("chat", more), "llm");
    assert_eq!(llm["prompt_template"], json!({"text": "{{#histories#}} {{#sys.query#}}"}));
    assert_eq!(llm["memory"]["role_prefix"], json!({"user": "Human", "assistant": "AI"}));
}

#[test]
fn what_cannot_be_converted_is_refused_in_one_sentence() {
    let outside = json!({"enabled": true, "type": "api", "variable": "weather", "config": {"api_based_extension_id": "x"}});
    let field = json!([{"external_data_tool": {"variable": "weather"}}]);
    let old_tool = json!({"enabled": true, "tools": [{"google_search": {"enabled": true}}]});
    for (mode, more, part) in [
        ("chat", json!({"external_data_tools": [outside]}), "weather"),
        ("completion", json!({"user_input_form": field}), "weather"),
        ("agent-chat", json!({"agent_mode": old_tool}), "google_search"),
        ("chat", json!({"prompt_type": "advanced", "chat_prompt_config": {}}), "chat_prompt_config"),
    ] {
        let found = imported(mode, more.clone());
        let errors: Vec<_> = found.diagnostics.iter().filter(|one| one.is_error()).collect();
        let [error] = errors[..] else { panic!("{:?}", found.diagnostics) };
        assert_eq!(error.code, "app.not_convertible", "{more}");
        assert!(error.message.contains(part) && error.message.contains(mode), "{error}");
        assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("Switch to Workflow")), "{error:?}");
    }
}

#[test]
fn an_app_without_its_settings_and_a_reader_without_migrations_refuse_the_mode() {
    let bare = json!({"kind": "app", "version": "0.1.5", "app": {"mode": "chat", "name": "App"}});
    let off = ParseOptions { migrations: Migrations::Off, ..ParseOptions::default() };
    let whole = app("chat", config(json!({})));
    for (file, options) in [(bare, ParseOptions::default()), (whole, off)] {
        let found = graph::import_within(file.to_string().as_bytes(), &options);
        let codes: Vec<&str> = found.diagnostics.iter().map(|one| one.code).collect();
        assert_eq!(codes, ["plan.unsupported"]);
    }
}

#[test]
fn the_conversion_is_a_named_rewrite_and_can_be_written_as_a_file() {
    for (mode, rule) in [("chat", "chat-app"), ("agent-chat", "agent-app"), ("completion", "completion-app")]
    {
        let text = app(mode, config(json!({}))).to_string();
        let rewrites = dsl::explain(text.as_bytes(), &ParseOptions::default());
        assert_eq!((rewrites[0].rule, rewrites[0].path.as_str()), (rule, "model_config"));
        let written = dsl::converted(text.as_bytes()).unwrap().to_string();
        let (read, direct) = (graph::import(written.as_bytes()), graph::import(text.as_bytes()));
        assert_eq!(read.diagnostics, []);
        let (read, mut direct) = (read.document.unwrap(), direct.document.unwrap());
        assert_eq!(direct.front.mode.take().map(crate::dsl::SimpleMode::name), Some(mode));
        assert_eq!(read, direct, "the written file is an app of its new mode");
    }
    assert_eq!(dsl::converted(b"graph: {nodes: [], edges: []}"), None);
}
