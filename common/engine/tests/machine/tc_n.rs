//! TC-N: nodes that a step evaluates. (TC-N-005 is about code, which runs on a worker.)

use serde_json::{Value as Json, json};

use super::play::Play;
use super::sheet::sheet;
use tidemill_workflow::graph::import;
use tidemill_workflow::nodes::condition::Operator;

#[test]
fn tc_n_001_a_start_node_outputs_the_inputs_and_all_other_namespaces() {
    let text = "conversation c, value_type: string, value: hi\nenvironment k, value_type: secret, value: hunter2\n\
                e end outputs: [{variable: x, value_selector: [s, x]}]\ns > e";
    let mut play = Play::sheet(text, json!({"x": 1, "y": "two"}));
    play.start();
    let ended = play.records.iter().find(|record| record.kind == "node_run_succeeded").unwrap();
    let outputs = ended.data["outputs"].as_object().unwrap();
    let names: Vec<&String> = outputs.keys().collect();
    assert_eq!(names, ["sys.user_id", "env.k", "conversation.c", "x", "y"]);
    assert!(!format!("{:?}", play.records).contains("hunter2"), "a secret is never emitted");
    assert_eq!(play.last(), "succeeded [x=1]");
}

#[test]
fn tc_n_002_an_end_node_makes_the_outputs_of_the_run_and_missing_values_are_null() {
    let mut play = Play::given("hi", "start s\njob a\nend e a.output s.x a.gone\ns > a > e");
    play.start().done("a", "1");
    assert_eq!(play.last(), "succeeded [a.output=\"1\" s.x=\"hi\" a.gone=null]");
}

/// Returns the handle that an if-else takes, or its error.
fn way(data: &str, inputs: &Json) -> Result<String, String> {
    let text = format!(
        "g if-else {data}\ne end outputs: [{{variable: r, value_selector: [g, selected_case_id]}}]\ns > g:false > e"
    );
    let mut play = Play::sheet(&text, inputs.clone());
    play.start();
    match &play.run.error {
        Some(error) => Err(error.to_string()),
        None => Ok(play.value("g.selected_case_id").as_str().unwrap_or_default().to_string()),
    }
}

fn condition(name: &str, operator: &str, value: &Json) -> Json {
    json!({"variable_selector": ["s", name], "comparison_operator": operator, "value": value})
}

/// Operators have Dify's names. Their words may also be joined by underscores (0.3). `regex_match` exists only here: it
/// finds the expression anywhere in the text.
#[test]
fn tc_n_003_an_if_else_knows_every_operator_in_both_spellings() {
    let inputs =
        json!({"t": "hello world", "n": 7, "f": 2.5, "no": null, "l": ["a", "b"], "blank": "", "yes": true});
    let rows = [
        ("contains", "t", json!("lo w"), json!("LO")),
        ("not contains", "t", json!("xyz"), json!("hello")),
        ("start with", "t", json!("hell"), json!("world")),
        ("end with", "t", json!("world"), json!("hello")),
        ("is", "t", json!("hello world"), json!("hello")),
        ("is not", "t", json!("hello"), json!("hello world")),
        ("in", "t", json!(["hello world", "x"]), json!(["hello"])),
        ("not in", "t", json!(["hello"]), json!(["hello world"])),
        ("all of", "t", json!(["hello", "world"]), json!(["hello", "there"])),
        ("regex match", "t", json!("w.r"), json!("^w.r")),
        ("=", "n", json!("7"), json!("8")),
        ("≠", "n", json!("8"), json!("7")),
        (">", "n", json!("6"), json!("7")),
        ("<", "n", json!("8"), json!("7")),
        ("≥", "n", json!("7"), json!("8")),
        ("≤", "n", json!("7"), json!("6")),
    ];
    let unary = [
        ("empty", "blank", "t"),
        ("not empty", "t", "blank"),
        ("null", "no", "t"),
        ("not null", "t", "no"),
        ("exists", "t", "no"),
        ("not exists", "no", "t"),
    ];
    let mut seen = Vec::new();
    let mut check = |operator: &str, (yes, yes_value): (&str, &Json), (no, no_value): (&str, &Json)| {
        for spelling in [operator.to_string(), operator.replace(' ', "_")] {
            for (name, value, expected) in [(yes, yes_value, "true"), (no, no_value, "false")] {
                let data = json!([condition(name, &spelling, value)]);
                let data = format!("cases: [{{case_id: 'true', logical_operator: and, conditions: {data}}}]");
                let taken = way(&data, &inputs);
                assert_eq!(taken.as_deref(), Ok(expected), "{name} {spelling} {value}");
            }
        }
        seen.push(Operator::read(operator).unwrap());
    };
    for (operator, name, yes, no) in &rows {
        check(operator, (name, yes), (name, no));
    }
    for (operator, yes, no) in unary {
        check(operator, (yes, &json!("")), (no, &json!("")));
    }
    let missed: Vec<_> = Operator::ALL.iter().filter(|operator| !seen.contains(operator)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// Besides Dify's cases, an if-else may have groups in `conditions`, whose `id` is the handle, or the flat form of old
/// exports (0.1). The handle when no case holds is `false` (0.2).
#[test]
fn tc_n_003_cases_join_conditions_by_and_and_or_and_the_first_that_holds_wins() {
    let holds = |name: &str| condition(name, "is", &json!("y"));
    let (a, b) = (holds("a"), holds("b"));
    let both = |logical: &str| {
        format!("cases: [{{case_id: c1, logical_operator: {logical}, conditions: [{a}, {b}]}}]")
    };
    let several = format!(
        "cases: [{{case_id: c1, logical_operator: and, conditions: [{a}]}}, \
         {{case_id: c2, logical_operator: and, conditions: [{b}]}}]"
    );
    let grouped = format!(
        "conditions: [{{id: first, logical_operator: and, conditions: [{a}]}}, \
         {{id: second, logical_operator: or, conditions: [{b}]}}]"
    );
    let flat = format!("logical_operator: or, conditions: [{a}, {b}]");
    for (data, of_a, of_b, expected) in [
        (both("and"), "y", "y", "c1"),
        (both("and"), "y", "n", "false"),
        (both("or"), "n", "y", "c1"),
        (both("or"), "n", "n", "false"),
        (several.clone(), "y", "y", "c1"),
        (several.clone(), "n", "y", "c2"),
        (several, "n", "n", "false"),
        (grouped.clone(), "y", "y", "first"),
        (grouped.clone(), "n", "y", "second"),
        (grouped, "n", "n", "false"),
        (flat.clone(), "n", "y", "true"),
        (flat, "n", "n", "false"),
    ] {
        let taken = way(&data, &json!({"a": of_a, "b": of_b}));
        assert_eq!(taken.as_deref(), Ok(expected), "a={of_a} b={of_b} {data}");
    }
}

#[test]
fn tc_n_003_an_operator_that_does_not_exist_is_refused_at_import() {
    let text = sheet(&format!(
        "g if-else cases: [{{case_id: 'true', logical_operator: and, conditions: [{}]}}]\ns > g",
        condition("x", "resembles", &json!("y"))
    ));
    let imported = import(text.as_bytes());
    assert!(imported.graph.is_none());
    assert!(format!("{:?}", imported.diagnostics).contains("resembles"));
}

#[test]
fn tc_n_004_only_nodes_after_the_matching_case_run() {
    let case = |id: &str| {
        let condition = condition("x", "is", &json!(id));
        format!("{{case_id: {id}, logical_operator: and, conditions: [{condition}]}}")
    };
    let text = format!(
        "g if-else cases: [{}, {}, {}]\na job\nb job\nb2 job\nc job\nd job\n\
         s > g:one > a\ng:two > b\ng:two > b2\ng:three > c\ng:false > d",
        case("one"),
        case("two"),
        case("three")
    );
    for (x, expected) in
        [("one", ["a"].as_slice()), ("two", &["b", "b2"]), ("three", &["c"]), ("four", &["d"])]
    {
        let mut play = Play::sheet(&text, json!({"x": x}));
        play.start();
        assert_eq!(play.waiting(), expected, "{x}");
        play.goes_on(|_, _| false);
        assert_eq!(play.run.root_steps(), 2 + expected.len() as u64);
    }
}

#[test]
fn tc_n_006_a_template_is_rendered_with_its_variables() {
    for (template, value, expected) in [
        ("{{ x }}", json!("hi"), "hi"),
        ("{% for i in x %}{{ i }},{% endfor %}", json!([1, 2]), "1,2,"),
        ("{% if x.ok %}yes{% else %}no{% endif %}", json!({"ok": true}), "yes"),
        ("{{ x | upper }}", json!("hi"), "HI"),
        ("[{{ x }}{{ unknown }}]", json!(null), "[None]"),
    ] {
        let text = format!(
            "t text template: '{template}', variables: [{{variable: x, value_selector: [s, x]}}]\n\
             e end outputs: [{{variable: r, value_selector: [t, output]}}]\ns > t > e"
        );
        let mut play = Play::sheet(&text, json!({"x": value}));
        play.start();
        assert_eq!(play.last(), format!("succeeded [r={}]", json!(expected)), "{template}");
    }
}

#[test]
fn tc_n_007_an_aggregator_takes_the_first_variable_that_exists() {
    let text = "g if-else cases: [{case_id: 'true', logical_operator: and, conditions: [{variable_selector: [s, x], comparison_operator: is, value: 'yes'}]}]\n\
                a job\nb job\n\
                v variable-aggregator output_type: string, variables: [[a, output], [b, output]]\n\
                e end outputs: [{variable: r, value_selector: [v, output]}]\n\
                s > g:true > a > v\ng:false > b > v > e";
    for (x, node) in [("yes", "a"), ("no", "b")] {
        let mut play = Play::sheet(text, json!({"x": x}));
        play.start().done(node, node);
        assert_eq!(play.last(), format!("succeeded [r=\"{node}\"]"));
    }
}

#[test]
fn tc_n_007_each_group_of_an_aggregator_chooses_separately() {
    let group =
        |name: &str, of: &str| format!("{{group_name: {name}, output_type: string, variables: {of}}}");
    let text = format!(
        "a job\nv variable-aggregator output_type: string, variables: [], advanced_settings: {{group_enabled: true, groups: [{}, {}]}}\n\
         e end outputs: [{{variable: one, value_selector: [v, one]}}, {{variable: two, value_selector: [v, two, output]}}]\n\
         s > a > v > e",
        group("one", "[[gone, x], [a, output]]"),
        group("two", "[[s, x], [a, output]]")
    );
    let mut play = Play::sheet(&text, json!({"x": "X"}));
    play.start().done("a", "A");
    assert_eq!(play.last(), "succeeded [one={\"output\":\"A\"} two=\"X\"]");
}

#[test]
fn tc_n_008_an_assigner_writes_variables_and_emits_events() {
    let text = "conversation n, value_type: number, value: 1\nconversation l, value_type: 'array[string]', value: [a]\n\
                w assigner version: '2', items: [{variable_selector: [conversation, n], input_type: constant, operation: '+=', value: 4}, \
                {variable_selector: [conversation, l], input_type: variable, operation: append, value: [s, x]}]\n\
                e end outputs: [{variable: n, value_selector: [conversation, n]}, {variable: l, value_selector: [conversation, l]}]\n\
                s > w > e";
    let text = sheet(text);
    let mut play = Play::headed(&text, json!({"x": "b"}), |head| head.conversation_id = Some("c1".into()));
    play.start().tells_of(
        &[":=", "succeeded"],
        &["conversation.n := 5", "conversation.l := [\"a\",\"b\"]", "succeeded [n=5 l=[\"a\",\"b\"]]"],
    );
    let kept: Vec<&String> = play.kept.conversation.keys().collect();
    assert_eq!(kept.len(), 2, "they are stored for the next run: {kept:?}");
}
