//! The rules that a graph must satisfy, one function each. All rules always run, so that an author sees every
//! problem at once. A rule ignores parts that another rule has already refused.

mod children;
mod conversation;
mod error_strategies;
mod handles;
mod models;
mod reach;
mod triggers;

use std::collections::HashSet;

use super::containers::Parent;
use super::cycles;
use super::draft::Draft;
use super::wrapper::owner;
use crate::dsl::fields::BUILD_FAILED;
use crate::dsl::{Problems, suggest};
use crate::kinds::TYPES_ELSEWHERE;
use crate::nodes::{ExecutionType, NODE_TYPES, NodeKind};
use tidemill_base::limits::CONTAINER_DEPTH_MAX;

/// A rule: the code of its problems, and its check.
pub(super) struct Rule {
    /// Dify's importer code where it has one.
    pub(super) code: &'static str,
    check: fn(&Draft<'_>, &mut Report<'_>),
}

/// Every rule, in the order in which problems are shown.
pub(super) const RULES: &[Rule] = &[
    Rule { code: "graph.root_ambiguous", check: there_is_a_node },
    Rule { code: "graph.duplicate_node_id", check: node_ids_are_unique },
    Rule { code: "plan.unsupported", check: types_are_known },
    Rule { code: "plan.unsupported", check: types_can_run },
    Rule { code: "graph.root_ambiguous", check: one_node_begins },
    Rule { code: "graph.root_ambiguous", check: triggers::few_enough },
    Rule { code: BUILD_FAILED, check: triggers::secrets_are_secret },
    Rule { code: "graph.edge_unknown_node", check: edges_join_known_nodes },
    Rule { code: "graph.duplicate_edge_id", check: edge_ids_are_unique },
    Rule { code: BUILD_FAILED, check: parents_are_containers },
    Rule { code: BUILD_FAILED, check: containers_do_not_hold_themselves },
    Rule { code: BUILD_FAILED, check: containers_are_not_nested_too_deep },
    Rule { code: BUILD_FAILED, check: containers_have_their_start_node },
    Rule { code: BUILD_FAILED, check: edges_stay_within_their_container },
    Rule { code: children::INVALID, check: children::lists_are_usable },
    Rule { code: children::INVALID, check: children::parents_may_have_children },
    Rule { code: children::INVALID, check: children::types_may_run_inside },
    Rule { code: BUILD_FAILED, check: children::filling_has_a_schema },
    Rule { code: children::INVALID, check: children::there_is_one_level },
    Rule { code: children::NO_EFFECT, check: children::settings_belong_to_the_parent },
    Rule { code: children::INVALID, check: children::names_are_known },
    Rule { code: children::INVALID, check: children::extractions_are_whole },
    Rule { code: children::INVALID, check: children::sources_exist },
    Rule { code: children::INVALID, check: children::inputs_are_given_once },
    Rule { code: "graph.validation_failed", check: there_is_no_cycle },
    Rule { code: "graph.unknown_handle", check: handles::can_be_chosen },
    Rule { code: error_strategies::NO_EFFECT, check: error_strategies::can_work },
    Rule { code: error_strategies::MISSING_DEFAULT, check: error_strategies::defaults_have_what_is_read },
    Rule { code: conversation::LAST_WRITE_WINS, check: conversation::items_do_not_replace },
    Rule { code: models::NO_VISION, check: models::pictures_can_be_seen },
    Rule { code: models::NOT_CHOSEN, check: models::models_are_chosen },
    Rule { code: "graph.unreachable_node", check: reach::every_node_can_be_reached },
];

/// Most names that one message lists.
const NAMES_MAX: usize = 5;

/// Names in quotes: the first of them, and the number of the others.
fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| format!("{name:?}")).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Runs every rule.
pub(super) fn check(draft: &Draft<'_>, problems: &mut Problems) {
    for rule in RULES {
        (rule.check)(draft, &mut Report { code: rule.code, problems });
    }
}

/// Reports problems under the code of a rule.
struct Report<'p> {
    code: &'static str,
    problems: &'p mut Problems,
}

impl Report<'_> {
    fn graph(&mut self, message: String, hint: &str) {
        self.problems.error_with_hint(self.code, message, hint);
    }
    /// Reports at `part` of a node, such as `data.type`.
    fn node(&mut self, draft: &Draft<'_>, at: usize, part: &str, message: String, hint: Option<String>) {
        let code = self.code;
        draft.at_node(at, self.problems, |problems| add(problems, code, part, message, hint));
    }
    /// Warns at `part` of a node.
    fn node_warning(&mut self, draft: &Draft<'_>, at: usize, part: &str, message: String, hint: &str) {
        let code = self.code;
        draft.at_node(at, self.problems, |problems| {
            problems.within(part, |problems| problems.warning_with_hint(code, message, hint));
        });
    }
    /// Reports at `part` of an edge.
    fn edge(&mut self, draft: &Draft<'_>, at: usize, part: &str, message: String, hint: Option<String>) {
        let code = self.code;
        draft.at_edge(at, self.problems, |problems| add(problems, code, part, message, hint));
    }
}

fn add(problems: &mut Problems, code: &'static str, part: &str, message: String, hint: Option<String>) {
    problems.within(part, |problems| match hint {
        Some(hint) => problems.error_with_hint(code, message, hint),
        None => problems.error(code, message),
    });
}

fn there_is_a_node(draft: &Draft<'_>, report: &mut Report<'_>) {
    if draft.nodes.is_empty() && draft.document.refused.is_empty() {
        // The code and the words on the start node are those of Dify's importer, the first words those of its engine.
        let message = "Graph must have at least one node and exactly one start node, but it has no node";
        report.graph(message.into(), "add a start node and the nodes that follow it; notes do not count");
    }
}

fn node_ids_are_unique(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let id = node.source.id.as_str();
        if draft.index.get(id) != Some(&at) {
            let message = match node.child {
                None => format!("Duplicate node id {id:?}"),
                Some(_) => {
                    format!("DuplicateNodeId: the child would have the id {id:?}, which another node has")
                }
            };
            report.node(draft, at, "id", message, None);
        }
    }
}

fn types_are_known(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate().filter(|(_, node)| node.kind.is_none()) {
        let name = node.source.type_name();
        let elsewhere = TYPES_ELSEWHERE.iter().find(|(known, _)| *known == name);
        let hint = match elsewhere {
            Some((_, instead)) => Some((*instead).to_owned()),
            None => suggest::hint(name, NODE_TYPES.iter().map(|spec| spec.wire)),
        };
        report.node(
            draft,
            at,
            "data.type",
            format!("node {:?} is of the unknown type {name:?}", node.source.id),
            hint,
        );
    }
}

fn types_can_run(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        if let Some(kind) = node.kind.filter(|kind| !kind.spec().implemented) {
            let message = format!("node {:?}: the type {} cannot be run yet", node.source.id, kind.wire());
            report.node(draft, at, "data.type", message, None);
        }
    }
}

fn one_node_begins(draft: &Draft<'_>, report: &mut Report<'_>) {
    let roots = draft.roots();
    match roots.as_slice() {
        [_] => {}
        // One that could not be read may be the start node.
        [] if draft.nodes.is_empty() || !draft.document.refused.is_empty() => {}
        [] => {
            let hint = "add a node of type start outside of every iteration and loop; a bare graph may also begin at \
                        the only node that no edge leads to";
            report.graph("the workflow has no start node".into(), hint);
        }
        several if several.iter().all(|&at| triggers::is_trigger(draft, at)) => {}
        [first, others @ ..] => {
            if triggers::beside_a_start_node(draft, &roots, report) {
                return;
            }
            for &at in others {
                let (id, first) = (&draft.nodes[at].source.id, &draft.nodes[*first].source.id);
                let message = format!("the workflow has more than one start node: {id:?} besides {first:?}");
                report.node(draft, at, "data.type", message, None);
            }
        }
    }
}

fn edges_join_known_nodes(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, edge) in draft.edges.iter().enumerate() {
        for (found, end, id) in
            [(edge.from, "source", &edge.source.source), (edge.to, "target", &edge.source.target)]
        {
            if found.is_none() && !draft.is_refused(id) {
                let message = format!("edge_{} has the unknown node {id:?} as its {end}", edge.source.number);
                // The comparison with every id is slow, so only the first few problems get a hint.
                let few = report.problems.error_count() < 10;
                let hint = few.then(|| suggest::hint(id, draft.index.keys().copied())).flatten();
                report.edge(draft, at, end, message, hint);
            }
        }
    }
}

fn edge_ids_are_unique(draft: &Draft<'_>, report: &mut Report<'_>) {
    let mut seen = HashSet::with_capacity(draft.edges.len());
    for (at, edge) in draft.edges.iter().enumerate() {
        if let Some(id) = edge.source.id.as_deref().filter(|id| !seen.insert(*id)) {
            report.edge(draft, at, "id", format!("Duplicate edge id {id:?}"), None);
        }
    }
}

fn parents_are_containers(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, parent) in draft.parents.iter().enumerate() {
        let id = &draft.nodes[at].source.id;
        let message = match parent {
            Parent::None | Parent::In(_) => continue,
            // A parent of an unknown type might be a container; its type is reported already.
            Parent::NotAContainer(parent) if draft.nodes[*parent].kind.is_none() => continue,
            Parent::NotAContainer(parent) => {
                format!("node {id:?} is in {:?}, which is not a container", draft.nodes[*parent].source.id)
            }
            Parent::Unknown(parent) if draft.is_refused(parent) => continue,
            Parent::Unknown(parent) => {
                format!(
                    "nodes with unknown or cyclic containers: {id:?} is in {parent:?}, which does not exist"
                )
            }
        };
        let hint = "the container of a node is named by `parentId`, `data.iteration_id` or `data.loop_id`";
        let part = if draft.nodes[at].source.parent.is_some() { "parentId" } else { "data" };
        report.node(draft, at, part, message, Some(hint.into()));
    }
}

fn containers_do_not_hold_themselves(draft: &Draft<'_>, report: &mut Report<'_>) {
    let parent_of = |at: usize| match draft.parents[at] {
        Parent::In(parent) => Some(parent),
        Parent::None | Parent::NotAContainer(_) | Parent::Unknown(_) => None,
    };
    // The round in which each node was first visited. A walk upwards that meets its own round has found a
    // cycle.
    let mut met = vec![usize::MAX; draft.nodes.len()];
    for start in 0..draft.nodes.len() {
        let mut at = Some(start);
        while let Some(here) = at {
            if met[here] == start {
                let id = &draft.nodes[here].source.id;
                let message = format!("nodes with unknown or cyclic containers: {id:?} is inside itself");
                report.node(draft, here, "", message, None);
                break;
            }
            if met[here] != usize::MAX {
                break;
            }
            met[here] = start;
            at = parent_of(here);
        }
    }
}

fn containers_are_not_nested_too_deep(draft: &Draft<'_>, report: &mut Report<'_>) {
    let parent_of = |at: &usize| match draft.parents[*at] {
        Parent::In(parent) => Some(parent),
        Parent::None | Parent::NotAContainer(_) | Parent::Unknown(_) => None,
    };
    for (at, node) in draft.nodes.iter().enumerate() {
        if node.kind.is_none_or(|kind| kind.spec().execution != ExecutionType::Container) {
            continue;
        }
        // Only the outermost container that is too deep is reported. A cycle has none.
        let depth = std::iter::successors(Some(at), parent_of).take(CONTAINER_DEPTH_MAX + 2).count();
        if depth == CONTAINER_DEPTH_MAX + 1 {
            let message = format!(
                "container {:?} is nested {depth} levels deep; the limit container_depth_max \
                 allows {CONTAINER_DEPTH_MAX}",
                node.source.id
            );
            let hint =
                "move the inner part into a separate workflow, or flatten the lists before the iteration";
            report.node(draft, at, "", message, Some(hint.into()));
        }
    }
}

fn containers_have_their_start_node(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let wanted = match node.kind {
            Some(NodeKind::Iteration) => NodeKind::IterationStart,
            Some(NodeKind::Loop) => NodeKind::LoopStart,
            Some(_) | None => continue,
        };
        // A missing field is reported with the configuration.
        let Some(start) = owner(&node.source.data, "start_node_id") else { continue };
        let id = &node.source.id;
        let message = match draft.index.get(start) {
            None if draft.is_refused(start) => continue,
            None => format!("the start node {start:?} of container {id:?} does not exist"),
            Some(&child) if draft.nodes[child].kind != Some(wanted) => {
                format!("the start node {start:?} of container {id:?} must be of type {}", wanted.wire())
            }
            Some(&child) if draft.parents[child] != Parent::In(at) => {
                format!("the start node {start:?} of container {id:?} is outside of it")
            }
            Some(_) => continue,
        };
        report.node(draft, at, "data.start_node_id", message, None);
    }
}

fn edges_stay_within_their_container(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, edge) in draft.edges.iter().enumerate() {
        let (Some(from), Some(to)) = (edge.from, edge.to) else { continue };
        let known = |parent: Parent<'_>| matches!(parent, Parent::None | Parent::In(_));
        let (outer, inner) = (draft.parents[from], draft.parents[to]);
        if outer == inner || !known(outer) || !known(inner) {
            continue;
        }
        let container = [outer, inner].into_iter().find_map(|parent| match parent {
            Parent::In(container) => Some(draft.nodes[container].source.id.as_str()),
            Parent::None | Parent::NotAContainer(_) | Parent::Unknown(_) => None,
        });
        let message = format!(
            "edge_{} from {:?} to {:?} crosses the border of container {:?}",
            edge.source.number,
            edge.source.source,
            edge.source.target,
            container.unwrap_or_default()
        );
        report.edge(draft, at, "", message, Some("let the edge begin or end at the container itself".into()));
    }
}

fn there_is_no_cycle(draft: &Draft<'_>, report: &mut Report<'_>) {
    for cycle in cycles::find(draft) {
        let names: Vec<_> = cycle.nodes.iter().map(|&at| draft.nodes[at].source.id.as_str()).collect();
        let way = if names.len() > 12 {
            format!(
                "{} → … → {} ({} nodes)",
                names[..5].join(" → "),
                names[names.len() - 5..].join(" → "),
                names.len()
            )
        } else {
            names.join(" → ")
        };
        let hint = "a run cannot go back; use a loop node to repeat";
        report.edge(
            draft,
            cycle.closing_edge,
            "",
            format!("the edges form a cycle: {way} → {}", names[0]),
            Some(hint.into()),
        );
    }
}

#[cfg(test)]
mod tests;
