//! The lines that a plugin and its host exchange: one JSON object a line, in both directions.

use serde::Deserialize;
use serde_json::{Value as Json, json};

/// A line of a plugin, understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Heard {
    /// A part of the result of a session.
    Stream { session: String, data: Json },
    /// A session has ended.
    End { session: String },
    /// A session has failed; its end follows.
    Failed { session: String, kind: String, message: String },
    /// A session asks for something.
    Ask { session: String, id: String, kind: String, request: Json },
    /// A line for the log, with its level.
    Log { level: String, message: String },
    /// The plugin is alive.
    Heartbeat,
    /// The SDK could not read a line of the host, or something else went wrong outside of a session.
    Complaint(String),
    /// Not a message: what a plugin prints.
    Other(String),
}

#[derive(Deserialize)]
struct Line {
    event: String,
    session_id: Option<String>,
    #[serde(default)]
    data: Json,
}

/// Understands a line. What is not a message is returned as it is.
pub(super) fn hear(line: &str) -> Heard {
    let read = serde_json::from_str::<Line>(line).or_else(|error| {
        // A plugin that prints without a line break puts its text before a message.
        match line.rfind("{\"event\":") {
            Some(at) if at > 0 => serde_json::from_str::<Line>(&line[at..]),
            Some(_) | None => Err(error),
        }
    });
    let Ok(Line { event, session_id, data }) = read else { return Heard::Other(line.to_owned()) };
    match (event.as_str(), session_id) {
        ("session", Some(session)) => of_session(session, data),
        ("heartbeat", _) => Heard::Heartbeat,
        ("log", _) => Heard::Log { level: text(&data, "level"), message: text(&data, "message") },
        ("error", _) => Heard::Complaint(text(&data, "error")),
        _ => Heard::Other(line.to_owned()),
    }
}

fn of_session(session: String, mut data: Json) -> Heard {
    let inner = data.get_mut("data").map(Json::take).unwrap_or_default();
    match data["type"].as_str().unwrap_or_default() {
        "stream" => Heard::Stream { session, data: inner },
        "end" => Heard::End { session },
        "error" => {
            Heard::Failed { session, kind: text(&inner, "error_type"), message: text(&inner, "message") }
        }
        "invoke" => {
            let (id, kind) = (text(&inner, "backwards_request_id"), text(&inner, "type"));
            Heard::Ask { session, id, kind, request: inner["request"].clone() }
        }
        other => Heard::Other(format!("a message of the unknown type {other:?}")),
    }
}

/// A text of an object. Another value becomes its JSON, so that nothing is lost.
fn text(data: &Json, key: &str) -> String {
    match &data[key] {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        other => other.to_string(),
    }
}

/// The line that begins a session.
pub(super) fn request(session: &str, data: &Json) -> Vec<u8> {
    line(&json!({"session_id": session, "event": "request", "data": data}))
}

/// The line with a part of the answer to a question.
pub(super) fn part(session: &str, id: &str, data: Json) -> Vec<u8> {
    answer(session, id, ("response", ""), data)
}

/// The line that ends an answer.
pub(super) fn end(session: &str, id: &str) -> Vec<u8> {
    answer(session, id, ("end", ""), Json::Null)
}

/// The line that refuses a question, or breaks its answer off.
pub(super) fn refusal(session: &str, id: &str, reason: &str) -> Vec<u8> {
    answer(session, id, ("error", reason), Json::Null)
}

fn answer(session: &str, id: &str, (event, message): (&str, &str), data: Json) -> Vec<u8> {
    line(&json!({
        "session_id": session, "event": "backwards_response",
        "data": {"backwards_request_id": id, "event": event, "message": message, "data": data},
    }))
}

fn line(value: &Json) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_sdk_are_understood() {
        let session = |inner: Json| json!({"event": "session", "session_id": "s", "data": inner}).to_string();
        let cases = [
            (
                session(json!({"type": "stream", "data": {"type": "text"}})),
                Heard::Stream { session: "s".into(), data: json!({"type": "text"}) },
            ),
            (session(json!({"type": "end", "data": {}})), Heard::End { session: "s".into() }),
            (
                session(
                    json!({"type": "error", "data": {"error_type": "ValueError", "message": "m", "args": {}}}),
                ),
                Heard::Failed { session: "s".into(), kind: "ValueError".into(), message: "m".into() },
            ),
            (
                session(
                    json!({"type": "invoke", "data": {"type": "storage", "backwards_request_id": "b", "request": {"opt": "get"}}}),
                ),
                Heard::Ask {
                    session: "s".into(),
                    id: "b".into(),
                    kind: "storage".into(),
                    request: json!({"opt": "get"}),
                },
            ),
            (r#"{"event":"heartbeat","session_id":null,"data":{}}"#.into(), Heard::Heartbeat),
            (
                r#"{"event": "log", "data": {"level": "INFO", "message": "m", "timestamp": 1.5}}"#.into(),
                Heard::Log { level: "INFO".into(), message: "m".into() },
            ),
            (r#"printed{"event":"heartbeat","session_id":null,"data":{}}"#.into(), Heard::Heartbeat),
            ("printed".into(), Heard::Other("printed".into())),
            (r#"{"name": "manifest"}"#.into(), Heard::Other(r#"{"name": "manifest"}"#.into())),
        ];
        for (line, expected) in cases {
            assert_eq!(hear(&line), expected, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_understood_somehow(line in "\\PC{0,80}") {
            let _ = hear(&line);
            let _ = hear(&format!("{{\"event\":\"session\",\"session_id\":\"s\",\"data\":{line}}}"));
        }
    }
}
