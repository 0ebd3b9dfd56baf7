//! The simple pause: waits until some variables exist, then follows the handle that a variable names.
//!
//! Commands write the variables while the run is paused. When it resumes, the node is evaluated again. A pause without
//! required variables ends only with an answer.

use serde_json::Value as Json;

use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use crate::nodes::{NodeResult, PauseKind, PauseRequest, SOURCE_HANDLE, default_value};
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Lookup, Segment, Selector, Variables};

/// The key under which a pause stores an already known handle. It is also the first name tried.
pub const HANDLE_KEY: &str = "edge_source_handle";

/// Names of variables under the node's id, and of default values, that can give the handle; the first wins.
const HANDLE_KEYS: [&str; 9] = [
    HANDLE_KEY,
    "edgeSourceHandle",
    "source_handle",
    "selected_branch",
    "selectedBranch",
    "branch",
    "branch_id",
    "branchId",
    "handle",
];
/// Keys for the handle inside a mapping.
const HANDLE_KEYS_INSIDE: [&str; 6] =
    ["handle", "edge_source_handle", "edgeSourceHandle", "branch", "id", "value"];

/// Configuration of the simple version.
#[derive(Debug, Clone)]
pub struct SimpleData {
    /// Variables that must exist. As on Dify a path that does not have exactly two parts never does.
    required: Vec<Selector>,
    message: String,
    defaults: Vec<(String, Segment)>,
}

impl SimpleData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let fields = Fields::new(data, BUILD_FAILED);
        let required = match fields.given("required_variables") {
            Some(_) => fields.selector("required_variables", problems),
            None => Some(Vec::new()),
        };
        let message = match fields.given("pause_reason") {
            Some(_) => fields.text("pause_reason", problems),
            None => Some(""),
        };
        let required: Vec<Selector> =
            required?.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect();
        warn_of_unnameable(&required, problems);
        // The reader of the fields shared by all nodes reports problems of default values.
        let defaults =
            data.get("default_value").and_then(|list| default_value::parse(list, &mut Problems::new()));
        Some(Self { required, message: message?.to_owned(), defaults: defaults.unwrap_or_default() })
    }

    /// Adds the variables that the configuration mentions, as (node, name): the required ones, and the node's own that
    /// can give the handle.
    pub fn mentions(&self, node: &str, into: &mut Vec<(String, String)>) {
        for selector in self.required.iter().filter(|selector| selector.len() == 2) {
            mention(selector, into);
        }
        into.extend(HANDLE_KEYS.map(|key| (node.to_owned(), key.to_owned())));
    }

    /// Runs the node `node`.
    pub fn evaluate(&self, node: &str, variables: &dyn Variables) -> NodeResult {
        let handle = self.handle(node, variables);
        if self.is_ready(variables) {
            let handle = handle.unwrap_or_else(|| SOURCE_HANDLE.to_owned());
            return NodeResult { handle, ..NodeResult::default() };
        }
        let pause = PauseRequest {
            kind: PauseKind::Simple,
            inputs: Json::Array(Vec::new()),
            actions: Json::Array(Vec::new()),
            defaults: Json::Object(
                handle.map(|handle| (HANDLE_KEY.to_owned(), handle.into())).into_iter().collect(),
            ),
            message: self.message.clone(),
            ..PauseRequest::default()
        };
        NodeResult::waiting(pause)
    }

    /// Null counts as existing; only a missing variable does not.
    fn is_ready(&self, variables: &dyn Variables) -> bool {
        let is_there =
            |selector: &Selector| selector.len() == 2 && variables.get(selector) != Lookup::Missing;
        !self.required.is_empty() && self.required.iter().all(is_there)
    }

    fn handle(&self, node: &str, variables: &dyn Variables) -> Option<String> {
        let of_pool = |key: &&str| match variables.variable(node, key) {
            Lookup::Found(segment) => named_in(&segment.value),
            Lookup::Missing | Lookup::Blob(_) => None,
        };
        let of_defaults = |key: &&str| {
            // Of two defaults with the same name the last wins.
            self.defaults
                .iter()
                .rev()
                .find(|(name, _)| name == key)
                .and_then(|(_, segment)| named_in(&segment.value))
        };
        HANDLE_KEYS.iter().find_map(of_pool).or_else(|| HANDLE_KEYS.iter().find_map(of_defaults))
    }
}

/// The handle in a value: the text itself, or one of a mapping's texts. Blank texts are ignored.
fn named_in(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned),
        Json::Object(map) => HANDLE_KEYS_INSIDE
            .iter()
            .filter_map(|key| map.get(*key)?.as_str())
            .map(str::trim)
            .find(|text| !text.is_empty())
            .map(str::to_owned),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => None,
    }
}

fn warn_of_unnameable(required: &[Selector], problems: &mut Problems) {
    for (at, selector) in required.iter().enumerate().filter(|(_, selector)| selector.len() != 2) {
        problems.within(format!("required_variables[{at}]"), |problems| {
            problems.warning_with_hint(
                "human_input.never_ready",
                format!("{:?} is not a variable, so the node waits until it is answered", selector.join(".")),
                "write it as node.variable, with exactly one dot",
            );
        });
    }
}
