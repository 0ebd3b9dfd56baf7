//! Valid and invalid configurations, and the reported problems.

use serde_json::{Value as Json, json};

use super::*;
use crate::graph::import;
use tidemill_base::value::pool::Pool;

/// The diagnostics of a workflow whose node `cp1` has this configuration.
fn problems(mut config: Json) -> Vec<String> {
    config["type"] = "context-processor".into();
    config["title"] = "C".into();
    let nodes = json!([
        {"id": "start", "data": {"type": "start", "title": "S", "variables": []}},
        {"id": "cp1", "data": config},
        {"id": "end", "data": {"type": "end", "title": "E", "outputs": []}},
    ]);
    let edges = json!([{"source": "start", "target": "cp1"}, {"source": "cp1", "target": "end"}]);
    let imported = import(json!({"nodes": nodes, "edges": edges}).to_string().as_bytes());
    let errors = imported.diagnostics.iter().filter(|problem| problem.is_error());
    errors.map(|problem| format!("{} {} {}", problem.code, problem.path, problem.message)).collect()
}

fn only(config: Json) -> String {
    let found = problems(config.clone());
    assert_eq!(found.len(), 1, "{config}: {found:#?}");
    found.into_iter().next().unwrap()
}

#[test]
fn cx_a05_options_of_a_truncation_are_checked_when_a_file_comes_in() {
    let truncate = |options: Json| json!({"operation": "truncate", "truncate": options});
    let none = only(truncate(json!({})));
    assert!(none.contains("At least one truncate option must be specified"), "{none}");
    assert!(none.starts_with("ConfigurationValidationError "), "{none}");
    let range = only(truncate(json!({"range": {"start": 3, "end": 3}})));
    assert!(range.contains("Range start must be less than end"), "{range}");
    let negative = only(truncate(json!({"keepFirst": -1})));
    assert!(negative.contains("node.cp1.config.truncate.keepFirst: must be"), "{negative}");
    assert!(negative.contains("data.truncate.keepFirst "), "{negative}");
    let part = only(truncate(json!({"range": {"start": 1}})));
    assert!(part.contains("node.cp1.config.truncate.range.end: is missing"), "{part}");
    assert_eq!(problems(truncate(json!({"role": "user"}))), Vec::<String>::new());
}

#[test]
fn cx_a13_an_operation_needs_its_object() {
    for name in ["truncate", "insert", "replace", "filter", "append", "rollback", "start_batch"] {
        let found = only(json!({"operation": name}));
        assert!(found.contains("Required configuration field for the operation is missing"), "{found}");
        assert!(found.contains("node.cp1.config.operation: "), "{found}");
    }
    assert_eq!(problems(json!({"operation": "clear"})), Vec::<String>::new());
}

#[test]
fn an_operation_that_is_not_known_is_named_with_those_that_are() {
    for config in [json!({"operation": "shuffle"}), json!({}), json!({"operation": 3})] {
        let found = only(config);
        assert!(found.contains("must be one of truncate, insert, replace, clear, filter"), "{found}");
    }
}

#[test]
fn messages_are_checked_one_by_one() {
    let insert = |position: i64, messages: Json| json!({"operation": "insert", "insert": {"position": position, "messages": messages}});
    let empty = only(insert(0, json!([])));
    assert!(empty.contains("Messages array cannot be empty"), "{empty}");
    let position = only(insert(-2, json!([{"role": "user", "content": "x"}])));
    assert!(position.contains("node.cp1.config.insert.position: "), "{position}");
    let found = problems(insert(0, json!([{"role": "user", "content": "x"}, {"role": "god"}, 7])));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].contains("node.cp1.config.insert.messages[1].role: "), "{}", found[0]);
    assert!(found[1].contains("node.cp1.config.insert.messages[1].content: is missing"), "{}", found[1]);
}

#[test]
fn conditions_of_a_filter_are_checked() {
    let filter = |conditions: Json| json!({"operation": "filter", "filter": conditions});
    for conditions in [json!({}), json!({"roles": []})] {
        let none = only(filter(conditions));
        assert!(none.contains("At least one filter condition must be specified"), "{none}");
    }
    let empty = only(filter(json!({"contentContains": []})));
    assert!(empty.contains("Keywords array cannot be empty"), "{empty}");
    let role = only(filter(json!({"roles": ["god"]})));
    assert!(role.contains("node.cp1.config.filter.roles[0]: "), "{role}");
}

#[test]
fn cx_17_all_that_is_wrong_is_said_at_once() {
    let found = problems(json!({
        "operation": "truncate", "truncate": {"keepFirst": -1, "keepLast": "x"}, "target": "moon", "conversation_id": "a b",
    }));
    assert_eq!(found.len(), 4, "{found:#?}");
}

#[test]
fn texts_of_messages_are_filled_in_and_the_rest_is_passed_on() {
    let data = json!({
        "operation": "append",
        "append": {"messages": [
            {"role": "user", "content": "Hello {{#start.name#}}"},
            {"role": "user", "content": {"text": "{{#start.name#}}", "files": []}},
        ]},
        "conversation_id": "other",
    });
    let data =
        ContextProcessorData::parse(data.as_object().unwrap(), &mut crate::dsl::Problems::new()).unwrap();
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    assert_eq!(mentions, [("start".to_string(), "name".to_string()), ("start".into(), "name".into())]);
    let result = data.evaluate(&Pool::new(json!({"start": {"name": "Ann"}})));
    let effects = result.effects.unwrap();
    let [MessageChange { list, target: Target::Own, change: ListChange::Append(messages) }] =
        &effects.messages[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(list, "other");
    assert_eq!(messages[0], Message::text(Role::User, "Hello Ann"));
    assert_eq!(messages[1].content, json!({"text": "Ann", "files": []}));
    let names: Vec<&str> = result.inputs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["operation", "append"]);
}
