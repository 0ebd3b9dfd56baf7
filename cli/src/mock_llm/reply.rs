//! From a rule and a request to an answer: a failure, one object, or the events of a stream.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use tidemill_common::value::pyrepr::float_repr;

use super::matching;
use super::rules::{Echo, Rule, Says};

/// Token counts of a reply that says nothing else.
const USAGE: [(&str, u64); 2] = [("prompt_tokens", 5), ("completion_tokens", 7)];

/// What goes on the wire.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A status and a JSON object.
    Whole {
        /// The status.
        status: u16,
        /// The object.
        body: Json,
    },
    /// Events of a stream, each with the wait before it.
    Stream(Vec<(Duration, String)>),
}

impl Answer {
    /// A refusal in the form of the API's errors.
    pub fn refusal(status: u16, message: &str) -> Self {
        Self::Whole { status, body: json!({"error": {"message": message}}) }
    }
}

/// The answer of a rule to its call number `call`, from 1.
pub fn answer(rule: &Rule, call: u64, body: &Json) -> Answer {
    let failing = match rule.fail_times {
        Some(times) => call <= times,
        None => rule.status.is_some(),
    };
    if failing {
        return Answer::refusal(rule.status.unwrap_or(500), rule.error.as_deref().unwrap_or("mock failure"));
    }
    let reply = Reply { chunks: chunks(&rule.says, call, body), rule, body };
    if body.get("stream").and_then(Json::as_bool).unwrap_or(false) { reply.stream() } else { reply.whole() }
}

/// A rule for those who gave none: a friendly sentence with what was said, word by word.
pub fn friendly(body: &Json) -> Rule {
    let said = matching::last_user(body);
    let sentence = match said.trim() {
        "" => "Hello! You have not said anything yet.".to_owned(),
        said => format!("You said: {said}"),
    };
    let chunks: Vec<String> = sentence.split_inclusive(' ').map(str::to_owned).collect();
    let words = |text: &str| json!(text.split_whitespace().count());
    let prompt: String = matching::messages(body)
        .iter()
        .map(|message| matching::text_of(message.get("content")) + " ")
        .collect();
    let mut usage = Map::new();
    usage.insert("prompt_tokens".into(), words(&prompt));
    usage.insert("completion_tokens".into(), words(&sentence));
    Rule { says: Says::Chunks(chunks), usage, ..Rule::default() }
}

/// JSON as compact as it gets, floats spelled as in Python: tests compare echoed parameters with what graphon shows.
pub fn dump(value: &Json) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, PythonFloats);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        // Writing JSON to memory does not fail; if it ever does, only floats are spelled otherwise.
        Err(_) => value.to_string(),
    }
}

struct PythonFloats;
impl serde_json::ser::Formatter for PythonFloats {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float_repr(value).as_bytes())
    }
}

fn chunks(says: &Says, call: u64, body: &Json) -> Vec<String> {
    match says {
        Says::Chunks(chunks) => chunks.clone(),
        Says::Echo(kind) => vec![echo(*kind, body)],
        Says::Texts(texts) => {
            let at = usize::try_from(call).unwrap_or(usize::MAX).min(texts.len()).saturating_sub(1);
            texts.get(at).cloned().into_iter().collect()
        }
    }
}

fn echo(kind: Echo, body: &Json) -> String {
    let field = |message: &Json, key: &str| message.get(key).cloned().unwrap_or(Json::Null);
    match kind {
        Echo::Messages => {
            let pairs =
                matching::messages(body).iter().map(|m| json!([field(m, "role"), field(m, "content")]));
            dump(&pairs.collect())
        }
        Echo::LastUser => matching::last_user(body),
        Echo::LastMessage => {
            matching::messages(body).last().map(|m| matching::text_of(m.get("content"))).unwrap_or_default()
        }
        Echo::Params => {
            const HIDDEN: [&str; 5] = ["messages", "stream", "stream_options", "model", "tools"];
            let fields =
                body.as_object().into_iter().flatten().filter(|(key, _)| !HIDDEN.contains(&key.as_str()));
            let mut fields: Vec<_> = fields.map(|(key, value)| (key.clone(), value.clone())).collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            dump(&Json::Object(fields.into_iter().collect()))
        }
        Echo::Tools => dump(&field(body, "tools")),
    }
}

/// A reply that is to be written.
struct Reply<'a> {
    chunks: Vec<String>,
    rule: &'a Rule,
    body: &'a Json,
}

impl Reply<'_> {
    fn whole(&self) -> Answer {
        let mut message = json!({"role": "assistant", "content": self.chunks.concat()});
        if !self.rule.tool_calls.is_empty() {
            message["tool_calls"] = self.tool_calls().collect();
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": self.finish_reason()});
        let mut body = self.head("chat.completion", json!([choice]));
        body["usage"] = self.usage();
        Answer::Whole { status: 200, body }
    }

    fn stream(&self) -> Answer {
        let pause = Duration::from_millis(self.rule.chunk_delay_ms);
        let mut events = vec![self.delta(&json!({"role": "assistant", "content": ""}), &Json::Null)];
        for (at, chunk) in self.chunks.iter().enumerate() {
            let (_, event) = self.delta(&json!({"content": chunk}), &Json::Null);
            events.push((if at == 0 { Duration::ZERO } else { pause }, event));
        }
        if self.rule.break_stream {
            return Answer::Stream(events);
        }
        for (index, call) in self.tool_calls().enumerate() {
            let mut fragment = json!({"index": index});
            if let (Some(fragment), Json::Object(call)) = (fragment.as_object_mut(), call) {
                fragment.extend(call);
            }
            events.push(self.delta(&json!({"tool_calls": [fragment]}), &Json::Null));
        }
        events.push(self.delta(&json!({}), &self.finish_reason()));
        let mut last = self.head("chat.completion.chunk", json!([]));
        last["usage"] = self.usage();
        events.push(event(&dump(&last)));
        events.push(event("[DONE]"));
        Answer::Stream(events)
    }

    fn delta(&self, delta: &Json, finish_reason: &Json) -> (Duration, String) {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
        event(&dump(&self.head("chat.completion.chunk", json!([choice]))))
    }

    fn head(&self, object: &str, choices: Json) -> Json {
        let model = self.body.get("model").cloned().unwrap_or_else(|| json!(""));
        json!({"id": "chatcmpl-mock", "created": 0, "model": model, "object": object, "choices": choices})
    }

    fn usage(&self) -> Json {
        let mut usage: Map<String, Json> =
            USAGE.into_iter().map(|(key, count)| (key.to_owned(), json!(count))).collect();
        usage.extend(self.rule.usage.clone());
        let total: u64 = USAGE.iter().filter_map(|(key, _)| usage.get(*key)?.as_u64()).sum();
        usage.entry("total_tokens").or_insert_with(|| json!(total));
        Json::Object(usage)
    }

    fn finish_reason(&self) -> Json {
        let usual = if self.rule.tool_calls.is_empty() { "stop" } else { "tool_calls" };
        self.rule.finish_reason.clone().unwrap_or_else(|| json!(usual))
    }

    fn tool_calls(&self) -> impl Iterator<Item = Json> {
        self.rule.tool_calls.iter().enumerate().map(|(at, (name, arguments))| {
            json!({"id": format!("call_{at}"), "type": "function", "function": {"name": name, "arguments": arguments}})
        })
    }
}

fn event(data: &str) -> (Duration, String) {
    (Duration::ZERO, format!("data: {data}\n\n"))
}
