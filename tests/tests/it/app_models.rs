//! App features that a model serves beside the workflow: suggested questions, speech, and answers that are read aloud.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_mock_llm::{Running, speech::silence};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;

use super::{System, system};

const SETTINGS: [(&str, &str); 4] = [
    ("features.suggested_model", "openai/small"),
    ("features.speech_to_text", "openai/whisper-1"),
    ("features.text_to_speech", "openai/tts-1"),
    ("features.audio_bytes_max", "100000"),
];

/// The id of no message.
const UNKNOWN: &str = "0199c0de-0000-7000-8000-000000000001";

/// A model that answers, suggests questions and hears.
async fn model() -> Running {
    llm::rules(json!([
        {"match": {"contains": "Human: broken"}, "reply": "Here: [\"Why?\", \"When?\"]", "status": 400, "fail_times": 1},
        {"match": {"contains": "JSON array"}, "reply": "```json\n[\"One?\", \"Two?\", \"Three?\"]\n```"},
        {"match": {"contains": "unspeakable"}, "status": 400, "error": "it will not say that"},
        {"match": {"contains": "sound"}, "reply": "words of a recording"},
        {"match": {}, "reply": "the answer"},
    ]))
    .await
}

/// Registers a chat with these features.
async fn app(system: &System, features: Json) -> Client {
    let flow = Flow::new("start -> llm -> answer")
        .prompt("llm", "{{#sys.query#}}")
        .answer("answer", "{{#llm.text#}}");
    let mut file = flow.document();
    file["workflow"]["features"] = features;
    let answer = system.client.post("/api/v1/apps", &json!({"workflow": file.to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    system.client.with_key(answer.body["key"].as_str())
}

async fn say(app: &Client, query: &str) -> (String, String) {
    let body = json!({"query": query, "inputs": {}, "user": "u1", "response_mode": "blocking"});
    let answer = app.post("/v1/chat-messages", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let text = |key: &str| answer.body[key].as_str().expect("a text").to_owned();
    (text("message_id"), text("conversation_id"))
}

fn refused(answer: &HttpResponse, status: u16, code: &str, message: &str) {
    let found = (answer.status, answer.body["code"].as_str(), answer.body["message"].as_str());
    assert_eq!(found, (status, Some(code), Some(message)), "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_suggested_once_for_a_message_and_kept() {
    let model = model().await;
    let system = system(&SETTINGS, &model).await;
    let app = &app(&system, json!({"suggested_questions_after_answer": {"enabled": true}})).await;
    let shown = app.get("/v1/parameters").await;
    assert_eq!(shown.body["suggested_questions_after_answer"], json!({"enabled": true}), "{}", shown.text);

    let (message, _) = say(app, "hello").await;
    let path = |message: &str, user: &str| format!("/v1/messages/{message}/suggested?user={user}");
    let answer = app.get(&path(&message, "u1")).await;
    let expected = r#"{"result":"success","data":["One?","Two?","Three?"]}"#;
    assert_eq!((answer.status, answer.text.as_str()), (200, expected));
    let asked = model.requests();
    let prompt = asked.last().expect("the model was asked").to_string();
    assert!(prompt.contains("Human: hello") && prompt.contains("Assistant: the answer"), "{prompt}");
    assert!(prompt.contains(r#""model":"small""#), "{prompt}");
    let again = app.get(&path(&message, "u1")).await;
    assert_eq!((again.text.as_str(), model.requests().len()), (expected, asked.len()));

    refused(&app.get(&path(&message, "u2")).await, 404, "not_found", "Message Not Exists.");
    let unknown = UNKNOWN.to_owned();
    refused(&app.get(&path(&unknown, "u1")).await, 404, "not_found", "Message Not Exists.");

    // A model that fails gives no questions, and is asked again by a later request.
    let (message, _) = say(app, "broken").await;
    let failed = app.get(&path(&message, "u1")).await;
    assert_eq!((failed.status, &failed.body["data"]), (200, &json!([])), "{}", failed.text);
    let later = app.get(&path(&message, "u1")).await;
    assert_eq!(later.body["data"], json!(["Why?", "When?"]), "{}", later.text);

    let listed = system.client.get("/api/v1/runs").await;
    let workflows: Vec<_> =
        listed.body["data"].as_array().into_iter().flatten().map(|run| run["app"].is_null()).collect();
    assert_eq!(workflows, [false, false], "only the runs of the app are listed: {}", listed.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_without_its_model_is_off_and_the_warning_names_the_setting() {
    let model = model().await;
    let system = system(&[], &model).await;
    let on = json!({"enabled": true});
    let features = json!({
        "suggested_questions_after_answer": on, "speech_to_text": on, "text_to_speech": {"enabled": true, "voice": "nova"},
    });
    let app = &app(&system, features).await;
    let shown = app.get("/v1/parameters").await.body;
    for name in ["suggested_questions_after_answer", "speech_to_text", "text_to_speech"] {
        assert_eq!(shown[name], json!({"enabled": false}), "{shown:#}");
    }
    let (message, _) = say(app, "hello").await;
    let answer = app.get(&format!("/v1/messages/{message}/suggested?user=u1")).await;
    refused(&answer, 400, "bad_request", "Suggested Questions Is Disabled.");
    let heard = hear(app, "audio/mpeg", b"sound").await;
    refused(&heard, 400, "provider_not_support_speech_to_text", "Provider not support speech to text.");
    let spoken = app.post("/v1/text-to-audio", &json!({"text": "hi", "user": "u1"})).await;
    assert_eq!((spoken.status, &spoken.body["code"]), (400, &json!("provider_not_initialize")));
    let run = system.client.run(&message).await;
    let warnings = run["warnings"].to_string();
    for setting in ["features.suggested_model", "features.speech_to_text", "features.text_to_speech"] {
        assert!(warnings.contains(setting), "{warnings}");
    }
    // An app that names its own model needs no setting.
    let own = json!({"enabled": true, "model": {"provider": "langgenius/openai/openai", "name": "own"}});
    let app = &self::app(&system, json!({"suggested_questions_after_answer": own})).await;
    let (message, _) = say(app, "hello").await;
    let answer = app.get(&format!("/v1/messages/{message}/suggested?user=u1")).await;
    assert_eq!(answer.body["data"], json!(["One?", "Two?", "Three?"]), "{}", answer.text);
}

/// Sends a recording.
async fn hear(app: &Client, kind: &str, recording: &[u8]) -> HttpResponse {
    let head = format!(
        "--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nu1\r\n--x\r\nContent-Disposition: form-data; \
         name=\"file\"; filename=\"a.mp3\"\r\nContent-Type: {kind}\r\n\r\n"
    );
    let body = [head.as_bytes(), recording, b"\r\n--x--\r\n"].concat();
    let request = app.request(Method::POST, "/v1/audio-to-text");
    app.send(request.header("content-type", "multipart/form-data; boundary=x").body(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_becomes_text() {
    let model = model().await;
    let system = system(&SETTINGS, &model).await;
    let app = &app(&system, json!({"speech_to_text": {"enabled": true}})).await;
    assert_eq!(app.get("/v1/parameters").await.body["speech_to_text"], json!({"enabled": true}));
    let answer = hear(app, "audio/mpeg", b"sound").await;
    assert_eq!((answer.status, answer.text.as_str()), (200, r#"{"text":"words of a recording"}"#));
    let asked = model.requests().last().cloned().expect("the model was asked");
    assert_eq!((&asked["model"], &asked["filename"]), (&json!("whisper-1"), &json!("recording.mpeg")));

    refused(&hear(app, "audio/x-midi", b"x").await, 415, "unsupported_audio_type", "Audio type not allowed.");
    let large = hear(app, "audio/wav", &vec![0; 100_001]).await;
    refused(&large, 413, "audio_too_large", "Audio size larger than 0 mb");
    let none = app.send(app.request(Method::POST, "/v1/audio-to-text")).await;
    refused(&none, 400, "no_audio_uploaded", "Please upload your audio.");
    let failed = hear(app, "audio/wav", b"unspeakable").await;
    assert_eq!((failed.status, &failed.body["code"]), (400, &json!("completion_request_error")));
    assert!(failed.text.contains("it will not say that"), "{}", failed.text);
    let off = &self::app(&system, json!({})).await;
    let answer = hear(off, "audio/mpeg", b"sound").await;
    refused(&answer, 400, "speech_to_text_disabled", "Speech to text is disabled.");
}

/// Reads a text aloud; returns content type and sound.
async fn speak(app: &Client, body: &Json) -> (String, Vec<u8>) {
    let request = app.request(Method::POST, "/v1/text-to-audio").header("content-type", "application/json");
    let response = request.body(body.to_string()).send().await.expect("the scheduler answers");
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().expect("a text").to_owned();
    (kind, response.bytes().await.expect("the answer is complete").to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_and_the_answer_of_a_message_are_read_aloud() {
    let model = model().await;
    let system = system(&SETTINGS, &model).await;
    let app = &app(&system, json!({"text_to_speech": {"enabled": true, "voice": "nova"}})).await;
    let (kind, sound) = speak(app, &json!({"text": "Good morning", "user": "u1", "streaming": true})).await;
    assert_eq!((kind.as_str(), sound), ("audio/mpeg", silence()));
    let asked = model.requests().last().cloned().expect("the model was asked");
    let expected = (&json!("tts-1"), &json!("nova"), &json!("Good morning"));
    assert_eq!((&asked["model"], &asked["voice"], &asked["messages"][0]["content"]), expected);
    // A long text takes several requests.
    let (_, sound) = speak(app, &json!({"text": "A sentence. ".repeat(400), "voice": "echo"})).await;
    assert_eq!(sound, silence().repeat(2));

    let (message, _) = say(app, "hello").await;
    let (_, sound) = speak(app, &json!({"message_id": message, "text": "ignored", "user": "u1"})).await;
    assert_eq!(sound, silence());
    assert_eq!(model.requests().last().expect("asked")["messages"][0]["content"], "the answer");

    let post = async |body: Json| app.post("/v1/text-to-audio", &body).await;
    for id in [UNKNOWN.to_owned(), "none".into()] {
        let absent = post(json!({"message_id": id, "user": "u1"})).await;
        assert_eq!((absent.status, absent.text.as_str()), (200, "null"));
    }
    let of_another = post(json!({"message_id": message, "user": "u2"})).await;
    assert_eq!((of_another.status, of_another.text.as_str()), (200, "null"));
    refused(&post(json!({"user": "u1"})).await, 400, "invalid_param", "Text is required");
    let failed = post(json!({"text": "unspeakable", "user": "u1"})).await;
    assert_eq!((failed.status, &failed.body["code"]), (400, &json!("completion_request_error")));
    let off = &self::app(&system, json!({})).await;
    let answer = off.post("/v1/text-to-audio", &json!({"text": "hi", "user": "u1"})).await;
    refused(&answer, 400, "invalid_param", "TTS is not enabled");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_plays_its_answers_sends_the_sound_after_all_other_events() {
    let model = model().await;
    let system = system(&SETTINGS, &model).await;
    let plays = json!({"text_to_speech": {"enabled": true, "voice": "nova", "autoPlay": "enabled"}});
    for (features, has_sound) in [(plays, true), (json!({"text_to_speech": {"enabled": true}}), false)] {
        let app = &app(&system, features).await;
        let body = json!({"query": "hello", "inputs": {}, "user": "u1", "response_mode": "streaming"});
        let request =
            app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
        let mut stream = app.open(request.body(body.to_string())).await;
        let mut events = Vec::new();
        while let Some(message) = stream.next().await {
            events.extend(
                message.data.map(|data| serde_json::from_str::<Json>(&data).expect("events are JSON")),
            );
        }
        let at = |name: &str| events.iter().position(|event| event["event"] == name);
        if !has_sound {
            assert_eq!((at("tts_message"), at("tts_message_end")), (None, None), "{events:#?}");
            continue;
        }
        let finished = at("workflow_finished").expect("it ends");
        assert_eq!(at("tts_message"), Some(finished + 1), "{events:#?}");
        assert_eq!(at("tts_message_end"), Some(events.len() - 1), "{events:#?}");
        let pieces = events.iter().filter(|event| event["event"] == "tts_message");
        let decode =
            |event: &Json| STANDARD.decode(event["audio"].as_str().expect("a text")).expect("base64");
        assert_eq!(pieces.flat_map(decode).collect::<Vec<u8>>(), silence());
        let asked = model.requests().last().cloned().expect("asked");
        assert_eq!(asked["messages"][0]["content"], "the answer");
    }
}

/// The payloads of a stream with event ids, each with its id.
async fn streamed(app: &Client, request: reqwest::RequestBuilder) -> Vec<(Option<String>, Json)> {
    let mut stream = app.open(request).await;
    let mut payloads = Vec::new();
    while let Some(message) = stream.next().await {
        let Some(data) = message.data else { continue };
        payloads.push((message.id, serde_json::from_str(&data).expect("events are JSON")));
    }
    payloads
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_place_of_the_workflow_has_the_mode_and_the_sound_of_its_app_also_for_a_client_that_comes_back()
 {
    let model = model().await;
    let system = system(&SETTINGS, &model).await;
    let file = json!({"kind": "app", "version": "0.1.5", "app": {"mode": "chat", "name": "x"}, "model_config": {
        "model": {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}},
        "pre_prompt": "hi", "annotation_reply": {"enabled": true},
        "text_to_speech": {"enabled": true, "voice": "nova", "autoPlay": "enabled"},
    }});
    let answer = system.client.post("/api/v1/apps", &json!({"workflow": file.to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let app = &system.client.with_key(answer.body["key"].as_str());
    let pair = json!({"question": "Hello?", "answer": "Welcome."});
    let added = app.post("/v1/apps/annotations", &pair).await;
    assert_eq!(added.status, 201, "{}", added.text);

    let mut body = json!({"query": "Hello?", "inputs": {}, "user": "u1", "response_mode": "blocking"});
    let blocking = app.post("/v1/chat-messages", &body).await.body;
    assert_eq!(
        (&blocking["answer"], &blocking["mode"]),
        (&json!("Welcome."), &json!("chat")),
        "{blocking:#}"
    );

    body["response_mode"] = "streaming".into();
    let request = app.request(Method::POST, "/v1/chat-messages?event_ids=true");
    let sent = streamed(app, request.header("content-type", "application/json").body(body.to_string())).await;
    let events: Vec<&Json> = sent.iter().map(|(_, payload)| &payload["event"]).collect();
    assert_eq!(events[..3], ["message", "message_end", "tts_message"], "{sent:#?}");
    assert_eq!(*events[events.len() - 1], "tts_message_end", "{sent:#?}");

    let run = sent[1].1["task_id"].as_str().expect("a run");
    let last = sent[1].0.as_deref().expect("the end of the message has an id");
    let again = app.request(Method::GET, &format!("/v1/workflow/{run}/events?user=u1"));
    let again = streamed(app, again.header("last-event-id", last)).await;
    let payloads = |sent: &[(Option<String>, Json)]| sent.iter().map(|it| it.1.clone()).collect::<Vec<_>>();
    assert_eq!(payloads(&again), payloads(&sent[2..]), "the whole sound comes again");
}
