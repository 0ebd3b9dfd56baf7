//! Nodes that a plugin runs with a configuration of its own: the parameter extractor and the question classifier.

use std::borrow::Cow;

use serde_json::{Value as Json, json};
use tidemill_common::graph::builder::import;
use tidemill_common::nodes::{NodeData, NodeResult};
use tidemill_common::value::{JsonMap, Lookup, Segment, Variables};
use tidemill_common::warning::Warning;

use super::{Answering, text};
use crate::attempt::journal::ChargeSource;
use crate::nodes::{parameter_extractor, question_classifier};

/// The ids of the nodes of the graph in which the node runs.
const START: &str = "start";
const NODE: &str = "node";
const QUERY: &str = "query";

/// The only variable of the node.
struct Asked(String);

impl Variables for Asked {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        match (node, name) {
            (START, QUERY) => Lookup::Found(Cow::Owned(Segment::string(&self.0))),
            _ => Lookup::Missing,
        }
    }

    fn names(&self) -> Vec<(String, String)> {
        vec![(START.into(), QUERY.into())]
    }
}

impl Answering<'_> {
    pub(super) async fn extracted(&self, request: &Json) -> Result<Json, String> {
        let data = json!({
            "type": "parameter-extractor", "title": "Parameters", "query": [START, QUERY],
            "model": model(request)?, "parameters": request["parameters"],
            "instruction": request["instruction"].as_str().unwrap_or_default(),
            "reasoning_mode": "function_call", "vision": {"enabled": false},
        });
        self.run_node(request, data).await
    }

    pub(super) async fn classified(&self, request: &Json) -> Result<Json, String> {
        let data = json!({
            "type": "question-classifier", "title": "Question", "query_variable_selector": [START, QUERY],
            "model": model(request)?, "classes": request["classes"],
            "instruction": request["instruction"].as_str().unwrap_or_default(), "vision": {"enabled": false},
        });
        self.run_node(request, data).await
    }

    async fn run_node(&self, request: &Json, data: Json) -> Result<Json, String> {
        let document = json!({"graph": {
            "nodes": [
                {"id": START, "data": {"type": "start", "title": "Start", "variables": [
                    {"variable": QUERY, "label": QUERY, "type": "paragraph", "required": true},
                ]}},
                {"id": NODE, "data": data},
            ],
            "edges": [{"source": START, "target": NODE}],
        }});
        let imported = import(document.to_string().as_bytes());
        let Some(graph) = imported.graph else {
            let errors: Vec<String> =
                imported.diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect();
            return Err(format!("the node cannot be read: {}", errors.join("; ")));
        };
        let node = graph.find(NODE).map(|at| graph.node(at)).ok_or("the node cannot be read")?;
        let variables = Asked(text(request, QUERY)?.to_owned());
        let call = Self::call_name();
        let (waiter, providers) = (self.waiter(&call), &self.worker()?.outside.providers);
        let warn = |warning: Warning| {
            if let Some(journal) = self.asker.journal {
                journal.warn(warning);
            }
        };
        let (result, model) = match &node.data {
            NodeData::ParameterExtractor(data) => {
                let run = parameter_extractor::run(data, node, &variables, providers, &waiter, &warn, false);
                (run.await, &data.model)
            }
            NodeData::QuestionClassifier(data) => {
                let run = question_classifier::run(data, node, &variables, providers, &waiter, &warn);
                (run.await, &data.model)
            }
            _ => return Err("the node cannot be read".into()),
        };
        let NodeResult { failure, usage, inputs, outputs, process_data, .. } = result;
        if let Some(usage) = usage {
            let by = ChargeSource::Model(model.provider.clone(), model.name.clone());
            self.charge(&call, &usage, by);
        }
        if let Some(failure) = failure {
            return Err(failure.message);
        }
        let values = |all: Vec<(String, Segment)>| -> JsonMap {
            all.into_iter().map(|(name, segment)| (name, segment.value)).collect()
        };
        Ok(json!({"process_data": process_data, "inputs": values(inputs), "outputs": values(outputs)}))
    }
}

/// The model as nodes name it.
fn model(request: &Json) -> Result<Json, String> {
    let given = &request["model"];
    Ok(json!({
        "provider": text(given, "provider")?, "name": text(given, "name")?,
        "mode": given["mode"].as_str().unwrap_or("chat"),
        "completion_params": given["completion_params"].as_object().cloned().unwrap_or_default(),
    }))
}
