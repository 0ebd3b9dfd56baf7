use serde_json::{Value as Json, json};

use super::*;
use crate::dsl::Problems;
use tidemill_base::value::pool::Pool;

fn hooks(list: Json) -> Result<Hooks, Vec<String>> {
    let mut problems = Problems::new();
    let data = JsonMap::from_iter([("hooks".to_string(), list)]);
    let hooks = Hooks::parse(&data, &mut problems);
    let found: Vec<String> =
        problems.into_vec().into_iter().map(|p| format!("{} {}", p.path, p.message)).collect();
    if found.is_empty() { Ok(hooks) } else { Err(found) }
}

fn one(extra: Json) -> Hooks {
    let mut hook = json!({"hook_type": "after_execute", "event_name": "done"});
    hook.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap());
    hooks(json!([hook])).unwrap()
}

fn pool() -> Pool {
    Pool::new(json!({"start": {"name": "Ann", "n": 7, "list": [1, 2]}}))
}

fn outcome() -> NodeOutcome {
    NodeOutcome {
        output: json!({"count": 5, "text": "hi"}).as_object().cloned().unwrap(),
        status: "succeeded",
        error: String::new(),
    }
}

fn event(hooks: &Hooks) -> Result<Option<JsonMap>, NodeFailure> {
    hooks.of(HookType::After)[0].event(&pool(), &outcome())
}

#[test]
fn a_condition_decides_whether_an_event_is_sent() {
    for (condition, holds) in [
        (json!("output.count > 3"), true),
        (json!("output.count > 3 && status == 'failed'"), false),
        (json!("output.count > 9 || {{#start.name#}} == 'Ann'"), true),
        (json!("!(output.count === 5)"), false),
        (json!("output.text !== '!'"), true),
        (json!({"expression": "{{#start.n#}} in [7, 8]"}), true),
        (json!("{{ output.text == 'hi' }}"), true),
        (json!("output.nothing"), false),
        (json!(false), false),
        (json!(true), true),
    ] {
        let event = event(&one(json!({"condition": condition}))).unwrap();
        assert_eq!(event.is_some(), holds, "{condition}");
    }
}

#[test]
fn a_payload_is_filled_in_and_a_single_reference_keeps_its_type() {
    let payload = json!({"who": "Dear {{#start.name#}}", "list": "{{#start.list#}}", "n": "{{ output.count + 1 }}", "k": 3});
    let event = event(&one(json!({"event_payload": payload, "create_checkpoint": true}))).unwrap().unwrap();
    assert_eq!(
        Json::Object(event),
        json!({
            "event_name": "done", "hook_type": "after_execute", "create_checkpoint": true,
            "event_data": {"who": "Dear Ann", "list": [1, 2], "n": "6", "k": 3},
        })
    );
}

#[test]
fn a_value_is_not_read_as_a_template() {
    let pool = Pool::new(json!({"start": {"name": "{{ output.count }}"}}));
    let hooks = one(json!({"event_payload": "x {{#start.name#}}"}));
    let event = hooks.of(HookType::After)[0].event(&pool, &outcome()).unwrap().unwrap();
    assert_eq!(event["event_data"], json!("x {{ output.count }}"));
}

#[test]
fn a_hook_that_fails_fails_its_node_unless_it_may() {
    let failing = json!({"condition": "output.count / 0 > 1"});
    let error = event(&one(failing.clone())).unwrap_err();
    assert_eq!(error.error_type, "HookExecutionError");
    assert!(error.message.starts_with("hook after_execute [0] failed: "), "{}", error.message);
    let mut allowed = failing;
    allowed["continue_on_error"] = true.into();
    assert_eq!(event(&one(allowed)).unwrap(), None);
}

#[test]
fn the_heaviest_hook_comes_first_and_disabled_ones_are_left_out() {
    let hook = |name: &str, weight: i64| json!({"hook_type": "before_execute", "event_name": name, "weight": weight});
    let mut off = hook("off", 100);
    off["enabled"] = false.into();
    let list = hooks(json!([hook("a", 1), hook("b", 5), off, hook("c", 1)])).unwrap();
    let names: Vec<&str> = list.of(HookType::Before).iter().map(|hook| hook.event_name.as_str()).collect();
    assert_eq!(names, ["b", "a", "c"]);
    assert!(list.of(HookType::After).is_empty());
}

#[test]
fn problems_are_reported_at_their_place() {
    for (hook, said) in [
        (json!({"event_name": "x"}), "hooks[0].hook_type"),
        (json!({"hook_type": "before_execute"}), "hooks[0].event_name"),
        (json!({"hook_type": "before_execute", "event_name": "x", "condition": "1 +"}), "hooks[0].condition"),
        (json!({"hook_type": "before_execute", "event_name": "x", "condition": 3}), "hooks[0].condition"),
        (json!(7), "hooks[0]"),
    ] {
        let found = hooks(json!([hook])).unwrap_err();
        assert!(found[0].starts_with(said), "{found:?}");
    }
}
