//! Tests of inputs that are extracted from a conversation: every spelling, and its canonical form.

use serde_json::{Value as Json, json};

use crate::dsl::{Document, ParseOptions, parse};
use crate::graph::{ChildKind, Extraction, Graph, import};

fn llm() -> Json {
    json!({"type": "llm", "title": "A", "model": {"provider": "openai", "name": "gpt-4", "mode": "chat", "completion_params": {"temperature": 0.7}},
        "context": {"enabled": false}, "prompt_template": [{"role": "user", "text": "hi"}]})
}

fn tool(parameters: Json, more: Json) -> Json {
    let mut data = json!({"type": "tool", "title": "T", "provider_id": "p", "provider_name": "p", "provider_type": "builtin",
        "tool_name": "find", "tool_label": "F", "tool_configurations": {}, "tool_parameters": parameters});
    if let (Some(data), Json::Object(more)) = (data.as_object_mut(), more) {
        data.extend(more);
    }
    data
}

/// A workflow whose tool has these parameters and fields, with further nodes.
fn file(parameters: Json, more: Json, nodes: &[Json]) -> String {
    let mut all = vec![
        json!({"id": "start", "data": {"type": "start", "variables": []}}),
        json!({"id": "llm1", "data": llm()}),
        json!({"id": "tool1", "data": tool(parameters, more)}),
        json!({"id": "end", "data": {"type": "end", "outputs": [{"variable": "k", "value_selector": ["tool1.ext_1", "text"]}]}}),
    ];
    all.extend_from_slice(nodes);
    let edge = |source: &str, target: &str| json!({"source": source, "target": target});
    json!({"nodes": all, "edges": [edge("start", "llm1"), edge("llm1", "tool1"), edge("tool1", "end")]})
        .to_string()
}

fn document(text: &str) -> Document {
    let (document, problems) = parse(text.as_bytes(), &ParseOptions::default());
    document.unwrap_or_else(|| panic!("{problems:?}"))
}

fn graph(text: &str) -> Graph {
    let imported = import(text.as_bytes());
    imported.graph.unwrap_or_else(|| panic!("{:#?}", imported.diagnostics))
}

fn wrong(text: &str) -> String {
    let imported = import(text.as_bytes());
    assert!(imported.graph.is_none(), "{text}");
    imported.diagnostics.iter().map(|it| format!("{} {}\n", it.code, it.message)).collect()
}

fn value(more: Json) -> Json {
    let mut value = json!({"source_node_id": "llm1", "source_variable": "context", "extraction_prompt": "Extract keywords"});
    if let (Some(value), Json::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

/// The canonical text, with a fixed id in place of the extractor's.
fn normal(text: &str) -> String {
    let canonical = document(text).canonical().replace("tool1_ext_query", "tool1_ext_1");
    // Where no child has the id `ext_1`, the end node's reference to it is not rewritten.
    canonical.replace("\"ext_query\"", "\"ext_1\"").replace("tool1.ext_1", "tool1_ext_1")
}

#[test]
fn ve_a17_every_way_to_write_an_extraction_is_the_same_plan() {
    let input = json!({"type": "extraction", "value": value(json!({}))});
    let config = json!({"extractor_node_id": "tool1_ext_query", "output_selector": ["text"], "null_strategy": "raise_error"});
    let hidden = |item: Json| {
        let mut data = llm();
        data["parent_node_id"] = json!("tool1");
        data["prompt_template"] = json!([item, {"role": "user", "text": "Extract keywords"}]);
        json!({"id": "tool1_ext_query", "data": data})
    };
    let written = "{{@llm1.context@}}Extract keywords";
    let camel =
        json!({"sourceNodeId": "llm1", "sourceVariable": "context", "extractionPrompt": "Extract keywords"});
    let plain = file(json!({"query": input}), json!({}), &[]);
    let expected = normal(&plain);
    for other in [
        file(json!({"query": {"type": "extraction", "value": camel}}), json!({}), &[]),
        file(json!({"query": "@llm1.context | Extract keywords"}), json!({}), &[]),
        file(
            json!({"query": {"type": "constant", "value": "@llm1.context | Extract keywords"}}),
            json!({}),
            &[],
        ),
        file(json!({"query": {"type": "mixed", "value": written}}), json!({}), &[]),
        file(
            json!({"query": {"type": "nested_node", "value": written, "nested_node_config": config}}),
            json!({}),
            &[],
        ),
        file(
            json!({"query": {"type": "mention", "value": written, "mention_config": config}}),
            json!({}),
            &[],
        ),
        file(
            json!({"query": {"type": "nested_node", "value": written, "nested_node_config": config}}),
            json!({}),
            &[hidden(json!({"$context": ["llm1", "context"]}))],
        ),
        file(
            json!({"query": {"type": "nested_node", "value": written, "nested_node_config": config}}),
            json!({}),
            &[hidden(json!({"role": "user", "text": "{{@llm1.context@}}"}))],
        ),
        file(
            json!({}),
            json!({"inputs": [{"name": "query", "type": "extraction", "value": value(json!({}))}]}),
            &[],
        ),
        file(
            json!({"query": input}),
            json!({"inputs": [{"name": "query", "type": "extraction", "value": value(json!({}))}]}),
            &[],
        ),
        file(
            json!({"query": {"type": "variable", "value": ["ext_1", "text"]}}),
            json!({"virtual_nodes": [{"id": "ext_1", "kind": "extraction", "type": "llm", "source": ["llm1", "context"], "prompt": "Extract keywords"}]}),
            &[],
        ),
    ] {
        assert_eq!(normal(&other), expected, "{other}");
    }
    let graph = graph(&plain);
    let child = graph.node(graph.find("tool1_ext_1").expect("a child"));
    let extraction = Extraction {
        source: ("llm1".into(), "context".into()),
        prompt: "Extract keywords".into(),
        has_model: true,
        default_value: None,
    };
    assert_eq!(child.child.as_ref().expect("it is one").kind, ChildKind::Extraction(Box::new(extraction)));
    assert_eq!(child.title, "Extraction: Extract keywords");
    let crate::nodes::NodeData::Llm(data) = &child.data else { panic!("an extraction asks a model") };
    assert_eq!(
        (data.model.name.as_str(), &data.model.completion_params["temperature"]),
        ("gpt-4", &json!(0.7))
    );
    let mention = ("llm1".to_string(), "context".to_string());
    assert!(graph.node(graph.find("tool1").expect("the tool")).mentions.contains(&mention));
    assert!(graph.node(graph.find("llm1").expect("the source")).gives_context);
}

#[test]
fn xc_09_the_canonical_form_is_read_unchanged() {
    let config = json!({"extractor_node_id": "tool1_ext_days", "output_selector": ["structured_output", "days"], "null_strategy": "use_default", "default_value": "7d"});
    let mut asks = llm();
    asks["parent_node_id"] = json!("tool1");
    asks["structured_output_enabled"] = json!(true);
    asks["structured_output"] = json!({"schema": {"type": "object", "properties": {}}});
    let text = file(
        json!({
            "query": {"type": "extraction", "value": value(json!({"model": {"provider": "openai", "name": "gpt-4o-mini"}, "default_value": "x"}))},
            "days": {"type": "nested_node", "value": "{{#llm1.text#}}", "nested_node_config": config},
            "more": "@llm1.context | More",
        }),
        json!({"retry_config": {"max_retries": 2, "retry_enabled": true, "retry_interval_seconds": 1.5}}),
        &[json!({"id": "tool1_ext_days", "data": asks})],
    );
    let once = document(&text);
    // An export has the nodes as stored; importing it gives the same again.
    let again: Vec<Json> = once.nodes.iter().map(|node| json!({"id": node.id, "data": node.data})).collect();
    let edges: Vec<Json> =
        once.edges.iter().map(|edge| json!({"source": edge.source, "target": edge.target})).collect();
    let twice = document(&json!({"nodes": again, "edges": edges}).to_string());
    assert_eq!(once.canonical(), twice.canonical());
    let tool = &once.nodes.iter().find(|node| node.id == "tool1").expect("the tool").data;
    let ids: Vec<&str> = tool["virtual_nodes"]
        .as_array()
        .expect("children")
        .iter()
        .filter_map(|it| it["id"].as_str())
        .collect();
    assert_eq!(ids, ["ext_days", "ext_1", "ext_2"]);
    assert_eq!(tool["retry_config"]["retry_interval"], 1500);
    assert_eq!(
        tool["tool_parameters"]["days"],
        json!({"type": "variable", "value": ["tool1_ext_days", "structured_output", "days"], "null_strategy": "use_default", "default_value": "7d"})
    );
    assert_eq!(
        tool["virtual_nodes"][1]["model"],
        json!({"provider": "openai", "name": "gpt-4o-mini", "mode": "chat", "completion_params": {}})
    );
    assert!(once.nodes.iter().all(|node| node.id != "tool1_ext_days"));
    let graph = graph(&text);
    let work = graph.node(graph.find("tool1").expect("the tool")).work.as_ref().expect("work").clone();
    assert_eq!((work.inputs.len(), work.inputs[0].default.clone()), (1, Some(json!("7d"))));
}

#[test]
fn ve_a14_a_source_that_is_not_there_is_named() {
    let text = wrong(&file(
        json!({"query": {"type": "extraction", "value": value(json!({"source_node_id": "ghost"}))}}),
        json!({}),
        &[],
    ));
    assert!(text.contains("SourceNodeNotFoundError: Source node ghost not found in graph config"), "{text}");
}

#[test]
fn ve_13_a_profile_replaces_a_model() {
    let input = json!({"type": "extraction", "value": value(json!({"profileId": "fast"}))});
    let graph = graph(&file(json!({"query": input}), json!({}), &[]));
    let child = graph.node(graph.find("tool1_ext_1").expect("a child"));
    let crate::nodes::NodeData::Llm(data) = &child.data else { panic!("an extraction asks a model") };
    assert_eq!((data.model.provider.as_str(), data.model.name.as_str()), ("profile/fast", ""));
}

#[test]
fn ve_12_an_incomplete_extraction_names_the_missing_fields() {
    let half =
        json!({"type": "extraction", "value": {"source_node_id": "llm1", "source_variable": "context"}});
    let text = wrong(&file(json!({"query": half}), json!({}), &[]));
    assert!(text.contains("ConfigurationValidationError") && text.contains("extraction_prompt"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn ve_c4_an_input_that_is_given_twice_is_refused() {
    let other = json!([{"name": "query", "type": "extraction", "value": value(json!({}))}]);
    let text =
        wrong(&file(json!({"query": {"type": "constant", "value": "x"}}), json!({"inputs": other}), &[]));
    assert!(text.contains("DuplicateInput") && text.contains("query"), "{text}");
}

#[test]
fn ve_05_a_shorthand_of_an_unknown_node_is_plain_text() {
    let text =
        file(json!({"query": {"type": "constant", "value": "@nobody.context | Extract"}}), json!({}), &[]);
    let tool = &document(&text).nodes[2].data;
    assert_eq!(tool["tool_parameters"]["query"]["value"], "@nobody.context | Extract");
    assert!(tool.get("virtual_nodes").is_none());
}

#[test]
fn ve_c2_numbers_skip_the_ids_that_are_taken() {
    let declared =
        json!([{"id": "ext_1", "type": "template-transform", "data": {"template": "x", "variables": []}}]);
    let text = file(json!({"query": "@llm1.context | Extract"}), json!({"virtual_nodes": declared}), &[]);
    let tool = &document(&text).nodes[2].data;
    let ids: Vec<&str> = tool["virtual_nodes"]
        .as_array()
        .expect("children")
        .iter()
        .filter_map(|it| it["id"].as_str())
        .collect();
    assert_eq!(ids, ["ext_1", "ext_2"]);
    assert_eq!(tool["tool_parameters"]["query"]["value"], json!(["tool1_ext_2", "text"]));
}

#[test]
fn ve_31_nodes_without_parameters_list_their_extractions() {
    let inputs = json!([{"name": "k", "type": "extraction", "value": value(json!({}))}]);
    let node = json!({"id": "t", "data": {"type": "template-transform", "template": "{{ k }}", "inputs": inputs,
        "variables": [{"variable": "k", "value_selector": ["ext_1", "text"]}]}});
    let text = json!({"nodes": [{"id": "start", "data": {"type": "start", "variables": []}}, {"id": "llm1", "data": llm()}, node],
        "edges": [{"source": "start", "target": "llm1"}, {"source": "llm1", "target": "t"}]});
    let graph = graph(&text.to_string());
    let parent = graph.node(graph.find("t").expect("it is there"));
    assert_eq!(parent.children.len(), 1);
    assert!(graph.find("t_ext_1").is_some());
    let on_a_loop = json!({"nodes": [{"id": "start", "data": {"type": "start", "variables": []}}, {"id": "llm1", "data": llm()},
        {"id": "e", "data": {"type": "end", "outputs": [], "inputs": [{"name": "k", "type": "extraction", "value": value(json!({}))}]}}], "edges": []});
    let text = wrong(&on_a_loop.to_string());
    assert!(text.contains("cannot have nodes inside it"), "{text}");
}

#[test]
fn ve_31_parameters_of_a_step_are_extracted_wherever_they_stand() {
    let of = json!({"type": "extraction", "value": value(json!({}))});
    let short = "@llm1.context | Extract keywords";
    for data in [
        json!({"type": "api", "url": "http://x.test", "query": of}),
        json!({"type": "api", "url": short}),
        json!({"type": "api", "params": {"url": of}}),
        json!({"type": "llm", "params": {"user_prompt": of}}),
        json!({"type": "llm", "user_prompt": short}),
    ] {
        let graph = graph(
            &file(json!({}), json!({}), &[json!({"id": "step", "data": data})])
                .replace("\"tool1.ext_1\",\"text\"", "\"tool1\",\"text\"")
                .replace("\"edges\":[", "\"edges\":[{\"source\":\"llm1\",\"target\":\"step\"},"),
        );
        let step = graph.node(graph.find("step").expect("the step"));
        let kinds = step.children.iter().filter_map(|ix| graph.node(*ix).child.as_deref());
        let extractions = kinds.filter(|child| matches!(child.kind, ChildKind::Extraction(_)));
        assert_eq!(extractions.count(), 1, "{data}");
    }
}

#[test]
fn xc_09_foreign_nodes_and_spellings_are_read() {
    let text = json!({"nodes": [
        {"id": "start", "type": "start", "name": "Begin", "config": {"variables": []}},
        {"id": "m", "data": {"type": "LLM", "title": "M"}},
        {"id": "e", "data": {"type": "EMPTY"}}, {"id": "c", "type": "Choice", "config": {"title": "own"}},
    ], "edges": []});
    let document = document(&text.to_string());
    let shown: Vec<(&str, &Json)> = document
        .nodes
        .iter()
        .map(|node| (node.type_name(), node.data.get("title").unwrap_or(&Json::Null)))
        .collect();
    assert_eq!(
        shown,
        [("start", &json!("Begin")), ("llm", &json!("M")), ("empty", &Json::Null), ("choice", &json!("own"))]
    );
}
