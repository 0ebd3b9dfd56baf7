//! A workflow in which nothing goes beyond Dify is told of as ever: no event more, no field more. What is told stands in
//! `workflows/plain_events.jsonl`, an event a line, with numbers in the places of ids and words in those of moments.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use tidemill_tests::check::Transcript;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;

use super::system;

const WORKFLOW: &str = include_str!("workflows/plain.yml");
const EVENTS: &str = include_str!("workflows/plain_events.jsonl");

/// Fields that say when, for how long, or of which file.
const MOMENTS: [&str; 13] = [
    "started_at",
    "finished_at",
    "created_at",
    "start_at",
    "end_at",
    "elapsed_time",
    "latency",
    "time_to_first_token",
    "time_to_generate",
    "ts",
    "loop_duration_map",
    "sys.timestamp",
    "sys.workflow_id",
];

/// Whether it is an id as executions have them.
fn is_id(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// Writes ids as numbers in the order of their appearance, and moments as words.
struct Plain {
    known: HashMap<String, usize>,
    /// What differs from run to run, and what stands for it.
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

/// What was told, a line an event. How a text is cut into pieces is a matter of time: they are told as one.
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
async fn xc_08_a_workflow_without_any_field_beyond_difys_is_told_of_as_ever() {
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
        std::fs::write(&place, told.join("\n") + "\n").expect("there is room");
    }
    for (at, (told, expected)) in told.iter().zip(&expected).enumerate() {
        assert_eq!(told, expected, "event {}; all of them are in {}", at + 1, place.display());
    }
    assert_eq!(told.len(), expected.len(), "all of them are in {}", place.display());
}
