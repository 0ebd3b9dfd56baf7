use serde_json::{Value as Json, json};
use tidemill_common::graph::{Graph, import};
use tidemill_common::value::SegmentType;

use super::remote_files::Answers;
use super::{SubmitError, inputs};

fn graph() -> Graph {
    let text = "
kind: app
version: 0.6.0
app: {mode: advanced-chat, name: x}
workflow:
  conversation_variables:
  - {id: a, name: names, value_type: 'array[string]', value: []}
  - {id: b, name: count, value_type: number, value: 0}
  - {id: c, name: note, value_type: string, value: ''}
  graph:
    nodes:
    - {id: start, data: {type: start, title: s, variables: []}}
    - {id: answer, data: {type: answer, title: a, answer: hi}}
    edges:
    - {id: e1, source: start, target: answer, sourceHandle: source, targetHandle: target}
";
    let imported = import(text.as_bytes());
    imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics))
}

#[test]
fn conversation_values_get_the_type_that_the_workflow_declares() {
    let graph = graph();
    let given = |name: &str, value: Json| {
        let map = json!({name: value}).as_object().cloned().unwrap();
        inputs::of_conversation(&graph, &map, &Answers::default())
            .map(|values| values[0].1.ty)
            .map_err(|error| error.to_string())
    };
    assert_eq!(given("names", json!([])), Ok(SegmentType::ArrayString));
    assert_eq!(given("names", json!(["a"])), Ok(SegmentType::ArrayString));
    assert_eq!(given("count", json!(1.5)), Ok(SegmentType::Float));
    assert_eq!(given("count", json!(2)), Ok(SegmentType::Integer));
    assert_eq!(given("unknown", json!({"a": 1})), Ok(SegmentType::Object));
    let wrong = |name: &str, ty: &str| Err(format!("conversation variable {name} must be of type {ty}"));
    assert_eq!(given("names", json!("a")), wrong("names", "array[string]"));
    assert_eq!(given("count", json!("2")), wrong("count", "number"));
    assert_eq!(given("note", json!(2)), wrong("note", "string"));
}

#[test]
fn errors_say_what_to_do() {
    let busy = SubmitError::Busy.to_string();
    assert!(busy.contains("scheduler.inbox_max") && busy.contains("again"));
    let large = SubmitError::ValueTooLarge { name: "text".into(), size: 9, max: 8 }.to_string();
    assert_eq!(large, "text has 9 bytes as JSON, more than run.value_bytes_max (8 bytes)");
}
