//! Applies operations on conversation variables that items have left, when a value must be loaded for it.
//!
//! They are stored under the iteration's id, in order, as `+<number>` and on further lines the variable and, for an
//! operand stored on its own, the operation. Without an operation the value is a list of operations.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{CHANGE_PREFIX, DROPPED_OUTPUT};
use crate::nodes::{ChangeKind, VariableChange};
use tidemill_base::value::{Lookup, Segment, SegmentType, Variables};

const CONVERSATION: &str = "conversation";

/// Returns the new value of each variable as the output `+<name>`; and as the output [`DROPPED_OUTPUT`] the operations
/// that did not fit, as pairs of variable and operation. Empty when items have left no operations.
pub(super) fn merged(node: &str, variables: &dyn Variables) -> Result<Vec<(String, Segment)>, String> {
    let mut outputs = Vec::new();
    let mut dropped = Vec::new();
    for (variable, changes) in changes(node, variables)? {
        let mut value = match variables.variable(CONVERSATION, &variable) {
            Lookup::Found(value) => value.into_owned(),
            Lookup::Missing | Lookup::Blob(_) => {
                return Err(format!("conversation variable {variable:?} is not loaded"));
            }
        };
        for VariableChange { kind, operand } in changes {
            match kind.apply(&value, &operand) {
                Some(changed) => value = changed,
                None => dropped.push(Json::from(vec![variable.clone(), kind.name().to_owned()])),
            }
        }
        outputs.push((format!("{CHANGE_PREFIX}{variable}"), value));
    }
    if !dropped.is_empty() {
        dropped.dedup();
        outputs.push((DROPPED_OUTPUT.to_owned(), Segment::new(SegmentType::ArrayAny, dropped.into())));
    }
    Ok(outputs)
}

/// The operations on each variable, in order.
fn changes(node: &str, variables: &dyn Variables) -> Result<BTreeMap<String, Vec<VariableChange>>, String> {
    let mut stored: Vec<(usize, String)> = variables
        .names()
        .into_iter()
        .filter(|(of, _)| of == node)
        .filter_map(|(_, name)| {
            let number = name.strip_prefix(CHANGE_PREFIX)?.split('\n').next()?.parse().ok()?;
            Some((number, name))
        })
        .collect();
    stored.sort_unstable();
    let mut found: BTreeMap<String, Vec<VariableChange>> = BTreeMap::new();
    for (_, name) in stored {
        let damaged = || format!("operations {name:?} of iteration {node:?} are damaged");
        let Lookup::Found(value) = variables.variable(node, &name) else {
            return Err(format!("operations {name:?} of iteration {node:?} are not loaded"));
        };
        let mut parts = name.split('\n').skip(1);
        let changes = found.entry(parts.next().ok_or_else(damaged)?.to_owned()).or_default();
        match parts.next() {
            None => changes.extend(VariableChange::of_list(&value.value).ok_or_else(damaged)?),
            Some(kind) => {
                let kind = ChangeKind::from_name(kind).ok_or_else(damaged)?;
                changes.push(VariableChange { kind, operand: value.into_owned() });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::condition::tests::Pool;
    use serde_json::json;

    #[test]
    fn operations_apply_in_the_order_of_their_numbers() {
        let tags = Segment::new(SegmentType::ArrayString, json!(["a"]));
        let pool = Pool::new(json!({}))
            .with("conversation", "tags", tags)
            .with("conversation", "n", Segment::infer(json!(1)))
            .with("it", "#0", Segment::infer(json!([])))
            .with("it", "+10\ntags", Segment::infer(json!([["remove-first", null], ["append", 5]])))
            .with("it", "+9\ntags\nappend", Segment::string("b"))
            .with("it", "+2\nn", Segment::infer(json!([["+=", 2]])));
        let outputs: Vec<_> =
            merged("it", &pool).unwrap().into_iter().map(|(name, it)| (name, it.value)).collect();
        let expected = [
            ("+n".to_owned(), json!(3)),
            ("+tags".to_owned(), json!(["b"])),
            ("-".to_owned(), json!([["tags", "append"]])),
        ];
        assert_eq!(outputs, expected);
        assert_eq!(merged("other", &pool), Ok(Vec::new()));
    }

    #[test]
    fn what_is_damaged_or_not_loaded_is_an_error() {
        let pool = |name: &str, value: Json| Pool::new(json!({})).with("it", name, Segment::infer(value));
        for (name, value, reason) in [
            ("+0", json!([]), "damaged"),
            ("+0\nx", json!([["set", 1]]), "damaged"),
            ("+0\nx\nset", json!(1), "damaged"),
            ("+0\nx", json!([["+=", 1]]), "is not loaded"),
        ] {
            let error = merged("it", &pool(name, value)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
