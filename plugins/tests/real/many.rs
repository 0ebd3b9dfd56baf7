//! The plugin `many`: messages, sessions, and what happens when a plugin misbehaves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;
use tidemill_plugins::process::{Offered, ProcessError};
use tidemill_plugins::tool::ToolError;
use tidemill_plugins::tool::message::Message;

use crate::lab::{Lab, texts};

#[allow(clippy::print_stdout, reason = "the results of tests")]
pub(crate) async fn all(lab: &Lab) {
    a_tool_answers_with_each_kind_of_message(lab).await;
    many_sessions_share_a_process(lab).await;
    an_idle_process_ends_for_another_app_when_there_may_be_no_more(lab).await;
    storage_is_answered_and_what_the_manifest_does_not_permit_is_refused(lab).await;
    credentials_are_checked_by_the_plugin_and_masked_in_errors(lab).await;
    a_file_of_the_host_reaches_the_tool(lab).await;
    a_process_that_dies_fails_its_sessions_and_is_started_again_after_a_pause(lab).await;
    a_tool_that_does_not_end_is_cancelled_and_its_process_replaced(lab).await;
    a_tool_that_keeps_the_processor_busy_is_ended_for_its_silence(lab).await;
    output_is_bounded_and_printed_text_does_no_harm(lab).await;
    an_invocation_of_a_running_plugin_is_quick(lab).await;
    println!("many: passed");
}

async fn a_tool_answers_with_each_kind_of_message(lab: &Lab) {
    let bench = lab.bench(&lab.many, |_| {});
    let messages = bench.invoke("say", json!({"text": "ab", "often": "2", "loud": "yes"})).await.unwrap();
    let [Message::Text(text), Message::Json(given), Message::Link(link), rest @ ..] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!((text.as_str(), link.as_str()), ("ABAB", "https://example.com/"));
    assert_eq!(given["given"], json!({"text": "ab", "often": 2, "loud": true, "mood": "calm"}));
    let [mood, one, two, blob, log] = rest else { panic!("{rest:?}") };
    let variable = |name: &str, value: &str, is_piece| Message::Variable {
        name: name.into(),
        value: json!(value),
        is_piece,
    };
    assert_eq!(
        [mood, one, two],
        [&variable("mood", "calm", false), &variable("part", "a", true), &variable("part", "b", true)]
    );
    assert!(
        matches!(blob, Message::Blob { bytes, .. } if bytes.len() == 25_600 && bytes[255] == 255),
        "{blob:?}"
    );
    assert!(matches!(log, Message::Log(value) if value["label"] == "done"), "{log:?}");
    assert!(bench.invoke("say", json!({})).await.unwrap_err().to_string().contains("needs a value"));
    bench.plugins.stop().await;
}

async fn many_sessions_share_a_process(lab: &Lab) {
    let bench = lab.bench(&lab.many, |settings| settings.process.processes_each_max = 1);
    bench.invoke("say", json!({"text": "warm"})).await.unwrap();
    let begun = Instant::now();
    let mut waiting = Vec::new();
    for _ in 0..8 {
        waiting.push(bench.begin("wait", json!({"seconds": 1})).await.unwrap());
    }
    for mut results in waiting {
        let mut count = 0;
        while results.next().await.unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 2);
    }
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    bench.plugins.stop().await;
}

async fn an_idle_process_ends_for_another_app_when_there_may_be_no_more(lab: &Lab) {
    let mut bench = lab.bench(&lab.many, |settings| settings.process.processes_max = 1);
    bench.invoke("say", json!({"text": "a"})).await.unwrap();
    bench.owner = "another".into();
    bench.invoke("say", json!({"text": "a"})).await.unwrap();
    // One that is busy is waited for.
    let mut busy = bench.begin("wait", json!({"seconds": 1})).await.unwrap();
    bench.owner = "third".into();
    let ends = async {
        let mut all = Vec::new();
        while let Some(message) = busy.next().await.unwrap() {
            all.push(message);
        }
        all
    };
    let (ended, said) = tokio::join!(ends, bench.invoke("say", json!({"text": "a"})));
    assert_eq!(texts(&ended), ["begun", "done"]);
    assert!(!said.unwrap().is_empty());
    bench.plugins.stop().await;
    // Its time counts until there is a place.
    let mut bench = lab.bench(&lab.many, |settings| {
        settings.process.processes_max = 1;
        settings.process.session_timeout = Duration::from_secs(8);
    });
    let _busy = bench.begin("wait", json!({"seconds": 60})).await.unwrap();
    bench.owner = "another".into();
    let error = bench.invoke("say", json!({"text": "a"})).await.unwrap_err().to_string();
    assert!(error.contains("processes_max"), "{error}");
    bench.plugins.stop().await;
}

async fn storage_is_answered_and_what_the_manifest_does_not_permit_is_refused(lab: &Lab) {
    let bench = lab.bench(&lab.many, |_| {});
    let messages = bench.invoke("keep", json!({"key": "k", "value": "kept"})).await.unwrap();
    let [kept, refused] = &texts(&messages)[..] else { panic!("{messages:?}") };
    assert_eq!(*kept, "kept");
    assert!(refused.contains("does not ask for the permission \"app\""), "{refused}");
    bench.plugins.stop().await;
}

async fn credentials_are_checked_by_the_plugin_and_masked_in_errors(lab: &Lab) {
    let mut bench = lab.bench(&lab.many, |_| {});
    bench.credentials = json!({"key": "the-right-key"});
    bench.validate().await.unwrap();
    let error = bench.invoke("fail", json!({"how": "raise"})).await.unwrap_err().to_string();
    assert!(error.contains("ValueError: failed with the key ***"), "{error}");
    bench.credentials = json!({"key": "another-key"});
    let error = bench.validate().await.unwrap_err();
    assert!(matches!(error, ToolError::Credentials(_)), "{error}");
    assert!(error.to_string().contains("the key *** is wrong"), "{error}");
    bench.plugins.stop().await;
}

async fn a_file_of_the_host_reaches_the_tool(lab: &Lab) {
    let mut bench = lab.bench(&lab.many, |_| {});
    bench.offered = Offered::new(BTreeMap::from([("one.txt".into(), b"its content".to_vec())]));
    let file = json!({
        "dify_model_identity": "__dify__file__", "url": Offered::address("one.txt"), "type": "document", "filename": "one.txt",
    });
    let messages = bench.invoke("read", json!({"file": file})).await.unwrap();
    assert_eq!(texts(&messages), ["one.txt: its content"]);
    bench.plugins.stop().await;
}

async fn a_process_that_dies_fails_its_sessions_and_is_started_again_after_a_pause(lab: &Lab) {
    let bench = lab.bench(&lab.many, |settings| settings.process.backoff = Duration::from_secs(2));
    let mut other = bench.begin("wait", json!({"seconds": 60})).await.unwrap();
    assert!(other.next().await.unwrap().is_some());
    let error = bench.invoke("fail", json!({"how": "die"})).await.unwrap_err();
    assert!(matches!(error, ToolError::Process(ProcessError::Ended { .. })), "{error}");
    assert!(error.to_string().contains("the plugin's process ended"), "{error}");
    let error = other.next().await.unwrap_err();
    assert!(matches!(error, ToolError::Process(ProcessError::Ended { .. })), "{error}");
    let error = bench.invoke("wait", json!({"seconds": 0})).await.unwrap_err();
    assert!(matches!(error, ToolError::Process(ProcessError::BackingOff { .. })), "{error}");
    let until = Instant::now() + Duration::from_secs(30);
    while bench.invoke("say", json!({"text": "x"})).await.is_err() {
        assert!(Instant::now() < until, "it is not started again");
        tokio::task::yield_now().await;
    }
    bench.plugins.stop().await;
}

async fn a_tool_that_does_not_end_is_cancelled_and_its_process_replaced(lab: &Lab) {
    let bench = lab.bench(&lab.many, |settings| {
        settings.process.session_timeout = Duration::from_secs(20);
        settings.process.cancel_grace = Duration::from_secs(1);
        settings.process.processes_each_max = 2;
    });
    let mut stuck = bench.begin("wait", json!({"seconds": 3600})).await.unwrap();
    assert!(stuck.next().await.unwrap().is_some());
    let pid = process_of(&bench).await;
    drop(stuck);
    let until = Instant::now() + Duration::from_secs(15);
    while std::path::Path::new(&format!("/proc/{pid}")).exists() {
        assert!(Instant::now() < until, "the process with the stuck session still runs");
        tokio::task::yield_now().await;
    }
    bench.invoke("say", json!({"text": "x"})).await.unwrap();
    bench.plugins.stop().await;
}

async fn a_tool_that_keeps_the_processor_busy_is_ended_for_its_silence(lab: &Lab) {
    let bench = lab.bench(&lab.many, |settings| settings.process.silence_max = Duration::from_secs(12));
    let error = bench.invoke("wait", json!({"seconds": 120, "busy": true})).await.unwrap_err();
    assert!(error.to_string().contains("silent for 12 s (silence_max)"), "{error}");
    bench.plugins.stop().await;
}

async fn output_is_bounded_and_printed_text_does_no_harm(lab: &Lab) {
    let bench = lab.bench(&lab.many, |settings| settings.process.output_bytes_max = 1_000_000);
    assert_eq!(texts(&bench.invoke("fail", json!({"how": "print"})).await.unwrap()), ["after printing"]);
    let error = bench.invoke("fail", json!({"how": "flood"})).await.unwrap_err();
    assert!(error.to_string().contains("output_bytes_max"), "{error}");
    bench.plugins.stop().await;
    let bench = lab.bench(&lab.many, |settings| settings.process.line_bytes_max = 50_000);
    let error = bench.invoke("fail", json!({"how": "flood"})).await.unwrap_err();
    assert!(error.to_string().contains("line_bytes_max"), "{error}");
    bench.plugins.stop().await;
}

#[allow(clippy::print_stdout, reason = "the results of tests")]
async fn an_invocation_of_a_running_plugin_is_quick(lab: &Lab) {
    let bench = lab.bench(&lab.many, |_| {});
    bench.invoke("wait", json!({"seconds": 0})).await.unwrap();
    let begun = Instant::now();
    for _ in 0..50 {
        bench.invoke("wait", json!({"seconds": 0})).await.unwrap();
    }
    println!("one invocation of a running plugin: {:?}", begun.elapsed() / 50);
    bench.plugins.stop().await;
}

/// The process that runs the plugin of a bench: the one whose scratch folder no other bench has.
async fn process_of(bench: &crate::lab::Bench) -> u32 {
    let folder = bench.installed.folder.clone();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_it = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder);
    let mut found: Vec<u32> =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_it).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}
