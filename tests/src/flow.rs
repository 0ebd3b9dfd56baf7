//! Workflows in one line, such as `start -> (a, b) -> end`, turned into Dify's format.
//!
//! The name of a node says its type: `start…`, `end…`, `answer…`, `llm…`, `if…`. Any other name is a template that a
//! worker runs and whose output is the name itself. An arrow between groups connects each node of the first with each
//! node of the second. `;` begins another chain. `if[true] -> a` uses the handle `true`.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

/// A workflow under construction.
#[derive(Debug, Clone)]
pub struct Flow {
    nodes: Vec<String>,
    edges: Vec<(String, String, String)>,
    data: BTreeMap<String, Json>,
    inputs: Vec<String>,
    name: String,
}

impl Flow {
    /// Parses a description.
    ///
    /// # Panics
    /// When it is invalid.
    pub fn new(description: &str) -> Self {
        let (nodes, data) = (Vec::new(), BTreeMap::new());
        let mut flow =
            Self { nodes, edges: Vec::new(), data, inputs: Vec::new(), name: description.to_string() };
        for chain in description.split(';') {
            let mut before: Vec<(String, String)> = Vec::new();
            for step in chain.split("->") {
                let step: Vec<(String, String)> = members(step);
                for (name, _) in &step {
                    if !flow.nodes.contains(name) {
                        flow.nodes.push(name.clone());
                    }
                    flow.edges.extend(before.iter().map(|(b, h)| (b.clone(), h.clone(), name.clone())));
                }
                before = step;
            }
        }
        flow
    }

    /// Declares text inputs.
    #[must_use]
    pub fn inputs(mut self, names: &[&str]) -> Self {
        self.inputs.extend(names.iter().map(|name| (*name).to_string()));
        self
    }

    /// Sets fields of a node's data.
    ///
    /// # Panics
    /// When `fields` is not an object.
    #[must_use]
    pub fn with(mut self, node: &str, fields: Json) -> Self {
        let Json::Object(fields) = fields else { panic!("fields of a node are an object") };
        let data = self.data.entry(node.into()).or_insert_with(|| json!({}));
        data.as_object_mut().expect("it was made as an object").extend(fields);
        self
    }

    /// Sets the text of a template, with an input as its variable `x`.
    #[must_use]
    pub fn template(self, node: &str, text: &str, input: &str) -> Self {
        let variables = json!([{"variable": "x", "value_selector": ["start", input]}]);
        self.with(node, json!({"template": text, "variables": variables}))
    }

    /// Sets the prompt of a model node.
    #[must_use]
    pub fn prompt(self, node: &str, text: &str) -> Self {
        self.with(node, json!({"prompt_template": [{"role": "user", "text": text}]}))
    }

    /// Sets the text of an answer node.
    #[must_use]
    pub fn answer(self, node: &str, text: &str) -> Self {
        self.with(node, json!({"answer": text}))
    }

    /// Lets `node` take its handle `true` when an input equals a text, and `false` otherwise.
    #[must_use]
    pub fn when(self, node: &str, input: &str, is: &str) -> Self {
        let condition = json!({"id": "c", "variable_selector": ["start", input], "varType": "string",
            "comparison_operator": "is", "value": is});
        self.with(
            node,
            json!({"cases": [{"case_id": "true", "id": "true", "logical_operator": "and",
            "conditions": [condition]}]}),
        )
    }

    /// The workflow file as JSON.
    pub fn document(&self) -> Json {
        let is_chat = self.nodes.iter().any(|name| kind(name) == "answer");
        let nodes: Vec<Json> = self
            .nodes
            .iter()
            .map(|name| json!({"id": name, "type": "custom", "data": self.node(name)}))
            .collect();
        let edges: Vec<Json> = self.edges.iter().map(|(from, handle, to)| {
            json!({"id": format!("{from}-{handle}-{to}"), "source": from, "sourceHandle": handle, "target": to,
                "targetHandle": "target", "type": "custom",
                "data": {"sourceType": kind(from), "targetType": kind(to)}})
        }).collect();
        json!({
            "app": {"name": self.name, "mode": if is_chat { "advanced-chat" } else { "workflow" },
                "description": "", "icon": "", "icon_background": ""},
            "kind": "app", "version": "0.6.0",
            "workflow": {"conversation_variables": [], "environment_variables": [], "features": {},
                "graph": {"nodes": nodes, "edges": edges}},
        })
    }

    /// The text of the workflow file.
    pub fn text(&self) -> String {
        self.document().to_string()
    }

    fn node(&self, name: &str) -> Json {
        let mut data = json!({"title": name, "type": kind(name), "desc": ""});
        let fields = data.as_object_mut().expect("it was made as an object");
        for given in [Some(&self.defaults(name)), self.data.get(name)].into_iter().flatten() {
            fields.extend(given.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        }
        data
    }

    fn defaults(&self, name: &str) -> Json {
        match kind(name) {
            "start" => {
                let variable = |input: &String| {
                    json!({"variable": input, "label": input, "type": "paragraph", "required": false,
                        "max_length": 100_000, "options": []})
                };
                json!({"variables": self.inputs.iter().map(variable).collect::<Vec<_>>()})
            }
            "end" => {
                let output =
                    |from: &String| json!({"variable": from, "value_selector": [from, output_of(from)]});
                json!({"outputs": self.parents(name).map(output).collect::<Vec<_>>()})
            }
            "answer" => {
                let part = |from: &String| format!("{{{{#{from}.{}#}}}}", output_of(from));
                json!({"answer": self.parents(name).map(part).collect::<Vec<_>>().join(" ")})
            }
            "llm" => json!({
                "model": {"provider": "langgenius/openai/openai", "name": "mock", "mode": "chat",
                    "completion_params": {}},
                "prompt_template": [{"role": "user", "text": name}],
                "context": {"enabled": false, "variable_selector": []}, "vision": {"enabled": false},
            }),
            "if-else" => json!({"cases": []}),
            _ => json!({"template": name, "variables": [], "tidemill": {"runs_on": "worker"}}),
        }
    }

    fn parents<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a String> {
        let producing = |from: &&String| !matches!(kind(from), "start" | "if-else");
        self.edges.iter().filter(move |(_, _, to)| to == name).map(|(from, _, _)| from).filter(producing)
    }
}

fn members(step: &str) -> Vec<(String, String)> {
    let step = step.trim().trim_start_matches('(').trim_end_matches(')');
    let member = |word: &str| match word.trim().split_once('[') {
        Some((name, handle)) => (name.trim().to_string(), handle.trim_end_matches(']').to_string()),
        None => (word.trim().to_string(), "source".to_string()),
    };
    let members: Vec<_> = step.split(',').map(member).collect();
    assert!(members.iter().all(|(name, _)| !name.is_empty()), "no node in {step:?}");
    members
}

fn kind(name: &str) -> &'static str {
    let kinds = [("start", "start"), ("end", "end"), ("answer", "answer"), ("llm", "llm"), ("if", "if-else")];
    let found = kinds.into_iter().find(|(prefix, _)| name.starts_with(prefix));
    found.map_or("template-transform", |(_, kind)| kind)
}

fn output_of(name: &str) -> &'static str {
    if kind(name) == "llm" { "text" } else { "output" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_of_a_group_is_connected_with_each_of_the_next() {
        let flow = Flow::new("start -> (a, b) -> end; a -> end2");
        assert_eq!(flow.nodes, ["start", "a", "b", "end", "end2"]);
        let edges: Vec<String> = flow.edges.iter().map(|(a, _, b)| format!("{a}{b}")).collect();
        assert_eq!(edges, ["starta", "startb", "aend", "bend", "aend2"]);
    }

    #[test]
    fn a_workflow_with_any_kind_of_node_can_run() {
        let flow = Flow::new("start -> if; if[true] -> a -> llm -> answer; if[false] -> answer2")
            .inputs(&["q"])
            .when("if", "q", "yes")
            .template("a", "{{ x }}", "q")
            .prompt("llm", "{{#a.output#}}");
        let imported = tidemill_common::graph::builder::import(flow.text().as_bytes());
        assert!(imported.graph.is_some(), "{:?}", imported.diagnostics);
    }
}
