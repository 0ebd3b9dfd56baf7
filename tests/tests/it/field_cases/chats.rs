//! Chats: inputs of later turns, the memory of a model, structured output, attachments.

use serde_json::json;

use super::forms::answered;
use super::workflow::{Sketch, answer, choose, code, form, llm, start};
use super::{Desk, begin, pieces, say, status_is, streamed};

#[tokio::test(flavor = "multi_thread")]
async fn a_later_turn_takes_new_inputs_and_the_model_gets_the_last_turns() {
    let desk = Desk::open(json!([{"match": {}, "echo": "last_user"}])).await;
    let fields = Sketch::chat("start > say")
        .node("start", start(&[("kind", "text-input"), ("more", "text-input")]))
        .node("say", answer("kind={{#start.kind#}} more={{#start.more#}} turn={{#sys.dialogue_count#}}"));
    let (_, app) = desk.publish(&fields).await;
    let first = say(&app, "one", "", json!({"kind": "a"})).await;
    assert_eq!(first["answer"], "kind=a more= turn=1");
    let id = first["conversation_id"].as_str().expect("a conversation has an id");
    let second = say(&app, "two", id, json!({"kind": "b", "more": "c"})).await;
    assert_eq!(second["answer"], "kind=b more=c turn=2");

    let mut remembers = llm("{{#sys.query#}}");
    remembers["prompt_template"] =
        json!([{"role": "system", "text": "You remember."}, {"role": "user", "text": "{{#sys.query#}}"}]);
    remembers["memory"] = json!({"role_prefix": {"user": "", "assistant": ""}, "window": {"enabled": true, "size": 2},
        "query_prompt_template": "{{#sys.query#}}"});
    let memory = Sketch::chat("start > ask > say")
        .node("start", start(&[]))
        .node("ask", remembers)
        .node("say", answer("{{#ask.text#}}"));
    let (_, app) = desk.publish(&memory).await;
    let mut id = String::new();
    for query in ["first", "second", "third", "fourth"] {
        let said = say(&app, query, &id, json!({})).await;
        assert!(said["answer"].as_str().is_some_and(|text| text.contains(query)), "{said:#}");
        id = said["conversation_id"].as_str().expect("a conversation has an id").to_owned();
    }
    let asked = desk.model.requests().last().cloned().expect("it was called");
    let asked = asked["messages"].to_string();
    assert!(
        asked.contains("third") && asked.contains("second") && !asked.contains("first"),
        "two turns: {asked}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_a_structured_answer_can_be_read_although_it_streams() {
    let reply = "{\"team\": \"sales\", \"scores\": [1, 2.5], \"inner\": {\"deep\": \"d\"}}";
    let desk = Desk::open(json!([{"match": {}, "chunks": [&reply[..20], &reply[20..]]}])).await;
    let mut pick = llm("choose {{#sys.query#}}");
    pick["structured_output_enabled"] = true.into();
    pick["structured_output"] = json!({"schema": {"type": "object", "required": ["team"], "properties": {
        "team": {"type": "string"}, "scores": {"type": "array", "items": {"type": "number"}},
        "inner": {"type": "object", "properties": {"deep": {"type": "string"}}}}}});
    let source = "def main(o, l):\n    return {\"r\": repr([sorted(o), l])}\n";
    let inputs = &[("o", "pick.structured_output"), ("l", "pick.structured_output.scores")];
    let sketch = Sketch::chat("start > pick > seen > is; is[s] > yes; is[false] > no")
        .node("start", start(&[]))
        .node("pick", pick)
        .node("seen", code(source, &[("r", "string")], inputs))
        .node("is", choose("s", &[("pick.structured_output.team", "is", "sales", "string")]))
        .node(
            "yes",
            answer("{{#pick.structured_output.team#}}/{{#pick.structured_output.inner.deep#}}/{{#seen.r#}}"),
        )
        .node("no", answer("no"));
    let (_, app) = desk.publish(&sketch).await;
    let body = json!({"query": "x", "inputs": {}, "user": "field", "conversation_id": "", "response_mode": "streaming"});
    let events = streamed(&app, "/v1/chat-messages", body).await;
    assert_eq!(pieces(&events).concat(), "sales/d/[['inner', 'scores', 'team'], [1, 2.5]]", "{events:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_with_an_attachment_goes_on_after_its_form() {
    let desk = Desk::open(json!([{"match": {}, "reply": "draft"}])).await;
    let uploads = json!({"file_upload": {"enabled": true, "allowed_file_types": ["image", "document"],
        "allowed_file_extensions": [], "allowed_file_upload_methods": ["remote_url"], "number_limits": 3}});
    let sketch = Sketch::chat("start > draft > ask; ask[yes] > say; ask[no] > say")
        .node("start", start(&[]))
        .node("draft", llm("draft {{#sys.query#}}"))
        .node("ask", form(&["yes", "no"]))
        .node("say", answer("said {{#draft.text#}} with {{#sys.files#}}"))
        .with("features", uploads);
    let (_, app) = desk.publish(&sketch).await;
    let file = json!({"type": "document", "transfer_method": "remote_url", "url": format!("{}/file.txt", desk.server.base)});
    let body = json!({"query": "x", "inputs": {}, "user": "field", "conversation_id": "", "files": [file],
        "response_mode": "streaming"});
    let (id, event) = begin(&app, "/v1/chat-messages", body).await;
    let shown = status_is(desk.admin(), &id, "paused").await;
    answered(&app, &shown, "ask", "yes", "").await;
    status_is(desk.admin(), &id, "succeeded").await;
    let conversation = event["conversation_id"].as_str().expect("a chat has a conversation");
    let listed = app.get(&format!("/v1/messages?user=field&conversation_id={conversation}")).await;
    let said = listed.body["data"][0]["answer"].as_str().unwrap_or_default();
    assert!(said.starts_with("said draft with ") && said.contains("file.txt"), "{}", listed.text);
}
