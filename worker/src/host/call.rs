//! What an executor gets: one attempt of a node, with the values that the node reads. It has only JSON and texts, so that
//! a host needs no types of the engine.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::value::jinja::{JinjaError, JinjaTemplate, UndefinedNames};
use tidemill_common::value::template::Template;
use tidemill_common::value::{JsonMap, Lookup, Segment, Variables};

/// One attempt of a node: what an executor gets. Its `Debug` form shows no values, because secrets are in clear here.
#[derive(Clone, Default)]
pub struct NodeCall {
    /// The run's id.
    pub run: String,
    /// The execution's id. It is the same for all attempts of a node in this place, and when a job is delivered again.
    pub execution: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The app of the run, if it has one.
    pub app: Option<String>,
    /// The node's id.
    pub node: String,
    /// The node's type, as in the file.
    pub node_type: String,
    /// The node's title.
    pub title: String,
    /// The node's `data`, as in the file.
    pub config: JsonMap,
    /// The values that the node reads: each declared variable by its name, each mentioned one as `node.name`, and the
    /// parameters of a tool by theirs. Large values are loaded, secrets are in clear.
    pub inputs: JsonMap,
    /// The prompt of an `llm` node, filled in: context, memory and all. Empty for other nodes.
    pub messages: Vec<NodeMessage>,
    /// The answer to the pause that an earlier execution of this node has requested; the last one if there were
    /// several.
    pub answer: Option<Json>,
    /// The answers to all pauses that earlier executions of this node have requested, in order.
    pub answers: Vec<Json>,
    /// The values by node and name, as [`NodeCall::render`] and [`NodeCall::get`] read them.
    pub(crate) values: Arc<NodeValues>,
}

/// A message of a prompt.
#[derive(Clone, PartialEq)]
pub struct NodeMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    pub text: String,
    /// Files for the model, as objects.
    pub files: Vec<Json>,
}

impl NodeCall {
    /// Replaces each reference `{{#node.name#}}` in a text by its value, as in prompts. A reference to something that
    /// the node's configuration does not mention is replaced by its name.
    pub fn render(&self, text: &str) -> String {
        Template::parse(text).render_text(&*self.values)
    }

    /// Renders a Jinja template, whose names are those of [`NodeCall::inputs`]. An unknown name is an empty text.
    ///
    /// # Errors
    /// The template is wrong, or takes too much work.
    pub fn render_jinja(&self, text: &str) -> Result<String, JinjaError> {
        let names = self.inputs.iter().map(|(name, value)| (name.clone(), Segment::infer(value.clone())));
        JinjaTemplate::new(text).render(&names.collect::<Vec<_>>(), UndefinedNames::Empty, None)
    }

    /// The value of a selector: node, name, and a path into it. `None` for what the node's configuration does not
    /// mention.
    pub fn get(&self, selector: &[&str]) -> Option<Json> {
        let selector: Vec<String> = selector.iter().map(|part| (*part).to_owned()).collect();
        self.values.found(&selector).map(|segment| segment.into_owned().value)
    }
}

impl fmt::Debug for NodeCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeCall")
            .field("run", &self.run)
            .field("execution", &self.execution)
            .field("attempt", &self.attempt)
            .field("node", &self.node)
            .field("node_type", &self.node_type)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for NodeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeMessage").field("role", &self.role).finish_non_exhaustive()
    }
}

/// The values of a node, loaded and in clear.
#[derive(Default)]
pub(crate) struct NodeValues(pub(crate) Vec<(String, String, Segment)>);

impl Variables for NodeValues {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        let found = self.0.iter().find(|(of, known, _)| of == node && known == name);
        found.map_or(Lookup::Missing, |(_, _, value)| Lookup::Found(Cow::Borrowed(value)))
    }
    fn names(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(node, name, _)| (node.clone(), name.clone())).collect()
    }
}
