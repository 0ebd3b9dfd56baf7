//! Nodes inside other nodes, on real processes: the extraction of a tool's inputs from a conversation, and nodes of
//! other types.

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::check::Transcript;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;

use super::{System, system};

pub(super) const QUESTION: &str = "find papers on Raft";
pub(super) const PROMPT: &str = "Extract keywords";

/// The common parts of the workflows: a model that answers a question, and a tool.
pub(super) struct Setup {
    /// `tool_parameters` of the tool.
    pub(super) parameters: Json,
    /// More fields of the tool node.
    pub(super) more: Json,
    /// Fields of `llm1` that replace the usual ones.
    pub(super) llm: Json,
    /// Further nodes after the tool, with the edges of each: `(node, source, handle)`.
    pub(super) behind: Vec<(Json, &'static str, &'static str)>,
    /// Outputs of the end node.
    pub(super) outputs: Json,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            parameters: json!({"query": extraction(json!({})), "limit": {"type": "constant", "value": 10}}),
            more: json!({}),
            llm: json!({}),
            behind: Vec::new(),
            outputs: json!([
                {"variable": "keywords", "value_selector": ["tool1_ext_1", "text"]},
                {"variable": "said", "value_selector": ["tool1", "text"]},
            ]),
        }
    }
}

fn model(name: &str) -> Json {
    json!({"provider": "openai", "name": name, "mode": "chat", "completion_params": {"temperature": 0.7}})
}

pub(super) fn extraction(more: Json) -> Json {
    let value = json!({"source_node_id": "llm1", "source_variable": "context", "extraction_prompt": PROMPT});
    json!({"type": "extraction", "value": with(value, more)})
}

fn with(mut value: Json, more: Json) -> Json {
    if let (Some(map), Json::Object(more)) = (value.as_object_mut(), more) {
        map.extend(more);
    }
    value
}

impl Setup {
    fn tool(&self) -> Json {
        let schema =
            |name: &str, ty: &str| json!({"name": name, "type": ty, "form": "llm", "required": false});
        let data = json!({
            "type": "tool", "title": "Search", "provider_id": "acme", "provider_name": "acme", "provider_type": "builtin",
            "tool_name": "find", "tool_label": "Find", "tool_configurations": {}, "version": "2",
            "paramSchemas": [schema("query", "string"), schema("limit", "number"), schema("time_range", "string")],
            "tool_parameters": self.parameters,
        });
        with(data, self.more.clone())
    }

    pub(super) fn workflow(&self) -> String {
        let llm = json!({
            "type": "llm", "title": "Answer", "model": model("gpt-4"), "context": {"enabled": false, "variable_selector": []},
            "prompt_template": [{"role": "system", "text": "Be brief."}, {"role": "user", "text": "{{#start.q#}}"}],
        });
        let mut nodes = vec![
            json!({"id": "start", "data": {"type": "start", "title": "S", "variables": [
                {"variable": "q", "label": "q", "type": "paragraph", "required": false}]}}),
            json!({"id": "llm1", "data": with(llm, self.llm.clone())}),
            json!({"id": "tool1", "data": self.tool()}),
            json!({"id": "end", "data": {"type": "end", "title": "E", "outputs": self.outputs}}),
        ];
        let mut edges = vec![
            json!({"source": "start", "target": "llm1"}),
            json!({"source": "llm1", "target": "tool1"}),
            json!({"source": "tool1", "target": "end"}),
        ];
        for (node, source, handle) in &self.behind {
            edges.push(json!({"source": source, "sourceHandle": handle, "target": node["id"]}));
            nodes.push(node.clone());
        }
        json!({
            "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Papers"},
            "workflow": {"graph": {"nodes": nodes, "edges": edges}},
        })
        .to_string()
    }
}

/// A fleet, its model and its tool.
pub(super) struct Fleet {
    pub(super) system: System,
    model: Running,
    pub(super) outside: Outside,
}

impl Fleet {
    /// Starts a fleet. Its model answers the question, and everything else by these rules.
    pub(super) async fn start(rules: Json) -> Self {
        Self::start_with(rules, &[]).await
    }

    /// Starts a fleet with these settings.
    async fn start_with(rules: Json, settings: &[(&str, &str)]) -> Self {
        let mut all =
            vec![json!({"match": {"contains": QUESTION}, "reply": "Raft is …", "usage": usage(10, 5)})];
        all.extend(rules.as_array().cloned().unwrap_or_default());
        let model = llm::rules(Json::Array(all)).await;
        let outside = Outside::start().await;
        let endpoint = format!("{}/tools", outside.base_url);
        let settings: Vec<_> =
            settings.iter().copied().chain([("tools.endpoint", endpoint.as_str())]).collect();
        let system = system(&settings, &model).await;
        Self { system, model, outside }
    }

    /// Runs a workflow to its end. Returns the run and its events.
    pub(super) async fn run(&self, setup: &Setup) -> (Json, Transcript) {
        let client = &self.system.client;
        let body = json!({"workflow": setup.workflow(), "inputs": {"q": QUESTION}, "user": "tester"});
        let run = client.submit(&body).await;
        let ended = client.ended(&run).await;
        let told = client.follow(&run, None).await.to_the_end().await;
        told.is_whole();
        (ended, told)
    }

    /// The parameters of each call of the tool.
    fn called(&self) -> Vec<Json> {
        let read =
            |body: &str| serde_json::from_str::<Json>(body).expect("a call is JSON")["parameters"].clone();
        self.outside.take().iter().map(|call| read(&call.body)).collect()
    }

    /// The calls of the model except those by the first node.
    pub(super) fn asked(&self) -> Vec<Json> {
        let requests = self.model.take_requests();
        let is_other = |request: &Json| !request["messages"].to_string().contains("Be brief.");
        requests.into_iter().filter(is_other).collect()
    }
}

fn usage(prompt: u64, completion: u64) -> Json {
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

pub(super) fn keywords() -> Json {
    json!([{"match": {"equals": PROMPT}, "chunks": ["Raft", ", consensus"], "chunk_delay_ms": 60, "usage": usage(100, 20)}])
}

fn broken(times: Option<u64>) -> Json {
    let mut rule = json!({"match": {"equals": PROMPT}, "status": 500, "error": "down", "headers": {"x-should-retry": "false"},
        "reply": "Raft, consensus", "usage": usage(100, 20)});
    if let Some(times) = times {
        rule["fail_times"] = json!(times);
    }
    json!([rule])
}

/// The types of a node's own events, without chunks and without events of its child nodes.
fn kinds<'a>(told: &'a Transcript, node: &str) -> Vec<&'a str> {
    let of_node = told.events.iter().filter(|event| event.node() == Some(node));
    let kinds = of_node.map(|event| event.kind.as_str());
    kinds.filter(|kind| kind.starts_with("node_run_") && *kind != "node_run_stream_chunk").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a02_a04_a06_a_tool_gets_the_values_that_a_model_has_extracted() {
    let fleet = Fleet::start(keywords()).await;
    let (run, told) = fleet.run(&Setup::default()).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    assert_eq!(run["outputs"]["keywords"], "Raft, consensus");
    assert_eq!(fleet.called(), [json!({"query": "Raft, consensus", "limit": 10})]);
    let asked = fleet.asked();
    assert_eq!((asked.len(), &asked[0]["model"]), (1, &json!("gpt-4")));
    let said: Vec<(&str, &str)> = asked[0]["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|it| (it["role"].as_str().unwrap_or(""), it["content"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(said, [("user", QUESTION), ("assistant", "Raft is …"), ("user", PROMPT)]);

    let of_two = |event: &&tidemill_tests::check::Event| match event.node() {
        Some("tool1_ext_1") => true,
        // The text of the tool is streamed as well.
        Some("tool1") => event.kind != "node_run_stream_chunk",
        _ => false,
    };
    let order: Vec<String> = told
        .events
        .iter()
        .filter(of_two)
        .map(|event| match event.kind.as_str() {
            "node_run_stream_chunk" => {
                assert_eq!(event.data["selector"], json!(["tool1_ext_1", "text"]));
                format!("{}{}", event.data["chunk"].as_str().unwrap_or(""), event.data["is_final"])
            }
            kind => format!("{} {kind}", event.node().unwrap_or("")),
        })
        .collect();
    assert_eq!(order.first().map(String::as_str), Some("tool1_ext_1 node_run_started"));
    let chunks: Vec<&str> = order.iter().map(String::as_str).filter(|it| !it.contains("node_run")).collect();
    assert_eq!(chunks.concat().replace("false", ""), "Raft, consensustrue", "{order:?}");
    let ends: Vec<&str> = order.iter().map(String::as_str).filter(|it| it.contains("node_run")).collect();
    assert_eq!(
        ends,
        [
            "tool1_ext_1 node_run_started",
            "tool1_ext_1 node_run_succeeded",
            "tool1 node_run_started",
            "tool1 node_run_succeeded"
        ]
    );

    let started = |node: &str| {
        told.of_kind("node_run_started").find(|it| it.node() == Some(node)).expect("it began").data.clone()
    };
    let child = started("tool1_ext_1");
    for (key, value) in [
        ("is_virtual", json!(true)),
        ("parent_node_id", json!("tool1")),
        ("extraction_source", json!("llm1.context")),
        ("extraction_prompt", json!(PROMPT)),
        ("node_title", json!("Extraction: Extract keywords")),
        ("node_type", json!("llm")),
    ] {
        assert_eq!(child[key], value, "{key}");
    }
    assert_eq!(
        (started("tool1")["is_virtual"].clone(), started("llm1")["is_virtual"].clone()),
        (json!(false), json!(false))
    );
    assert!(started("tool1").get("parent_node_id").is_none());

    let result = |node: &str| {
        told.of_kind("node_run_succeeded").find(|it| it.node() == Some(node)).expect("it ended").data["node_run_result"].clone()
    };
    let child = result("tool1_ext_1");
    assert_eq!(child["inputs"], json!({"context_source": "llm1.context", "extraction_prompt": PROMPT}));
    assert_eq!(child["outputs"], json!({"text": "Raft, consensus"}));
    assert_eq!(
        (&child["process_data"]["source"], &child["process_data"]["model_mode"]),
        (&json!("llm1.context"), &json!("chat"))
    );
    assert_eq!(child["metadata"]["total_tokens"], 120);
    assert_eq!(child["llm_usage"]["prompt_tokens"], 100);
    let tool = result("tool1");
    assert_eq!(tool["process_data"]["extraction_nodes"], json!(["tool1_ext_1"]));
    assert_eq!(tool["llm_usage"], Json::Null);
    assert_eq!(run["total_tokens"], 15 + 120);
    let context = result("llm1")["outputs"]["context"].clone();
    assert_eq!(
        context,
        json!([
            {"role": "user", "text": QUESTION, "files": []}, {"role": "assistant", "text": "Raft is …", "files": []},
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a05_a_tool_gets_the_text_and_constants_in_their_types_and_later_nodes_read_it() {
    let fleet = Fleet::start(keywords()).await;
    let way = json!({"id": "shows", "data": {"type": "template-transform", "title": "O", "template": "[{{ t }}]",
        "variables": [{"variable": "t", "value_selector": ["tool1_ext_1", "text"]}]}});
    let outputs = json!([{"variable": "shown", "value_selector": ["shows", "output"]}]);
    let end = json!({"id": "end2", "data": {"type": "end", "title": "E2", "outputs": outputs}});
    let behind = vec![(way, "tool1", "source"), (end, "shows", "source")];
    let (run, _) = fleet.run(&Setup { behind, ..Setup::default() }).await;
    assert_eq!(fleet.called(), [json!({"query": "Raft, consensus", "limit": 10})]);
    assert_eq!(
        (&run["outputs"]["shown"], &run["outputs"]["keywords"]),
        (&json!("[Raft, consensus]"), &json!("Raft, consensus"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a03_the_model_is_that_of_the_source_unless_one_is_named() {
    let echo = json!([{"match": {"equals": PROMPT}, "echo": "params"}]);
    let fleet = Fleet::start(echo).await;
    let named = json!({"model": {"provider": "openai", "name": "gpt-4o-mini", "completion_params": {"temperature": 0.3}}});
    for (more, name, temperature) in [(json!({}), "gpt-4", 0.7), (named, "gpt-4o-mini", 0.3)] {
        let setup = Setup { parameters: json!({"query": extraction(more)}), ..Setup::default() };
        let (run, told) = fleet.run(&setup).await;
        let params: Json =
            serde_json::from_str(run["outputs"]["keywords"].as_str().unwrap_or("")).unwrap_or_default();
        assert_eq!(params["temperature"], temperature, "{run:#}");
        assert_eq!(fleet.asked().pop().map(|asked| asked["model"].clone()), Some(json!(name)));
        let ended =
            told.of_kind("node_run_succeeded").find(|it| it.node() == Some("tool1_ext_1")).expect("it ended");
        assert_eq!(ended.data["node_run_result"]["process_data"]["model_mode"], "chat");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a07_an_extraction_is_retried_like_its_parent() {
    let fleet = Fleet::start(broken(Some(2))).await;
    let retry = json!({"retry_config": {"max_retries": 3, "retry_interval": 10, "retry_enabled": true}});
    let (run, told) = fleet.run(&Setup { more: retry, ..Setup::default() }).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    assert_eq!((fleet.asked().len(), fleet.called().len()), (3, 1));
    let expected = ["node_run_started", "node_run_retry", "node_run_retry", "node_run_succeeded"];
    assert_eq!(kinds(&told, "tool1_ext_1"), expected);
    let indexes: Vec<&Json> = told.of_kind("node_run_retry").map(|it| &it.data["retry_index"]).collect();
    assert_eq!(indexes, [1, 2]);
    assert!(told.of_kind("node_run_retry").all(|it| it.data["is_virtual"] == true));
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a07_a_parent_begins_after_its_child_however_long_the_child_waits() {
    let fleet = Fleet::start(broken(Some(1))).await;
    // Longer than a worker keeps a job while it waits.
    let retry = json!({"retry_config": {"max_retries": 3, "retry_interval": 1500, "retry_enabled": true}});
    let (run, told) = fleet.run(&Setup { more: retry, ..Setup::default() }).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    let both = told.events.iter().filter(|event| event.kind.starts_with("node_run_"));
    let both: Vec<(&str, &str)> = both
        .filter_map(|event| Some((event.node()?, event.kind.as_str())))
        .filter(|(node, kind)| node.starts_with("tool1") && !kind.contains("stream"))
        .collect();
    let expected = [
        ("tool1_ext_1", "node_run_started"),
        ("tool1_ext_1", "node_run_retry"),
        ("tool1_ext_1", "node_run_succeeded"),
        ("tool1", "node_run_started"),
        ("tool1", "node_run_succeeded"),
    ];
    assert_eq!(both, expected);
    let ended = told.of_kind("node_run_succeeded").find(|it| it.node() == Some("tool1")).expect("it ended");
    let elapsed =
        ended.data["node_run_result"]["elapsed_time"].as_f64().or(ended.data["elapsed_time"].as_f64());
    assert!(elapsed.is_none_or(|seconds| seconds < 1.0), "the wait is its child's: {elapsed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a08_a09_a_failed_extraction_fails_its_parent_unless_there_is_a_default() {
    let fleet = Fleet::start(broken(None)).await;
    let retry = json!({"max_retries": 3, "retry_interval": 10, "retry_enabled": true});
    let (run, told) = fleet.run(&Setup { more: json!({"retry_config": retry}), ..Setup::default() }).await;
    assert_eq!(run["status"], "failed", "{run:#}");
    assert_eq!((fleet.asked().len(), fleet.called().len()), (4, 0));
    assert_eq!(told.count("node_run_failed", "tool1_ext_1"), 1);
    assert_eq!(kinds(&told, "tool1"), ["node_run_started", "node_run_failed"]);
    let failed = told.of_kind("node_run_failed").find(|it| it.node() == Some("tool1")).expect("it failed");
    let result = &failed.data["node_run_result"];
    assert_eq!(result["error_type"], "LLMInvocationError");
    assert!(
        result["error"].as_str().is_some_and(|error| error.starts_with("LLM invocation failed: ")),
        "{result:#}"
    );

    let more = json!({"retry_config": retry, "error_strategy": "default-value", "default_value": []});
    let (run, told) = fleet.run(&Setup { more, ..Setup::default() }).await;
    assert_eq!(
        (&run["status"], &run["exceptions_count"]),
        (&json!("partial-succeeded"), &json!(1)),
        "{run:#}"
    );
    assert_eq!(fleet.called(), [json!({"query": "", "limit": 10})]);
    let ended = told.of_kind("node_run_succeeded").find(|it| it.node() == Some("tool1")).expect("it ended");
    let errors = &ended.data["node_run_result"]["process_data"]["extraction_errors"];
    assert_eq!(
        (&errors[0]["child_id"], &errors[0]["error_type"]),
        (&json!("tool1_ext_1"), &json!("LLMInvocationError"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a11_a_failed_extraction_takes_the_fail_branch() {
    let fleet = Fleet::start(broken(None)).await;
    let way = json!({"id": "other", "data": {"type": "template-transform", "title": "O", "template": "{{ t }}",
        "variables": [{"variable": "t", "value_selector": ["tool1", "error_type"]}]}});
    let outputs = json!([{"variable": "class", "value_selector": ["other", "output"]}]);
    let end = json!({"id": "end2", "data": {"type": "end", "title": "E2", "outputs": outputs}});
    let behind = vec![(way, "tool1", "fail-branch"), (end, "other", "source")];
    let (run, _) = fleet
        .run(&Setup { more: json!({"error_strategy": "fail-branch"}), behind, ..Setup::default() })
        .await;
    assert_eq!(run["status"], "partial-succeeded", "{run:#}");
    assert_eq!(run["outputs"]["class"], "LLMInvocationError");
    assert!(fleet.called().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a10_of_two_extractions_only_the_failed_one_is_replaced() {
    let rules = json!([
        {"match": {"equals": PROMPT}, "reply": "a"},
        {"match": {"equals": "When?"}, "status": 400, "error": "no"},
    ]);
    let fleet = Fleet::start(rules).await;
    let when = extraction(json!({"extraction_prompt": "When?"}));
    let parameters = json!({"query": extraction(json!({})), "time_range": when});
    let more = json!({"error_strategy": "default-value"});
    let (run, _) =
        fleet.run(&Setup { parameters: parameters.clone(), more: more.clone(), ..Setup::default() }).await;
    assert_eq!(run["status"], "partial-succeeded", "{run:#}");
    assert_eq!(fleet.called(), [json!({"query": "a", "time_range": ""})]);
    // This extraction has its own default value.
    let mut own = parameters;
    own["time_range"]["value"]["default_value"] = json!("7d");
    fleet.run(&Setup { parameters: own, more, ..Setup::default() }).await;
    assert_eq!(fleet.called(), [json!({"query": "a", "time_range": "7d"})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a12_a_missing_variable_is_reported_before_any_model_is_called() {
    let message = "Variable llm1.nothing not found in variable pool";
    is_refused("nothing", "VariableNotFoundError", message).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a13_a_source_that_is_a_text_is_reported_before_any_model_is_called() {
    is_refused("text", "InvalidVariableTypeError", "Variable llm1.text is not a list type, got str").await;
}

/// An extraction from this variable of the model fails its node. No model is called, and no retry is made.
async fn is_refused(variable: &str, class: &str, message: &str) {
    let fleet = Fleet::start(keywords()).await;
    let more = json!({"retry_config": {"max_retries": 3, "retry_interval": 10, "retry_enabled": true}});
    let parameters = json!({"query": extraction(json!({"source_variable": variable}))});
    let (run, told) = fleet.run(&Setup { parameters, more, ..Setup::default() }).await;
    assert_eq!(run["status"], "failed");
    let failed = told.of_kind("node_run_failed").find(|it| it.node() == Some("tool1")).expect("it failed");
    let result = &failed.data["node_run_result"];
    assert_eq!((&result["error_type"], &result["error"]), (&json!(class), &json!(message)));
    assert!(fleet.asked().is_empty() && told.of_kind("node_run_retry").next().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a16_nodes_of_other_types_run_inside_a_node_one_after_the_other() {
    let fleet = Fleet::start(keywords()).await;
    let children = json!([
        {"id": "ext_1", "type": "llm", "data": {"model": model("gpt-4"), "context": {"enabled": false},
            "prompt_template": [{"role": "user", "text": PROMPT}]}},
        {"id": "ext_2", "type": "template-transform", "data": {"template": "<{{ t }}>",
            "variables": [{"variable": "t", "value_selector": ["ext_1", "text"]}]}},
    ]);
    let parameters = json!({"query": {"type": "variable", "value": ["ext_2", "output"]}, "limit": {"type": "constant", "value": 3}});
    let setup = Setup { parameters, more: json!({"virtual_nodes": children}), ..Setup::default() };
    let (run, told) = fleet.run(&setup).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    assert_eq!(fleet.called(), [json!({"query": "<Raft, consensus>", "limit": 3})]);
    for node in ["tool1_ext_1", "tool1_ext_2", "tool1", "end"] {
        assert_eq!(kinds(&told, node), ["node_run_started", "node_run_succeeded"], "{node}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_whose_output_is_too_large_fails_its_parent() {
    let fleet = Fleet::start_with(json!([]), &[("run.value_bytes_max", "20000")]).await;
    let children = json!([{"id": "ext_1", "type": "template-transform", "data": {
        "template": "{% for i in range(3000) %}{{ t }}{% endfor %}",
        "variables": [{"variable": "t", "value_selector": ["llm1", "text"]}]}}]);
    let parameters = json!({"query": {"type": "variable", "value": ["ext_1", "output"]}});
    let outputs = json!([{"variable": "said", "value_selector": ["tool1", "text"]}]);
    let setup = Setup { parameters, outputs, more: json!({"virtual_nodes": children}), ..Setup::default() };
    let (run, told) = fleet.run(&setup).await;
    assert_eq!(run["status"], "failed", "{run:#}");
    assert!(run["error"].as_str().is_some_and(|error| error.contains("run.value_bytes_max")), "{run:#}");
    assert_eq!(fleet.called(), [] as [Json; 0]);
    for node in ["tool1_ext_1", "tool1"] {
        assert_eq!(kinds(&told, node), ["node_run_started", "node_run_failed"], "{node}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a22_each_item_of_an_iteration_has_its_own_extraction() {
    let fleet = Fleet::start(keywords()).await;
    let setup = Setup::default();
    let mut tool = json!({"id": "tool1", "parentId": "it", "data": setup.tool()});
    tool["data"]["iteration_id"] = json!("it");
    let iteration = json!({"id": "it", "data": {"type": "iteration", "title": "Each", "start_node_id": "its",
        "iterator_selector": ["list", "result"], "output_selector": ["tool1_ext_1", "text"]}});
    let list = json!({"id": "list", "data": {"type": "code", "title": "L", "code_language": "python3", "variables": [],
        "code": "def main():\n    return {'result': [1, 2, 3]}", "outputs": {"result": {"type": "array[number]"}}}});
    let begin = json!({"id": "its", "parentId": "it", "data": {"type": "iteration-start", "title": ""}});
    let mut document: Json = serde_json::from_str(&setup.workflow()).expect("it is JSON");
    let graph = &mut document["workflow"]["graph"];
    let edge = |source: &str, target: &str| json!({"source": source, "target": target});
    graph["edges"] = json!([
        edge("start", "llm1"),
        edge("llm1", "list"),
        edge("list", "it"),
        edge("its", "tool1"),
        edge("it", "end")
    ]);
    let nodes = graph["nodes"].as_array_mut().expect("nodes");
    nodes.retain(|node| node["id"] != "tool1");
    nodes.extend([list, iteration, begin, tool]);
    let end = nodes.iter_mut().find(|node| node["id"] == "end").expect("an end");
    end["data"]["outputs"] = json!([{"variable": "all", "value_selector": ["it", "output"]}]);
    let client = &fleet.system.client;
    let run = client
        .submit(&json!({"workflow": document.to_string(), "inputs": {"q": QUESTION}, "user": "tester"}))
        .await;
    let ended = client.ended(&run).await;
    assert_eq!(
        ended["outputs"]["all"],
        json!(["Raft, consensus", "Raft, consensus", "Raft, consensus"]),
        "{ended:#}"
    );
    assert_eq!((fleet.asked().len(), fleet.called().len()), (3, 3));
    let told = client.follow(&run, None).await.to_the_end().await;
    let children: Vec<&Json> = told
        .of_kind("node_run_succeeded")
        .filter(|event| event.node() == Some("tool1_ext_1"))
        .map(|event| &event.data)
        .collect();
    assert!(children.iter().all(|data| data["in_iteration_id"] == "it"));
    let indexes: Vec<&Json> =
        children.iter().map(|data| &data["node_run_result"]["metadata"]["iteration_index"]).collect();
    assert_eq!(indexes, [0, 1, 2]);
}

/// A tool that fails at its first call.
async fn unsteady() -> (String, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = format!("http://{}/tools", listener.local_addr().expect("it is bound"));
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = vec![0; 64 * 1024];
            let length = stream.read(&mut asked).await.unwrap_or(0);
            let (status, body) = match asked[..length].starts_with(b"POST") {
                false => ("404 Not Found", String::new()),
                true if counted.fetch_add(1, Ordering::SeqCst) == 0 => {
                    ("500 Internal Server Error", "{}".to_owned())
                }
                true => ("200 OK", json!({"messages": [{"type": "text", "text": "noted"}]}).to_string()),
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            drop(stream.write_all(answer.as_bytes()).await);
        }
    });
    (endpoint, calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a26_an_extraction_is_not_repeated_when_its_parent_is_retried() {
    let rules = json!([
        {"match": {"equals": PROMPT}, "reply": "Raft, consensus", "usage": usage(100, 20)},
        {"match": {}, "reply": "Raft is …", "usage": usage(10, 5)},
    ]);
    let model = llm::rules(rules).await;
    let (endpoint, calls) = unsteady().await;
    let system = system(&[("tools.endpoint", endpoint.as_str())], &model).await;
    let more = json!({"retry_config": {"max_retries": 1, "retry_interval": 10, "retry_enabled": true}});
    let workflow = Setup { more, ..Setup::default() }.workflow();
    let run = system
        .client
        .submit(&json!({"workflow": workflow, "inputs": {"q": QUESTION}, "user": "tester"}))
        .await;
    let ended = system.client.ended(&run).await;
    assert_eq!(
        (&ended["outputs"]["said"], &ended["total_tokens"]),
        (&json!("noted"), &json!(135)),
        "{ended:#}"
    );
    assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 2);
    let extractions =
        model.requests().iter().filter(|it| it["messages"].to_string().contains(PROMPT)).count();
    assert_eq!(extractions, 1);
    let told = system.client.follow(&run, None).await.to_the_end().await;
    assert_eq!(kinds(&told, "tool1_ext_1"), ["node_run_started", "node_run_succeeded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a27_a_stop_while_a_child_streams_ends_it_and_its_parent() {
    let slow =
        json!([{"match": {"equals": PROMPT}, "chunks": ["Raft", ", consensus"], "chunk_delay_ms": 20_000}]);
    let fleet = Fleet::start(slow).await;
    let client = &fleet.system.client;
    let body = json!({"workflow": Setup::default().workflow(), "inputs": {"q": QUESTION}, "user": "tester"});
    let run = client.submit(&body).await;
    client.follow(&run, None).await.until_text("Raft").await;
    assert_eq!(
        client.post(&format!("/api/v1/runs/{run}/commands"), &json!({"command": "stop"})).await.status,
        202
    );
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "stopped", "{ended:#}");
    let nodes = ended["nodes"].as_array().expect("nodes").clone();
    let status = |id: &str| nodes.iter().find(|node| node["id"] == id).map(|node| node["status"].clone());
    assert_eq!((status("tool1_ext_1"), status("tool1")), (Some(json!("stopped")), Some(json!("stopped"))));
    assert!(fleet.called().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a15_a_source_without_a_model_needs_one_that_is_named() {
    let fleet = Fleet::start(keywords()).await;
    let code = "def main():\n    return {'said': [{'role': 'user', 'text': 'x', 'files': []}]}";
    let list = json!({"type": "code", "title": "L", "code_language": "python3", "variables": [], "code": code,
        "outputs": {"said": {"type": "array[object]"}}});
    let of_code = |more: Json| {
        let source = json!({"source_node_id": "llm1", "source_variable": "said"});
        json!({"query": extraction(with(source, more))})
    };
    // Here the node with the id `llm1` is a code node.
    let replaced = |parameters: Json| {
        let mut document: Json =
            serde_json::from_str(&Setup { parameters, ..Setup::default() }.workflow()).expect("JSON");
        document["workflow"]["graph"]["nodes"][1]["data"] = list.clone();
        document.to_string()
    };
    let client = &fleet.system.client;
    let mut ends = Vec::new();
    for more in [json!({}), json!({"model": {"provider": "openai", "name": "gpt-4"}})] {
        let run = client
            .submit(&json!({"workflow": replaced(of_code(more)), "inputs": {}, "user": "tester"}))
            .await;
        ends.push(client.ended(&run).await);
    }
    assert!(
        ends[0]["error"].as_str().is_some_and(|error| error.contains("Model config not found for llm1.said")),
        "{:#}",
        ends[0]
    );
    assert_eq!(ends[1]["outputs"]["keywords"], "Raft, consensus", "{:#}", ends[1]);
    assert_eq!(fleet.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a21_a_null_value_is_replaced_as_the_input_says() {
    let fleet = Fleet::start(json!([{"match": {"contains": "When?"}, "reply": "{\"range\": null}"}])).await;
    let extractor = json!({"id": "tool1_ext_time_range", "data": {
        "type": "llm", "title": "When", "parent_node_id": "tool1", "model": model("gpt-4"), "context": {"enabled": false},
        "prompt_template": [{"$context": ["llm1", "context"]}, {"role": "user", "text": "When?"}],
        "structured_output_enabled": true,
        "structured_output": {"schema": {"type": "object", "properties": {"range": {"type": ["string", "null"]}}, "required": ["range"]}},
    }});
    let input = |strategy: &str| {
        json!({"time_range": {"type": "nested_node", "value": "{{#llm1.text#}}", "nested_node_config": {
            "extractor_node_id": "tool1_ext_time_range", "output_selector": ["structured_output", "range"],
            "null_strategy": strategy, "default_value": "7d"}}})
    };
    let outputs = json!([{"variable": "said", "value_selector": ["tool1", "text"]}]);
    let mut ends = Vec::new();
    for strategy in ["use_default", "raise_error"] {
        let setup = Setup { parameters: input(strategy), outputs: outputs.clone(), ..Setup::default() };
        let mut document: Json = serde_json::from_str(&setup.workflow()).expect("JSON");
        document["workflow"]["graph"]["nodes"].as_array_mut().expect("nodes").push(extractor.clone());
        let body = json!({"workflow": document.to_string(), "inputs": {"q": QUESTION}, "user": "tester"});
        let run = fleet.system.client.submit(&body).await;
        ends.push(fleet.system.client.ended(&run).await);
    }
    assert_eq!(ends[0]["status"], "succeeded", "{:#}", ends[0]);
    assert_eq!(fleet.called(), [json!({"time_range": "7d"})]);
    assert_eq!(ends[1]["status"], "failed");
    assert!(ends[1]["error"].as_str().is_some_and(|error| error.contains("is null")), "{:#}", ends[1]);
}
