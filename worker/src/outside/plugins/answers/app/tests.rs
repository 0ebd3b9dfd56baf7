//! Apps that plugins call, with a store that knows scripted states of their runs.

use std::sync::Mutex;

use serde_json::json;
use tidemill_common::app_parameters::AppSettings;
use tidemill_common::config::{Config, HttpConfig};
use tidemill_common::files::Folder;
use tidemill_common::graph::builder::import;
use tidemill_common::ids::workflow_uuid;
use tidemill_common::store::AppState;
use tidemill_common::value::secrets::Secrets;

use super::*;
use crate::outside::http::Http;
use crate::tests::fake::{FakeJobs, execution, journal, run_id, until};

const CALL: &str = "ask/1";

fn app(mode: &str) -> App {
    let document = json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Greeter"},
        "workflow": {
            "features": {
                "opening_statement": "Hello", "sensitive_word_avoidance": {"enabled": true, "type": "keywords", "config": {
                    "keywords": "hush", "inputs_config": {"enabled": true, "preset_response": "no"}, "outputs_config": {"enabled": false},
                }},
            },
            "graph": {
                "nodes": [
                    {"id": "start", "data": {"type": "start", "title": "S", "variables": [
                        {"variable": "q", "label": "Q", "type": "text-input", "required": true},
                    ]}},
                    {"id": "end", "data": {"type": "end", "title": "E", "outputs": []}},
                ],
                "edges": [{"source": "start", "target": "end"}],
            },
        },
    });
    let document = import(document.to_string().as_bytes()).seal(None).unwrap().expect("a document");
    App {
        id: "a-1".into(),
        name: "Greeter".into(),
        mode: mode.into(),
        version: "v".into(),
        document,
        created_at_ms: 0,
        triggers: Vec::new(),
        annotation_reply: None,
        state: AppState::On,
    }
}

fn called_run() -> RunId {
    run_id().called_by(&execution(5), CALL, 1)
}

fn fields(of: &[(&str, &str)]) -> HashMap<String, String> {
    let times =
        [("version", "v"), ("created_at", "1000000"), ("started_at", "2000000"), ("finished_at", "3500000")];
    let all = times.iter().chain(of);
    all.map(|(name, text)| ((*name).to_string(), (*text).to_string())).collect()
}

/// What a plugin receives, how it ends, and what was charged.
struct Answered {
    parts: Vec<Json>,
    outcome: Result<(), String>,
    charged: Vec<(RunId, u64)>,
}

/// Asks an app of this mode.
async fn ask(jobs: &Arc<FakeJobs>, mode: &str, request: Json) -> Answered {
    ask_with(&journal(jobs), mode, request).await
}

async fn ask_with(journal: &Journal, mode: &str, request: Json) -> Answered {
    answer_to(journal, mode, request, |_| Ok(())).await
}

/// As [`ask_with`]; `takes` says for each part whether the plugin reads it.
async fn answer_to(
    journal: &Journal,
    mode: &str,
    mut request: Json,
    takes: impl Fn(&Json) -> Result<(), String> + Send + Sync,
) -> Answered {
    let app = app(mode);
    let (http, folder) = (Http::new(&HttpConfig::default()).unwrap(), tempfile::tempdir().unwrap());
    let (files, run) = (Folder::at(folder.path().to_str().unwrap()).unwrap(), run_id());
    let asker = Asker {
        run: &run,
        http: &http,
        files: &files,
        journal: Some(journal),
        nested: 0,
        auto_approved: None,
        given: &[],
    };
    let (parts, charged) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let outcome = match AppRequest::read(&app, &mut request) {
        Err(reason) => Err(reason),
        Ok(request) => {
            let call = AppCall { asker, journal, call: CALL, app: &app, request };
            let charge = |run: RunId, cost: &Usage| charged.lock().unwrap().push((run, cost.total_tokens));
            let mut send = |part: Json| {
                let taken = takes(&part);
                parts.lock().unwrap().push(part);
                std::future::ready(taken).boxed()
            };
            call.answer(&mut send, &charge).await
        }
    };
    Answered { parts: parts.into_inner().unwrap(), outcome, charged: charged.into_inner().unwrap() }
}

fn ends(jobs: &FakeJobs, of: &[(&str, &str)]) {
    jobs.state().called.insert(called_run(), Called::Ended(fields(of)));
}

#[tokio::test(start_paused = true)]
async fn a_run_is_ordered_once_followed_without_a_fact_and_answers_as_one_dictionary() {
    let jobs = FakeJobs::new();
    let asking = ask(&jobs, "workflow", json!({"inputs": {"q": "x"}, "response_mode": "blocking"}));
    let other = async {
        until("some looks", || jobs.state().looked >= 5).await;
        jobs.state().called.insert(called_run(), Called::Runs(fields(&[("status", "running")])));
        until("more looks", || jobs.state().looked >= 10).await;
        let outputs = r#"{"hi":"Hi x"}"#;
        ends(&jobs, &[("status", "succeeded"), ("outputs", outputs), ("tokens", "7"), ("steps", "3")]);
    };
    let (answered, ()) = tokio::join!(asking, other);
    assert_eq!(answered.outcome, Ok(()));
    let run = called_run();
    let data = json!({
        "id": run, "workflow_id": workflow_uuid("a-1", "v").to_string(), "status": "succeeded", "outputs": {"hi": "Hi x"},
        "error": null, "elapsed_time": 1.5, "total_tokens": 7, "total_steps": 3, "created_at": 1, "finished_at": 3,
        "exceptions_count": 0, "files": [],
    });
    assert_eq!(answered.parts, [json!({"task_id": run, "workflow_run_id": run, "data": data})]);
    assert_eq!(answered.charged, [(run, 7)], "its cost is counted once");
    let state = jobs.state();
    let orders: Vec<_> = state.facts.iter().filter(|(kind, _)| *kind == "called").collect();
    let expected = json!({"run": run, "app": "a-1", "given": {"inputs": {"q": "x"}, "files": []}});
    assert_eq!((orders.len(), &orders[0].1["call"]), (1, &expected));
    assert!(state.batches.is_empty(), "the job is not parked");
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_the_start_and_the_end_of_the_run() {
    for begins_first in [true, false] {
        let jobs = FakeJobs::new();
        let asking = ask(&jobs, "workflow", json!({"inputs": {"q": "x"}, "response_mode": "streaming"}));
        let other = async {
            until("a look", || jobs.state().looked >= 1).await;
            if begins_first {
                jobs.state().called.insert(called_run(), Called::Runs(fields(&[("status", "running")])));
                let looked = jobs.state().looked;
                until("more looks", || jobs.state().looked > looked + 2).await;
            }
            ends(&jobs, &[("status", "failed"), ("error", "boom"), ("tokens", "7")]);
        };
        let (answered, ()) = tokio::join!(asking, other);
        assert_eq!(answered.outcome, Ok(()), "as on Dify, a failure is a part of the answer");
        let names: Vec<&Json> = answered.parts.iter().map(|part| &part["event"]).collect();
        assert_eq!(names, ["workflow_started", "workflow_finished"]);
        assert_eq!(answered.parts[0]["data"]["inputs"], json!({"q": "x"}));
        let end = &answered.parts[1]["data"];
        assert_eq!((&end["status"], &end["error"]), (&json!("failed"), &json!("boom")));
        assert_eq!(answered.charged, [(called_run(), 7)], "it is paid for");
    }
}

#[tokio::test(start_paused = true)]
async fn a_chat_gets_the_message_and_answers_with_its_conversation() {
    let jobs = FakeJobs::new();
    let outputs = r#"{"answer":"Hi"}"#;
    ends(&jobs, &[("status", "succeeded"), ("outputs", outputs), ("conversation_id", "c-1")]);
    let request =
        json!({"inputs": {}, "query": "Hello", "conversation_id": "C-1", "response_mode": "blocking"});
    let answered = ask(&jobs, "advanced-chat", request.clone()).await;
    let part = &answered.parts[0];
    let shown =
        [&part["event"], &part["answer"], &part["conversation_id"], &part["mode"], &part["created_at"]];
    assert_eq!(shown, [&json!("message"), &json!("Hi"), &json!("c-1"), &json!("advanced-chat"), &json!(1)]);
    let given = jobs.state().facts[0].1["call"]["given"].clone();
    assert_eq!((&given["query"], &given["conversation_id"]), (&json!("Hello"), &json!("c-1")));
    let mut streamed = request;
    streamed["response_mode"] = json!("streaming");
    let names =
        |answered: &Answered| answered.parts.iter().map(|part| part["event"].clone()).collect::<Vec<_>>();
    let all = names(&ask(&jobs, "advanced-chat", streamed.clone()).await);
    assert_eq!(all, ["workflow_started", "message", "message_end", "workflow_finished"]);
    assert_eq!(names(&ask(&jobs, "agent-chat", streamed).await), ["agent_message", "message_end"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_called_is_refused_by_its_reason() {
    let jobs = FakeJobs::new();
    for (mode, request, expected) in [
        ("advanced-chat", json!({"inputs": {}}), "missing query"),
        ("agent-chat", json!({"query": "x"}), "does not support blocking mode"),
        ("completion", json!({"inputs": {}}), "its mode is completion"),
        ("workflow", json!({"inputs": {}, "response_mode": "loud"}), "streaming or blocking"),
        ("workflow", json!({"inputs": []}), "inputs must be an object"),
    ] {
        let refused = ask(&jobs, mode, request).await.outcome.unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
    assert!(jobs.state().facts.is_empty(), "nothing was ordered");
    jobs.state().called.insert(called_run(), Called::Refused("Max workflow call depth 5 reached.".into()));
    let refused = ask(&jobs, "workflow", json!({"inputs": {}})).await;
    assert_eq!(refused.outcome, Err("Max workflow call depth 5 reached.".into()));
    jobs.state().called.insert(called_run(), Called::Gone);
    let gone = ask(&jobs, "workflow", json!({"inputs": {}})).await.outcome.unwrap_err();
    assert!(gone.contains("scheduler.retention_seconds"), "{gone}");
    ends(&jobs, &[("status", "failed"), ("error", "boom"), ("tokens", "7")]);
    let failed = ask(&jobs, "advanced-chat", json!({"query": "x"})).await;
    assert_eq!((failed.outcome, failed.charged), (Err("boom".into()), vec![(called_run(), 7)]));
}

#[tokio::test(start_paused = true)]
async fn an_order_that_no_scheduler_applies_is_given_up_with_the_places_to_look_at() {
    let jobs = FakeJobs::new();
    let began = Instant::now();
    let refused = ask(&jobs, "workflow", json!({"inputs": {}})).await.outcome.unwrap_err();
    for part in ["within 60 s", "tidemill dead ls", "an older scheduler", "starts another run"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert!((60..63).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_pinged_while_its_run_goes_on_and_an_answer_is_not() {
    for (mode, expected) in
        [("streaming", vec!["workflow_started", "ping", "ping", "workflow_finished"]), ("blocking", vec![""])]
    {
        let jobs = FakeJobs::new();
        jobs.state().called.insert(called_run(), Called::Runs(fields(&[("status", "running")])));
        let other = async {
            tokio::time::sleep(PING * 2 + PING / 2).await;
            ends(&jobs, &[("status", "succeeded"), ("outputs", "{}")]);
        };
        let asking = ask(&jobs, "workflow", json!({"inputs": {}, "response_mode": mode}));
        let (answered, ()) = tokio::join!(asking, other);
        let names: Vec<&str> =
            answered.parts.iter().map(|part| part["event"].as_str().unwrap_or_default()).collect();
        assert_eq!((names, answered.outcome), (expected, Ok(())));
        for ping in answered.parts.iter().filter(|part| part["event"] == "ping") {
            let run = json!(called_run());
            assert_eq!((&ping["task_id"], &ping["workflow_run_id"], &ping["data"]), (&run, &run, &json!({})));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_reader_is_gone_ends_with_its_next_ping() {
    let jobs = FakeJobs::new();
    jobs.state().called.insert(called_run(), Called::Waits);
    let journal = journal(&jobs);
    let began = Instant::now();
    let request = json!({"inputs": {}, "response_mode": "streaming"});
    let gone = || Err("the plugin takes no more answers".to_owned());
    let outcome = answer_to(&journal, "workflow", request, |_| gone()).await.outcome;
    assert_eq!((outcome, began.elapsed().as_secs()), (gone(), PING.as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_the_run_is_not_passed_to_an_app() {
    let jobs = FakeJobs::new();
    let journal = journal(&jobs).hiding(Secrets::unnamed(["hush-hush-hush"].into_iter()));
    let request = json!({"inputs": {"q": "it is hush-hush-hush"}});
    assert_eq!(ask_with(&journal, "workflow", request).await.outcome, Err(NO_SECRETS.into()));
    assert!(jobs.state().facts.is_empty(), "nothing was ordered");
}

#[tokio::test(start_paused = true)]
async fn an_app_is_found_and_described_without_the_settings_of_its_features() {
    let jobs = FakeJobs::new();
    let unpublished = App { document: String::new(), ..app("workflow") };
    jobs.state().apps.extend([("a-1".to_owned(), app("workflow")), ("a-2".to_owned(), unpublished)]);
    assert_eq!(find(&*jobs, "a-2").await.unwrap_err(), APP_NOT_PUBLISHED);
    assert!(find(&*jobs, "unknown").await.unwrap_err().starts_with(APP_NOT_FOUND));
    let settings = AppSettings::of(&Config::default());
    let shown = info::of(&find(&*jobs, "a-1").await.unwrap(), &settings).unwrap();
    let data = &shown["data"];
    assert_eq!((&data["id"], &data["mode"]), (&json!("a-1"), &json!("workflow")));
    assert_eq!(data["user_input_form"][0]["text-input"]["variable"], "q");
    assert_eq!(
        (&data["opening_statement"], &data["speech_to_text"]),
        (&json!("Hello"), &json!({"enabled": false}))
    );
    let moderation = json!({"enabled": true, "type": "keywords", "configs": []});
    assert_eq!(data["sensitive_word_avoidance"], moderation);
    let keys: Vec<&str> = data.as_object().expect("fields").keys().map(String::as_str).collect();
    let expected = [
        "opening_statement",
        "suggested_questions",
        "suggested_questions_after_answer",
        "speech_to_text",
        "text_to_speech",
        "retriever_resource",
        "annotation_reply",
        "more_like_this",
        "user_input_form",
        "sensitive_word_avoidance",
        "file_upload",
        "system_parameters",
        "id",
        "name",
        "mode",
    ];
    assert_eq!(keys, expected);
    assert!(!shown.to_string().contains("hush"), "{shown}");
}

#[test]
fn an_app_that_needs_approval_is_refused() {
    let approved: [Arc<str>; 1] = ["app/a-1".into()];
    assert!(check_approval(None, "a-2").is_ok() && check_approval(Some(&approved), "a-1").is_ok());
    for approved in [&approved[..], &[]] {
        let refused = check_approval(Some(approved), "a-2").unwrap_err();
        assert!(refused.contains("app/a-2 is not among tool_approval.auto_approved_tools"), "{refused}");
    }
}
