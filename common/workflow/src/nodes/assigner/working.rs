//! The variables including the node's own earlier writes: the items of a node see each other's results before other
//! nodes do.

use std::borrow::Cow;

use super::change::VariableChange;
use crate::nodes::VariableUpdate;
use tidemill_base::value::{Lookup, Segment, Variables};

/// Writes on top of a pool that stays unchanged.
pub(super) struct Working<'a> {
    under: &'a dyn Variables,
    updates: Vec<VariableUpdate>,
}

impl<'a> Working<'a> {
    /// Starts without writes.
    pub(super) fn over(under: &'a dyn Variables) -> Self {
        Self { under, updates: Vec::new() }
    }

    /// A variable to write: it must exist, and its selector must have exactly two parts.
    pub(super) fn target(&self, selector: &[String]) -> Option<Cow<'_, Segment>> {
        if selector.len() == 2 { self.found(selector) } else { None }
    }

    /// Writes a target's new value; replaces an earlier write. `change` is the operation that made the value from the
    /// old one; without it the value is written whole, and earlier operations do not count any more.
    pub(super) fn write(&mut self, selector: &[String], value: Segment, change: Option<VariableChange>) {
        let [node, name] = selector else { return };
        let known = self.updates.iter_mut().find(|update| (&update.node, &update.name) == (node, name));
        match known {
            Some(update) => {
                update.value = value;
                update.changes = match (update.changes.take(), change) {
                    (Some(mut changes), Some(change)) => {
                        changes.push(change);
                        Some(changes)
                    }
                    (_, None) | (None, _) => None,
                };
            }
            None => {
                let (node, name) = (node.clone(), name.clone());
                self.updates.push(VariableUpdate {
                    node,
                    name,
                    value,
                    changes: change.map(|change| vec![change]),
                });
            }
        }
    }

    /// The final value of each written target, in the order of the first writes.
    pub(super) fn into_updates(self) -> Vec<VariableUpdate> {
        self.updates
    }
}

impl Variables for Working<'_> {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        match self.updates.iter().find(|update| update.node == node && update.name == name) {
            Some(update) => Lookup::Found(Cow::Borrowed(&update.value)),
            None => self.under.variable(node, name),
        }
    }
    // Only existing variables are written, so there are no new names.
    fn names(&self) -> Vec<(String, String)> {
        self.under.names()
    }
}
