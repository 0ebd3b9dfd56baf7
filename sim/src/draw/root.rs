//! Draws the root graph: edges of any shape from earlier nodes to later ones.

use std::collections::BTreeSet;

use super::Sketch;
use super::data::{self, VariableName};

/// A node that was drawn.
struct Placed {
    id: String,
    /// Nodes before it, by index.
    before: BTreeSet<usize>,
    /// Handles that its edges may have.
    handles: Vec<&'static str>,
    /// Texts that it makes.
    texts: Vec<VariableName>,
    /// Other values that it makes; only ends read them.
    others: Vec<VariableName>,
}

impl Sketch<'_> {
    pub(super) fn root(&mut self) {
        self.node("s", data::start(), None);
        let mut placed = vec![Placed {
            id: "s".into(),
            before: BTreeSet::new(),
            handles: vec!["source"],
            texts: vec![place("s", "x")],
            others: vec![place("s", "items")],
        }];
        let count = 2 + self.dice.below(12);
        for at in 0..count {
            let last = at + 1 == count;
            self.next(&mut placed, last);
        }
        if self.dice.percent(8) {
            self.unreachable(&placed);
        }
    }

    /// Draws one more node after one to three existing ones.
    fn next(&mut self, placed: &mut Vec<Placed>, last: bool) {
        let id = format!("n{}", placed.len());
        let mut before = BTreeSet::new();
        for _ in 0..=self.dice.below(3) {
            let leading: Vec<usize> =
                (0..placed.len()).filter(|at| !placed[*at].handles.is_empty()).collect();
            // Prefer new nodes to old ones, because most workflows are mostly chains.
            let newest = leading.len().saturating_sub(3);
            let from = if self.dice.percent(70) {
                self.dice.pick(&leading[newest..])
            } else {
                self.dice.pick(&leading)
            };
            let Some(&from) = from else { continue };
            let source = &placed[from];
            let Some(handle) = self.dice.pick(&source.handles) else { continue };
            let (source, handle) = (source.id.clone(), *handle);
            self.edge(&source, handle, &id);
            before.extend(placed[from].before.iter().copied().chain([from]));
        }
        let texts: Vec<VariableName> = before.iter().flat_map(|at| placed[*at].texts.clone()).collect();
        let mut values = texts.clone();
        values.extend(before.iter().flat_map(|at| placed[*at].others.clone()));
        let (handles, texts, others) = self.kind(&id, &texts, &values, last);
        placed.push(Placed { id, before, handles, texts, others });
    }

    /// Chooses the type of a node and draws it. Returns its handles, its texts and its other values.
    fn kind(
        &mut self,
        id: &str,
        texts: &[VariableName],
        values: &[VariableName],
        last: bool,
    ) -> (Vec<&'static str>, Vec<VariableName>, Vec<VariableName>) {
        let nothing = Vec::new;
        let one = self.some(texts, 1).pop().unwrap_or_else(|| place("s", "x"));
        match if last { 12 } else { self.dice.below(19) } {
            0..=4 => {
                let (data, handles) = self.llm(&one);
                self.node(id, data, None);
                (handles, vec![place(id, "text")], nothing())
            }
            5..=7 => {
                let (reads, on_worker) = (self.some(texts, 3), self.dice.percent(40));
                self.node(id, data::template(&reads, on_worker), None);
                (vec!["source"], vec![place(id, "output")], nothing())
            }
            8 | 9 => {
                let operator = ["contains", "not contains"][self.dice.below(2)];
                self.node(id, data::if_else(&one, operator), None);
                (vec!["true", "false", "true", "false", "nowhere"], nothing(), nothing())
            }
            10 => {
                let reads = self.some(texts, 3);
                self.node(id, data::aggregator(&reads), None);
                (vec!["source"], vec![place(id, "output")], nothing())
            }
            11 if self.answers == 0 => {
                self.answers += 1;
                let reads = self.some(texts, 2);
                self.node(id, data::answer(&reads), None);
                (vec!["source"], nothing(), nothing())
            }
            11 | 12 | 18 => {
                let reads = self.some(values, 3);
                self.node(id, data::end(id, &reads), None);
                (Vec::new(), nothing(), nothing())
            }
            13 | 14 if self.features.containers => self.iteration(id, texts, None, 0),
            15 | 16 if self.features.containers => self.loop_(id, texts, None, 0),
            17 if self.features.forms => {
                self.node(id, data::form(&one), None);
                (vec!["approve", "reject", "__timeout"], vec![place(id, "comment")], nothing())
            }
            _ => {
                let (data, handles) = self.llm(&one);
                self.node(id, data, None);
                (handles, vec![place(id, "text")], nothing())
            }
        }
    }

    /// Draws a node without edges to it, and an edge from it: the join after it never gets its turn.
    fn unreachable(&mut self, placed: &[Placed]) {
        self.node("u", data::template(&[place("s", "x")], false), None);
        if let Some(target) = self.dice.pick(&placed[1..]) {
            let id = target.id.clone();
            self.edge("u", "source", &id);
        }
    }
}

pub(super) fn place(node: &str, name: &str) -> VariableName {
    (node.to_string(), name.to_string())
}
