//! Parses the branches of a `choice` node.

use serde_json::Value as Json;

use super::operator::Operator;
use super::{Branch, ChoiceData, Condition, NOTHING, Operand};
use crate::dsl::Problems;
use crate::nodes::fields::{INVALID_NODE_DATA, mapping};
use tidemill_base::value::{JsonMap, Selector};

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<ChoiceData> {
    let original = data.get("params").and_then(|params| params.get("choices"));
    let (given, reversed) = match data.get("choices").filter(|value| !value.is_null()) {
        Some(given) => (Some(given), false),
        None => (original, true),
    };
    let Some(Json::Array(items)) = given else {
        problems.within("choices", |problems| {
            problems.error(INVALID_NODE_DATA, "choices must be a list of branches");
        });
        return None;
    };
    let before = problems.error_count();
    let mut read = ChoiceData { branches: Vec::new(), default: None };
    problems.within("choices", |problems| {
        for (at, item) in items.iter().enumerate() {
            problems.within(format!("[{at}]"), |problems| branch(item, &mut read, problems));
        }
    });
    if reversed {
        read.branches.reverse();
    }
    (problems.error_count() == before).then_some(read)
}

fn branch(item: &Json, read: &mut ChoiceData, problems: &mut Problems) {
    let Some(item) = mapping(item, problems) else { return };
    let Some(id) = item.get("branch_id").and_then(Json::as_str).filter(|id| !id.is_empty()) else {
        let hint = "it names the handle of the branch; quote it";
        return problems.error_with_hint(INVALID_NODE_DATA, "branch_id is missing or not a text", hint);
    };
    if id.contains('.') || id == NOTHING {
        return problems
            .error(INVALID_NODE_DATA, format!("branch_id {id:?} must not hold a dot, nor be {NOTHING}"));
    }
    if read.handles().any(|known| known == id) {
        return problems.error(INVALID_NODE_DATA, format!("branch_id {id:?} appears twice"));
    }
    if item.get("is_default").and_then(Json::as_bool) == Some(true) {
        if let Some(other) = &read.default {
            return problems.error(INVALID_NODE_DATA, format!("{other:?} is already the default branch"));
        }
        read.default = Some(id.to_owned());
        return;
    }
    let any = match item.get("logic").and_then(Json::as_str) {
        None | Some("and") => false,
        Some("or") => true,
        Some(other) => {
            return problems.error(INVALID_NODE_DATA, format!("logic must be and or or, not {other:?}"));
        }
    };
    let given = item.get("conditions").and_then(Json::as_array);
    let conditions = given.into_iter().flatten().enumerate();
    let conditions = conditions
        .map(|(at, given)| {
            problems.within(format!("conditions[{at}]"), |problems| condition(given, problems))
        })
        .collect();
    read.branches.push(Branch { id: id.to_owned(), any, conditions });
}

/// A condition that cannot be used is skipped when the node runs; importing the file gives a warning.
fn condition(given: &Json, problems: &mut Problems) -> Condition {
    let name = given.get("operate").and_then(Json::as_str);
    let operator = name.and_then(Operator::from_name);
    let left = given.get("left").and_then(reference).map(Operand::Variable);
    let right = given.get("right").and_then(|right| match reference(right) {
        Some(selector) => Some(Operand::Variable(selector)),
        None => right.get("value").cloned().map(Operand::Constant),
    });
    let mut warn = |is_wrong: bool, message: String| {
        if is_wrong {
            problems.warning_with_hint("plan.no_effect", message, "the condition is passed over");
        }
    };
    warn(operator.is_none(), format!("operate {:?} is not an operator", name.unwrap_or("")));
    warn(left.is_none(), "left is neither a step nor a variable".into());
    warn(right.is_none(), "right has no value".into());
    Condition { left, operator, right }
}

/// A variable: given by its selector, or by a step's id and a path in the step's outputs. The start step's question is
/// `sys.query`.
fn reference(operand: &Json) -> Option<Selector> {
    let map = operand.as_object()?;
    let selector = ["variable_selector", "selector"].into_iter().find_map(|key| map.get(key)?.as_array());
    if let Some(parts) = selector {
        let parts: Option<Selector> = parts.iter().map(|part| part.as_str().map(str::to_owned)).collect();
        return parts.filter(|parts| parts.len() > 1);
    }
    let step = map.get("step_id").and_then(Json::as_str).filter(|step| !step.is_empty())?;
    let path =
        ["name", "value"].into_iter().find_map(|key| map.get(key)?.as_str().filter(|p| !p.is_empty()))?;
    if (step, path) == ("start", "question") {
        return Some(vec!["sys".into(), "query".into()]);
    }
    let path = path.strip_prefix(step).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path);
    Some(std::iter::once(step).chain(path.split('/')).map(str::to_owned).collect())
}
