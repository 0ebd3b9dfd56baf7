//! Tests of commands, breakpoints, conversations, and answers to pauses, in our own API.

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;

use super::fixtures::{ADMIN, GREETER, Server};

async fn a_run(server: &Server) -> RunId {
    let (app, _) = server.app().await;
    server.run(&app).await
}

fn sent(server: &Server) -> Vec<(String, Json)> {
    let inner = server.store.lock();
    inner.sent.iter().map(|(_, kind, body)| (kind.clone(), serde_json::from_str(body).unwrap())).collect()
}

fn one(kind: &str, body: Json) -> Vec<(String, Json)> {
    vec![(kind.to_string(), body)]
}

#[tokio::test]
async fn each_command_becomes_its_fact() {
    let file = json!({"dify_model_identity": "__dify__file__", "type": "image", "url": "https://h/a.png",
        "transfer_method": "remote_url", "remote_url": "https://h/a.png"});
    for (body, kind, fact) in [
        (json!({"command": "stop", "reason": "enough"}), "stop", json!({"reason": "enough"})),
        (json!({"command": "stop"}), "stop", json!({"reason": "User requested abort"})),
        (json!({"command": "abort", "reason": "enough"}), "stop", json!({"reason": "enough"})),
        (json!({"command": "abort"}), "stop", json!({"reason": "User requested abort"})),
        (
            json!({"command": "update_variables", "variables": {"start.name": "Eve"}}),
            "update",
            json!({"updates": [{"selector": ["start", "name"], "value": "Eve"}]}),
        ),
        (
            json!({"command": "pause", "key": "k"}),
            "pause",
            json!({"reason": "User requested pause", "key": "k"}),
        ),
        (json!({"command": "resume"}), "resume", json!({})),
        (
            json!({"command": "update_variables", "updates": {"start.name": "Eve", "conversation.n": 3}}),
            "update",
            json!({"updates": [
                {"selector": ["start", "name"], "value": "Eve"},
                {"selector": ["conversation", "n"], "value": 3},
            ]}),
        ),
        (
            json!({"command": "update_variables", "updates": [{"selector": ["end", "a.b"], "value": file}]}),
            "update",
            json!({"updates": [
                {"selector": ["end", "a.b"], "value": {"$tm": "value", "type": "file", "value": file}},
            ]}),
        ),
    ] {
        let server = Server::start();
        let run = a_run(&server).await;
        let answer = server.post(ADMIN, &format!("/api/v1/runs/{run}/commands"), &body).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (202, json!({"accepted": true})), "{body}");
        let facts = sent(&server);
        if kind == "update" && fact["updates"][0]["value"].get("$tm").is_some() {
            // Files are stored as values with a type; only the selector is compared here.
            assert_eq!(facts[0].1["updates"][0]["selector"], fact["updates"][0]["selector"]);
        } else {
            assert_eq!(facts, one(kind, fact), "{body}");
        }
    }
}

#[tokio::test]
async fn an_invalid_command_is_refused_with_the_place_of_the_mistake() {
    let server = Server::start();
    let run = a_run(&server).await;
    let path = format!("/api/v1/runs/{run}/commands");
    let update = |updates: Json| json!({"command": "update_variables", "updates": updates});
    for (body, message) in [
        (json!({}), "command must be stop, pause, resume or update_variables"),
        (json!({"command": "jump"}), "command must be stop, pause, resume or update_variables"),
        (json!({"command": 1}), "command must be a string"),
        (json!({"command": "stop", "reason": 1}), "reason must be a string"),
        (json!({"command": "resume", "updates": []}), "unknown key updates in the request"),
        (json!({"command": "stop", "key": ""}), "key must have 1 to 255 characters"),
        (update(json!([])), "updates must be a list of {selector, value}"),
        (update(json!([1])), "updates[0] must be an object"),
        (update(json!([{"selector": ["start"], "value": 1}])), "updates[0].selector must be two texts"),
        (update(json!([{"selector": ["start", "name"]}])), "updates[0].value is missing"),
        (
            update(json!([{"selector": ["nobody", "x"], "value": 1}])),
            "updates[0] names no node of the workflow",
        ),
        (update(json!({"start": 1})), "updates[\"start\"] must be a node's id and a name"),
        (update(json!({"env.KEY": 1})), "updates[\"env.KEY\"] names no node"),
    ] {
        let answer = server.post(ADMIN, &path, &body).await;
        let said = answer.json();
        assert_eq!((answer.status.as_u16(), &said["code"]), (400, &json!("invalid_param")), "{body}");
        assert!(said["message"].as_str().unwrap().contains(message), "{body}: {said}");
    }
    let unknown = format!("/api/v1/runs/{}/commands", uuid::Uuid::now_v7());
    assert_eq!(server.post(ADMIN, &unknown, &json!({"command": "stop"})).await.status, 404);
    assert!(sent(&server).is_empty());
}

#[tokio::test]
async fn a_command_under_a_key_is_sent_once_and_the_key_fits_no_other_command() {
    let server = Server::start();
    let run = a_run(&server).await;
    let path = format!("/api/v1/runs/{run}/commands");
    // Large enough to be stored as a blob, whose name is new for each request.
    let body =
        json!({"command": "update_variables", "updates": {"start.name": "x".repeat(9_000)}, "key": "k"});
    for _ in 0..2 {
        assert_eq!(server.post(ADMIN, &path, &body).await.status, 202);
    }
    let facts = sent(&server);
    assert_eq!((facts.len(), &facts[0].1["updates"][0]["value"]["$tm"]), (1, &json!("blob")));
    let other = server.post(ADMIN, &path, &json!({"command": "stop", "key": "k"})).await;
    assert_eq!((other.status.as_u16(), &other.json()["code"]), (409, &json!("key_taken")));
}

#[tokio::test]
async fn breakpoints_are_stored_with_the_run() {
    let server = Server::start();
    let submit = async |commands: Json| {
        let body = json!({"workflow": GREETER, "inputs": {"name": "Ada"}, "commands": commands});
        server.post(ADMIN, "/api/v1/runs", &body).await
    };
    let commands = json!([
        {"after": "start", "command": "pause"},
        {"after": "start", "command": "update_variables", "updates": {"start.name": "Eve"}},
        {"after": "end", "command": "stop", "reason": "enough"},
    ]);
    assert_eq!(submit(commands).await.status, 201);
    let new = server.store.lock().created[0].clone();
    let start: Json = serde_json::from_str(&new.start).unwrap();
    let expected = json!([
        {"after": "start", "command": "pause", "reason": "User requested pause"},
        {"after": "start", "command": "update_variables",
            "updates": [{"selector": ["start", "name"], "value": "Eve"}]},
        {"after": "end", "command": "stop", "reason": "enough"},
    ]);
    assert_eq!(start["commands"], expected);
    let kept = new.fields.iter().find(|(name, _)| *name == "commands").map(|(_, text)| text.clone());
    assert_eq!(kept, Some(expected.to_string()));
    for (wrong, message) in [
        (
            json!([{"after": "nobody", "command": "stop"}]),
            "commands[0].after names no node of the workflow: nobody",
        ),
        (json!([{"after": "end", "command": "resume"}]), "commands[0].command must be stop, pause or update"),
        (json!([{"after": "end", "command": "stop", "x": 1}]), "commands[0].x is not known here"),
    ] {
        let said = submit(wrong).await.json();
        assert!(said["message"].as_str().unwrap().contains(message), "{said}");
    }
}

#[tokio::test]
async fn a_run_gets_the_variables_that_its_conversation_remembers() {
    let server = Server::start();
    let chat = GREETER.replace(
        "conversation_variables: []",
        "conversation_variables: [{name: mood, value_type: string, value: ''}, {name: count, value_type: number, value: 0}]",
    );
    let submit = async |id: &str, conversation: Json| {
        let body = json!({"workflow": chat, "inputs": {"name": "Ada"}, "conversation_id": id,
            "conversation": conversation});
        server.post(ADMIN, "/api/v1/runs", &body).await
    };
    let first = submit("", json!({})).await.json();
    let id = first["conversation_id"].as_str().unwrap().to_string();
    let run: RunId = first["id"].as_str().unwrap().parse().unwrap();
    let kept = [("v:mood", "\"glad\""), ("v:count", "7"), ("v:gone", "1")];
    let kept = kept.map(|(field, text)| (field.to_string(), text.to_string()));
    server.store.lock().conversations.insert(id.clone(), (run.shard(), kept.into()));
    let second = submit(&id, json!({"count": 8})).await;
    assert_eq!((second.status.as_u16(), &second.json()["conversation_id"]), (201, &json!(id)));
    let new = server.store.lock().created[1].clone();
    let start: Json = serde_json::from_str(&new.start).unwrap();
    assert_eq!(start["conversation"], json!({"count": 8, "mood": "glad"}), "values of the request win");
    assert_eq!((&start["conversation_id"], &start["sys"]["conversation_id"]), (&json!(id), &json!(id)));
    assert_eq!(new.id.shard(), run.shard(), "runs of a conversation share a shard");
    let foreign = submit("conv-1", json!({})).await.json();
    assert_eq!(foreign["conversation_id"], "conv-1");
}

fn form(id: &str, status: &str) -> (String, String) {
    let pause = json!({
        "pause_id": id, "kind": "human_input", "node_id": "end", "node_execution_id": "8b6f3a52-1c1f-5c11-9c2e-0a64d1a6f1e1", "node_title": "Ask",
        "content": "Fine? {{#$output.note#}}", "status": status, "opened_at": "1000000",
        "inputs": [{"type": "paragraph", "output_variable_name": "note"}],
        "actions": [{"id": "yes", "title": "Yes", "button_style": "default"}], "defaults": {"note": "so"},
    });
    (id.to_string(), pause.to_string())
}

#[tokio::test]
async fn pauses_are_listed_and_answered_once() {
    let server = Server::start();
    let run = a_run(&server).await;
    let forms = [form("p", "pending"), form("old", "expired"), form("gone", "cancelled")];
    server.store.lock().pauses.insert(run, forms.into());
    let list = format!("/api/v1/runs/{run}/pauses");
    let listed = server.get(ADMIN, &list).await.json();
    let stand = |listed: &Json| {
        let pauses = listed["data"].as_array().unwrap().clone();
        pauses.iter().map(|p| format!("{} {}", p["pause_id"], p["status"])).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(stand(&listed), r#""gone" "cancelled", "old" "expired", "p" "pending""#);
    assert_eq!(listed["data"][2]["form_token"].as_str().map(str::len), Some(64));

    let answer = async |pause: &str, body: Json| {
        let answer = server.post(ADMIN, &format!("{list}/{pause}/answer"), &body).await;
        (answer.status.as_u16(), answer.json())
    };
    let good =
        json!({"action": "yes", "inputs": {"note": "ok", "more": 1}, "key": "k", "answered_by": "ann"});
    let (status, said) = answer("p", json!({"action": "no", "inputs": {}})).await;
    assert_eq!((status, &said["code"]), (400, &json!("pause_input_invalid")));
    assert_eq!(said["errors"], json!(["Invalid action: no", "Missing required inputs: note"]));
    for (pause, body, status, code) in [
        ("nobody", &good, 404, json!("pause_not_found")),
        ("old", &good, 410, json!("pause_expired")),
        ("gone", &good, 410, json!("pause_cancelled")),
        ("p", &good, 202, Json::Null),
        ("p", &good, 202, Json::Null),
        ("p", &json!({"action": "yes", "inputs": {"note": "other"}}), 409, json!("pause_already_answered")),
    ] {
        let (is, said) = answer(pause, body.clone()).await;
        assert_eq!((is, &said["code"]), (status, &code), "{pause}: {said}");
    }
    let fact = json!({"pause": "p", "action": "yes", "inputs": {"note": "ok"}});
    assert_eq!(sent(&server), one("answer", fact), "unknown inputs are dropped");
    let listed = server.get(ADMIN, &list).await.json();
    let kept = &listed["data"][2]["answer"];
    assert_eq!((&listed["data"][2]["status"], &kept["answered_by"]), (&json!("answered"), &json!("ann")));
    assert!(kept["answered_at"].is_f64());
    let shown = server.get(ADMIN, &format!("/api/v1/runs/{run}")).await.json();
    assert_eq!(shown["pauses"], listed["data"]);
}
