//! The `start` node and the declared inputs of a run: the inputs that a caller can give ([`field`]), the check of the
//! form before the run ([`form`], for its files [`files`]), and the node itself, which only shows the pool at the start of the run.

pub mod field;
mod files;
pub mod form;
pub(in crate::nodes) mod schema;
#[cfg(test)]
mod tests;

use super::NodeResult;
use super::condition::parse::each;
use crate::dsl::Problems;
use crate::nodes::node::Node;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::{JsonMap, Lookup, Segment, SegmentType, Variables};

pub use field::{InputField, InputKind};
pub use files::FileRules;
pub use form::{FormError, validate_form};

/// Configuration of `start`.
#[derive(Debug, Clone, Default)]
pub struct StartData {
    /// The declared inputs, in the form's order.
    pub variables: Vec<InputField>,
}

impl StartData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let Some(variables) = data.get("variables") else { return Some(Self::default()) };
        let variables =
            problems.within("variables", |problems| each(Some(variables), problems, InputField::parse))?;
        Some(Self { variables })
    }

    /// Adds nothing: a start node shows all variables and runs where all of them are loaded, so it mentions none.
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        let _ = into;
    }

    /// Runs the node. Its outputs are the whole pool: its own variables by name, all others with the prefix of their
    /// node. Secrets are in plain text and keep their type.
    pub fn evaluate(&self, node: &Node, variables: &dyn Variables) -> NodeResult {
        let (own, others) = pool(node.id.as_str(), variables);
        match self.violation(&own) {
            Some(message) => NodeResult::failed(NodeFailure::escaped(message)),
            None => {
                let mut outputs = others;
                outputs.retain(|(name, _)| own.iter().all(|(own, _)| own != name));
                outputs.extend(own.iter().cloned());
                NodeResult { inputs: own, outputs, ..NodeResult::default() }
            }
        }
    }

    /// The first violation among the `json_object` inputs, in the form's order.
    fn violation(&self, own: &[(String, Segment)]) -> Option<String> {
        self.variables.iter().filter(|field| field.kind == InputKind::JsonObject).find_map(|field| {
            let name = &field.variable;
            let value = own.iter().find(|(own, _)| own == name).map(|(_, value)| value);
            let Some(value) = value.filter(|value| !value.value.is_null()) else {
                return field.required.then(|| format!("{name} is required in input form"));
            };
            if value.is_falsy() {
                return None;
            }
            if value.ty == SegmentType::File {
                return Some(not_an_object(name));
            }
            field.violation(&value.value)
        })
    }
}

fn not_an_object(name: &str) -> String {
    format!("JSON object for '{name}' must be an object")
}

type Named = Vec<(String, Segment)>;

/// All variables: the node's own by name, and all others with their prefix.
fn pool(node: &str, variables: &dyn Variables) -> (Named, Named) {
    let mut own = Vec::new();
    let mut others = Vec::new();
    for (owner, name) in variables.names() {
        // Blobs are loaded before the node is evaluated.
        let Lookup::Found(segment) = variables.variable(&owner, &name) else { continue };
        if owner == node {
            own.push((name, segment.into_owned()));
        } else {
            others.push((format!("{owner}.{name}"), segment.into_owned()));
        }
    }
    (own, others)
}
