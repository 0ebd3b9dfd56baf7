//! The `end` node: the outputs of a run.

use super::NodeResult;
use super::fields::{INVALID_NODE_DATA, list, mapping, named_values, required, selector, text};
use crate::dsl::Problems;
use tidemill_base::value::template::TemplatePart;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Selector, Variables};

/// Types that an output can declare. Dify checks only the name, not the value.
const VALUE_TYPES: [&str; 14] = [
    "string",
    "number",
    "integer",
    "secret",
    "boolean",
    "object",
    "file",
    "array",
    "array[string]",
    "array[number]",
    "array[object]",
    "array[boolean]",
    "array[file]",
    "any",
];

/// Configuration of `end`.
#[derive(Debug, Clone)]
pub struct EndData {
    outputs: Vec<(String, Selector)>,
}

impl EndData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let outputs = required(data, "outputs", problems, |value, problems| {
            list(value, problems, |item, problems| {
                let item = mapping(item, problems)?;
                check_value_type(item, problems);
                let variable = required(item, "variable", problems, text);
                let selector = required(item, "value_selector", problems, selector);
                variable.zip(selector)
            })
        })?;
        Some(Self { outputs })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for (_, selector) in &self.outputs {
            mention(selector, into);
        }
    }

    /// The parts to stream: one output per line. An output without a selector leaves an empty line; a final line break
    /// is dropped.
    pub fn response_template(&self) -> Vec<TemplatePart> {
        let line_break = || TemplatePart::Text("\n".into());
        let mut parts = Vec::new();
        for (at, (_, selector)) in self.outputs.iter().enumerate() {
            parts.extend((at > 0).then(line_break));
            parts.extend((!selector.is_empty()).then(|| TemplatePart::Variable(selector.clone())));
        }
        if parts.last() == Some(&line_break()) {
            parts.pop();
        }
        parts
    }

    /// Runs the node: gives each output's value, null when there is none. Of two outputs with the same name the last
    /// wins.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let outputs = named_values(&self.outputs, variables);
        NodeResult { inputs: outputs.clone(), ..NodeResult::outputs(outputs) }
    }
}

fn check_value_type(item: &JsonMap, problems: &mut Problems) {
    let Some(value) = item.get("value_type") else { return };
    problems.within("value_type", |problems| {
        let Some(name) = text(value, problems) else { return };
        // Old exports write `Array[string]`.
        let name = if name.starts_with("Array[") { name.to_lowercase() } else { name };
        if name != "array[any]" && !VALUE_TYPES.contains(&name.as_str()) {
            problems.error(INVALID_NODE_DATA, format!("{name:?} is not a type of an output"));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};
    use tidemill_base::value::pool::Pool;

    fn parse(data: Json) -> (Option<EndData>, Vec<String>) {
        let mut problems = Problems::new();
        let read = EndData::parse(data.as_object().expect("a mapping"), &mut problems);
        (read, problems.into_vec().into_iter().map(|d| format!("{}: {}", d.path, d.message)).collect())
    }
    fn end(outputs: Json) -> EndData {
        parse(json!({"outputs": outputs})).0.expect("usable")
    }

    #[test]
    fn every_problem_is_reported_with_its_place() {
        assert_eq!(parse(json!({})).1, ["outputs: the field outputs is required"]);
        let (read, found) = parse(json!({"outputs": [
            {"variable": "a", "value_selector": ["n", "v"], "value_type": "Array[String]", "extra": 1},
            {"variable": 1, "value_selector": "n.v", "value_type": "text"},
        ]}));
        assert!(read.is_none());
        assert_eq!(
            found,
            [
                "outputs[1].value_type: \"text\" is not a type of an output",
                "outputs[1].variable: must be a text, not a number",
                "outputs[1].value_selector: must be a list, not a text",
            ]
        );
    }

    #[test]
    fn a_missing_value_is_null_and_the_last_of_a_name_wins() {
        let pool = Pool::new(json!({"n": {"v": 0, "e": ""}}));
        let result = end(json!([
            {"variable": "a", "value_selector": ["n", "e"]},
            {"variable": "b", "value_selector": ["n"]},
            {"variable": "c", "value_selector": ["ghost", "x"]},
            {"variable": "a", "value_selector": ["n", "v"]},
        ]))
        .evaluate(&pool);
        let shown: Vec<_> = result.outputs.iter().map(|(name, s)| (name.as_str(), s.value.clone())).collect();
        assert_eq!(shown, [("a", json!(0)), ("b", json!(null)), ("c", json!(null))]);
        assert_eq!(result.inputs, result.outputs);
        assert_eq!(result.handle, "source");
    }

    #[test]
    fn the_template_keeps_the_line_breaks_between_outputs() {
        let variable = |path: [&str; 2]| TemplatePart::Variable(path.map(String::from).to_vec());
        let line_break = || TemplatePart::Text("\n".into());
        let output = |selector: Json| json!({"variable": "v", "value_selector": selector});
        for (outputs, parts) in [
            (json!([]), vec![]),
            (json!([output(json!(["a", "b"]))]), vec![variable(["a", "b"])]),
            (
                json!([output(json!(["a", "b"])), output(json!([])), output(json!(["c", "d"]))]),
                vec![variable(["a", "b"]), line_break(), line_break(), variable(["c", "d"])],
            ),
            (json!([output(json!(["a", "b"])), output(json!([]))]), vec![variable(["a", "b"])]),
        ] {
            assert_eq!(end(outputs).response_template(), parts);
        }
    }
}
