//! The warnings that a run keeps: things that its author may not have meant. They fail nothing.

use tidemill_base::ids::NodeId;
use tidemill_base::warning::{self, Warning};
use tidemill_workflow::nodes::FAIL_BRANCH_HANDLE;

/// A warning with the node that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// `None` for a warning about the whole run.
    pub node: Option<NodeId>,
    pub warning: Warning,
}

impl Noted {
    fn is_same(&self, other: &Self) -> bool {
        self.node == other.node && self.warning.is_same(&other.warning)
    }
}

/// The warnings of a run, each once, in the order in which they were noted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Warnings(Vec<Noted>);

impl Warnings {
    /// Takes over stored warnings unchanged.
    pub fn stored(noted: Vec<Noted>) -> Self {
        Self(noted)
    }

    /// True when there are no warnings.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of warnings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns them in order.
    pub fn iter(&self) -> impl Iterator<Item = &Noted> {
        self.0.iter()
    }

    /// Adds a warning unless it is known. Returns the one that was added: when `max` are kept already, that is once a
    /// warning that further ones are left out.
    pub(crate) fn add(&mut self, noted: Noted, max: usize) -> Option<&Noted> {
        let noted = Noted { warning: noted.warning.shortened(), ..noted };
        if max == 0 || self.0.iter().any(|known| known.is_same(&noted)) {
            return None;
        }
        let added = if self.0.len() < max { noted } else { left_out(max) };
        if self.0.iter().any(|known| known.is_same(&added)) {
            return None;
        }
        self.0.push(added);
        self.0.last()
    }

    /// Keeps only warnings about nodes for which `stays` is true, and those about the whole run.
    pub(crate) fn retain_nodes(&mut self, stays: impl Fn(&NodeId) -> bool) {
        self.0.retain(|noted| noted.node.as_ref().is_none_or(&stays));
    }
}

fn left_out(max: usize) -> Noted {
    let message = format!("there are more warnings, but a run keeps only {max} of them (run.warnings_max)");
    Noted { node: None, warning: Warning::new(warning::WARNINGS_LEFT_OUT, message) }
}

/// The warning for a branch that was chosen although no edge has its handle.
pub fn dead_end(handle: &str) -> Warning {
    let message = if handle == FAIL_BRANCH_HANDLE {
        format!("it failed, and no edge has the handle {handle}, so nothing followed the failure")
    } else {
        format!("it chose the branch {handle}, and no edge has this handle, so nothing followed")
    };
    Warning::new(warning::BRANCH_WITHOUT_EDGE, message)
        .about("handle", handle)
        .hint("draw an edge from this branch, or leave it if the workflow is meant to end there")
}

/// The warning for an operation of an item on a conversation variable that did not fit the value that the variable had
/// then. `operation` is empty when the run ended before operations on a large value could be applied.
pub fn dropped(variable: &str, operation: &str) -> Warning {
    let message = if operation.is_empty() {
        format!(
            "operations of its items on the large conversation variable {variable} were not applied, because the run \
             ended before or the job for it failed; the variable has the value that the last of these items saw"
        )
    } else {
        format!(
            "an item applied {operation} to the conversation variable {variable}, but when the item ended, the variable \
             had a value that the operation does not fit, so it was left out"
        )
    };
    Warning::new(warning::OPERATION_DROPPED, message)
        .about("variable", variable)
        .about("operation", operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(node: Option<&str>, id: &str) -> Noted {
        let warning = Warning::new(warning::DATASET_UNKNOWN, "no such dataset").about("dataset", id);
        Noted { node: node.map(NodeId::from), warning }
    }

    #[test]
    fn a_warning_is_kept_once_for_a_node_and_the_last_place_says_that_more_are_left_out() {
        let mut warnings = Warnings::default();
        let mut added = Vec::new();
        for noted in [
            of(Some("a"), "x"),
            of(Some("a"), "x"),
            of(Some("b"), "x"),
            of(None, "x"),
            of(None, "x"),
            of(Some("a"), "y"),
            of(Some("a"), "z"),
        ] {
            added.push(warnings.add(noted, 3).map(|noted| noted.warning.code.clone().into_owned()));
        }
        let (unknown, more) = (Some("dataset.unknown".to_owned()), Some("run.warnings_left_out".to_owned()));
        assert_eq!(added, [unknown.clone(), None, unknown.clone(), unknown, None, more, None]);
        assert_eq!(warnings.len(), 4);
        assert!(warnings.iter().any(|noted| noted.warning.message.contains("run.warnings_max")));
        assert_eq!(Warnings::default().add(of(None, "x"), 0), None);
    }
}
