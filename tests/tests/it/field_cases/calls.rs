//! Workflows as tools, webhooks and extractors: what arrives, and what is absent.

use reqwest::Method;
use serde_json::{Value as Json, json};

use super::workflow::{Sketch, choose, code, end, extractor, get, start, template};
use super::{Case, Desk, begin};

/// An app that shows the values it is called with, and waits if it should.
fn callee(base: &str) -> Sketch {
    let source = "def main(n, s):\n    return {\"r\": repr([n, s])}\n";
    let mut form = start(&[("n", "number"), ("s", "text-input"), ("wait", "number")]);
    form["variables"][0]["required"] = true.into();
    Sketch::workflow("start > seen > waits; waits[y] > slow > later > end; waits[false] > end")
        .node("start", form)
        .node("seen", code(source, &[("r", "string")], &[("n", "start.n"), ("s", "start.s")]))
        .node("waits", choose("y", &[("start.wait", ">", "0", "number")]))
        .node("slow", get(&format!("{base}/slow/20000/callee")))
        .node("later", get(&format!("{base}/later")))
        .node("end", end(&[("r", "seen.r")]))
}

fn caller(app: &Json, wait: u32) -> Sketch {
    let tool = json!({"type": "tool", "provider_type": "workflow", "provider_id": app["id"], "provider_name": "callee",
        "tool_name": "callee", "tool_label": "callee", "tool_configurations": {}, "tool_node_version": "2",
        "tool_parameters": {"n": {"type": "variable", "value": ["start", "n"]},
            "s": {"type": "mixed", "value": "n is {{#start.n#}}"}, "wait": {"type": "constant", "value": wait}}});
    Sketch::workflow("start > call > end")
        .node("start", start(&[("n", "number")]))
        .node("call", tool)
        .node("end", end(&[("json", "call.json")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_called_workflow_gets_numbers_and_is_stopped_with_its_caller() {
    let desk = Desk::without_model().await;
    let (app, _) = desk.publish(&callee(&desk.server.base)).await;
    let asked = |n: Json, shown: &str| {
        Case::new("a number", &caller(&app, 0), json!({"n": n}), json!({"json": [{"r": shown}]}))
    };
    desk.all_hold(&[
        asked(json!(3), "[3, 'n is 3']"),
        asked(json!(2.5), "[2.5, 'n is 2.5']"),
        asked(json!("7"), "[7, 'n is 7']"),
    ])
    .await;

    let (_, slow) = desk.publish(&caller(&app, 1)).await;
    let body = json!({"inputs": {"n": 1}, "user": "field", "response_mode": "streaming"});
    let (id, _) = begin(&slow, "/v1/workflows/run", body).await;
    tidemill_tests::wait::until("the called run to call", tidemill_tests::wait::LONG, async || {
        if desk.server.calls("/callee") == 1 { Ok(()) } else { Err("no call yet".into()) }
    })
    .await;
    let stopped = slow.post(&format!("/v1/workflows/tasks/{id}/stop"), &json!({"user": "field"})).await;
    assert_eq!(stopped.status, 200, "{}", stopped.text);
    desk.admin().ended(&id).await;
    let runs = desk.admin().get("/api/v1/runs?limit=100").await.body;
    let called = runs["data"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|run| run["app"] == app["id"] && run["status"] != "succeeded");
    let called = called.unwrap_or_else(|| panic!("the caller called: {runs:#}"));
    assert_eq!(
        desk.admin().ended(called["id"].as_str().expect("a run has an id")).await["status"],
        "stopped"
    );
    assert_eq!(desk.server.calls("/later"), 0);
}

/// A webhook that asks for a file, and looks whether it came.
fn webhook() -> Sketch {
    let hook = json!({"type": "trigger-webhook", "method": "post", "content_type": "multipart/form-data",
        "body": [{"name": "picture", "type": "file"}, {"name": "other", "type": "file"}]});
    Sketch::workflow("hook > is; is[yes] > there > end; is[false] > missing > end")
        .node("hook", hook)
        .node("is", choose("yes", &[("hook.other", "exists", "", "file")]))
        .node("there", template("there", &[]))
        .node("missing", template("missing", &[]))
        .node(
            "end",
            end(&[
                ("other", "hook.other"),
                ("picture", "hook.picture"),
                ("there", "there.output"),
                ("missing", "missing.output"),
            ]),
        )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_a_webhook_lacks_is_null_unless_the_workflow_wants_difys_way() {
    let desk = Desk::without_model().await;
    let as_dify = webhook().with("tidemill", json!({"webhook_missing_file_is_all": true}));
    for (sketch, is_null) in [(webhook(), true), (as_dify, false)] {
        let (app, _) = desk.publish(&sketch).await;
        let path = app["triggers"][0]["path"].as_str().expect("a webhook has a path");
        let form = "--b\r\nContent-Disposition: form-data; name=\"picture\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\nPNG\r\n--b--\r\n";
        let request = desk.admin().with_key(None).request(Method::POST, path);
        let request = request.header("content-type", "multipart/form-data; boundary=b").body(form);
        let accepted = desk.admin().send(request).await;
        assert_eq!(accepted.status, 200, "{}", accepted.text);
        let runs = desk.admin().get("/api/v1/runs?limit=100").await.body;
        let of_app = runs["data"].as_array().into_iter().flatten().find(|run| run["app"] == app["id"]);
        let id = of_app.and_then(|run| run["id"].as_str()).expect("the request began a run");
        let outputs = desk.admin().ended(id).await["outputs"].clone();
        assert_eq!(outputs["picture"]["filename"], "a.png", "{outputs:#}");
        assert_eq!(
            (outputs["other"].is_null(), outputs["missing"] == "missing"),
            (is_null, is_null),
            "{outputs:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extractor_succeeds_without_optional_parameters_and_fails_without_required_ones() {
    let desk = Desk::open(json!([
        {"match": {"contains": "Bergen"}, "reply": "{\"city\": \"Bergen\"}"},
        {"match": {}, "reply": "{\"days\": 3}"},
    ]))
    .await;
    let parameters = &[
        ("city", "string", true),
        ("days", "number", false),
        ("tags", "array[string]", false),
        ("flag", "boolean", false),
    ];
    let outputs = &[
        ("city", "found.city"),
        ("days", "found.days"),
        ("tags", "found.tags"),
        ("flag", "found.flag"),
        ("ok", "found.__is_success"),
        ("why", "found.__reason"),
    ];
    let sketch = Sketch::workflow("start > found > end")
        .node("start", start(&[("t", "text-input")]))
        .node("found", extractor("start.t", parameters))
        .node("end", end(outputs));
    let found = |ok: u32, why: Json| json!({"city": "Bergen", "days": 0, "tags": [], "flag": false, "ok": ok, "why": why});
    let lacks = json!({"city": "", "days": 3, "tags": [], "flag": false, "ok": 0, "why": "Invalid number of parameters"});
    let as_dify = sketch.clone().with("tidemill", json!({"extractor_requires_all": true}));
    desk.all_hold(&[
        Case::new("optional ones are absent", &sketch, json!({"t": "to Bergen"}), found(1, Json::Null)),
        Case::new("a required one is absent", &sketch, json!({"t": "for 3 days"}), lacks),
        Case::new(
            "as on Dify",
            &as_dify,
            json!({"t": "to Bergen"}),
            found(0, json!("Invalid number of parameters")),
        ),
    ])
    .await;
}
