//! The `human-input` node: the run waits until a person answers a form, or until the required variables exist.
//!
//! Two versions share the type's name. The *form* ([`FormData`], [`field`]) shows text, asks for values and offers
//! buttons, each with its own handle. The *simple* pause ([`SimpleData`]) waits for variables that a command writes.
//! Neither occupies a worker: the node evaluates to a [`PauseRequest`], and [`answer`] processes the answer. Forms that
//! Dify sends to contacts (version `"2"`) are refused on import.

pub mod answer;
pub mod field;
mod form;
pub(in crate::nodes) mod masked;
mod simple;
#[cfg(test)]
mod tests;

use serde_json::Value as Json;

use super::NodeResult;
use super::PauseRequest;
use crate::dsl::Problems;
use crate::dsl::fields::BUILD_FAILED;
use crate::nodes::node::Node;
use tidemill_base::value::{JsonMap, Variables};

pub use answer::{AnswerError, AnswerProblem, answered, check_answer, expired};
pub use field::{FieldKind, FileRules, FormField, Source};
pub use form::FormData;
pub use simple::{HANDLE_KEY, SimpleData};

/// The handle of a form that was not answered in time.
pub const TIMEOUT_HANDLE: &str = "__timeout";

impl PauseRequest {
    /// The form's fields, in order. An unreadable field is left out; there is none, since the node itself wrote them.
    pub fn fields(&self) -> Vec<FormField> {
        let items = self.inputs.as_array().into_iter().flatten().filter_map(Json::as_object);
        items.filter_map(|item| FormField::parse(item, &mut Problems::new())).collect()
    }
}

/// Configuration of `human-input`.
#[derive(Debug, Clone)]
pub enum HumanInputData {
    Form(FormData),
    /// A wait for variables.
    Simple(SimpleData),
}

/// The keys of a form. A node with none of them and at least one key of the simple version is simple.
const FORM_KEYS: [&str; 6] =
    ["form_content", "inputs", "user_actions", "delivery_methods", "timeout", "timeout_unit"];
const SIMPLE_KEYS: [&str; 2] = ["required_variables", "pause_reason"];
/// Keys that only the contact-based form has.
const CONTACT_KEYS: [&str; 2] = ["recipients_spec", "message_template"];

impl HumanInputData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        if let Some(key) = contact_key(data) {
            problems.within(key, refuse_contacts);
            return None;
        }
        let has = |keys: &[&str]| keys.iter().any(|key| data.contains_key(*key));
        if has(&SIMPLE_KEYS) && !has(&FORM_KEYS) {
            SimpleData::parse(data, problems).map(Self::Simple)
        } else {
            FormData::parse(data, problems).map(Self::Form)
        }
    }

    /// Adds the variables that the configuration mentions, as (node, name). The simple version reads variables stored
    /// under the node's own id, hence `node`.
    pub fn mentions(&self, node: &str, into: &mut Vec<(String, String)>) {
        match self {
            Self::Form(form) => form.mentions(into),
            Self::Simple(simple) => simple.mentions(node, into),
        }
    }

    /// Runs the node. When [`NodeResult::pause`] is set the node waits, and the rest of the result is ignored.
    pub fn evaluate(&self, node: &Node, variables: &dyn Variables) -> NodeResult {
        match self {
            Self::Form(form) => form.evaluate(variables),
            Self::Simple(simple) => simple.evaluate(node.id.as_str(), variables),
        }
    }
}

fn contact_key(data: &JsonMap) -> Option<&'static str> {
    if data.get("version").and_then(Json::as_str) == Some("2") {
        return Some("version");
    }
    CONTACT_KEYS.into_iter().find(|key| data.contains_key(*key))
}

fn refuse_contacts(problems: &mut Problems) {
    problems.error_with_hint(
        BUILD_FAILED,
        "forms that are sent to contacts (human-input version \"2\": `recipients_spec`, `message_template`) are not supported",
        "use version \"1\" with `form_content`, `inputs` and `user_actions`; the application that starts the run shows the form to people",
    );
}
