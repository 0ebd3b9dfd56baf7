//! Finds cycles, with one walk over all edges.

use super::draft::Draft;

/// Most cycles that are reported of one graph; a dense one has more than an author could read.
const CYCLES_MAX: usize = 10;

/// A cycle.
pub(super) struct Cycle {
    /// The nodes, in the order of the edges.
    pub(super) nodes: Vec<usize>,
    /// The edge from the last node back to the first.
    pub(super) closing_edge: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Unseen,
    OnPath,
    Done,
}

/// Returns some cycles of the graph, at least one if it has any. Depth-first search without recursion.
pub(super) fn find(draft: &Draft<'_>) -> Vec<Cycle> {
    let mut marks = vec![Mark::Unseen; draft.nodes.len()];
    let mut cycles = Vec::new();
    for start in 0..draft.nodes.len() {
        if marks[start] != Mark::Unseen {
            continue;
        }
        // The path from the start to here: each node with the number of its edges already followed.
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        marks[start] = Mark::OnPath;
        while let Some((at, done)) = path.last_mut() {
            let Some(&edge) = draft.outs[*at].get(*done) else {
                marks[*at] = Mark::Done;
                path.pop();
                continue;
            };
            *done += 1;
            let Some(next) = draft.edges[edge].to else { continue };
            match marks[next] {
                Mark::Done => {}
                Mark::Unseen => {
                    marks[next] = Mark::OnPath;
                    path.push((next, 0));
                }
                Mark::OnPath => {
                    let ring = path.iter().map(|(node, _)| *node).skip_while(|node| *node != next);
                    cycles.push(Cycle { nodes: ring.collect(), closing_edge: edge });
                    if cycles.len() == CYCLES_MAX {
                        return cycles;
                    }
                }
            }
        }
    }
    cycles
}
