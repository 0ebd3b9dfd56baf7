//! The names of steps that are calls of tools which a model asks for. The ids of calls are the model's: some servers number
//! the calls of each reply anew, and some give all calls of a reply the same id.

use std::collections::BTreeSet;

/// The calls of one execution so far, by their steps.
#[derive(Debug, Default)]
pub(crate) struct ToolSteps(BTreeSet<String>);

impl ToolSteps {
    /// The step of the next call. No two calls have the same one, and the same replies name the same steps.
    pub(crate) fn next(&mut self, round: u64, id: &str) -> String {
        let first = [format!("tool:{id}"), format!("tool:{id}#{round}")];
        let more = (2_u64..).map(|nth| format!("tool:{id}#{round}.{nth}"));
        let free = first.into_iter().chain(more).find(|step| !self.0.contains(step));
        let step = free.unwrap_or_default();
        self.0.insert(step.clone());
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_calls_are_the_same_step() {
        let mut steps = ToolSteps::default();
        let calls = [(1, "c"), (1, "c"), (1, "c"), (1, "d"), (2, "c"), (2, "c"), (2, "c#1")];
        assert_eq!(
            calls.map(|(round, id)| steps.next(round, id)),
            ["tool:c", "tool:c#1", "tool:c#1.2", "tool:d", "tool:c#2", "tool:c#2.2", "tool:c#1#2"]
        );
    }
}
