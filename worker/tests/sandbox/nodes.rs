//! Tests of whole nodes: values in, checked outputs or a typed failure out (TC-N-005).

use std::borrow::Cow;

use tidemill_common::dsl::Problems;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::code::{CodeData, CodeLimits};
use tidemill_common::value::{Lookup, Segment, Variables};
use tidemill_sandbox::Owner;
use tidemill_worker::nodes::code::CodeNodes;

use super::*;

/// Has only the variable `start.x`.
struct Start(Segment);

impl Variables for Start {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        if (node, name) == ("start", "x") { Lookup::Found(Cow::Borrowed(&self.0)) } else { Lookup::Missing }
    }
    fn names(&self) -> Vec<(String, String)> {
        vec![("start".into(), "x".into())]
    }
}

async fn node(config: &CodeConfig, code: &str) -> NodeResult {
    let data = json!({"code": code, "code_language": "python3", "outputs": {"r": {"type": "number"}},
        "variables": [{"variable": "x", "value_selector": ["start", "x"]}]});
    let mut problems = Problems::new();
    let data = CodeData::parse(data.as_object().unwrap(), &mut problems).unwrap();
    let nodes = CodeNodes::with(Box::new(sandbox(config)), CodeLimits::default());
    nodes.run(&data, &Start(Segment::infer(json!(20))), Owner::default(), false).await
}

fn failure(result: &NodeResult) -> (&str, &str, usize) {
    let failure = result.failure.as_ref().unwrap();
    (&failure.error_type, &failure.message, result.inputs.len())
}

#[tokio::test]
async fn tc_n_005_the_result_of_main_is_the_output() {
    let result = node(&CodeConfig::default(), "def main(x): return {'r': x * 2}").await;
    assert_eq!(result.failure, None);
    assert_eq!(result.outputs, [("r".to_string(), Segment::infer(json!(40)))]);
    assert_eq!(result.inputs, [("x".to_string(), Segment::infer(json!(20)))]);
}

#[tokio::test]
async fn tc_n_005_code_that_takes_too_long_is_ended_and_fails() {
    let config = CodeConfig { timeout_ms: 500, ..CodeConfig::default() };
    let result = node(&config, "def main(x):\n    while True: pass").await;
    let (class, message, inputs) = failure(&result);
    assert_eq!((class, inputs), ("CodeExecutionError", 1));
    assert_eq!(
        message,
        "process exited with code -1\nerror: timeout: the code did not end within 500 ms (code.timeout_ms)"
    );
}

#[tokio::test]
async fn tc_n_005_an_error_of_the_code_is_a_typed_failure() {
    let result = node(&CodeConfig::default(), "def main(x): return {'r': x / 0}").await;
    let (class, message, inputs) = failure(&result);
    assert_eq!((class, inputs), ("CodeExecutionError", 1));
    assert!(message.ends_with("ZeroDivisionError: division by zero"), "{message}");
    let result = node(&CodeConfig::default(), "def main(x): return {'r': 'text'}").await;
    let wanted = ("OutputValidationError", "Output r is not a number, got <class 'str'> instead.", 1);
    assert_eq!(failure(&result), wanted);
    let result = node(&CodeConfig::default(), "def main(x): return [x]").await;
    assert_eq!(failure(&result), ("WorkflowNodeError", "Result must be a dict, got list", 0));
}
