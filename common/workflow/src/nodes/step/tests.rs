use serde_json::{Value as Json, json};

use super::{Param, STEP_FORMS, StepData, is_llm_step};
use crate::dsl::Problems;
use crate::nodes::NodeKind;

fn read(kind: NodeKind, data: Json) -> Result<StepData, Vec<String>> {
    let mut problems = Problems::new();
    let read = StepData::parse(kind, data.as_object().unwrap(), &mut problems);
    read.ok_or_else(|| problems.into_vec().into_iter().map(|problem| problem.path).collect())
}

#[test]
fn a_step_is_read_whole() {
    let data = read(
        NodeKind::Llm,
        json!({
            "node": "n1", "user_prompt": "flat", "system_prompt": "flat", "params": {"user_prompt": "given"},
            "enable_filling": true, "to_user": false, "override_input": {"a": {}}, "strict_output": true,
            "language": "en", "profile_id": "p",
        }),
    )
    .unwrap();
    assert_eq!((data.id(), data.call), ("n1", "LLM"));
    let names: Vec<&str> = data.params.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["system_prompt", "profile_id", "user_prompt"]);
    assert_eq!(data.params[2].1, Param::Mixed(json!("given")));
    assert_eq!((data.enable_filling, data.to_user, data.strict_output), (Some(true), Some(false), true));
    assert_eq!(data.filling.profile_id.as_deref(), Some("p"));
}

#[test]
fn se_a20_the_history_that_a_step_sees_has_bounds() {
    for size in [json!(0), json!(11), json!(2.5), json!("two")] {
        let refused = read(NodeKind::Llm, json!({"user_prompt": "x", "step_history_size": size}));
        assert_eq!(refused.unwrap_err(), ["step_history_size"], "{size}");
    }
    let data = read(NodeKind::Llm, json!({"user_prompt": "x", "params": {"step_history_size": 10}})).unwrap();
    assert_eq!(data.history_size(), 10);
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    assert!(mentions.contains(&("#history".into(), "10".into())), "{mentions:?}");
}

#[test]
fn problems_are_reported_with_their_path() {
    for (kind, data, path) in [
        (NodeKind::Llm, json!({"user_prompt": "x", "temperature": 3}), "temperature"),
        (NodeKind::Empty, json!({"params": []}), "params"),
        (NodeKind::Empty, json!({"params": {"a": {"type": "variable", "value": ["x"]}}}), "params.a"),
        (NodeKind::Empty, json!({"enable_filling": "perhaps"}), "enable_filling"),
        (NodeKind::Empty, json!({"language": "fr"}), "language"),
        (NodeKind::Empty, json!({"input_schema": {"type": "txt"}}), "input_schema"),
        (NodeKind::Slot, json!({}), ""),
        (NodeKind::Slot, json!({"schema": {"type": 5}}), "schema"),
        (NodeKind::Slot, json!({"schema": {}, "on_missing": "ask"}), "on_missing"),
    ] {
        assert_eq!(read(kind, data.clone()).unwrap_err(), [path], "{data}");
    }
}

#[test]
fn an_llm_node_is_a_step_when_it_has_a_key_of_one() {
    for (data, expected) in [
        (json!({"model": {}, "prompt_template": []}), false),
        (json!({"profile_id": "p", "prompt": "x"}), false),
        (json!({"user_prompt": "x"}), true),
        (json!({"enable_context": false}), true),
        (json!({"params": {"system_prompt": "x"}}), true),
    ] {
        assert_eq!(is_llm_step(data.as_object().unwrap()), expected, "{data}");
    }
}

#[test]
fn calls_have_one_form_each() {
    for form in STEP_FORMS {
        assert_eq!(
            STEP_FORMS.iter().filter(|other| other.call == form.call || other.kind == form.kind).count(),
            1
        );
    }
}

#[test]
fn a_step_asks_for_the_conversation_only_where_its_call_may_read_it() {
    let reads_messages = |kind: NodeKind, data: Json| {
        let mut mentions = Vec::new();
        read(kind, data).unwrap().mentions(&mut mentions);
        mentions.iter().any(|(node, _)| node == "#messages")
    };
    let api = |more: bool| json!({"url": "http://x.test", "enable_filling": more});
    assert_eq!([true, false].map(|fills| reads_messages(NodeKind::Api, api(fills))), [true, false]);
    let sql = |more: Json| {
        let mut data = json!({"datasource": "d", "sql": "select 1"});
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        reads_messages(NodeKind::Sql, data)
    };
    assert!(!sql(json!({})) && !sql(json!({"mode": "query"})));
    assert!(
        sql(json!({"mode": "generate"}))
            && sql(json!({"enable_filling": true}))
            && sql(json!({"node": "n1"}))
    );
    assert!(
        reads_messages(NodeKind::Sql, json!({"datasource": "d"}))
            && reads_messages(NodeKind::Llm, json!({"user_prompt": "x"}))
    );
}

#[test]
fn ve_31_an_extraction_that_was_not_rewritten_is_no_constant() {
    let data =
        json!({"url": "http://x.test", "query": {"type": "extraction", "value": {"source_node_id": "a"}}});
    assert_eq!(read(NodeKind::Api, data).unwrap_err(), ["query"]);
}
