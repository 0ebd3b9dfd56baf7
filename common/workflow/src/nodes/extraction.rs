//! Extraction: the checks before a model extracts something from a list of messages, and the result shown afterwards.
//! The model call is that of an `llm` node.

use serde_json::{Value as Json, json};

use super::NodeResult;
use super::llm::turns;
use crate::nodes::work::Extraction;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::{JsonMap, Lookup, Segment, Variables};

/// Error type of a failed model call.
pub const LLM_INVOCATION: &str = "LLMInvocationError";
/// Error types of failures before the model call.
const BEFORE: [&str; 5] = [
    "SourceNodeNotFoundError",
    "VariableNotFoundError",
    "InvalidVariableTypeError",
    "ModelConfigNotFoundError",
    "TemplateRenderError",
];
/// Characters of the prompt shown in a title.
const TITLE_CHARS_MAX: usize = 30;

/// The title of the child.
pub fn title(prompt: &str) -> String {
    match prompt.char_indices().nth(TITLE_CHARS_MAX) {
        Some((at, _)) => format!("Extraction: {}...", &prompt[..at]),
        None => format!("Extraction: {prompt}"),
    }
}

/// Checks that a model can be called: the source exists, has run, gave a list of messages, and a model is configured. A
/// retry would not help with any of these failures.
///
/// # Errors
/// The first failed check, in this order.
pub fn check(extraction: &Extraction, is_node: bool, variables: &dyn Variables) -> Result<(), NodeFailure> {
    let (node, name) = &extraction.source;
    if !is_node {
        let message = format!("Source node {node} not found in graph config");
        return Err(NodeFailure::new("SourceNodeNotFoundError", message));
    }
    let selector = [node.clone(), name.clone()];
    let value = match variables.get(&selector) {
        Lookup::Found(segment) => segment,
        Lookup::Missing | Lookup::Blob(_) => {
            let message = format!("Variable {node}.{name} not found in variable pool");
            return Err(NodeFailure::new("VariableNotFoundError", message));
        }
    };
    let wrong_type = |message: String| Err(NodeFailure::new("InvalidVariableTypeError", message));
    let Json::Array(items) = &value.value else {
        let found = python_type(&value.value);
        return wrong_type(format!("Variable {node}.{name} is not a list type, got {found}"));
    };
    if let Some(at) = turns::first_other(items) {
        return wrong_type(format!(
            "Variable {node}.{name} is not a list of messages: item {at} has no role and text"
        ));
    }
    if !extraction.has_model {
        let message = format!("Model config not found for {node}.{name}");
        return Err(NodeFailure::new("ModelConfigNotFoundError", message));
    }
    Ok(())
}

fn python_type(value: &Json) -> &'static str {
    match value {
        Json::Null => "NoneType",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float",
        Json::Number(_) => "int",
        Json::String(_) => "str",
        Json::Array(_) => "list",
        Json::Object(_) => "dict",
    }
}

/// Turns the model call's result into the extraction's result.
pub fn shown(extraction: &Extraction, result: NodeResult) -> NodeResult {
    let source = extraction.source_name();
    let inputs = vec![
        ("context_source".to_owned(), Segment::string(&source)),
        ("extraction_prompt".to_owned(), Segment::string(&extraction.prompt)),
    ];
    let mut process_data = JsonMap::new();
    process_data.insert("source".into(), json!(source));
    process_data.insert("prompt".into(), json!(extraction.prompt));
    process_data.extend(result.process_data);
    let outputs = result.outputs.into_iter().filter(|(name, _)| name == "text").collect();
    let failure = result.failure.map(|failure| match failure.error_type.as_str() {
        // These failures happened before the model call.
        class if BEFORE.contains(&class) => failure,
        _ => NodeFailure {
            message: format!("LLM invocation failed: {}", failure.message),
            error_type: LLM_INVOCATION.into(),
            ..failure
        },
    });
    NodeResult { inputs, process_data, outputs, failure, ..result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::value::pool::Pool;

    fn extraction(source: (&str, &str), has_model: bool) -> Extraction {
        let source = (source.0.into(), source.1.into());
        Extraction { source, prompt: "Extract keywords".into(), has_model, default_value: None }
    }

    #[test]
    fn ve_a12_a13_a14_a15_failed_checks_are_reported_in_one_order() {
        let turn = json!({"role": "user", "text": "x", "files": []});
        let pool =
            Pool::new(json!({"llm1": {"text": "x", "context": [turn], "odd": [turn, {"role": "user"}]}}));
        let failure = |source, is_node, has_model| {
            let failure = check(&extraction(source, has_model), is_node, &pool).unwrap_err();
            assert!(!failure.retryable);
            (failure.error_type, failure.message)
        };
        for (found, class, message) in [
            (
                failure(("ghost", "context"), false, false),
                "SourceNodeNotFoundError",
                "Source node ghost not found in graph config",
            ),
            (
                failure(("llm2", "context"), true, false),
                "VariableNotFoundError",
                "Variable llm2.context not found in variable pool",
            ),
            (
                failure(("llm1", "text"), true, false),
                "InvalidVariableTypeError",
                "Variable llm1.text is not a list type, got str",
            ),
            (
                failure(("llm1", "odd"), true, false),
                "InvalidVariableTypeError",
                "Variable llm1.odd is not a list of messages: item 1 has no role and text",
            ),
            (
                failure(("llm1", "context"), true, false),
                "ModelConfigNotFoundError",
                "Model config not found for llm1.context",
            ),
        ] {
            assert_eq!(found, (class.to_owned(), message.to_owned()));
        }
        assert_eq!(check(&extraction(("llm1", "context"), true), true, &pool), Ok(()));
    }

    #[test]
    fn ve_c12_a_long_prompt_is_cut_in_the_title() {
        assert_eq!(title("Extract keywords"), "Extraction: Extract keywords");
        assert_eq!(title(&"ä".repeat(30)), format!("Extraction: {}", "ä".repeat(30)));
        assert_eq!(title(&"ä".repeat(31)), format!("Extraction: {}...", "ä".repeat(30)));
    }
}
