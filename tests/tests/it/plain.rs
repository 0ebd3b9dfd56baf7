//! A workflow with only Dify's features has exactly the events that it always had: no additional event and no
//! additional field. `workflows/plain_events.jsonl` has the expected events, one a line, with placeholders for ids
//! and times.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use tidemill_tests::check::Transcript;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;

use super::system;

const WORKFLOW: &str = include_str!("workflows/plain.yml");
const EVENTS: &str = include_str!("workflows/plain_events.jsonl");

/// Fields with a time, a duration, or the name of a file.
const MOMENTS: [&str; 14] = [
    "started_at",
    "finished_at",
    "created_at",
    "start_at",
    "end_at",
    "elapsed_time",
    "working_time",
    "latency",
    "time_to_first_token",
    "time_to_generate",
    "ts",
    "loop_duration_map",
    "sys.timestamp",
    "sys.workflow_id",
];

/// Returns true for an id of an execution.
fn is_id(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// Replaces ids by numbers in the order of their appearance, and times by words.
struct Plain {
    known: HashMap<String, usize>,
    /// Texts that differ from run to run, and their replacements.
    words: Vec<(String, &'static str)>,
}

impl Plain {
    fn text(&mut self, text: &str) -> String {
        if is_id(text) {
            let next = self.known.len() + 1;
            return format!("<id {}>", self.known.entry(text.to_owned()).or_insert(next));
        }
        self.words.iter().fold(text.to_owned(), |text, (of_run, word)| text.replace(of_run, word))
    }

    fn value(&mut self, value: &Json) -> Json {
        match value {
            Json::String(text) => self.text(text).into(),
            Json::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Json::Object(map) => {
                let one = |(key, value): (&String, &Json)| {
                    let is_moment = MOMENTS.contains(&key.as_str()) && !value.is_null();
                    let value = if is_moment { json!(format!("<{key}>")) } else { self.value(value) };
                    (key.clone(), value)
                };
                Json::Object(map.iter().map(one).collect())
            }
            plain @ (Json::Null | Json::Bool(_) | Json::Number(_)) => plain.clone(),
        }
    }
}

/// The events, one a line. Consecutive chunks are joined, because their borders depend on timing.
fn lines(told: &Transcript, words: Vec<(String, &'static str)>) -> Vec<String> {
    let mut plain = Plain { known: HashMap::new(), words };
    let mut events: Vec<(String, Json)> = Vec::new();
    for event in &told.events {
        let data = plain.value(&event.data);
        match events.last_mut() {
            Some((kind, last))
                if kind == "node_run_stream_chunk"
                    && event.kind == *kind
                    && last["selector"] == data["selector"] =>
            {
                let both = [&last["chunk"], &data["chunk"]].map(|chunk| chunk.as_str().unwrap_or_default());
                let chunk = both.concat();
                *last = data;
                last["chunk"] = chunk.into();
            }
            _ => events.push((event.kind.clone(), data)),
        }
    }
    events.into_iter().map(|(kind, data)| json!({"type": kind, "data": data}).to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn xc_08_a_workflow_with_only_difys_fields_has_unchanged_events() {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let model = llm::rules(json!([{"match": {}, "reply": "Good day.", "usage": usage}])).await;
    let outside = Outside::start().await;
    let system = system(&[("http.allow", "127.0.0.1")], &model).await;
    let client = &system.client;
    let inputs = json!({"name": "Ada", "carrier": outside.base_url});
    let run = client.submit(&json!({"workflow": WORKFLOW, "inputs": inputs, "user": "tester"})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    let host = outside.base_url.trim_start_matches("http://").to_owned();
    let told = lines(&told, vec![(run, "<run>"), (host, "<carrier>")]);
    let expected: Vec<&str> = EVENTS.lines().collect();
    let place = std::env::temp_dir().join("tidemill-plain_events.jsonl");
    if told != expected {
        std::fs::write(&place, told.join("\n") + "\n").expect("it can be written");
    }
    for (at, (told, expected)) in told.iter().zip(&expected).enumerate() {
        assert_eq!(told, expected, "event {}; all of them are in {}", at + 1, place.display());
    }
    assert_eq!(told.len(), expected.len(), "all of them are in {}", place.display());
}
