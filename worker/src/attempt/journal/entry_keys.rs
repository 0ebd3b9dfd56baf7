//! Names the journal entries of tool calls that a model requests. The model chooses the ids of its calls, and they may
//! repeat: some servers restart the count in each reply, and some give all calls of a reply the same id.

use std::collections::BTreeSet;

/// The journal keys of one execution's calls so far.
#[derive(Debug, Default)]
pub(crate) struct ToolEntryKeys(BTreeSet<String>);

impl ToolEntryKeys {
    /// Returns the key of the next call. Keys are unique, and the same replies give the same keys.
    pub(crate) fn next(&mut self, round: u64, id: &str) -> String {
        let first = [format!("tool:{id}"), format!("tool:{id}#{round}")];
        let more = (2_u64..).map(|nth| format!("tool:{id}#{round}.{nth}"));
        let free = first.into_iter().chain(more).find(|key| !self.0.contains(key));
        let key = free.unwrap_or_default();
        self.0.insert(key.clone());
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_calls_are_the_same_step() {
        let mut keys = ToolEntryKeys::default();
        let calls = [(1, "c"), (1, "c"), (1, "c"), (1, "d"), (2, "c"), (2, "c"), (2, "c#1")];
        assert_eq!(
            calls.map(|(round, id)| keys.next(round, id)),
            ["tool:c", "tool:c#1", "tool:c#1.2", "tool:d", "tool:c#2", "tool:c#2.2", "tool:c#1#2"]
        );
    }
}
