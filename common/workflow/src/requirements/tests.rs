//! A table for each kind of requirement: a part of a file, and what it requires.

use serde_json::{Value as Json, json};

use super::{ModelFeature, ModelRole, Requirement, requirements_of};
use crate::graph::import;
use crate::kinds::NodeKind;
use crate::nodes::tool::ProviderKind;

/// Reads a file with these nodes besides a start node, whatever errors it has.
fn found(nodes: Json, workflow: Json) -> Vec<(Requirement, Vec<ModelFeature>)> {
    let nodes: Vec<Json> = nodes
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(at, data)| json!({"id": format!("n{at}"), "data": data}))
        .collect();
    let mut workflow = workflow;
    workflow["graph"] = json!({"nodes": nodes, "edges": []});
    let file = json!({"kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "x"}, "workflow": workflow});
    let document = import(file.to_string().as_bytes()).document.expect("there is a graph");
    requirements_of(&document).into_iter().map(|one| (one.what, one.features)).collect()
}

fn of_node(data: Json) -> Vec<Requirement> {
    found(json!([data]), json!({})).into_iter().map(|(what, _)| what).collect()
}

fn model(provider: &str, model: &str, role: ModelRole) -> Requirement {
    Requirement::Model { provider: provider.into(), model: model.into(), role }
}

#[test]
fn models_are_found_in_every_node_that_asks_one() {
    let given = json!({"provider": "a/p/p", "name": "m", "mode": "chat"});
    for (data, expected) in [
        (json!({"type": "llm", "model": given}), vec![]),
        (json!({"type": "llm", "model": given, "vision": {"enabled": true}}), vec![ModelFeature::Vision]),
        (
            json!({"type": "llm", "model": given, "structured_output_enabled": true}),
            vec![ModelFeature::StructuredOutput],
        ),
        (json!({"type": "question-classifier", "model": given}), vec![]),
        (
            json!({"type": "parameter-extractor", "model": given, "vision": {"enabled": true}}),
            vec![ModelFeature::Vision],
        ),
        (
            json!({"type": "agent", "agent_strategy_name": "function_calling", "agent_parameters": {
                "model": {"type": "constant", "value": {"provider": "a/p/p", "model": "m"}},
                "tools": {"type": "constant", "value": [{"enabled": false}]}}}),
            vec![ModelFeature::ToolCall],
        ),
        (
            json!({"type": "knowledge-retrieval", "retrieval_mode": "single",
                "single_retrieval_config": {"model": given}}),
            vec![],
        ),
        (
            json!({"type": "knowledge-retrieval", "metadata_filtering_mode": "automatic",
                "metadata_model_config": given}),
            vec![],
        ),
        (
            json!({"type": "choice", "virtual_nodes": [{"id": "v", "type": "llm", "data": {"model": given}}]}),
            vec![],
        ),
    ] {
        assert_eq!(
            found(json!([data]), json!({})),
            [(model("a/p/p", "m", ModelRole::Chat), expected)],
            "{data}"
        );
    }
    for none in [
        json!({"type": "llm", "model": {"provider": "", "name": "", "mode": "chat"}}),
        json!({"type": "code", "model": given}),
    ] {
        assert_eq!(of_node(none.clone()), [], "{none}");
    }
}

#[test]
fn the_features_of_all_nodes_with_a_model_are_one_list() {
    let given = json!({"provider": "p", "name": "m"});
    let nodes = json!([
        {"type": "llm", "model": given, "structured_output_enabled": true},
        {"type": "llm", "model": given, "vision": {"enabled": true}},
    ]);
    let expected = vec![ModelFeature::Vision, ModelFeature::StructuredOutput];
    assert_eq!(found(nodes, json!({})), [(model("p", "m", ModelRole::Chat), expected)]);
}

#[test]
fn a_model_that_ranks_is_required_only_where_it_ranks() {
    let retrieval = |config: Json| {
        json!({"type": "knowledge-retrieval", "retrieval_mode": "multiple",
        "dataset_ids": ["d"], "multiple_retrieval_config": config})
    };
    let rank = json!({"provider": "p", "model": "r"});
    for (config, is_used) in [
        (json!({"reranking_model": rank}), true),
        (json!({"reranking_model": rank, "reranking_mode": "reranking_model"}), true),
        (json!({"reranking_model": rank, "reranking_enable": false}), false),
        (json!({"reranking_model": rank, "reranking_mode": "weighted_score"}), false),
        (json!({"reranking_model": {"provider": "", "model": ""}}), false),
    ] {
        let ranks = of_node(retrieval(config.clone())).contains(&model("p", "r", ModelRole::Rerank));
        assert_eq!(ranks, is_used, "{config}");
    }
}

#[test]
fn tools_are_named_by_kind_and_provider() {
    let tool = |kind, provider: &str, name: &str, tool: &str| Requirement::Tool {
        kind,
        provider: provider.into(),
        name: name.into(),
        tool: tool.into(),
        plugin: None,
    };
    let node = |kind: &str| json!({"type": "tool", "provider_type": kind, "provider_id": "id", "provider_name": "N", "tool_name": "t"});
    for kind in ProviderKind::ALL {
        assert_eq!(of_node(node(kind.name())), [tool(kind, "id", "N", "t")]);
    }
    assert_eq!(of_node(node("other")), []);
    let agent = json!({"type": "agent", "agent_parameters": {"tools": {"type": "constant", "value": [
        {"enabled": true, "type": "api", "provider_name": "uuid", "provider_show_name": "Pets", "tool_name": "get"},
        {"enabled": true, "provider_name": "time", "tool_name": "now"},
        {"enabled": false, "provider_name": "off", "tool_name": "x"},
    ]}}});
    let expected =
        [tool(ProviderKind::Api, "uuid", "Pets", "get"), tool(ProviderKind::Builtin, "time", "", "now")];
    assert_eq!(of_node(agent), expected);
}

#[test]
fn the_plugin_of_a_tool_is_named_with_its_version() {
    let plugin = |identifier: &str, provider: &str| {
        let node = json!({"type": "tool", "provider_type": "builtin", "provider_id": provider, "provider_name": provider,
            "tool_name": "t", "plugin_unique_identifier": identifier});
        match &of_node(node)[..] {
            [Requirement::Tool { plugin, .. }] => plugin.clone(),
            other => panic!("{other:?}"),
        }
    };
    for (identifier, provider, expected) in [
        ("acme/maps:0.0.2@ab12", "acme/maps/maps", Some("acme/maps:0.0.2")),
        ("", "acme/maps/maps", Some("acme/maps")),
        ("broken", "maps", None),
        ("", "time", None),
    ] {
        assert_eq!(plugin(identifier, provider).as_deref(), expected, "{identifier} {provider}");
    }
}

#[test]
fn strategies_of_other_plugins_and_their_servers_are_found() {
    let agent = |provider: &str, parameters: Json| {
        json!({"type": "agent", "agent_strategy_name": "s",
        "agent_strategy_provider_name": provider, "agent_parameters": parameters})
    };
    for own in ["langgenius/agent/agent", "agent", ""] {
        assert_eq!(of_node(agent(own, json!({}))), []);
    }
    let (provider, strategy) = ("h/agent/other".into(), "s".into());
    let strategy = Requirement::Strategy { provider, strategy, plugin: Some("h/agent".into()) };
    assert_eq!(of_node(agent("h/agent/other", json!({}))), [strategy]);
    let server = |name: &str, url: &str| Requirement::McpServer { name: name.into(), url: url.into() };
    let host = |host: &str| Requirement::Host { host: host.into() };
    let text = |value: &str| json!({"type": "constant", "value": value});
    let own = json!({"mcp_server": text("https://a.example/sse?key=hush")});
    let expected = [host("a.example"), server("a.example", "https://a.example/…")];
    assert_eq!(of_node(agent("h/agent/mcp", own)), expected);
    let config = r#"{"mcpServers": {"one": {"url": "http://b.example/mcp"}}}"#;
    let given = agent("h/agent/mcp", json!({"mcp_servers_config": text(config)}));
    assert_eq!(of_node(given), [host("b.example"), server("one", "http://b.example/…")]);
    let variable = json!({"mcp_server": text("{{#env.server#}}"), "mcp_servers_config": text("no JSON")});
    assert_eq!(of_node(agent("h/agent/mcp", variable)), []);
}

#[test]
fn datasets_are_found_by_id() {
    let node = json!({"type": "knowledge-retrieval", "dataset_ids": ["d1", "", "d2", "d1", 5]});
    let dataset = |id: &str| Requirement::Dataset { id: id.into() };
    assert_eq!(of_node(node), [dataset("d1"), dataset("d2")]);
}

#[test]
fn hosts_are_found_also_through_the_environment() {
    let workflow = json!({"environment_variables": [
        {"id": "1", "name": "base", "value_type": "string", "value": "http://10.0.0.5:8080/v1"},
        {"id": "2", "name": "hidden", "value_type": "secret", "value": "http://secret.example"},
    ]});
    for (url, host) in [
        ("http://Service.Internal:9000/x", Some("service.internal")),
        ("https://user:pw@api.example.com/a?b#c", Some("api.example.com")),
        ("http://[::1]:80/", Some("::1")),
        ("{{#env.base#}}/pets", Some("10.0.0.5")),
        ("http://10.1.2.3/{{#n.x#}}", Some("10.1.2.3")),
        ("http://10.1.2.3:{{#n.port#}}/", Some("10.1.2.3")),
        ("http://a.{{#n.x#}}.com/", None),
        ("{{#n.url#}}", None),
        ("{{#env.hidden#}}/x", None),
        ("ftp://host/", None),
        ("", None),
    ] {
        let all = found(json!([{"type": "http-request", "url": url}]), workflow.clone());
        let expected: Vec<_> = host.map(|host| Requirement::Host { host: host.into() }).into_iter().collect();
        assert_eq!(all.into_iter().map(|(what, _)| what).collect::<Vec<_>>(), expected, "{url}");
    }
}

#[test]
fn fields_and_messages_with_files_are_found() {
    let field = |kind: &str, methods: Json, required: bool| {
        json!({"type": "start", "variables": [
        {"variable": "doc", "type": kind, "required": required, "allowed_file_upload_methods": methods}]})
    };
    let upload =
        |field: &str, required, by_url| Requirement::Upload { field: field.into(), required, by_url };
    for (data, expected) in [
        (field("file", json!(["local_file"]), true), vec![upload("doc", true, false)]),
        (field("file-list", json!(["local_file", "remote_url"]), false), vec![upload("doc", false, true)]),
        (field("file", json!([]), false), vec![upload("doc", false, true)]),
        (field("text-input", json!([]), true), vec![]),
    ] {
        assert_eq!(of_node(data.clone()), expected, "{data}");
    }
    for (upload_feature, expected) in [
        (
            json!({"enabled": true, "allowed_file_upload_methods": ["local_file"]}),
            vec![upload("", false, false)],
        ),
        (
            json!({"image": {"enabled": true, "transfer_methods": ["remote_url"]}}),
            vec![upload("", false, true)],
        ),
        (json!({"enabled": false, "image": {"enabled": true}}), vec![]),
        (json!({"image": {"enabled": false}}), vec![]),
    ] {
        let all = found(json!([]), json!({"features": {"file_upload": upload_feature}}));
        assert_eq!(all.into_iter().map(|(what, _)| what).collect::<Vec<_>>(), expected, "{upload_feature}");
    }
}

#[test]
fn modules_and_calls_of_code_are_found() {
    let code = |language: &str, code: &str| json!({"type": "code", "code_language": language, "code": code});
    let module = |name: &str, package: Option<&str>| Requirement::Module {
        name: name.into(),
        package: package.map(Into::into),
    };
    let network = |module: &str| Requirement::CodeNetwork { module: module.into() };
    for (data, expected) in [
        (code("python3", "import json, bs4"), vec![module("bs4", Some("beautifulsoup4"))]),
        (code("python3", "import requests"), vec![module("requests", Some("requests")), network("requests")]),
        (code("python3", "try:\n    import numpy\nexcept ImportError:\n    numpy = None"), vec![]),
        (code("javascript", "const a = require('axios')"), vec![module("axios", None)]),
        (code("ruby", "import x"), vec![]),
    ] {
        assert_eq!(of_node(data.clone()), expected, "{data}");
    }
}

#[test]
fn secrets_without_a_value_are_found() {
    let workflow = json!({"environment_variables": [
        {"id": "1", "name": "blank", "value_type": "secret", "value": ""},
        {"id": "2", "name": "kept", "value_type": "secret", "value": "s3cret-value"},
        {"id": "3", "name": "text", "value_type": "string", "value": ""},
    ]});
    let all = found(json!([]), workflow);
    assert_eq!(all, [(Requirement::Secret { name: "blank".into() }, vec![])]);
}

#[test]
fn triggers_are_found_with_their_ids() {
    for (data, kind, id) in [
        (json!({"type": "trigger-webhook", "webhook_id": "hook"}), NodeKind::TriggerWebhook, "hook"),
        (json!({"type": "trigger-schedule"}), NodeKind::TriggerSchedule, ""),
        (json!({"type": "trigger-plugin", "event_name": "opened"}), NodeKind::TriggerPlugin, "opened"),
    ] {
        assert_eq!(of_node(data), [Requirement::Trigger { kind, node: "n0".into(), id: id.into() }]);
    }
}

#[test]
fn only_features_that_are_switched_on_and_not_served_are_found() {
    let features = json!({"features": {
        "speech_to_text": {"enabled": true}, "text_to_speech": {"enabled": false},
        "retriever_resource": {"enabled": true}, "sensitive_word_avoidance": {"enabled": true},
    }});
    let names: Vec<_> = found(json!([]), features).into_iter().map(|(what, _)| what).collect();
    let feature = |name| Requirement::Feature { name };
    assert_eq!(names, [feature("sensitive_word_avoidance"), feature("speech_to_text")]);
}

#[test]
fn the_annotation_reply_needs_its_model_while_it_is_on() {
    let model = json!({"embedding_provider_name": "langgenius/openai/openai", "embedding_model_name": "e"});
    for (is_on, expected) in [(true, 1), (false, 0)] {
        let feature = json!({"enabled": is_on, "score_threshold": 0.9, "embedding_model": model});
        let all = found(json!([]), json!({"features": {"annotation_reply": feature}}));
        let is_embedding = |what: &Requirement| matches!(what, Requirement::Model { model, role: ModelRole::Embedding, .. } if model == "e");
        assert_eq!(all.iter().filter(|(what, _)| is_embedding(what)).count(), expected, "{all:?}");
    }
}

#[test]
fn a_requirement_names_its_nodes_by_title() {
    let file = json!({"graph": {"nodes": [
        {"id": "a", "data": {"type": "llm", "title": "Ask", "model": {"provider": "p", "name": "m"}}},
        {"id": "b", "data": {"type": "llm", "model": {"provider": "p", "name": "m"}}},
    ], "edges": []}});
    let document = import(file.to_string().as_bytes()).document.unwrap();
    assert_eq!(requirements_of(&document)[0].nodes, ["Ask", "b"]);
}
