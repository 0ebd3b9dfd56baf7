//! The `template-transform` node: renders a Jinja template.

use super::NodeResult;
use super::evaluate::{Deferred, EvaluationLimits};
use super::fields::{list, mapping, named_values, required, selector, text};
use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::jinja::{JinjaError, JinjaTemplate};
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Selector, Variables};

/// Configuration of `template-transform`.
#[derive(Debug, Clone)]
pub struct TemplateTransformData {
    variables: Vec<(String, Selector)>,
    template: JinjaTemplate,
}

impl TemplateTransformData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used. A template's syntax
    /// error is not a problem here: as on Dify the node fails when it runs, and its error strategy applies.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let variables = required(data, "variables", problems, |value, problems| {
            list(value, problems, |item, problems| {
                let item = mapping(item, problems)?;
                let variable = required(item, "variable", problems, text);
                let selector = required(item, "value_selector", problems, selector);
                variable.zip(selector)
            })
        });
        let template = required(data, "template", problems, text);
        let (variables, template) = variables.zip(template)?;
        Some(Self { variables, template: JinjaTemplate::new(&template) })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for (_, selector) in &self.variables {
            mention(selector, into);
        }
    }

    /// Runs the node.
    ///
    /// # Errors
    /// [`Deferred`] when the template uses up its fuel.
    pub fn evaluate(
        &self,
        variables: &dyn Variables,
        limits: &EvaluationLimits,
    ) -> Result<NodeResult, Deferred> {
        let inputs = named_values(&self.variables, variables);
        if inputs.iter().any(|(_, value)| holds_file(value)) {
            // Dify passes the inputs as JSON, which cannot hold files. The exception loses the inputs.
            return Ok(NodeResult::failed(NodeFailure::escaped("Type is not JSON serializable: File")));
        }
        let failed = |inputs, message: String| {
            let failure = Some(NodeFailure::new("", message));
            Ok(NodeResult { inputs, failure, ..NodeResult::default() })
        };
        let too_long = format!("Output length exceeds {} characters", limits.template_chars_max);
        // A character has at most four bytes, so a text with more bytes has too many characters.
        let bytes_max = limits.template_chars_max.saturating_mul(4);
        match self.template.render_within(&inputs, limits.undefined, limits.fuel, bytes_max) {
            Ok(Some(text)) if text.chars().count() <= limits.template_chars_max => Ok(NodeResult {
                inputs,
                ..NodeResult::outputs(vec![("output".into(), Segment::string(text))])
            }),
            Ok(_) => failed(inputs, too_long),
            Err(JinjaError::Failed(message)) => failed(inputs, message),
            Err(JinjaError::OutOfFuel) => Err(Deferred),
        }
    }
}

fn holds_file(value: &Segment) -> bool {
    value.ty == SegmentType::File || (value.ty == SegmentType::ArrayFile && !value.is_falsy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::evaluate::UndefinedNames;
    use serde_json::{Value as Json, json};
    use tidemill_base::value::pool::Pool;

    fn run(data: Json, limits: &EvaluationLimits) -> Result<NodeResult, Deferred> {
        let pool = Pool::new(json!({
            "start": {"name": "Zoë", "n": null, "file": {"dify_model_identity": "__dify__file__"}},
        }));
        let node = TemplateTransformData::parse(data.as_object().expect("a mapping"), &mut Problems::new());
        node.expect("usable").evaluate(&pool, limits)
    }
    fn limits() -> EvaluationLimits {
        EvaluationLimits {
            undefined: UndefinedNames::Empty,
            missing_file_is_all: false,
            template_chars_max: 20,
            fuel: Some(1000),
            output_bytes: None,
        }
    }
    fn variable(name: &str, selector: [&str; 2]) -> Json {
        json!({"variable": name, "value_selector": selector, "value_type": "string"})
    }

    #[test]
    fn missing_sources_are_none() {
        let variables = json!([variable("a", ["start", "name"]), variable("b", ["ghost", "output"])]);
        let result =
            run(json!({"variables": variables, "template": "{{ a }} [{{ b }}]"}), &limits()).expect("fits");
        assert_eq!(result.outputs, [("output".into(), Segment::string("Zoë [None]"))]);
        assert_eq!(result.inputs, [("a".into(), Segment::string("Zoë")), ("b".into(), Segment::none())]);
        assert_eq!(result.failure, None);
    }

    #[test]
    fn the_longest_output_is_counted_in_characters() {
        let template = |n: usize| json!({"variables": [], "template": format!("{{{{ 'ё' * {n} }}}}")});
        let fits = run(template(20), &limits()).expect("fits");
        assert_eq!(fits.failure, None);
        for n in [21, 1000] {
            let long = run(template(n), &limits()).expect("not deferred");
            assert_eq!(long.failure, Some(NodeFailure::new("", "Output length exceeds 20 characters")));
            assert!(long.outputs.is_empty());
        }
    }

    #[test]
    fn a_failure_keeps_the_inputs_and_has_no_type() {
        let variables = json!([variable("a", ["start", "n"])]);
        for (template, message) in [
            ("{{ a.b.c }}", "'None' has no attribute 'b'"),
            ("{% for x in %}", "Expected an expression, got 'end of statement block'"),
        ] {
            let result =
                run(json!({"variables": variables, "template": template}), &limits()).expect("not deferred");
            assert_eq!(result.failure, Some(NodeFailure::new("", message)));
            assert_eq!(result.inputs.len(), 1);
        }
    }

    #[test]
    fn files_cannot_be_given_to_a_template() {
        let variables = json!([variable("a", ["start", "file"])]);
        let result = run(json!({"variables": variables, "template": ""}), &limits()).expect("not deferred");
        assert_eq!(result.failure, Some(NodeFailure::escaped("Type is not JSON serializable: File")));
        assert!(result.inputs.is_empty());
    }

    #[test]
    fn a_template_that_works_too_long_is_deferred() {
        let template = "{% for x in range(10000) %}{% endfor %}";
        assert_eq!(run(json!({"variables": [], "template": template}), &limits()), Err(Deferred));
    }

    #[test]
    fn both_fields_are_checked_at_once() {
        let mut problems = Problems::new();
        let data = json!({"variables": [{"variable": "a"}, 5]});
        assert!(TemplateTransformData::parse(data.as_object().expect("a mapping"), &mut problems).is_none());
        let paths: Vec<String> = problems.into_vec().into_iter().map(|d| d.path).collect();
        assert_eq!(paths, ["variables[0].value_selector", "variables[1]", "template"]);
    }
}
