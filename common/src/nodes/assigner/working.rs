//! The variables as the node's own earlier writes leave them: items of one node see each other's results before
//! anybody else does.

use std::borrow::Cow;

use crate::nodes::VariableUpdate;
use crate::value::{Lookup, Segment, Variables};

/// Writes over a pool that stays as it is.
pub(super) struct Working<'a> {
    under: &'a dyn Variables,
    updates: Vec<VariableUpdate>,
}

impl<'a> Working<'a> {
    /// No writes yet.
    pub(super) fn over(under: &'a dyn Variables) -> Self {
        Self { under, updates: Vec::new() }
    }

    /// The variable to be written: one that exists and is named by exactly two parts.
    pub(super) fn target(&self, selector: &[String]) -> Option<Cow<'_, Segment>> {
        if selector.len() == 2 { self.found(selector) } else { None }
    }

    /// Writes a target's new value, in the place of what was written to it before.
    pub(super) fn write(&mut self, selector: &[String], value: Segment) {
        let [node, name] = selector else { return };
        match self.updates.iter_mut().find(|update| (&update.node, &update.name) == (node, name)) {
            Some(update) => update.value = value,
            None => self.updates.push(VariableUpdate { node: node.clone(), name: name.clone(), value }),
        }
    }

    /// The final value of every target that was written, in the order of the first writes.
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
    // Only what exists is written, so no name is new.
    fn names(&self) -> Vec<(String, String)> {
        self.under.names()
    }
}
