//! The handles by which each node can leave. An edge with any other handle is legal, but a run never takes it, and a
//! typing error in a handle is easy to make and hard to see.

use std::collections::BTreeMap;

use super::{Report, listed};
use crate::graph::draft::{Draft, DraftNode};
use crate::nodes::human_input::{HumanInputData, TIMEOUT_HANDLE};
use crate::nodes::if_else::ELSE_HANDLE;
use crate::nodes::node::ErrorStrategy;
use crate::nodes::pause::as_form::REJECT;
use crate::nodes::{ExecutionType, FAIL_BRANCH_HANDLE, NodeData, SOURCE_HANDLE};

/// The edges of a node whose handles it never chooses.
struct Wrong<'d> {
    /// The first of these edges.
    first: usize,
    /// What is wrong with its handle.
    message: String,
    /// All these handles, each once.
    handles: Vec<&'d str>,
}

/// Warns about edges whose handle their node never chooses: once for each node.
pub(super) fn can_be_chosen(draft: &Draft<'_>, report: &mut Report<'_>) {
    let mut nodes: BTreeMap<usize, Wrong<'_>> = BTreeMap::new();
    for (at, edge) in draft.edges.iter().enumerate() {
        let Some(from) = edge.from else { continue };
        let handle = &*edge.source.handle;
        let Some(message) = problem(draft, from, handle) else { continue };
        let wrong = nodes.entry(from).or_insert_with(|| Wrong { first: at, message, handles: Vec::new() });
        if !wrong.handles.contains(&handle) {
            wrong.handles.push(handle);
        }
    }
    for (from, Wrong { first: at, message, handles }) in nodes {
        let message = if handles.len() > 1 { of_all(draft, from, &handles) } else { message };
        let hint = ways(&draft.nodes[from]).map(|ways| format!("its handles: {}", ways.join(", ")));
        let code = report.code;
        draft.at_edge(at, report.problems, |problems| {
            problems.within("sourceHandle", |problems| match hint {
                Some(hint) => problems.warning_with_hint(code, message, hint),
                None => problems.warning(code, message),
            });
        });
    }
}

/// Describes the mistake when the node never leaves by any of several handles.
fn of_all(draft: &Draft<'_>, from: usize, handles: &[&str]) -> String {
    let (id, handles) = (&draft.nodes[from].source.id, listed(handles));
    let effect = match follows_only_its_result(draft, from) {
        true => "these edges are never taken",
        false => "these edges are taken after every answer",
    };
    format!("node {id:?} never leaves by {handles}; {effect}")
}

/// Describes the mistake when the node never leaves by `handle`.
fn problem(draft: &Draft<'_>, from: usize, handle: &str) -> Option<String> {
    let node = &draft.nodes[from];
    let id = &node.source.id;
    let is_known = ways(node)?.iter().any(|way| way == handle);
    if is_known {
        return None;
    }
    let follows_one = follows_only_its_result(draft, from);
    if handle == FAIL_BRANCH_HANDLE {
        let effect =
            if follows_one { "this edge is never taken" } else { "this edge is not its fail branch" };
        return Some(format!("node {id:?} has no `error_strategy: fail-branch`, so {effect}"));
    }
    if !follows_one {
        // All edges of such a node are taken, whatever their handle. Only a question has handles of its own that an
        // author can miss.
        let is_question = matches!(node.data, Some(NodeData::UserInteraction(_)));
        return is_question.then(|| {
            format!("node {id:?} never leaves by {handle:?}; this edge is taken after every answer")
        });
    }
    let what = match &node.data {
        Some(NodeData::IfElse(_)) => "case",
        Some(NodeData::QuestionClassifier(_)) => "class",
        Some(NodeData::Choice(_)) => "branch",
        Some(NodeData::HumanInput(_)) => "button",
        _ => "handle",
    };
    Some(format!("node {id:?} has no {what} {handle:?}; this edge is never taken"))
}

/// All handles of a node. `None` when a run may choose any handle, or when the node cannot be read.
fn ways(node: &DraftNode<'_>) -> Option<Vec<String>> {
    let mut ways: Vec<String> = match node.data.as_ref()? {
        NodeData::IfElse(data) => {
            data.cases.iter().map(|case| case.id.clone()).chain([ELSE_HANDLE.into()]).collect()
        }
        NodeData::Choice(data) => data.handles().map(str::to_owned).collect(),
        NodeData::QuestionClassifier(data) => data.classes.iter().map(|class| class.id.clone()).collect(),
        NodeData::HumanInput(data) => of_form(data)?,
        NodeData::UserInteraction(data) => {
            std::iter::once(SOURCE_HANDLE.to_owned()).chain(data.handles().map(str::to_owned)).collect()
        }
        // A registered Call names its handles itself.
        NodeData::Step(data) if data.chooses_any() => return None,
        _ => vec![SOURCE_HANDLE.to_owned()],
    };
    if node.wrapper.error_strategy == Some(ErrorStrategy::FailBranch) {
        ways.push(FAIL_BRANCH_HANDLE.to_owned());
    }
    if node.wrapper.may_be_rejected && !ways.iter().any(|way| way == REJECT) {
        ways.push(REJECT.to_owned());
    }
    Some(ways)
}

fn of_form(data: &HumanInputData) -> Option<Vec<String>> {
    // A simple pause takes its handle from a variable or from the answer.
    let HumanInputData::Form(form) = data else { return None };
    let buttons: Vec<String> = form.action_ids().map(str::to_owned).collect();
    let without_any = buttons.is_empty().then(|| SOURCE_HANDLE.to_owned());
    Some(buttons.into_iter().chain(without_any).chain([TIMEOUT_HANDLE.to_owned()]).collect())
}

/// True when only the edges with the result's handle are followed; otherwise all are.
fn follows_only_its_result(draft: &Draft<'_>, at: usize) -> bool {
    let node = &draft.nodes[at];
    let is_branch = node.kind.is_some_and(|kind| kind.spec().execution == ExecutionType::Branch);
    let chooses = |handle: &str| match &node.data {
        Some(NodeData::UserInteraction(data)) => data.handles().any(|known| known == handle),
        _ => node.wrapper.may_be_rejected && handle == REJECT,
    };
    is_branch
        || node.wrapper.error_strategy == Some(ErrorStrategy::FailBranch)
        || draft.outs[at].iter().any(|&edge| chooses(&draft.edges[edge].source.handle))
}

#[cfg(test)]
mod tests;
