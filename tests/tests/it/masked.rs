//! Secrets in the input of a step or a tool: only the server that the workflow calls receives them. The model that
//! searches missing input does not, and the people who are asked do not.

use serde_json::{Value as Json, json};
use tidemill_tests::check::Transcript;
use tidemill_tests::client::Client;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;
use tidemill_tests::wait::{LONG, until};

use super::called::file;
use super::secrets::nothing_in_redis_holds;
use super::system;

const SECRET: &str = "sk-do-not-write-this-down-0123456789";

/// The workflow file with the secret in its environment.
fn holding_key(file: &str) -> String {
    let mut document: Json = serde_json::from_str(file).expect("a file is JSON");
    document["workflow"]["environment_variables"] =
        json!([{"id": "e1", "name": "KEY", "value_type": "secret", "value": SECRET, "description": ""}]);
    document.to_string()
}

async fn keep_profile(client: &Client, base_url: &str) {
    let provider = json!({"id": "acme", "base_url": base_url});
    assert_eq!(client.post("/api/v1/providers", &provider).await.status, 201);
    let profile = json!({"id": "p", "name": "p", "provider": "acme", "model": "m", "default": true});
    assert_eq!(client.post("/api/v1/profiles", &profile).await.status, 201);
}

/// Waits for the open pause.
async fn asked(client: &Client, run: &str) -> Json {
    until("a pause to open", LONG, async || {
        let shown = client.run(run).await;
        let mut open = shown["pauses"].as_array().into_iter().flatten();
        let open = open.find(|pause| pause["status"] == "pending").cloned();
        open.filter(|_| shown["status"] == "paused").ok_or_else(|| shown.to_string())
    })
    .await
}

fn shows_no_secret(pause: &Json, ended: &Json, told: &Transcript) {
    assert!(!format!("{pause} {ended}").contains(SECRET), "a secret is shown: {pause:#} {ended:#}");
    for event in &told.events {
        assert!(!format!("{event:?}").contains(SECRET), "a secret is in an event: {event:#?}");
    }
}

async fn answer(client: &Client, run: &str, pause: &Json, input: Json) {
    let id = pause["pause_id"].as_str().expect("a pause has an id");
    let answer =
        client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &json!({"input": input})).await;
    assert!(answer.status < 300, "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a22_xc_07_an_approval_shows_the_request_without_secrets_and_no_model_gets_a_secret() {
    let (model, outside) = (
        llm::rules(json!([{"match": {}, "reply": "{\"query\": {\"city\": \"Paris\"}}"}])).await,
        Outside::start().await,
    );
    let settings = [("http.allow", "127.0.0.1"), ("scheduler.secret_key", "open sesame, open wide")];
    let system = system(&settings, &model).await;
    let client = &system.client;
    keep_profile(client, &model.base_url()).await;
    let city = json!({"query": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}});
    let call = json!({
        "type": "api", "title": "W", "url": format!("{}/weather", outside.base_url), "method": "post", "query": {"unit": "C"},
        "content_type": "application/json",
        "headers": {"Authorization": "Bearer {{#env.KEY#}}"}, "body": {"key": "{{#env.KEY#}}"}, "accept_text": true,
        "override_input": city, "question": "{{#start.q#}}", "require_confirm": {"risk": "high"},
    });
    let text = holding_key(&file("Weather", &["q"], &[("w", call)], &[("code", ["w", "http_code"])]));
    let run =
        client.submit(&json!({"workflow": text, "inputs": {"q": "weather in Paris"}, "user": "u"})).await;
    let pause = asked(client, &run).await;
    assert_eq!((&pause["kind"], &pause["risk"]), (&json!("confirm"), &json!("high")), "{pause:#}");
    let input = &pause["input"];
    assert_eq!(input["url"], format!("{}/weather", outside.base_url), "{pause:#}");
    assert_eq!(input["query"], json!({"unit": "C", "city": "Paris"}), "{pause:#}");
    assert!(
        input.as_object().is_some_and(|input| input.keys().all(|key| !key.starts_with('#'))),
        "{pause:#}"
    );
    assert!(outside.take().is_empty());
    answer(client, &run, &pause, json!(true)).await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]["code"]),
        (&json!("succeeded"), &json!(200)),
        "{ended:#}"
    );
    let calls = outside.take();
    assert!(calls.len() == 1 && calls[0].body.contains(SECRET), "the server gets it: {calls:?}");
    let prompts = model.requests();
    assert!(!prompts.is_empty() && !format!("{prompts:?}").contains(SECRET), "{prompts:?}");
    let told = client.follow(&run, None).await.to_the_end().await;
    shows_no_secret(&pause, &ended, &told);
    nothing_in_redis_holds(&system.cluster.redis, SECRET);
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a16_xc_07_an_approval_of_a_tool_shows_no_secrets_and_the_tool_gets_them() {
    let call = json!([{"name": "search", "arguments": {"q": format!("with {SECRET}")}}]);
    let model = llm::rules(json!([{"match": {}, "reply": "Looking", "tool_calls": call}])).await;
    let outside = Outside::start().await;
    let endpoint = format!("{}/tools", outside.base_url);
    let settings =
        [("tools.endpoint", endpoint.as_str()), ("scheduler.secret_key", "open sesame, open wide")];
    let system = system(&settings, &model).await;
    let client = &system.client;
    keep_profile(client, &model.base_url()).await;
    let ask = json!({"type": "llm", "title": "L", "profile_id": "p", "prompt": "use {{#env.KEY#}}", "tools": ["acme/search"]});
    let text = holding_key(&file("Tools", &[], &[("l", ask)], &[("text", ["l", "text"])]));
    let options = json!({"tool_approval": {"auto_approved_tools": []}});
    let body = json!({"workflow": text, "inputs": {}, "user": "u", "options": options});
    let run = client.submit(&body).await;
    let pause = asked(client, &run).await;
    assert!(pause["arguments"].to_string().contains("****"), "{pause:#}");
    let shown = pause["arguments"].clone();
    // Masked arguments that come back unchanged mean the real values.
    answer(client, &run, &pause, json!({"approved": true, "editedParameters": shown})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let calls = outside.take();
    assert!(calls.len() == 1 && calls[0].body.contains(SECRET), "{calls:?}");
    let told = client.follow(&run, None).await.to_the_end().await;
    shows_no_secret(&pause, &ended, &told);
    nothing_in_redis_holds(&system.cluster.redis, SECRET);
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a16_an_agent_asks_for_approval_when_the_run_demands_it_and_continues_with_the_edited_arguments() {
    let call = json!([{"name": "eval_expression", "arguments": {"expression": "6*7"}}]);
    let usage = json!({"prompt_tokens": 8, "completion_tokens": 2});
    let model = llm::rules(json!([
        {"match": {"messages": 2, "has_tools": true}, "reply": "", "tool_calls": call, "usage": usage},
        {"match": {}, "reply": "Done.", "usage": usage},
    ]))
    .await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let constant = |value: Json| json!({"type": "constant", "value": value});
    let tool = json!({
        "enabled": true, "type": "builtin", "provider_name": "maths", "tool_name": "eval_expression", "settings": {},
        "parameters": {"expression": {"auto": 1, "value": null}}, "extra": {"description": "Counts"},
    });
    let agent = json!({
        "type": "agent", "title": "Agent", "agent_strategy_name": "function_calling",
        "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "FunctionCalling",
        "agent_parameters": {
            "model": constant(json!({"provider": "openai", "model": "m", "mode": "chat", "completion_params": {}})),
            "tools": constant(json!([tool])), "instruction": constant(json!("Count.")),
            "query": constant(json!("what is it")), "maximum_iterations": constant(json!(5)),
        },
    });
    let text = file("Asking", &[], &[("a", agent)], &[("text", ["a", "text"])]);
    let options = json!({"tool_approval": {"auto_approved_tools": []}});
    let run = client.submit(&json!({"workflow": text, "inputs": {}, "user": "u", "options": options})).await;
    let pause = asked(client, &run).await;
    assert_eq!(
        (&pause["tool_id"], &pause["arguments"]),
        (&json!("maths/eval_expression"), &json!({"expression": "6*7"})),
        "{pause:#}"
    );
    assert_eq!(model.requests().len(), 1, "nothing continues before the answer");
    let edited = json!({"expression": "6*8"});
    let said = json!({"approved": true, "editedParameters": edited, "userInstruction": "be short"});
    answer(client, &run, &pause, said).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let last = model.requests().pop().expect("the model is called").to_string();
    assert!(last.contains("48") && last.contains("be short"), "{last}");
    // The spending is listed by model.
    let [spent] = ended["models"].as_array().map(Vec::as_slice).unwrap_or_default() else {
        panic!("one model: {ended:#}")
    };
    assert_eq!(
        (&spent["kind"], &spent["model"], &spent["calls"], &spent["prompt_tokens"], &spent["total_tokens"]),
        (&json!("model"), &json!("m"), &json!(2), &json!(16), &json!(20)),
        "{spent:#}"
    );
}
