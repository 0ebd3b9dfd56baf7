//! Workflow files in few words: a node is an id and its data, edges are a line such as
//! `start > ask > end; ask[fail-branch] > end`.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

/// A workflow file under construction.
#[derive(Debug, Clone)]
pub(super) struct Sketch {
    mode: &'static str,
    edges: String,
    nodes: Vec<(String, Json)>,
    workflow: Json,
}

impl Sketch {
    /// A workflow with these edges, whose nodes follow.
    pub(super) fn workflow(edges: &str) -> Self {
        Self { mode: "workflow", edges: edges.into(), nodes: Vec::new(), workflow: json!({}) }
    }

    /// A chat with these edges, whose nodes follow.
    pub(super) fn chat(edges: &str) -> Self {
        Self { mode: "advanced-chat", ..Self::workflow(edges) }
    }

    /// Adds a node.
    pub(super) fn node(mut self, id: &str, data: Json) -> Self {
        self.nodes.push((id.into(), data));
        self
    }

    /// Adds a node inside a container, and the container's start node before the first one.
    pub(super) fn inside(mut self, container: &str, id: &str, mut data: Json) -> Self {
        let start = format!("{container}start");
        let kind = self.kinds()[container].clone();
        if !self.nodes.iter().any(|(known, _)| *known == start) {
            let data = json!({"type": format!("{kind}-start"), "title": "", "in": container});
            self.nodes.push((start, data));
        }
        data["in"] = container.into();
        self.node(id, data)
    }

    /// Sets a key of the workflow, such as `features` or `tidemill`.
    pub(super) fn with(mut self, key: &str, value: Json) -> Self {
        self.workflow[key] = value;
        self
    }

    fn kinds(&self) -> BTreeMap<String, String> {
        let kind = |data: &Json| data["type"].as_str().unwrap_or_default().to_owned();
        self.nodes.iter().map(|(id, data)| (id.clone(), kind(data))).collect()
    }

    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let kinds = self.kinds();
        let node = |(id, data): &(String, Json)| {
            let (mut data, container) = (data.clone(), data["in"].as_str().map(str::to_owned));
            data["title"] = id.as_str().into();
            let mut node = json!({"id": id, "type": "custom"});
            if let Some(container) = container {
                data.as_object_mut().expect("data is a mapping").remove("in");
                let flag = if kinds[&container] == "loop" { "isInLoop" } else { "isInIteration" };
                let owner = if kinds[&container] == "loop" { "loop_id" } else { "iteration_id" };
                (data[flag], data[owner]) = (true.into(), container.as_str().into());
                node["parentId"] = container.into();
            } else if ["iteration", "loop"].contains(&kinds[id].as_str()) {
                data["start_node_id"] = format!("{id}start").into();
            }
            node["data"] = data;
            node
        };
        let mut workflow = json!({"conversation_variables": [], "environment_variables": [], "features": {}});
        for (key, value) in self.workflow.as_object().into_iter().flatten() {
            workflow[key] = value.clone();
        }
        let nodes: Vec<Json> = self.nodes.iter().map(node).collect();
        workflow["graph"] = json!({"nodes": nodes, "edges": edges(&self.edges)});
        json!({"kind": "app", "version": "0.6.0", "app": {"name": "Field case", "mode": self.mode},
            "workflow": workflow})
        .to_string()
    }
}

fn edges(text: &str) -> Vec<Json> {
    let mut edges = Vec::new();
    for chain in text.split(';') {
        let ends: Vec<&str> = chain.split('>').map(str::trim).collect();
        for pair in ends.windows(2) {
            let (source, handle) = match pair[0].split_once('[') {
                Some((source, handle)) => (source, handle.trim_end_matches(']')),
                None => (pair[0], "source"),
            };
            let target = pair[1].split('[').next().unwrap_or_default();
            edges.push(json!({"id": format!("{source}-{handle}-{target}"), "source": source,
                "sourceHandle": handle, "target": target, "targetHandle": "target"}));
        }
    }
    edges
}

fn selector(path: &str) -> Vec<&str> {
    path.split('.').collect()
}

/// Names with the values that they stand for, such as `("x", "start.text")`.
pub(super) type Names<'a> = &'a [(&'a str, &'a str)];

fn variables(names: Names<'_>) -> Json {
    let one = |(name, path): &(&str, &str)| json!({"variable": name, "value_selector": selector(path)});
    names.iter().map(one).collect()
}

/// A start form with optional fields: names and types.
pub(super) fn start(fields: Names<'_>) -> Json {
    let one = |(name, kind): &(&str, &str)| json!({"variable": name, "label": name, "type": kind, "required": false});
    json!({"type": "start", "variables": fields.iter().map(one).collect::<Vec<_>>()})
}

/// Code in Python; outputs are names and types.
pub(super) fn code(source: &str, outputs: Names<'_>, inputs: Names<'_>) -> Json {
    let outputs: serde_json::Map<String, Json> =
        outputs.iter().map(|(name, ty)| ((*name).into(), json!({"type": ty, "children": null}))).collect();
    json!({"type": "code", "code_language": "python3", "code": source, "outputs": outputs,
        "variables": variables(inputs)})
}

/// Code in JavaScript.
pub(super) fn javascript(source: &str, outputs: Names<'_>) -> Json {
    let mut data = code(source, outputs, &[]);
    data["code_language"] = "javascript".into();
    data
}

/// A Jinja template.
pub(super) fn template(text: &str, inputs: Names<'_>) -> Json {
    json!({"type": "template-transform", "template": text, "variables": variables(inputs)})
}

/// An End node.
pub(super) fn end(outputs: Names<'_>) -> Json {
    json!({"type": "end", "outputs": variables(outputs)})
}

/// An answer.
pub(super) fn answer(text: &str) -> Json {
    json!({"type": "answer", "answer": text, "variables": []})
}

fn model() -> Json {
    json!({"provider": "langgenius/openai/openai", "name": "mock", "mode": "chat", "completion_params": {}})
}

/// A call to the model with one user message.
pub(super) fn llm(prompt: &str) -> Json {
    json!({"type": "llm", "model": model(), "prompt_template": [{"role": "user", "text": prompt}],
        "context": {"enabled": false, "variable_selector": []}, "vision": {"enabled": false}})
}

/// A classifier with these classes, by ids.
pub(super) fn classifier(query: &str, classes: &[&str]) -> Json {
    let classes: Vec<Json> =
        classes.iter().map(|id| json!({"id": id, "name": format!("class {id}")})).collect();
    json!({"type": "question-classifier", "model": model(), "query_variable_selector": selector(query),
        "classes": classes, "vision": {"enabled": false}})
}

/// An extractor in words; parameters are a name, a type, and whether it is required.
pub(super) fn extractor(query: &str, parameters: &[(&str, &str, bool)]) -> Json {
    let one = |(name, ty, required): &(&str, &str, bool)| json!({"name": name, "type": ty, "required": required, "description": name});
    json!({"type": "parameter-extractor", "model": model(), "query": selector(query), "reasoning_mode": "prompt",
        "parameters": parameters.iter().map(one).collect::<Vec<_>>(), "vision": {"enabled": false}})
}

/// A GET request.
pub(super) fn get(url: &str) -> Json {
    json!({"type": "http-request", "method": "get", "url": url, "headers": "", "params": "",
        "body": {"type": "none", "data": []}, "authorization": {"type": "no-auth", "config": null},
        "retry_config": {"retry_enabled": false, "max_retries": 3, "retry_interval": 100}})
}

/// Lets a node be tried again.
pub(super) fn retried(mut data: Json, retries: u32, interval_ms: u32) -> Json {
    data["retry_config"] =
        json!({"retry_enabled": true, "max_retries": retries, "retry_interval": interval_ms});
    data
}

/// Gives a node a fail branch.
pub(super) fn failing_over(mut data: Json) -> Json {
    data["error_strategy"] = "fail-branch".into();
    data
}

/// A branch with one case: all conditions (value, operator, text, type) hold.
pub(super) fn choose(case: &str, conditions: &[(&str, &str, &str, &str)]) -> Json {
    let one = |(path, operator, value, ty): &(&str, &str, &str, &str)| json!({"id": path, "variable_selector": selector(path), "comparison_operator": operator, "value": value, "varType": ty});
    json!({"type": "if-else", "cases": [{"id": case, "case_id": case, "logical_operator": "and",
        "conditions": conditions.iter().map(one).collect::<Vec<_>>()}]})
}

/// The first value that exists.
pub(super) fn first_of(ty: &str, paths: &[&str]) -> Json {
    let paths: Vec<_> = paths.iter().map(|path| selector(path)).collect();
    json!({"type": "variable-aggregator", "output_type": ty, "variables": paths})
}

/// An iteration over a list; `parallel` items at a time, or in order with 1.
pub(super) fn each(list: &str, output: &str, output_type: &str, parallel: u32) -> Json {
    json!({"type": "iteration", "iterator_selector": selector(list), "iterator_input_type": "array[string]",
        "output_selector": selector(output), "output_type": output_type, "is_parallel": parallel > 1,
        "parallel_nums": parallel, "error_handle_mode": "terminated", "flatten_output": true})
}

/// A loop of at most `count` rounds; its variables are a name, a type and a text.
pub(super) fn rounds(count: u32, variables: &[(&str, &str, &str)], breaks: Json) -> Json {
    let one = |(name, ty, value): &(&str, &str, &str)| json!({"id": name, "label": name, "var_type": ty, "value_type": "constant", "value": value});
    json!({"type": "loop", "loop_count": count, "break_conditions": breaks, "logical_operator": "and",
        "loop_variables": variables.iter().map(one).collect::<Vec<_>>()})
}

/// An assignment: the variable, the operation, and a constant or a selector.
pub(super) fn assign(items: &[(&str, &str, Json)]) -> Json {
    let one = |(path, operation, value): &(&str, &str, Json)| {
        let kind = if value.is_array() { "variable" } else { "constant" };
        json!({"variable_selector": selector(path), "operation": operation, "input_type": kind, "value": value,
            "write_mode": operation})
    };
    json!({"type": "assigner", "version": "2", "items": items.iter().map(one).collect::<Vec<_>>()})
}

/// A form with the field `note` and these buttons.
pub(super) fn form(buttons: &[&str]) -> Json {
    let actions: Vec<Json> =
        buttons.iter().map(|id| json!({"id": id, "title": id, "button_style": "default"})).collect();
    let note = json!({"type": "paragraph", "output_variable_name": "note",
        "default": {"type": "constant", "selector": [], "value": ""}});
    json!({"type": "human-input", "delivery_methods": [{"id": "6f1b0c52-5a57-4a5e-9f66-0d2d8f6f7a01",
        "type": "webapp", "enabled": true, "config": {}}], "form_content": "Your note: {{#$output.note#}}",
        "inputs": [note], "user_actions": actions, "timeout": 36, "timeout_unit": "hour"})
}
