//! Builds the answer to a request from a rule: a failure, one object, or the pieces of a stream. [`super::protocols`] has
//! the
//! formats of the protocols.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use tidemill_base::value::pyrepr::float_repr;

use super::matching;
use super::protocols::{GARBAGE, Protocol};
use super::rules::{BreakPoint, Echo, Rule, Says};

/// Token counts of a reply whose rule sets none.
const USAGE: [(&str, u64); 2] = [("prompt_tokens", 5), ("completion_tokens", 7)];

/// An answer as it is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum MockResponse {
    /// A status and a JSON object.
    Whole { status: u16, body: Json },
    /// A text with the media type of JSON that is not JSON.
    Garbage(&'static str),
    /// Pieces of a stream, each with the wait before it.
    Stream {
        media_type: &'static str,
        events: Vec<(Duration, String)>,
        /// The beginning of another piece, which breaks off.
        torn: Vec<u8>,
        /// Whether the connection is reset at the end.
        resets: bool,
    },
}

impl MockResponse {
    /// Builds a refusal in the error format of a protocol.
    pub fn refusal(protocol: Protocol, status: u16, message: &str) -> Self {
        Self::Whole { status, body: protocol.refusal(status, message) }
    }
}

/// Returns the failure for call number `call` (from 1) of a rule, if that call is to fail.
pub fn failure(protocol: Protocol, rule: &Rule, call: u64) -> Option<MockResponse> {
    let failing = match rule.fail_times {
        Some(times) => call <= times,
        None => rule.status.is_some(),
    };
    let message = rule.error.as_deref().unwrap_or("mock failure");
    failing.then(|| MockResponse::Whole {
        status: rule.status.unwrap_or(500),
        body: protocol.failure(rule, message),
    })
}

/// Returns the answer to call number `call` (from 1) of a rule. `body` is the request in the form of
/// [`Protocol::heard`].
pub fn answer(protocol: Protocol, rule: &Rule, call: u64, body: &Json) -> MockResponse {
    if let Some(failure) = failure(protocol, rule, call) {
        return failure;
    }
    let breaks = rule.breaks() && rule.break_times.is_none_or(|times| call <= times);
    let reply = Reply { chunks: chunks(&rule.says, call, body), rule, body, breaks };
    if body.get("stream").and_then(Json::as_bool).unwrap_or(false) {
        reply.stream(protocol)
    } else if breaks && rule.reset {
        let mut torn = dump(&protocol.whole(&reply)).into_bytes();
        torn.truncate(torn.len() / 2);
        MockResponse::Stream { media_type: "application/json", events: Vec::new(), torn, resets: true }
    } else if rule.invalid_json {
        MockResponse::Garbage(GARBAGE)
    } else {
        MockResponse::Whole { status: 200, body: protocol.whole(&reply) }
    }
}

/// Formats JSON in compact form, with floats as in Python: tests compare echoed parameters with those of graphon.
pub fn dump(value: &Json) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, PythonFloats);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        // Writing JSON to memory does not fail. If it did, only the format of floats would differ.
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

/// A reply that is being written.
pub(super) struct Reply<'a> {
    chunks: Vec<String>,
    pub(super) rule: &'a Rule,
    body: &'a Json,
    breaks: bool,
}

impl Reply<'_> {
    fn stream(&self, protocol: Protocol) -> MockResponse {
        let (first, further) = (self.rule.first_delay_ms, self.rule.chunk_delay_ms);
        let at_once = |object: &Json| (Duration::ZERO, protocol.framed(object));
        let mut events: Vec<_> = protocol.begin(self).iter().map(at_once).collect();
        for (at, chunk) in self.chunks.iter().enumerate() {
            let pause = Duration::from_millis(if at == 0 { first } else { further });
            events.push((pause, protocol.framed(&protocol.piece(self, chunk))));
        }
        let ending = protocol.end(self);
        let ends_well = !self.breaks && !self.rule.invalid_json && self.rule.stream_error.is_none();
        let comes = match self.rule.break_in {
            _ if ends_well => ending.len(),
            Some(BreakPoint::Calls) => ending.len() / 2,
            Some(BreakPoint::Event | BreakPoint::Character) | None => 0,
        };
        events.extend(ending[..comes].iter().map(at_once));
        let mut torn = Vec::new();
        if self.breaks {
            torn = self.torn(protocol);
        } else if self.rule.invalid_json {
            events.push((Duration::ZERO, protocol.garbage()));
        } else if let Some(message) = &self.rule.stream_error {
            events.push(at_once(&protocol.failure(self.rule, message)));
        } else {
            events.extend(protocol.last().map(|last| (Duration::ZERO, last.to_owned())));
        }
        let resets = self.breaks && self.rule.reset;
        MockResponse::Stream { media_type: protocol.media_type(), events, torn, resets }
    }

    /// Returns the beginning of an event that breaks off within the event, or within a character.
    fn torn(&self, protocol: Protocol) -> Vec<u8> {
        const TEXT: &str = "tørn";
        let mut event = protocol.framed(&protocol.piece(self, TEXT));
        let at = event.rfind(TEXT).unwrap_or_default();
        match self.rule.break_in {
            None | Some(BreakPoint::Calls) => Vec::new(),
            Some(BreakPoint::Event) => {
                event.truncate(at);
                event.into_bytes()
            }
            // The second letter has two bytes.
            Some(BreakPoint::Character) => event.as_bytes()[..at + 2].to_vec(),
        }
    }

    pub(super) fn text(&self) -> String {
        self.chunks.concat()
    }

    pub(super) fn model(&self) -> Json {
        self.body.get("model").cloned().unwrap_or_else(|| json!(""))
    }

    /// Returns a field of the request; null when it is absent.
    pub(super) fn asked(&self, key: &str) -> &Json {
        self.body.get(key).unwrap_or(&Json::Null)
    }

    /// Returns the `usage` object of OpenAI.
    pub(super) fn usage(&self) -> Json {
        let mut usage: Map<String, Json> =
            USAGE.into_iter().map(|(key, count)| (key.to_owned(), json!(count))).collect();
        usage.extend(self.rule.usage.clone());
        let total: u64 = USAGE.iter().filter_map(|(key, _)| usage.get(*key)?.as_u64()).sum();
        usage.entry("total_tokens").or_insert_with(|| json!(total));
        Json::Object(usage)
    }

    /// Returns the finish reason of the rule, or one of the two defaults of the protocol.
    pub(super) fn finish_reason(&self, usual: &str, calling: &str) -> Json {
        let usual = if self.rule.tool_calls.is_empty() { usual } else { calling };
        self.rule.finish_reason.clone().unwrap_or_else(|| json!(usual))
    }
}
