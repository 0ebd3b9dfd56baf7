//! A body repeated until a condition holds: what Dify checks of its configuration when a file comes in.

use super::condition::{ConditionGroup, Logical};
use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields, kind_of};
use crate::value::JsonMap;

const VARIABLE_TYPES: [&str; 8] = [
    "string",
    "number",
    "object",
    "boolean",
    "array[string]",
    "array[number]",
    "array[object]",
    "array[boolean]",
];

/// Reports what is wrong with `data` of a loop.
pub(super) fn check(data: &JsonMap, problems: &mut Problems) {
    let fields = Fields::new(data, BUILD_FAILED);
    fields.text("start_node_id", problems);
    match data.get("loop_count") {
        Some(_) => _ = fields.integer("loop_count", 1, 1, problems),
        None => fields.wrong("loop_count", "a whole number of at least 1", problems),
    }
    fields.one_of("logical_operator", &["and", "or"], problems);
    problems.within("break_conditions", |problems| {
        // Which of the two joins them matters to the run, not to the check.
        ConditionGroup::parse(Logical::And, data.get("break_conditions"), problems);
    });
    if fields.given("loop_variables").is_some() {
        variables(&fields, problems);
    }
}

fn variables(fields: &Fields<'_>, problems: &mut Problems) {
    for (at, item) in fields.list("loop_variables", problems).into_iter().flatten().enumerate() {
        problems.within(format!("loop_variables[{at}]"), |problems| {
            let Some(item) = item.as_object() else {
                problems
                    .error(BUILD_FAILED, format!("a loop variable must be a mapping, not {}", kind_of(item)));
                return;
            };
            let fields = Fields::new(item, BUILD_FAILED);
            fields.text("label", problems);
            fields.one_of("var_type", &VARIABLE_TYPES, problems);
            fields.one_of("value_type", &["variable", "constant"], problems);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::tests::paths_of;
    use super::*;
    use serde_json::json;

    #[test]
    fn each_wrong_field_is_reported_at_its_path() {
        let right = json!({
            "start_node_id": "s", "loop_count": "3", "logical_operator": "and", "break_conditions": [],
            "loop_variables": [{"label": "n", "var_type": "number", "value_type": "constant", "value": 1}],
        });
        assert_eq!(paths_of(check, right.clone()), Vec::<String>::new());
        for (key, value, path) in [
            ("start_node_id", json!(null), "start_node_id"),
            ("loop_count", json!(0), "loop_count"),
            ("logical_operator", json!("xor"), "logical_operator"),
            ("break_conditions", json!(null), "break_conditions"),
            ("break_conditions", json!([5]), "break_conditions[0]"),
            ("loop_variables", json!(5), "loop_variables"),
            ("loop_variables", json!([5]), "loop_variables[0]"),
        ] {
            let mut data = right.clone();
            data[key] = value;
            assert_eq!(paths_of(check, data), [path]);
        }
        let mut data = right;
        data["loop_variables"][0] = json!({"label": 1, "var_type": "file", "value_type": "mixed"});
        let wrong = ["label", "var_type", "value_type"].map(|key| format!("loop_variables[0].{key}"));
        assert_eq!(paths_of(check, data), wrong);
    }
}
