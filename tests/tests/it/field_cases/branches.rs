//! Branches that meet again: fail branches, parallel calls, conditions on numbers and empty fields, odd handles.

use serde_json::{Value as Json, json};

use super::workflow::{
    Sketch, choose, classifier, code, each, end, failing_over, first_of, form, get, retried, start, template,
};
use super::{Case, Desk, run, say};

/// A step that fails and jumps over the next one.
fn jumps() -> Sketch {
    let divide = code(
        "def main(bad):\n    return {\"r\": 8 // (0 if bad else 4)}\n",
        &[("r", "number")],
        &[("bad", "start.bad")],
    );
    Sketch::workflow("start > divide > more > last > end; divide[fail-branch] > last")
        .node("start", start(&[("bad", "number")]))
        .node("divide", failing_over(divide))
        .node("more", template("more {{ r }}", &[("r", "divide.r")]))
        .node("last", template("{{ m }}/{{ e }}", &[("m", "more.output"), ("e", "divide.error_type")]))
        .node("end", end(&[("text", "last.output")]))
}

/// Three calls at once, each with a fail branch, that meet in an aggregator.
fn calls_meet(base: &str) -> Sketch {
    let call = |path: &str| failing_over(get(&format!("{base}/{path}")));
    let seen =
        &[("a", "one.status_code"), ("b", "two.error_type"), ("c", "three.status_code"), ("g", "any.output")];
    let edges = "start > one > any; start > two > any; start > three > any; one[fail-branch] > lost1 > any; \
        two[fail-branch] > lost2 > any; three[fail-branch] > lost3 > any; any > join > end";
    Sketch::workflow(edges)
        .node("start", start(&[]))
        .node("one", call("slow/100"))
        .node("two", call("fail/500"))
        .node("three", call("slow/250"))
        .node("lost1", template("lost 1", &[]))
        .node("lost2", template("lost 2", &[]))
        .node("lost3", template("lost 3", &[]))
        .node("any", first_of("string", &["lost1.output", "lost2.output", "lost3.output"]))
        .node("join", template("{{ a }} {{ b }} {{ c }} {{ g }}", seen))
        .node("end", end(&[("text", "join.output")]))
}

/// Two branches that meet in code, which sees the values of both.
fn meet_in_code() -> Sketch {
    let source = "def main(a=None, b=None):\n    return {\"r\": repr((a, b))}\n";
    Sketch::workflow("start > pick; pick[one] > left > meet; pick[false] > right > meet; meet > end")
        .node("start", start(&[("n", "number")]))
        .node("pick", choose("one", &[("start.n", "=", "1", "number")]))
        .node("left", template("L", &[]))
        .node("right", template("R", &[]))
        .node("meet", code(source, &[("r", "string")], &[("a", "left.output"), ("b", "right.output")]))
        .node("end", end(&[("r", "meet.r")]))
}

/// A form whose optional fields are not sent.
fn empty_fields() -> Sketch {
    let mut form = start(&[
        ("tick", "checkbox"),
        ("on", "checkbox"),
        ("n", "number"),
        ("kind", "select"),
        ("t", "text-input"),
    ]);
    form["variables"][1]["default"] = true.into();
    form["variables"][3]["options"] = json!(["x", "y"]);
    form["variables"][4]["default"] = "given".into();
    let inputs =
        &[("a", "start.tick"), ("b", "start.on"), ("c", "start.n"), ("d", "start.kind"), ("e", "start.t")];
    let source = "def main(a, b, c, d, e):\n    return {\"r\": repr([a, b, c, d, e])}\n";
    Sketch::workflow("start > seen > is; is[yes] > ticked > end; is[false] > blank > end")
        .node("start", form)
        .node("seen", code(source, &[("r", "string")], inputs))
        .node("is", choose("yes", &[("start.tick", "=", "true", "boolean")]))
        .node("ticked", template("ticked", &[]))
        .node("blank", template("blank", &[]))
        .node("end", end(&[("ticked", "ticked.output"), ("blank", "blank.output"), ("seen", "seen.r")]))
}

/// Whole numbers, fractions and texts compared.
fn numbers() -> Sketch {
    let source = "def main():\n    return {\"zero\": 0, \"one\": 1, \"tenth\": 0.1, \"minus\": -3, \"text\": \"0.95\"}\n";
    let outputs = &[
        ("zero", "number"),
        ("one", "number"),
        ("tenth", "number"),
        ("minus", "number"),
        ("text", "string"),
    ];
    let conditions = &[
        ("made.zero", "≤", "0.95", "number"),
        ("made.one", "≥", "0.95", "number"),
        ("made.tenth", "<", "{{#made.text#}}", "number"),
        ("made.minus", "<", "-2.5", "number"),
    ];
    Sketch::workflow("start > made > is; is[yes] > all > end; is[false] > some > end")
        .node("start", start(&[]))
        .node("made", code(source, outputs, &[]))
        .node("is", choose("yes", conditions))
        .node("all", template("all", &[]))
        .node("some", template("some", &[]))
        .node("end", end(&[("all", "all.output"), ("some", "some.output")]))
}

/// An iteration in each of two branches, and an aggregator.
fn iterations_in_branches() -> Sketch {
    let source = "def main():\n    return {\"list\": [\"x\", \"y\"]}\n";
    Sketch::workflow(
        "start > made > is; is[yes] > a > any; is[false] > b > any; any > end; astart > ta; bstart > tb",
    )
    .node("start", start(&[("n", "number")]))
    .node("made", code(source, &[("list", "array[string]")], &[]))
    .node("is", choose("yes", &[("start.n", "=", "1", "number")]))
    .node("a", each("made.list", "ta.output", "array[string]", 1))
    .inside("a", "ta", template("A{{ v }}", &[("v", "a.item")]))
    .node("b", each("made.list", "tb.output", "array[string]", 4))
    .inside("b", "tb", template("B{{ v }}", &[("v", "b.item")]))
    .node("any", first_of("array[string]", &["a.output", "b.output"]))
    .node("end", end(&[("o", "any.output")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_meet_again_whichever_was_taken() {
    let desk = Desk::without_model().await;
    let with = |key: &str, value: Json| json!({key: value});
    let handled = Case::new(
        "a failure jumps over a step",
        &jumps(),
        with("bad", json!(1)),
        json!({"text": "None/CodeExecutionError"}),
    )
    .ends("partial-succeeded");
    let met = json!({"text": "200 HTTPResponseCodeError 200 lost 2"});
    let blank = json!({"ticked": null, "blank": "blank", "seen": "[None, True, None, None, 'given']"});
    desk.all_hold(&[
        Case::new(
            "no failure, so nothing is jumped over",
            &jumps(),
            with("bad", json!(0)),
            json!({"text": "more 2/None"}),
        ),
        handled,
        Case::new("one of three calls fails", &calls_meet(&desk.server.base), json!({}), met)
            .ends("partial-succeeded"),
        Case::new("the left branch", &meet_in_code(), with("n", json!(1)), json!({"r": "('L', None)"})),
        Case::new("the right branch", &meet_in_code(), with("n", json!(2)), json!({"r": "(None, 'R')"})),
        Case::new("fields that are not sent", &empty_fields(), json!({}), blank),
        Case::new("numbers", &numbers(), json!({}), json!({"all": "all", "some": null})),
        Case::new(
            "an iteration in order",
            &iterations_in_branches(),
            with("n", json!(1)),
            json!({"o": ["Ax", "Ay"]}),
        ),
        Case::new(
            "one in parallel",
            &iterations_in_branches(),
            with("n", json!(2)),
            json!({"o": ["Bx", "By"]}),
        ),
    ])
    .await;
}

/// A call that succeeds at its second try.
fn helped(base: &str, key: &str) -> Sketch {
    Sketch::workflow("start > call > end")
        .node("start", start(&[]))
        .node("call", retried(get(&format!("{base}/flaky/1/{key}")), 3, 20))
        .node("end", end(&[("body", "call.body")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_helped_is_an_exception_unless_the_workflow_says_otherwise() {
    let desk = Desk::without_model().await;
    let options = json!({"retries_count_as_exceptions": false});
    for (sketch, status, exceptions) in [
        (helped(&desk.server.base, "counted"), "partial-succeeded", 1),
        (helped(&desk.server.base, "free").with("tidemill", options), "succeeded", 0),
    ] {
        let ended = desk.run(&sketch, json!({})).await;
        assert_eq!(
            (&ended["status"], &ended["outputs"]["body"]),
            (&json!(status), &json!("answered")),
            "{ended:#}"
        );
        let shown = desk.admin().run(ended["run"].as_str().expect("a run has an id")).await;
        assert_eq!(
            (&shown["status"], &shown["exceptions_count"]),
            (&json!(status), &json!(exceptions)),
            "{shown:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_that_lead_nowhere_are_reported_at_publishing_and_by_the_run() {
    let desk = Desk::open(
        json!([{"match": {}, "reply": "{\"category_id\": \"1\", \"category_name\": \"class 1\"}"}]),
    )
    .await;
    let risky = failing_over(code("def main():\n    return {\"r\": 1}\n", &[("r", "number")], &[]));
    let edges = "start > risky; risky[success-branch] > good > sort; sort[nine] > never > end; risky[fail-branch] > bad > end; \
        never > ask; ask[accept] > last > end";
    let sketch = Sketch::workflow(edges)
        .node("start", start(&[]))
        .node("risky", risky)
        .node("good", template("good", &[]))
        .node("bad", template("bad", &[]))
        .node("sort", classifier("good.output", &["1", "2"]))
        .node("never", template("never", &[]))
        .node("ask", form(&["go", "stop"]))
        .node("last", template("last", &[]))
        .node("end", end(&[("good", "good.output"), ("bad", "bad.output")]));
    let (published, app) = desk.publish(&sketch).await;
    let warned = published["warnings"].to_string();
    for (handle, known) in [("nine", "1"), ("accept", "go")] {
        assert!(warned.contains(handle) && warned.contains(known), "{handle}: {warned}");
    }
    assert!(!warned.contains("success-branch"), "it is read as the success handle: {warned}");
    let ended = run(&app, json!({})).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let shown = desk.admin().run(ended["run"].as_str().expect("a run has an id")).await;
    assert_eq!(
        shown["nodes"].as_array().into_iter().flatten().filter(|node| node["id"] == "good").count(),
        1
    );
    assert_eq!(shown["warnings"][0]["node_id"], "sort", "{shown:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_classifier_that_fails_takes_its_fail_branch_and_default_values_for_it_are_a_warning() {
    use super::workflow::answer;
    let desk = Desk::open(json!([
        {"match": {"contains": "broken"}, "status": 400, "error": "no such model"},
        {"match": {"contains": "gibberish"}, "reply": "no json here"},
        {"match": {}, "reply": "{\"category_id\": \"2\", \"category_name\": \"class 2\"}"},
    ]))
    .await;
    let sort = |data: Json| {
        Sketch::chat("start > sort; sort[1] > one; sort[2] > two; sort[fail-branch] > lost")
            .node("start", start(&[]))
            .node("sort", data)
            .node("one", answer("one"))
            .node("two", answer("two {{#sort.class_name#}}"))
            .node("lost", answer("lost {{#sort.error_type#}}"))
    };
    let (_, app) = desk.publish(&sort(failing_over(classifier("sys.query", &["1", "2"])))).await;
    for (query, said) in [("hello", "two class 2"), ("broken", "lost InvokeBadRequestError")] {
        assert_eq!(say(&app, query, "", json!({})).await["answer"], said, "{query}");
    }
    let lost = say(&app, "gibberish", "", json!({})).await;
    assert!(lost["answer"].as_str().is_some_and(|text| text.starts_with("lost ")), "{lost:#}");

    let mut default = classifier("sys.query", &["1", "2"]);
    default["error_strategy"] = "default-value".into();
    default["default_value"] = json!([{"key": "class_name", "type": "string", "value": "class 1"}]);
    let sketch = Sketch::chat("start > sort; sort[1] > one; sort[2] > two")
        .node("start", start(&[]))
        .node("sort", default)
        .node("one", answer("one"))
        .node("two", answer("two"));
    let (published, _) = desk.publish(&sketch).await;
    assert!(published["warnings"].to_string().contains("sort"), "{published:#}");
    // Without a strategy the failure is the run's, in the words of the model's reply.
    let plain = Sketch::chat("start > sort; sort[1] > one; sort[2] > one")
        .node("start", start(&[]))
        .node("sort", classifier("sys.query", &["1", "2"]))
        .node("one", answer("one"));
    let (_, app) = desk.publish(&plain).await;
    let body = json!({"query": "gibberish", "inputs": {}, "user": "field", "response_mode": "blocking"});
    let refused = app.post("/v1/chat-messages", &body).await;
    assert_eq!(
        (refused.status, refused.text.contains("could not find json block")),
        (400, true),
        "{}",
        refused.text
    );
}
