//! Rewrites inputs that are extracted from a conversation to a node inside the node (`virtual_nodes`) and a
//! selector of its text. The spellings:
//!
//! ```text
//! query: {type: extraction, value: {source_node_id, source_variable, extraction_prompt, model?, profile_id?}}
//! query: '@llm1.context | Extract keywords'
//! query: {type: mixed, value: '{{@llm1.context@}}Extract keywords'}
//! query: {type: nested_node, value: …, nested_node_config: {extractor_node_id, output_selector, null_strategy, default_value}}
//! inputs: [{name: query, type: extraction, value: {…}}]
//! ```
//!
//! `nested_node` is also spelled `mention` with `mention_config`. Its extractor may be a hidden node of the
//! graph, which names the node in `parent_node_id` ([`super::extractors`]).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Value as Json, json};

use super::extractors;
use crate::dsl::children::{global_id, model_of};
use crate::kinds::{STEP_FORMS, is_llm_step};
use tidemill_base::value::JsonMap;

/// Returns the field that holds the parameters of a node type.
pub(super) fn parameters_of(kind: &str, data: &JsonMap) -> Option<&'static str> {
    match kind {
        "llm" => is_llm_step(data).then_some("params"),
        "tool" => Some("tool_parameters"),
        "agent" => Some("agent_parameters"),
        "empty" | "summary" | "facts" | "slot" | "choice" | "api" | "sql" | "call" => Some("params"),
        _ => None,
    }
}

pub(super) fn rewrite(graph: &mut JsonMap) {
    let Some(nodes) = graph.get("nodes").and_then(Json::as_array) else { return };
    let id = |node: &Json| Some(node.get("id")?.as_str()?.to_owned());
    let ids: HashSet<String> = nodes.iter().filter_map(id).collect();
    let mut hidden = extractors::take(graph, &ids);
    for node in graph.get_mut("nodes").and_then(Json::as_array_mut).into_iter().flatten() {
        let Some(id) = id(node) else { continue };
        let Some(data) = node.get_mut("data").and_then(Json::as_object_mut) else { continue };
        let hidden = hidden.remove(&id).unwrap_or_default();
        Group::new(&id, &ids, hidden).rewrite(data);
    }
}

/// A node and the children that its inputs create.
struct Group<'a> {
    id: &'a str,
    ids: &'a HashSet<String>,
    /// The hidden extractors of this node, with their global ids.
    hidden: Vec<(String, JsonMap)>,
    /// Local ids that are in use.
    taken: HashSet<String>,
    made: Vec<Json>,
}

impl<'a> Group<'a> {
    fn new(id: &'a str, ids: &'a HashSet<String>, hidden: Vec<(String, JsonMap)>) -> Self {
        Self { id, ids, hidden, taken: HashSet::new(), made: Vec::new() }
    }

    fn rewrite(mut self, data: &mut JsonMap) {
        let declared = data.get("virtual_nodes").and_then(Json::as_array);
        let local = |child: &Json| Some(child.get("id")?.as_str()?.to_owned());
        self.taken = declared.into_iter().flatten().filter_map(local).collect();
        for (own, child) in std::mem::take(&mut self.hidden) {
            let local = child.get("id").and_then(Json::as_str).unwrap_or(&own).to_owned();
            if self.taken.insert(local) {
                self.made.push(Json::Object(child));
            }
        }
        let kind = data.get("type").and_then(Json::as_str).unwrap_or_default().to_owned();
        let field = parameters_of(&kind, data);
        if let Some(field) = field {
            if field != "params" {
                take_inputs(data, field);
            }
            // A step may have parameters next to its type.
            let beside = STEP_FORMS.iter().find(|form| form.kind.wire() == kind && field == "params");
            for key in beside.into_iter().flat_map(|form| form.keys) {
                if let Some(new) = data.get(*key).and_then(|value| self.input(value)) {
                    data.insert((*key).to_owned(), new);
                }
            }
            for value in
                data.get_mut(field).and_then(Json::as_object_mut).into_iter().flat_map(JsonMap::values_mut)
            {
                if let Some(new) = self.input(value) {
                    *value = new;
                }
            }
        }
        let has_inputs = field.is_none_or(|field| field == "params");
        if let Some(inputs) = data.get_mut("inputs").and_then(Json::as_array_mut).filter(|_| has_inputs) {
            inputs.retain(|input| {
                let found = input.get("type").and_then(Json::as_str) == Some("extraction");
                !found || self.extraction(input.get("value")).is_none()
            });
        }
        if self.made.is_empty() {
            return;
        }
        match data.entry("virtual_nodes").or_insert_with(|| json!([])) {
            Json::Array(list) => list.append(&mut self.made),
            other => *other = Json::Array(self.made),
        }
    }

    /// Returns the replacement of an input; `None` when it is not an extraction.
    fn input(&mut self, value: &Json) -> Option<Json> {
        if let Some(text) = value.as_str() {
            return self.written(text, None);
        }
        let map = value.as_object()?;
        let inner = map.get("value");
        if map.get("type").and_then(Json::as_str) == Some("extraction") {
            return self.extraction(inner);
        }
        let config = ["nested_node_config", "mention_config", "nestedNodeConfig", "mentionConfig"];
        let config = config.iter().find_map(|key| map.get(*key)?.as_object());
        match (inner.and_then(Json::as_str), config) {
            (Some(text), config) => self.written(text, config).or_else(|| self.nested(config?)),
            (None, Some(config)) => self.nested(config),
            (None, None) => None,
        }
    }

    /// Reads `{source_node_id, source_variable, extraction_prompt, …}`.
    fn extraction(&mut self, value: Option<&Json>) -> Option<Json> {
        let map = value?.as_object()?;
        let text = |snake: &str, camel: &str| {
            map.get(snake).or_else(|| map.get(camel))?.as_str().filter(|text| !text.is_empty())
        };
        let source = (text("source_node_id", "sourceNodeId")?, text("source_variable", "sourceVariable")?);
        let prompt = text("extraction_prompt", "extractionPrompt")?;
        let local = self.next_local();
        let mut child = extraction_child(&local, source, prompt);
        if let Some(model) = map.get("model").filter(|model| !model.is_null()) {
            child.insert("model".into(), canonical_model(model));
        }
        for (key, camel) in [("profile_id", "profileId"), ("default_value", "defaultValue")] {
            if let Some(value) = map.get(key).or_else(|| map.get(camel)).filter(|value| !value.is_null()) {
                child.insert(key.into(), value.clone());
            }
        }
        self.made.push(Json::Object(child));
        Some(json!({"type": "variable", "value": [global_id(self.id, &local), "text"]}))
    }

    /// Reads `@node.variable | prompt` and `{{@node.variable@}}prompt`, if the node exists.
    fn written(&mut self, text: &str, config: Option<&JsonMap>) -> Option<Json> {
        let trimmed = text.trim();
        let (reference, prompt) = match trimmed.strip_prefix("{{@") {
            Some(rest) => rest.split_once("@}}")?,
            None => trimmed.strip_prefix('@')?.split_once('|')?,
        };
        let (node, variable) = reference.trim().rsplit_once('.')?;
        let prompt = prompt.trim();
        if !self.ids.contains(node) || variable.is_empty() || prompt.is_empty() {
            return None;
        }
        let explicit = config.and_then(|config| extractor_of(config));
        let local = match explicit {
            Some(id) => local_of(self.id, id),
            None => self.next_local(),
        };
        if !self.taken.contains(&local) || explicit.is_none() {
            self.taken.insert(local.clone());
            let mut child = extraction_child(&local, (node, variable), prompt);
            if let Some(default) = config.and_then(default_of) {
                child.insert("default_value".into(), default.clone());
            }
            self.made.push(Json::Object(child));
        }
        Some(self.reference(&local, config))
    }

    /// Reads an input that names its extractor only by id.
    fn nested(&mut self, config: &JsonMap) -> Option<Json> {
        let local = local_of(self.id, extractor_of(config)?);
        self.taken.contains(&local).then(|| self.reference(&local, Some(config)))
    }

    /// Returns the selector of a child's output, with the strategy for null.
    fn reference(&self, local: &str, config: Option<&JsonMap>) -> Json {
        let id = global_id(self.id, local);
        let own = config.and_then(extractor_of).unwrap_or_default();
        let path =
            config.and_then(|config| config.get("output_selector").or_else(|| config.get("outputSelector")));
        let path: Vec<&str> =
            path.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
        let path = match path.split_first() {
            Some((first, rest)) if *first == own || *first == id || *first == local => rest,
            Some(_) | None => &path,
        };
        let path: &[&str] = if path.is_empty() { &["text"] } else { path };
        let selector: Vec<&str> = [id.as_str()].into_iter().chain(path.iter().copied()).collect();
        let mut input = json!({"type": "variable", "value": selector});
        let Some(config) = config else { return input };
        let is_text = path == ["text"] && self.is_extraction(local);
        let strategy =
            config.get("null_strategy").or_else(|| config.get("nullStrategy")).and_then(Json::as_str);
        match strategy {
            Some("use_default") => {
                input["null_strategy"] = "use_default".into();
                input["default_value"] = default_of(config).cloned().unwrap_or_default();
            }
            // The text of a model is never null.
            _ if is_text => {}
            _ => input["null_strategy"] = "raise_error".into(),
        }
        input
    }

    fn is_extraction(&self, local: &str) -> bool {
        self.made.iter().any(|child| child["id"] == local && child["kind"] == "extraction")
    }

    fn next_local(&mut self) -> String {
        let names = (1..).map(|n| format!("ext_{n}"));
        let free = names.into_iter().find(|name| !self.taken.contains(name)).unwrap_or_default();
        self.taken.insert(free.clone());
        free
    }
}

fn extractor_of(config: &JsonMap) -> Option<&str> {
    let id = config.get("extractor_node_id").or_else(|| config.get("extractorNodeId"))?;
    id.as_str().filter(|id| !id.is_empty())
}

fn default_of(config: &JsonMap) -> Option<&Json> {
    config.get("default_value").or_else(|| config.get("defaultValue"))
}

/// Returns the local id of a child from its global id.
pub(super) fn local_of(parent: &str, id: &str) -> String {
    let own = id.strip_prefix(parent).and_then(|rest| rest.strip_prefix(['_', '.']));
    own.filter(|local| !local.is_empty()).unwrap_or(id).to_owned()
}

/// Builds an extraction as a child node.
pub(super) fn extraction_child(local: &str, source: (&str, &str), prompt: &str) -> JsonMap {
    let child = json!({
        "id": local, "kind": "extraction", "type": "llm", "source": [source.0, source.1], "prompt": prompt,
    });
    child.as_object().cloned().unwrap_or_default()
}

/// Fills in the optional fields of a model.
pub(super) fn canonical_model(model: &Json) -> Json {
    let Some(map) = model.as_object() else { return model.clone() };
    let mut model = map.clone();
    if let Some(params) = model.shift_remove("completionParams") {
        model.entry("completion_params").or_insert(params);
    }
    if model.get("mode").is_none_or(Json::is_null) {
        model.insert("mode".into(), "chat".into());
    }
    if model.get("completion_params").is_none_or(Json::is_null) {
        model.insert("completion_params".into(), json!({}));
    }
    Json::Object(model)
}

/// Moves `inputs[]` of a node type with parameters to the parameters. An input that conflicts with a
/// parameter stays, so that the checks report it.
fn take_inputs(data: &mut JsonMap, field: &str) {
    const KINDS: [&str; 4] = ["extraction", "variable", "constant", "mixed"];
    let Some(Json::Array(inputs)) = data.get("inputs").cloned() else { return };
    let mut left = Vec::new();
    let mut parameters = data.get(field).and_then(Json::as_object).cloned().unwrap_or_default();
    for input in inputs {
        let kind = input.get("type").and_then(Json::as_str);
        let (Some(name), true) =
            (input.get("name").and_then(Json::as_str), kind.is_some_and(|kind| KINDS.contains(&kind)))
        else {
            left.push(input);
            continue;
        };
        let value = json!({"type": kind, "value": input.get("value").cloned().unwrap_or_default()});
        match parameters.get(name) {
            None => _ = parameters.insert(name.to_owned(), value),
            Some(known) if *known == value => {}
            Some(_) => left.push(input),
        }
    }
    data.insert(field.into(), Json::Object(parameters));
    if left.is_empty() {
        data.shift_remove("inputs");
    } else {
        data.insert("inputs".into(), Json::Array(left));
    }
}

/// Returns the models in the `data` of nodes, by node id.
pub(super) fn models(nodes: &[Json]) -> HashMap<&str, Cow<'_, Json>> {
    fn model(node: &Json) -> Option<(&str, Cow<'_, Json>)> {
        Some((node.get("id")?.as_str()?, model_of(node.get("data")?.as_object()?)?))
    }
    nodes.iter().filter_map(model).collect()
}
