//! Tests of the node with a scripted local model and tool: requests, calls, and results after failures.

mod beyond;
mod rounds;

use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use tidemill_common::config::{HttpConfig, ToolsConfig};
use tidemill_common::files::Folder;
use tidemill_common::graph::builder::import;
use tidemill_common::nodes::NodeData;

use super::*;
use crate::nodes::mock_server::{MockServer, Reply, TOKENS, Values, mock_server, says};
use crate::tests::fake::{FakeJobs, execution, journal, run_id};

const STRATEGIES: [Strategy; 2] = [Strategy::FunctionCalling, Strategy::ReAct];
/// A model reply that calls a tool with this argument text, in the form of a strategy.
fn wants(strategy: Strategy, tool: &str, arguments: &str) -> Reply {
    match strategy {
        Strategy::FunctionCalling => Reply::Says {
            thought: "",
            text: "Looking.".into(),
            calls: vec![(tool.into(), arguments.into())],
            images: Vec::new(),
        },
        Strategy::ReAct => says(&format!(
            "Thought: Looking.\nAction:\n```\n{{\"action\": \"{tool}\", \"action_input\": {arguments}}}\n```"
        )),
    }
}

/// A model reply with an answer, in the form of a strategy.
fn answers(strategy: Strategy, text: &str) -> Reply {
    match strategy {
        Strategy::FunctionCalling => says(text),
        Strategy::ReAct => says(&format!("Thought: I know.\nFinalAnswer: {text}")),
    }
}

/// The result of a run of the node.
struct Ran {
    result: NodeResult,
    pieces: Vec<String>,
    thoughts: String,
}

impl Ran {
    fn output(&self, name: &str) -> Json {
        let found = self.result.outputs.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.value.clone()).unwrap_or_default()
    }
    fn text(&self) -> String {
        assert_eq!(self.result.failure, None);
        self.output("text").as_str().unwrap().to_owned()
    }
    /// The log lines with this label: status and error of each.
    fn lines(&self, label: &str) -> Vec<(String, String)> {
        let log = self.result.metadata["agent_log"].as_array().unwrap();
        let text = |line: &Json, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let lines = log.iter().filter(|line| line["label"] == label);
        lines.map(|line| (text(line, "status"), text(line, "error"))).collect()
    }
}

/// A node, and the facts about its model.
struct Setup {
    strategy: Strategy,
    provider: &'static str,
    params: Json,
    features: &'static [&'static str],
    /// Parameters and fields that replace the defaults.
    parameters: Json,
    fields: Json,
    variables: Json,
}

impl Setup {
    fn of(strategy: Strategy) -> Self {
        Self {
            strategy,
            provider: "acme",
            params: json!({}),
            features: &["tool-call", "stream-tool-call"],
            parameters: json!({}),
            fields: json!({}),
            variables: json!({}),
        }
    }

    fn rounds(self, most: u64) -> Self {
        Self { parameters: json!({"maximum_iterations": {"type": "constant", "value": most}}), ..self }
    }

    fn document(&self) -> Json {
        let constant = |value: Json| json!({"type": "constant", "value": value});
        let tool = json!({
            "enabled": true, "type": "builtin", "provider_name": "acme", "tool_name": "find", "settings": {},
            "parameters": {"q": {"auto": 1, "value": null}}, "extra": {"description": "Finds things"},
        });
        let model = json!({"provider": self.provider, "model": "m", "mode": "chat", "completion_params": self.params});
        let mut parameters = json!({
            "model": constant(model), "tools": constant(json!([tool])), "instruction": constant(json!("Be brief.")),
            "query": constant(json!("look")), "maximum_iterations": constant(json!(5)),
        });
        for (name, value) in self.parameters.as_object().unwrap() {
            parameters[name] = value.clone();
        }
        let mut data = json!({
            "type": "agent", "title": "Agent", "agent_strategy_name": self.strategy.name(),
            "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "A",
            "agent_parameters": parameters,
        });
        for (name, value) in self.fields.as_object().unwrap() {
            data[name] = value.clone();
        }
        json!({"graph": {
            "nodes": [{"id": "start", "data": {"type": "start", "title": "S", "variables": []}}, {"id": "t", "data": data}],
            "edges": [{"source": "start", "target": "t"}],
        }})
    }

    async fn run(self, server: &MockServer, jobs: &Arc<FakeJobs>) -> Ran {
        let imported = import(self.document().to_string().as_bytes());
        let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
        let node = graph.node(graph.find("t").unwrap());
        let NodeData::Agent(data) = &node.data else { panic!("{:?}", node.data) };
        let providers = server.providers(self.provider, self.features);
        let config = ToolsConfig {
            endpoint: format!("{}/tools", server.base).into(),
            describe_seconds: 0,
            ..ToolsConfig::default()
        };
        let http = HttpConfig::default();
        let tools = Tools::new(&config, &http).unwrap();
        let http = Http::new(&http).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
        let (told, mut thoughts) = (Mutex::new(Vec::new()), String::new());
        let on_piece = |_: &str, text: &str| told.lock().unwrap().push(text.to_owned());
        let mut on_thought = |text: &str, _: bool| thoughts.push_str(text);
        let means = Means {
            providers: &providers,
            tools: &tools,
            http: &http,
            files: &files,
            run: &run_id(),
            execution: execution(5),
            journal: &journal(jobs),
            on_piece: &on_piece,
            flush: &|| {},
            auto_approved: None,
        };
        let running = run(data, node, &Values(self.variables), means, &mut on_thought);
        let result = Box::pin(running).await;
        Ran { result, pieces: told.into_inner().unwrap(), thoughts }
    }
}
