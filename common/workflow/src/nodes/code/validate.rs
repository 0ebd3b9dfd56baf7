//! Dify's checks of a code node's configuration when a file is imported.

use serde_json::Value as Json;

use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields, kind_of};
use tidemill_base::value::JsonMap;

use super::{CodeLanguage, OutputType};

/// Reports the problems of `data` of a code node.
pub(super) fn check(data: &JsonMap, problems: &mut Problems) {
    let fields = Fields::new(data, BUILD_FAILED);
    fields.text("code", problems);
    fields.one_of("code_language", &CodeLanguage::ALL.map(CodeLanguage::name), problems);
    for (at, item) in fields.list("variables", problems).into_iter().flatten().enumerate() {
        problems.within(format!("variables[{at}]"), |problems| variable(item, problems));
    }
    match data.get("outputs").and_then(Json::as_object) {
        Some(declared) => problems.within("outputs", |problems| outputs(declared, problems)),
        None => fields.wrong("outputs", "a mapping", problems),
    }
}

fn variable(item: &Json, problems: &mut Problems) {
    let Some(item) = item.as_object() else {
        problems.error(BUILD_FAILED, format!("a variable must be a mapping, not {}", kind_of(item)));
        return;
    };
    let fields = Fields::new(item, BUILD_FAILED);
    fields.text("variable", problems);
    fields.selector("value_selector", problems);
}

// Recursion is bounded by the depth of the file.
fn outputs(declared: &JsonMap, problems: &mut Problems) {
    for (name, output) in declared {
        problems.within(name.as_str(), |problems| {
            let Some(output) = output.as_object() else {
                problems.error(BUILD_FAILED, format!("an output must be a mapping, not {}", kind_of(output)));
                return;
            };
            let given = output.get("type").and_then(Json::as_str);
            if given.and_then(OutputType::from_name).is_none() {
                let expected = OutputType::ALL.map(OutputType::name).join(", ");
                let message = format!("invalid type for code output, expected one of {expected}");
                problems.within("type", |problems| problems.error(BUILD_FAILED, message));
            }
            match output.get("children") {
                None | Some(Json::Null) => {}
                Some(Json::Object(children)) => {
                    problems.within("children", |problems| outputs(children, problems));
                }
                Some(_) => Fields::new(output, BUILD_FAILED).wrong("children", "a mapping or null", problems),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::parse::tests::paths_of;
    use serde_json::json;

    #[test]
    fn each_wrong_field_is_reported_at_its_path() {
        let right = json!({
            "code": "x", "code_language": "python3",
            "variables": [{"variable": "a", "value_selector": ["s", "a"]}],
            "outputs": {"o": {"type": "object", "children": {"p": {"type": "string", "children": null}}}},
        });
        assert_eq!(paths_of(check, right.clone()), Vec::<String>::new());
        for (key, value, path) in [
            ("code", json!(null), "code"),
            ("code_language", json!("jinja2"), "code_language"),
            ("variables", json!(null), "variables"),
            ("variables", json!([5]), "variables[0]"),
            ("variables", json!([{"variable": "a", "value_selector": "a"}]), "variables[0].value_selector"),
            ("outputs", json!([]), "outputs"),
            ("outputs", json!({"o": {"type": "file"}}), "outputs.o.type"),
            ("outputs", json!({"o": {"type": "object", "children": {"p": 5}}}), "outputs.o.children.p"),
            ("outputs", json!({"o": {"type": "object", "children": 5}}), "outputs.o.children"),
        ] {
            let mut data = right.clone();
            data[key] = value;
            assert_eq!(paths_of(check, data), [path]);
        }
    }
}
