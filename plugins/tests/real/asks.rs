//! The plugin `asks`: answers in parts, and files that a plugin uploads.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_plugins::process::{Answers, Intake, Offered, Parts, Question, Upload, nested};
use tidemill_plugins::tool::message::Message;

use crate::lab::{Bench, Lab, texts};

/// The secret part of the address for uploads.
const PLACE: &str = "a-place";

#[allow(clippy::print_stdout, reason = "the results of tests")]
pub(crate) async fn all(lab: &Lab) {
    an_answer_comes_in_parts_and_is_bounded(lab).await;
    a_file_is_uploaded_to_the_host(lab).await;
    a_plugin_that_is_called_by_another_does_not_wait_for_its_process(lab).await;
    println!("asks: passed");
}

/// Answers with so many words, or with the address for uploads.
struct Words(usize);

#[async_trait::async_trait]
impl Answers for Words {
    async fn answer(&self, question: Question, parts: Parts) -> Result<(), String> {
        if question.kind == "upload_file" {
            return parts.send(json!({"url": Offered::upload_address(PLACE)})).await;
        }
        for at in 0..self.0 {
            let message = json!({"role": "assistant", "content": format!("{at} "), "tool_calls": []});
            let delta = json!({"index": 0, "message": message, "usage": null, "finish_reason": null});
            parts
                .send(json!({"model": question.request["model"], "prompt_messages": [], "delta": delta}))
                .await?;
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Intake for Words {
    async fn take(&self, upload: Upload) -> Result<Json, String> {
        let (name, mime_type) = (upload.filename, upload.mime_type);
        Ok(
            json!({"id": "an-id", "name": name, "size": upload.bytes.len(), "extension": "txt", "mime_type": mime_type}),
        )
    }
}

async fn an_answer_comes_in_parts_and_is_bounded(lab: &Lab) {
    let mut bench = lab.bench(&lab.asks, |settings| settings.process.answers_bytes_max = 100_000);
    bench.answers = Arc::new(Words(5));
    let messages = bench.invoke("ask", json!({"what": "chat", "text": "x"})).await.unwrap();
    assert_eq!(texts(&messages), ["0 1 2 3 4 "]);
    bench.answers = Arc::new(Words(5_000));
    let messages = bench.invoke("ask", json!({"what": "chat", "text": "x"})).await.unwrap();
    assert!(texts(&messages)[0].contains("answers_bytes_max"), "{messages:?}");
    bench.plugins.stop().await;
}

async fn a_file_is_uploaded_to_the_host(lab: &Lab) {
    let mut bench = lab.bench(&lab.asks, |_| {});
    bench.answers = Arc::new(Words(0));
    bench.offered = Offered::default().taking(PLACE.into(), Arc::new(Words(0)));
    let messages = bench.invoke("ask", json!({"what": "upload", "text": "abc"})).await.unwrap();
    assert_eq!(messages, [Message::Json(json!({"name": "note.txt", "size": 3, "has_id": true}))]);
    bench.offered = Offered::default();
    let messages = bench.invoke("ask", json!({"what": "upload", "text": "abc"})).await.unwrap();
    assert!(texts(&messages)[0].contains("404"), "{messages:?}");
    bench.plugins.stop().await;
}

/// Answers with the first text of a tool of another plugin.
struct Nests(Bench);

#[async_trait::async_trait]
impl Answers for Nests {
    async fn answer(&self, _: Question, parts: Parts) -> Result<(), String> {
        let messages = nested(self.0.invoke("say", json!({"text": "a", "often": 1}))).await;
        let messages = messages.map_err(|error| error.to_string())?;
        let text = texts(&messages)[0];
        parts.send(json!({"type": "text", "message": {"text": text}, "meta": null})).await
    }
}

async fn a_plugin_that_is_called_by_another_does_not_wait_for_its_process(lab: &Lab) {
    for (processes_max, expected) in [(1, "processes_max"), (2, "a")] {
        let mut bench = lab.bench(&lab.asks, |settings| settings.process.processes_max = processes_max);
        let mut other = lab.bench(&lab.many, |_| {});
        other.plugins = bench.plugins.clone();
        bench.answers = Arc::new(Nests(other));
        let asked = bench.invoke("ask", json!({"what": "tool", "text": "x"}));
        // An invocation has 300 s, and a start 60 s.
        let messages = tokio::time::timeout(Duration::from_secs(200), asked).await.unwrap().unwrap();
        assert!(texts(&messages)[0].contains(expected), "{messages:?}");
        bench.plugins.stop().await;
    }
}
