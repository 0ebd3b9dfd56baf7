use serde_json::{Value as Json, json};
use tidemill_common::store::NewRun;

use super::fixtures::{ADMIN, GREETER, Server, request};

fn field(new: &NewRun, name: &str) -> Json {
    let text = &new.fields.iter().find(|(known, _)| *known == name).unwrap().1;
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn with_given_system_variables_a_run_has_exactly_the_given_values() {
    let server = Server::start();
    let sys = json!({"user_id": "someone", "files": [], "odd": 7, "nothing": null});
    let body = json!({"workflow": GREETER, "inputs": {"name": ["Ada"], "undeclared": 1}, "sys": sys});
    let answer = server.post(ADMIN, "/api/v1/runs", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let new = server.store.lock().created[0].clone();
    assert_eq!(
        answer.json(),
        json!({"id": new.id.to_string(), "status": "scheduled", "version": new.graph.0})
    );
    assert_eq!(field(&new, "sys"), json!({"user_id": "someone", "files": [], "odd": 7}));
    assert_eq!(field(&new, "inputs"), json!({"name": ["Ada"], "undeclared": 1}), "no form, no nulls");
    let start: Json = serde_json::from_str(&new.start).unwrap();
    assert_eq!(start["sys"], field(&new, "sys"));
    assert!(!new.graph.1.contains("hunter2"), "secrets are stored sealed");
}

#[tokio::test]
async fn without_given_system_variables_a_run_has_those_of_dify() {
    let server = Server::start();
    let (app, _) = server.app().await;
    let run = server.run(&app).await;
    let new = server.store.lock().created[0].clone();
    assert_eq!(field(&new, "inputs"), json!({"name": "Ada", "size": null}), "the form adds missing inputs");
    let sys = field(&new, "sys");
    let names: Vec<&String> = sys.as_object().unwrap().keys().collect();
    assert_eq!(names, ["user_id", "app_id", "workflow_id", "workflow_run_id", "files", "timestamp"]);
    assert_eq!((&sys["user_id"], &sys["app_id"]), (&json!("u"), &json!(app)));
    assert_eq!(sys["workflow_run_id"], run.to_string());
    assert!(sys["timestamp"].is_u64());
}

#[tokio::test]
async fn a_run_with_added_steps_is_still_of_the_published_version_of_its_app() {
    let server = Server::start();
    let (app, key) = server.app().await;
    let published = server.get(ADMIN, &format!("/api/v1/apps/{app}")).await.json();
    for options in [json!({}), json!({"step_executor": {"summary_before": true}})] {
        let body = json!({"app": app, "inputs": {"name": "Ada"}, "user": "u", "options": options});
        let answer = server.post(ADMIN, "/api/v1/runs", &body).await.json();
        assert_eq!(answer["version"] == published["version"], options == json!({}), "{answer}");
        let run = answer["id"].as_str().unwrap();
        let shown = server.get(&key, &format!("/v1/workflows/run/{run}")).await.json();
        assert_eq!(shown["workflow_id"], published["workflow_id"], "{options}");
    }
}

#[tokio::test]
async fn a_large_input_is_a_blob_that_belongs_to_the_run() {
    let server = Server::start();
    let large = "x".repeat(9_000);
    let body = json!({"workflow": GREETER, "inputs": {"name": large}, "sys": {}});
    assert_eq!(server.post(ADMIN, "/api/v1/runs", &body).await.status, 201);
    let new = server.store.lock().created[0].clone();
    let inputs = field(&new, "inputs");
    let (id, size) = &new.blobs[0];
    let expected = json!({"$tm": "blob", "id": id.as_str(), "type": "string", "size": 9_002});
    assert_eq!((&inputs["name"], *size), (&expected, 9_002));
    let run = new.id.to_string();
    let shown = server.get(ADMIN, &format!("/api/v1/runs/{run}")).await;
    assert_eq!(shown.json()["inputs"]["name"], large.as_str());
}

#[tokio::test]
async fn a_repeated_request_creates_no_second_run_and_another_request_under_its_key_is_refused() {
    let server = Server::start();
    let ask = async |name: &str, key: &str| {
        let body = json!({"workflow": GREETER, "inputs": {"name": name}});
        let mut request = request("POST", ADMIN, "/api/v1/runs", &body.to_string());
        request.headers_mut().insert("idempotency-key", key.parse().unwrap());
        server.ask(request).await
    };
    let first = ask("Ada", "k1").await;
    let again = ask("Ada", "k1").await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 200));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let other = ask("Eve", "k1").await;
    assert_eq!((other.status.as_u16(), &other.json()["code"]), (409, &json!("idempotency_conflict")));
    assert_eq!(ask("Ada", "k2").await.status, 201);
    assert_eq!(server.store.lock().created.len(), 2);
}

#[tokio::test]
async fn a_repeated_request_creates_the_run_when_the_first_one_was_refused() {
    let server = Server::start();
    let ask = async || {
        let body = json!({"workflow": GREETER, "inputs": {"name": "Ada"}});
        let mut request = request("POST", ADMIN, "/api/v1/runs", &body.to_string());
        request.headers_mut().insert("idempotency-key", "k".parse().unwrap());
        server.ask(request).await
    };
    server.store.lock().is_busy = true;
    let refused = ask().await;
    assert_eq!((refused.status.as_u16(), &refused.headers["retry-after"]), (503, &"1".parse().unwrap()));
    server.store.lock().is_busy = false;
    let created = ask().await;
    assert_eq!(created.status, 201);
    assert_eq!(ask().await.json()["id"], created.json()["id"]);
}

#[tokio::test]
async fn a_full_inbox_is_429_on_difys_api() {
    let server = Server::start();
    let (_, key) = server.app().await;
    server.store.lock().is_busy = true;
    let body = json!({"inputs": {"name": "Ada"}, "user": "u", "response_mode": "streaming"});
    let refused = server.post(&key, "/v1/workflows/run", &body).await;
    let said = json!({
        "code": "too_many_requests", "message": "Too many requests. Please try again later.", "status": 429,
    });
    assert_eq!((refused.status.as_u16(), refused.json()), (429, said));
    assert_eq!(refused.headers["retry-after"], "1");
}

#[tokio::test]
async fn an_invalid_submission_is_refused_with_its_reason() {
    let server = Server::start();
    let with = |key: &str, value: Json| {
        let mut body = json!({"workflow": GREETER, "inputs": {"name": "Ada"}});
        body[key] = value;
        body
    };
    for (body, status, code, message) in [
        (with("inputs", json!({})), 400, "invalid_param", "name is required in input form"),
        (with("inputs", json!({"name": 7})), 400, "invalid_param", "name in input form must be a string"),
        (with("options", json!({"max_stepps": 1})), 400, "invalid_param", "did you mean max_steps?"),
        (with("commands", json!([{}])), 400, "invalid_param", "commands[0].after must name a node"),
        (with("call_depth", json!(6)), 400, "invalid_param", "Max workflow call depth 5 reached."),
        (with("conversation_id", json!("a:b")), 400, "invalid_param", "conversation_id must have at most 64"),
        (with("memory", json!([{}])), 400, "invalid_param", "memory[0] must be an object"),
        (with("colour", json!("red")), 400, "invalid_param", "unknown key colour"),
        (with("app", json!("x")), 404, "not_found", "there is no app x"),
        (with("user", json!("u".repeat(256))), 400, "invalid_param", "user must have at most 255 characters"),
        (
            with(
                "workflow",
                json!("kind: app\napp: {mode: workflow}\nworkflow: {graph: {nodes: [], edges: []}}"),
            ),
            422,
            "invalid_workflow",
            "",
        ),
    ] {
        // The case with an unknown app must not also contain a workflow, because they exclude each other.
        let mut body = body;
        if code == "not_found" {
            body.as_object_mut().unwrap().remove("workflow");
        }
        let answer = server.post(ADMIN, "/api/v1/runs", &body).await;
        let said = answer.json();
        assert_eq!((answer.status.as_u16(), said["code"].as_str()), (status, Some(code)), "{}", answer.text);
        assert!(said["message"].as_str().unwrap().contains(message), "{}", answer.text);
        assert_eq!(said["diagnostics"].is_array(), code == "invalid_workflow");
    }
    assert!(server.store.lock().created.is_empty());
}

#[tokio::test]
async fn apps_are_registered_listed_and_given_new_versions() {
    let server = Server::start();
    let (id, key) = server.app().await;
    let shown = server.get(ADMIN, &format!("/api/v1/apps/{id}")).await.json();
    assert_eq!((&shown["name"], &shown["mode"]), (&json!("Greeter"), &json!("workflow")));
    let newer = json!({"id": id, "workflow": GREETER.replace("title: Finish", "title: End")});
    let answer = server.post(ADMIN, "/api/v1/apps", &newer).await;
    let said = answer.json();
    assert_eq!((answer.status.as_u16(), &said["id"], &said["key"]), (200, &json!(id), &Json::Null));
    assert_ne!(said["version"], shown["version"]);
    let listed = server.get(ADMIN, "/api/v1/apps").await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed["data"][0]["version"], &listed["data"][0]["created_at"]),
        (&said["version"], &shown["created_at"])
    );
    assert!(!listed.to_string().contains(&key));
    let info = server.get(&key, "/v1/info").await.json();
    assert_eq!((&info["name"], &info["description"]), (&json!("Greeter"), &json!("says hello")));
    let parameters = server.get(&key, "/v1/parameters").await.json();
    assert_eq!(parameters["user_input_form"][0]["paragraph"]["variable"], "name");
}

#[tokio::test]
async fn a_run_shows_its_nodes_in_file_order_and_accepts_a_stop() {
    let server = Server::start();
    let (app, _) = server.app().await;
    let run = server.run(&app).await;
    let shown = server.get(ADMIN, &format!("/api/v1/runs/{run}")).await.json();
    let nodes: Vec<_> = shown["nodes"].as_array().unwrap().iter().map(|n| (&n["id"], &n["status"])).collect();
    let unknown = json!("unknown");
    assert_eq!(nodes, [(&json!("start"), &unknown), (&json!("end"), &unknown)]);
    assert_eq!((&shown["status"], &shown["total_steps"]), (&json!("scheduled"), &json!(0)));

    let path = format!("/api/v1/runs/{run}/commands");
    let stop = server.post(ADMIN, &path, &json!({"command": "stop", "reason": "enough"})).await;
    assert_eq!((stop.status.as_u16(), stop.json()), (202, json!({"accepted": true})));
    assert_eq!(server.store.lock().sent, [(run, "stop".into(), r#"{"reason":"enough"}"#.into())]);
    server.store.set(run, &[("status", "failed")]);
    let late = server.post(ADMIN, &path, &json!({"command": "stop"})).await;
    assert_eq!((late.status.as_u16(), &late.json()["code"]), (409, &json!("run_over")));
    assert_eq!(late.json()["run_status"], "failed");
}

#[tokio::test]
async fn tc_b_003_a_workflow_that_is_called_too_deep_is_refused() {
    let server = Server::start();
    let ask = async |depth: Json| {
        let body = json!({"workflow": GREETER, "inputs": {"name": "Ada"}, "call_depth": depth});
        server.post(ADMIN, "/api/v1/runs", &body).await
    };
    assert_eq!(ask(json!(5)).await.status, 201);
    let refused = ask(json!(6)).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["message"], "Max workflow call depth 5 reached.");
    assert_eq!(server.store.lock().created.len(), 1, "no run was created");
}
