//! Iterations and loops: counts, order, retries inside, breaks, outputs, failures.

use serde_json::{Value as Json, json};

use super::workflow::{Sketch, assign, code, each, end, get, retried, rounds, start, template};
use super::{Case, Desk, streamed};

/// A list of texts from code.
fn list(items: &str) -> Json {
    code(&format!("def main():\n    return {{\"list\": {items}}}\n"), &[("list", "array[string]")], &[])
}

/// Two iterations at the same time, each with its own count.
fn two_at_once() -> Sketch {
    let source =
        "def main():\n    return {\"a\": [str(i) for i in range(10)], \"b\": [str(i) for i in range(5)]}\n";
    Sketch::workflow("start > made > one > end; made > two > end; onestart > t1; twostart > t2")
        .node("start", start(&[]))
        .node("made", code(source, &[("a", "array[string]"), ("b", "array[string]")], &[]))
        .node("one", each("made.a", "t1.output", "array[string]", 5))
        .inside("one", "t1", template("a{{ i }}", &[("i", "one.item")]))
        .node("two", each("made.b", "t2.output", "array[string]", 5))
        .inside("two", "t2", template("b{{ i }}", &[("i", "two.item")]))
        .node("end", end(&[("a", "one.output"), ("b", "two.output")]))
}

/// Each item gives two rows; the result is flat, in order or in parallel.
fn rows(parallel: u32) -> Sketch {
    let source = "def main(i):\n    return {\"rows\": [{\"k\": i + \"1\"}, {\"k\": i + \"2\"}]}\n";
    Sketch::workflow("start > made > all > end; allstart > row")
        .node("start", start(&[]))
        .node("made", list("[\"x\", \"y\"]"))
        .node("all", each("made.list", "row.rows", "array[object]", parallel))
        .inside("all", "row", code(source, &[("rows", "array[object]")], &[("i", "all.item")]))
        .node("end", end(&[("o", "all.output")]))
}

/// A loop that breaks when a node of its round says so.
fn breaks() -> Sketch {
    let condition = json!([{"id": "b", "variable_selector": ["check", "ok"], "comparison_operator": "=",
        "value": "true", "varType": "boolean"}]);
    let source = "def main(n):\n    return {\"ok\": n >= 2}\n";
    Sketch::workflow("start > lp > end; lpstart > check > count")
        .node("start", start(&[]))
        .node("lp", rounds(6, &[("n", "number", "0")], condition))
        .inside("lp", "check", code(source, &[("ok", "boolean")], &[("n", "lp.n")]))
        .inside("lp", "count", assign(&[("lp.n", "+=", json!(1))]))
        .node("end", end(&[("n", "lp.n"), ("rounds", "lp.loop_round")]))
}

/// Variables of a loop that its rounds change; the node after it sees the last values.
fn last_values() -> Sketch {
    let variables = &[("t", "string", "a"), ("l", "array[string]", "[\"x\"]"), ("o", "object", "{\"k\": 1}")];
    let changes = &[
        ("lp.t", "over-write", json!(["longer", "output"])),
        ("lp.l", "append", json!(["longer", "output"])),
    ];
    Sketch::workflow("start > lp > end; lpstart > longer > keep")
        .node("start", start(&[]))
        .node("lp", rounds(3, variables, json!([])))
        .inside("lp", "longer", template("{{ t }}b", &[("t", "lp.t")]))
        .inside("lp", "keep", assign(changes))
        .node("end", end(&[("t", "lp.t"), ("l", "lp.l"), ("o", "lp.o")]))
}

/// Each item calls a server that fails twice.
fn retries_inside(base: &str) -> Sketch {
    Sketch::workflow("start > made > all > end; allstart > call")
        .node("start", start(&[]))
        .node("made", list("[\"x\", \"y\"]"))
        .node("all", each("made.list", "call.body", "array[string]", 1))
        .inside("all", "call", retried(get(&format!("{base}/flaky/2/{{{{#all.item#}}}}")), 3, 20))
        .node("end", end(&[("o", "all.output")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_bring_every_item_and_the_last_values() {
    let desk = Desk::without_model().await;
    let named = |letter: &str, count: u32| (0..count).map(|at| format!("{letter}{at}")).collect::<Vec<_>>();
    let flat = json!({"o": [{"k": "x1"}, {"k": "x2"}, {"k": "y1"}, {"k": "y2"}]});
    let last = json!({"t": "abbb", "l": ["x", "ab", "abb", "abbb"], "o": {"k": 1}});
    let again = Case::new(
        "retries inside",
        &retries_inside(&desk.server.base),
        json!({}),
        json!({"o": ["answered", "answered"]}),
    );
    desk.all_hold(&[
        Case::new("two at once", &two_at_once(), json!({}), json!({"a": named("a", 10), "b": named("b", 5)})),
        Case::new("rows in order", &rows(1), json!({}), flat.clone()),
        Case::new("rows in parallel", &rows(5), json!({}), flat),
        Case::new("a break", &breaks(), json!({}), json!({"n": 3, "rounds": 3})),
        Case::new("last values", &last_values(), json!({}), last),
        again.ends("partial-succeeded"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_start_has_an_end_when_an_item_is_tried_again() {
    let desk = Desk::without_model().await;
    let (_, app) = desk.publish(&retries_inside(&desk.server.base)).await;
    let body = json!({"inputs": {}, "user": "field", "response_mode": "streaming"});
    let events = streamed(&app, "/v1/workflows/run", body).await;
    for (began, ended) in [("node_started", "node_finished"), ("iteration_started", "iteration_completed")] {
        let ids = |kind: &str| {
            let of_kind = events.iter().filter(|event| event["event"] == kind);
            let mut ids: Vec<String> = of_kind.map(|event| event["data"]["id"].to_string()).collect();
            ids.sort();
            ids
        };
        assert_eq!(ids(began), ids(ended), "{events:#?}");
        assert!(!ids(began).is_empty(), "{began}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_fails_ends_iteration_and_run_and_nothing_later_begins() {
    let desk = Desk::without_model().await;
    let base = &desk.server.base;
    let source = "def main(i):\n    return {\"r\": 1 / int(i)}\n";
    let sketch = Sketch::workflow("start > made > all > later > end; allstart > one > call")
        .node("start", start(&[]))
        .node("made", list("[\"1\", \"0\", \"2\"]"))
        .node("all", each("made.list", "call.body", "array[string]", 3))
        .inside("all", "one", code(source, &[("r", "number")], &[("i", "all.item")]))
        .inside("all", "call", get(&format!("{base}/slow/200/item")))
        .node("later", get(&format!("{base}/later")))
        .node("end", end(&[("o", "all.output")]));
    let ended = desk.run(&sketch, json!({})).await;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    assert!(ended["error"].as_str().is_some_and(|error| error.contains("division by zero")), "{ended:#}");
    assert_eq!(desk.server.calls("/later"), 0);
}
