//! Plain lines for nodes, events and the end of a run.

use serde_json::Value as Json;
use tidemill_common::wire::event::kind;

use super::errors;
use super::text::{duration, one_line, safe, shortened};
use crate::client::Event;
use crate::client::view::{PauseView, RunView, WarningView};
use crate::workflow_file::count;

/// Longest part of a streamed text that the line of an event shows, in characters.
const CHUNK_CHARS_MAX: usize = 100;
/// The kind of event that the hooks of a node emit.
const CUSTOM_EVENT: &str = "node_custom_event";

/// Returns the line of a node that started or ended; `None` for other events.
pub(crate) fn node_line(event: &Event) -> Option<String> {
    if let Some(line) = pause_line(event) {
        return Some(line);
    }
    let word = word(&event.kind)?;
    let detail = detail(event);
    Some(format!(
        "{word:<9}  {}{}",
        node_name(event),
        if detail.is_empty() { detail } else { format!("  {detail}") }
    ))
}

/// Returns the line of a pause or of its answer; `None` for other events.
pub(super) fn pause_line(event: &Event) -> Option<String> {
    let (word, what) = match event.kind.as_str() {
        "node_run_pause_requested" => {
            ("waits", format!("for {}", PauseView::read(&event.data["pause"]).name()))
        }
        "node_run_human_input_form_filled" => {
            ("answered", format!("{}  {}", node_name(event), event.text("action_text")))
        }
        "node_run_human_input_form_timeout" => ("expired", node_name(event)),
        "user_interaction_requested" if event.text("interaction_type") == "show_message" => {
            ("says", format!("{}  {}", node_name(event), event.text("prompt")))
        }
        "user_interaction_responded" => ("answered", node_name(event)),
        "user_interaction_failed" => ("no answer", format!("{}  {}", node_name(event), event.text("reason"))),
        CUSTOM_EVENT => ("event", format!("{}  {}", node_name(event), custom_event(event))),
        kind::GRAPH_RUN_PAUSED => ("paused", reasons(event)),
        _ => return None,
    };
    Some(one_line(&format!("{word:<9}  {what}")).trim_end().to_string())
}

/// Returns the name and the data of a hook's event.
fn custom_event(event: &Event) -> String {
    let data = event.data.get("event_data").filter(|data| !data.is_null());
    let data = data.map(|data| shortened(&data.to_string(), CHUNK_CHARS_MAX)).unwrap_or_default();
    format!("{}  {data}", event.text("event_name"))
}

/// Returns why a run waits: titles of nodes, or the message of a pause command.
fn reasons(event: &Event) -> String {
    let reasons = event.data["reasons"].as_array().map(Vec::as_slice).unwrap_or_default();
    let reason = |reason: &Json| {
        let text = |key: &str| reason[key].as_str().filter(|text| !text.is_empty());
        text("message").or_else(|| text("node_title")).or_else(|| text("node_id")).unwrap_or("").to_string()
    };
    reasons.iter().map(reason).collect::<Vec<_>>().join(", ")
}

/// Returns one word for what happened to a node; `None` for events of other kinds.
pub(super) fn word(event_kind: &str) -> Option<&'static str> {
    match event_kind {
        kind::NODE_RUN_STARTED => Some("started"),
        kind::NODE_RUN_SUCCEEDED => Some("succeeded"),
        kind::NODE_RUN_FAILED => Some("failed"),
        kind::NODE_RUN_EXCEPTION => Some("exception"),
        kind::NODE_RUN_RETRY => Some("retry"),
        _ => None,
    }
}

/// Returns a node's name for users: its title, its type and the container that it runs in.
pub(super) fn node_name(event: &Event) -> String {
    let (title, id, node_type) = (event.text("node_title"), event.text("node_id"), event.text("node_type"));
    let title = if title.is_empty() { id } else { title };
    let frame = event.text("frame");
    let frame = if frame.is_empty() { String::new() } else { format!(" in {frame}") };
    let node_type = if node_type.is_empty() { String::new() } else { format!(" ({node_type})") };
    one_line(&format!("{title}{node_type}{frame}"))
}

/// Returns how long a node took and its error.
pub(super) fn detail(event: &Event) -> String {
    let mut parts = Vec::new();
    let time = |key: &str| event.data[key].as_f64();
    if let (Some(from), Some(to)) = (time("start_at"), time("finished_at")) {
        parts.push(duration(to - from));
    }
    if event.kind == kind::NODE_RUN_RETRY {
        let index = event.data["retry_index"].as_u64().unwrap_or(1);
        parts.push(format!("will be tried again ({index})"));
    }
    let error = event.text("error");
    parts.extend((!error.is_empty()).then(|| errors::on_one_line(error)));
    parts.join("  ")
}

/// Returns one line for any event: number, type and the most useful detail.
pub(crate) fn event_line(event: &Event) -> String {
    let what = match event.kind.as_str() {
        kind::NODE_RUN_STREAM_CHUNK | kind::NODE_RUN_STREAM_REPLACED => {
            let text = event.data.get("chunk").or_else(|| event.data.get("text"));
            let text = text.and_then(Json::as_str).unwrap_or("");
            format!("{}  {}", event.text("node_id"), Json::from(shortened(text, CHUNK_CHARS_MAX)))
        }
        kind::GRAPH_EDGE_SKIPPED => {
            format!("{} -> {}", event.text("source_node_id"), event.text("target_node_id"))
        }
        kind::GRAPH_RUN_PAUSED => reasons(event),
        kind::RUN_WARNING => warning_text(event.text("message"), event.text("hint")),
        CUSTOM_EVENT => format!("{}  {}", node_name(event), custom_event(event)),
        "node_run_pause_requested" => PauseView::read(&event.data["pause"]).name(),
        "node_run_iteration_next" | "node_run_loop_next" => {
            format!("{}  {}", node_name(event), event.data["index"])
        }
        kind if kind.starts_with("graph_run_") => {
            let why = ["error", "reason"].map(|key| event.text(key)).join("");
            if why.is_empty() {
                event.data["outputs"]
                    .as_object()
                    .map(|_| event.data["outputs"].to_string())
                    .unwrap_or_default()
            } else {
                why
            }
        }
        _ => format!("{}  {}", node_name(event), detail(event)),
    };
    one_line(&format!("{:>4}  {:<27}  {what}", event.seq, event.kind)).trim_end().into()
}

/// Returns one line for how a run ended. An error of several lines is not in it: see [`errors::below_the_end`].
pub(crate) fn end_line(run: &RunView) -> String {
    let mut text = format!("run {} {}", run.id, run.status);
    if let Some(seconds) = run.elapsed_time {
        text.push_str(&format!(" after {}", duration(seconds)));
    }
    let counted = |number: Option<u64>, thing: &str| {
        number
            .filter(|number| *number > 0)
            .map(|number| count(usize::try_from(number).unwrap_or(usize::MAX), thing))
    };
    let counts: Vec<String> =
        [counted(run.total_steps, "step"), counted(run.total_tokens, "token"), failures(run)]
            .into_iter()
            .flatten()
            .collect();
    if !counts.is_empty() {
        text.push_str(&format!(" ({})", counts.join(", ")));
    }
    if let Some(error) = run.error.as_deref().map(str::trim).filter(|error| !error.is_empty()) {
        text.push_str(&if error.contains('\n') { ":".to_owned() } else { format!(": {error}") });
    }
    one_line(&text)
}

/// Returns the number of attempts that failed, and how many of them were handled: by the error strategy of their node,
/// or, in a run that went on to its end, by the iteration around it. A retry handles nothing.
fn failures(run: &RunView) -> Option<String> {
    let failed = run.exceptions_count.filter(|count| *count > 0)?;
    let handled = if run.status == "partial-succeeded" {
        let tried_again: u64 =
            run.nodes.iter().filter_map(|node| node.attempt).map(|n| n.saturating_sub(1)).sum();
        failed.saturating_sub(tried_again)
    } else {
        let by_strategy = run.nodes.iter().filter(|node| node.status == "exception").count();
        failed.min(by_strategy as u64)
    };
    let counted = |number: u64, thing: &str| count(usize::try_from(number).unwrap_or(usize::MAX), thing);
    Some(match handled {
        0 => counted(failed, "failed attempt"),
        _ if handled == failed => counted(failed, "handled failure"),
        _ => format!("{}, {handled} of them handled", counted(failed, "failed attempt")),
    })
}

/// Returns one line for a warning of a run.
pub(crate) fn warning_line(warning: &WarningView) -> String {
    format!("warning: {}\n", warning_text(&warning.message, &warning.hint))
}

/// Returns the message of a warning, and in brackets what to do.
fn warning_text(message: &str, hint: &str) -> String {
    let hint = if hint.is_empty() { String::new() } else { format!(" ({hint})") };
    one_line(&format!("{message}{hint}"))
}

/// Formats the outputs of a run: the answer of a chat alone as plain text, otherwise each output with its name.
pub(crate) fn outputs(outputs: Option<&Json>) -> String {
    let Some(map) = outputs.and_then(Json::as_object) else { return String::new() };
    // Dify adds the files of an answer, mostly an empty list.
    let only_answer = map.iter().all(|(name, value)| match name.as_str() {
        "answer" => value.is_string(),
        "files" => value.as_array().is_some_and(Vec::is_empty),
        _ => false,
    });
    if let (true, Some(Json::String(answer))) = (only_answer, map.get("answer")) {
        return format!("{}\n", safe(answer));
    }
    let mut text = String::new();
    for (name, value) in map {
        let value = match value {
            Json::String(value) => safe(value),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                value.to_string()
            }
        };
        let value = value.trim_end_matches('\n');
        let name = one_line(name);
        if value.contains('\n') {
            text.push_str(&format!("{name}:\n"));
            for line in value.lines() {
                text.push_str(format!("  {line}").trim_end());
                text.push('\n');
            }
        } else {
            text.push_str(&format!("{name}: {value}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(event_kind: &str, data: Json) -> Event {
        let raw = json!({"type": event_kind, "data": data, "seq": 7});
        Event::read(&raw.to_string()).expect("an event")
    }

    #[test]
    fn each_event_has_a_readable_line() {
        let ask = json!({"node_id": "3", "node_title": "Ask", "node_type": "llm"});
        let with = |more: Json| {
            let mut data = ask.clone();
            for (key, value) in more.as_object().expect("a mapping") {
                data[key] = value.clone();
            }
            data
        };
        let cases = [
            (
                event("node_run_started", ask.clone()),
                Some("started    Ask (llm)"),
                "   7  node_run_started             Ask (llm)",
            ),
            (
                event("node_run_succeeded", with(json!({"start_at": 1.0, "finished_at": 2.25}))),
                Some("succeeded  Ask (llm)  1.2s"),
                "   7  node_run_succeeded           Ask (llm)  1.2s",
            ),
            (
                event("node_run_retry", with(json!({"retry_index": 2, "error": "too\nmany"}))),
                Some("retry      Ask (llm)  will be tried again (2)  too many"),
                "   7  node_run_retry               Ask (llm)  will be tried again (2)  too many",
            ),
            (
                event("node_run_failed", json!({"node_id": "3", "frame": "it#2", "error": "no"})),
                Some("failed     3 in it#2  no"),
                "   7  node_run_failed              3 in it#2  no",
            ),
            (
                event("node_run_stream_chunk", with(json!({"chunk": "a\nb"}))),
                None,
                "   7  node_run_stream_chunk        3  \"a\\nb\"",
            ),
            (
                event("graph_edge_skipped", json!({"source_node_id": "1", "target_node_id": "2"})),
                None,
                "   7  graph_edge_skipped           1 -> 2",
            ),
            (
                event("graph_run_failed", json!({"error": "no"})),
                None,
                "   7  graph_run_failed             no",
            ),
            (event("graph_run_started", json!({})), None, "   7  graph_run_started"),
            (
                event(
                    "graph_run_paused",
                    json!({"reasons": [
                        {"TYPE": "hitl_required", "node_title": "Review"},
                        {"TYPE": "scheduled_pause", "message": "look"},
                    ]}),
                ),
                Some("paused     Review, look"),
                "   7  graph_run_paused             Review, look",
            ),
            (
                event(
                    "node_run_pause_requested",
                    json!({"pause": {"node_title": "Review", "frame": "it#1"}}),
                ),
                Some("waits      for Review in it#1"),
                "   7  node_run_pause_requested     Review in it#1",
            ),
            (
                event("node_run_human_input_form_filled", with(json!({"action_text": "Yes"}))),
                Some("answered   Ask (llm)  Yes"),
                "   7  node_run_human_input_form_filled  Ask (llm)",
            ),
            (
                event(
                    "user_interaction_requested",
                    with(json!({"interaction_type": "show_message", "prompt": "Hello\nAnn"})),
                ),
                Some("says       Ask (llm)  Hello Ann"),
                "   7  user_interaction_requested   Ask (llm)",
            ),
            (
                event("user_interaction_requested", with(json!({"interaction_type": "ask_for_input"}))),
                None,
                "   7  user_interaction_requested   Ask (llm)",
            ),
            (
                event(
                    "node_custom_event",
                    with(json!({"event_name": "decided", "event_data": {"ok": true}})),
                ),
                Some("event      Ask (llm)  decided  {\"ok\":true}"),
                "   7  node_custom_event            Ask (llm)  decided  {\"ok\":true}",
            ),
            (
                event("node_custom_event", with(json!({"event_name": "begins", "event_data": null}))),
                Some("event      Ask (llm)  begins"),
                "   7  node_custom_event            Ask (llm)  begins",
            ),
            (
                event("node_run_iteration_next", json!({"node_id": "it", "index": 2})),
                None,
                "   7  node_run_iteration_next      it  2",
            ),
        ];
        for (event, node, any) in cases {
            assert_eq!(node_line(&event).as_deref(), node);
            assert_eq!(event_line(&event), any);
        }
    }

    #[test]
    fn the_end_of_a_run_is_one_line() {
        let run = json!({"id": "r", "status": "partial-succeeded", "elapsed_time": 1.25, "total_steps": 3,
            "total_tokens": 0, "exceptions_count": 1});
        assert_eq!(
            end_line(&RunView::read(&run)),
            "run r partial-succeeded after 1.2s (3 steps, 1 handled failure)"
        );
        let node = |status: &str, attempt: u64| json!({"id": "n", "status": status, "attempt": attempt});
        for (status, exceptions, nodes, expected) in [
            ("failed", 1, json!([node("failed", 1)]), "1 failed attempt"),
            ("failed", 7, json!([node("failed", 7)]), "7 failed attempts"),
            (
                "failed",
                3,
                json!([node("exception", 1), node("failed", 2)]),
                "3 failed attempts, 1 of them handled",
            ),
            ("stopped", 1, json!([node("exception", 1)]), "1 handled failure"),
            ("partial-succeeded", 2, json!([node("succeeded", 3)]), "2 failed attempts"),
            ("partial-succeeded", 2, json!([node("exception", 2)]), "2 failed attempts, 1 of them handled"),
            ("partial-succeeded", 2, json!([node("succeeded", 1)]), "2 handled failures"),
        ] {
            let run = json!({"id": "r", "status": status, "exceptions_count": exceptions, "nodes": nodes});
            assert_eq!(end_line(&RunView::read(&run)), format!("run r {status} ({expected})"));
        }
        for (error, expected) in [("it broke\n", "run r failed: it broke"), ("it\nbroke", "run r failed:")] {
            let run = json!({"id": "r", "status": "failed", "error": error, "outputs": null});
            assert_eq!(end_line(&RunView::read(&run)), expected);
        }
    }

    #[test]
    fn outputs_have_names_and_an_answer_alone_has_none() {
        let cases = [
            (json!({"answer": "Hello\x1b[0m\nyou"}), "Hello[0m\nyou\n"),
            (json!({"answer": "Hello", "files": []}), "Hello\n"),
            (json!({"answer": "Hello", "files": [1]}), "answer: Hello\nfiles: [1]\n"),
            (json!({"a": "x", "n": 3, "o": {"k": [1]}}), "a: x\nn: 3\no: {\"k\":[1]}\n"),
            (json!({"text": "one\n\ntwo\n"}), "text:\n  one\n\n  two\n"),
            (json!({}), ""),
            (json!(null), ""),
        ];
        for (given, expected) in cases {
            assert_eq!(outputs(Some(&given)), expected);
        }
    }
}
