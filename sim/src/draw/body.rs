//! Draws iterations and loops with their bodies: chains whose branches join again.

use serde_json::{Value as Json, json};

use super::data::{self, VariableName};
use super::root::place;
use super::{Container, Sketch};

/// Handles, texts and other values of a drawn node.
type Drawn = (Vec<&'static str>, Vec<VariableName>, Vec<VariableName>);

/// Deepest nesting of containers.
const DEPTH_MAX: usize = 1;

impl Sketch<'_> {
    pub(super) fn iteration(
        &mut self,
        id: &str,
        texts: &[VariableName],
        within: Option<&Container>,
        depth: usize,
    ) -> Drawn {
        let container = Container { id: id.to_string(), mark: "iteration_id" };
        self.node(&format!("{id}start"), data::bare("iteration-start"), Some(&container));
        let mut seen = texts.to_vec();
        seen.push(place(id, "item"));
        let made = self.chain(&container, seen, depth);
        let window = if self.dice.percent(50) { 1 } else { self.dice.between(2, 3) };
        let modes = ["terminated", "continue-on-error", "remove-abnormal-output"];
        let mode = modes[self.dice.below(3)];
        let output = self.dice.pick(&made).cloned().unwrap_or_else(|| place(id, "item"));
        let mut data = data::iteration(id, &output, window, mode);
        let handles = self.strategy(&mut data, ("output", "array[string]"), "[\"instead\"]");
        self.node(id, data, within);
        (handles, Vec::new(), vec![place(id, "output")])
    }

    pub(super) fn loop_(
        &mut self,
        id: &str,
        texts: &[VariableName],
        within: Option<&Container>,
        depth: usize,
    ) -> Drawn {
        let container = Container { id: id.to_string(), mark: "loop_id" };
        self.node(&format!("{id}start"), data::bare("loop-start"), Some(&container));
        let made = self.chain(&container, texts.to_vec(), depth);
        let mut conditions: Vec<Json> = Vec::new();
        if self.dice.percent(50) {
            let bound = self.dice.between(1, 3).to_string();
            conditions.push(json!({"id": "c0", "varType": "number", "variable_selector": [id, "n"],
                "comparison_operator": "≥", "value": bound}));
        }
        if let Some((node, name)) = made.first()
            && self.dice.percent(40)
        {
            conditions.push(json!({"id": "c1", "varType": "string", "variable_selector": [node, name],
                "comparison_operator": "contains", "value": "+"}));
        }
        let mut data = data::loop_(id, self.dice.between(1, 4), &conditions);
        let handles = self.strategy(&mut data, ("n", "number"), "7");
        self.node(id, data, within);
        (handles, Vec::new(), vec![place(id, "n"), place(id, "loop_round")])
    }

    /// Draws a body after its start node. Returns the texts that each pass makes if nothing fails.
    fn chain(
        &mut self,
        container: &Container,
        mut seen: Vec<VariableName>,
        depth: usize,
    ) -> Vec<VariableName> {
        let mut made = Vec::new();
        let mut open: Vec<(String, &'static str)> = vec![(format!("{}start", container.id), "source")];
        for at in 0..=self.dice.below(3) {
            let id = format!("{}b{at}", container.id);
            for (source, handle) in std::mem::take(&mut open) {
                self.edge(&source, handle, &id);
            }
            let reads = self.some(&seen, 2);
            let one = reads.first().cloned().unwrap_or_else(|| place("s", "x"));
            match self.dice.below(8) {
                0 => {
                    // One branch has another node; then both branches join.
                    self.node(&id, data::if_else(&one, "contains"), Some(container));
                    let side = format!("{id}x");
                    self.edge(&id, "true", &side);
                    let (data, handles) = self.llm(&one);
                    self.node(&side, data, Some(container));
                    open.extend(handles.into_iter().map(|handle| (side.clone(), handle)));
                    open.push((id, "false"));
                }
                1 | 2 if depth < DEPTH_MAX && self.features.nested => {
                    let drawn = if self.dice.percent(50) {
                        self.iteration(&id, &seen, Some(container), depth + 1)
                    } else {
                        self.loop_(&id, &seen, Some(container), depth + 1)
                    };
                    open.extend(drawn.0.into_iter().map(|handle| (id.clone(), handle)));
                }
                5 if self.features.forms && self.dice.percent(30) => {
                    self.node(&id, data::form(&one), Some(container));
                    seen.push(place(&id, "comment"));
                    open.extend(["approve", "reject", "__timeout"].map(|handle| (id.clone(), handle)));
                }
                3 | 4 => {
                    let on_worker = self.dice.percent(30);
                    self.node(&id, data::template(&reads, on_worker), Some(container));
                    seen.push(place(&id, "output"));
                    made.push(place(&id, "output"));
                    open.push((id, "source"));
                }
                _ => {
                    let (data, handles) = self.llm(&one);
                    self.node(&id, data, Some(container));
                    seen.push(place(&id, "text"));
                    made.push(place(&id, "text"));
                    open.extend(handles.into_iter().map(|handle| (id.clone(), handle)));
                }
            }
        }
        if container.mark == "loop_id" {
            self.end_of_round(container, open);
        }
        made
    }

    /// Draws the end of a round: it counts, and may leave the loop.
    fn end_of_round(&mut self, container: &Container, open: Vec<(String, &'static str)>) {
        let count = format!("{}count", container.id);
        for (source, handle) in open {
            self.edge(&source, handle, &count);
        }
        self.node(&count, data::count_up(&container.id), Some(container));
        if self.dice.percent(30) {
            let (check, leave) = (format!("{}check", container.id), format!("{}leave", container.id));
            self.edge(&count, "source", &check);
            self.node(&check, data::if_else(&place("s", "x"), "contains"), Some(container));
            self.edge(&check, "true", &leave);
            self.node(&leave, data::bare("loop-end"), Some(container));
        }
    }
}
