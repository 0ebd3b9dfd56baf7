//! A run on a terminal: a live line per running node, a fixed line per ended node, and below them the end of the text
//! that is being streamed.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::Value as Json;
use tidemill_common::wire::event::kind;

use super::container_titles::ContainerTitles;
use super::plain;
use super::text::one_line;
use crate::client::Event;

/// Time between two updates of the live lines.
const TICK: Duration = Duration::from_millis(100);
/// Number of characters of streamed text that are shown.
const TAIL_CHARS: usize = 200;

/// The live part of the screen.
pub(crate) struct Progress {
    lines: MultiProgress,
    /// Lines of running nodes by the execution's id.
    at_work: HashMap<String, ProgressBar>,
    /// Number of items or rounds of running containers, by the execution's id.
    lengths: HashMap<String, u64>,
    /// Executions of nodes that run inside other nodes.
    inside: HashSet<String>,
    container_titles: ContainerTitles,
    text: Tail,
    text_line: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            lines: MultiProgress::new(),
            at_work: HashMap::new(),
            lengths: HashMap::new(),
            inside: HashSet::new(),
            container_titles: ContainerTitles::default(),
            text: Tail::default(),
            text_line: None,
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        let event = self.container_titles.named(event);
        let event = event.as_ref();
        let id = event.text("id").to_string();
        match event.kind.as_str() {
            kind::NODE_RUN_STARTED => {
                if event.data["is_virtual"] == true {
                    self.inside.insert(id.clone());
                }
                let line = ProgressBar::new_spinner()
                    .with_style(style("{spinner:.cyan} {msg}  {elapsed:.dim}"))
                    .with_message(self.indented(event));
                let line = match &self.text_line {
                    Some(text) => self.lines.insert_before(text, line),
                    None => self.lines.add(line),
                };
                line.enable_steady_tick(TICK);
                self.at_work.insert(id, line);
            }
            "node_run_iteration_started" => self.note_length(id, &event.data["metadata"]["iteration_length"]),
            "node_run_loop_started" => self.note_length(id, &event.data["metadata"]["loop_length"]),
            "node_run_iteration_next" | "node_run_loop_next" => {
                let index = event.data["index"].as_u64().unwrap_or(0) + 1;
                let of = self.lengths.get(&id).map(|length| format!(" of {length}")).unwrap_or_default();
                if let Some(line) = self.at_work.get(&id) {
                    line.set_message(format!("{}  {index}{of}", self.indented(event)));
                }
            }
            kind::NODE_RUN_STREAM_CHUNK if event.data["in_answer"] != false => {
                self.stream(event.text("chunk"))
            }
            kind::NODE_RUN_RETRY => self.note(&self.standing(event)),
            kind::NODE_RUN_SUCCEEDED | kind::NODE_RUN_FAILED | kind::NODE_RUN_EXCEPTION => {
                self.lengths.remove(&id);
                if let Some(line) = self.at_work.remove(&id) {
                    line.finish_and_clear();
                }
                self.note(&self.standing(event));
                self.inside.remove(&id);
            }
            _ => {
                if let Some(line) = plain::pause_line(event) {
                    // A waiting node is not running.
                    if let Some(line) = self.at_work.remove(&id) {
                        line.finish_and_clear();
                    }
                    self.note(&format!("⏸ {line}"));
                }
            }
        }
    }

    fn note_length(&mut self, id: String, length: &Json) {
        if let Some(length) = length.as_u64() {
            self.lengths.insert(id, length);
        }
    }

    pub(super) fn note(&self, text: &str) {
        // If the terminal cannot be written to, nothing is shown anyway.
        let _ = self.lines.println(text);
    }

    /// Removes the live lines.
    pub(super) fn clear(&mut self) {
        self.at_work.clear();
        self.lengths.clear();
        self.inside.clear();
        self.text_line = None;
        let _ = self.lines.clear();
    }

    /// The line that remains after a node has ended.
    fn standing(&self, event: &Event) -> String {
        let mark = match event.kind.as_str() {
            kind::NODE_RUN_SUCCEEDED => "✓",
            kind::NODE_RUN_RETRY => "↻",
            kind::NODE_RUN_EXCEPTION => "!",
            _ => "✗",
        };
        let name = plain::node_name(event);
        format!("{}{mark} {name}  {}", self.margin(event), plain::detail(event)).trim_end().into()
    }

    /// A node's name, indented by its depth in containers and other nodes.
    fn indented(&self, event: &Event) -> String {
        format!("{}{}", self.margin(event), plain::node_name(event))
    }

    fn margin(&self, event: &Event) -> String {
        let inside = if self.inside.contains(event.text("id")) { "  ↳ " } else { "" };
        format!("{}{inside}", depth(event))
    }

    fn stream(&mut self, chunk: &str) {
        self.text.push(chunk);
        let line = self.text_line.get_or_insert_with(|| {
            self.lines.add(ProgressBar::new_spinner().with_style(style("  {wide_msg:.dim}")))
        });
        line.set_message(self.text.shown());
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants, so they should parse; otherwise show a simple spinner.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn depth(event: &Event) -> String {
    let frame = event.text("frame");
    if frame.is_empty() { String::new() } else { "  ".repeat(frame.split('/').count()) }
}

/// The end of a growing text.
#[derive(Debug, Default)]
struct Tail(String);

impl Tail {
    fn push(&mut self, piece: &str) {
        self.0.push_str(piece);
        let surplus = self.0.chars().count().saturating_sub(TAIL_CHARS);
        if let Some((at, _)) = self.0.char_indices().nth(surplus) {
            self.0.drain(..at);
        }
    }
    /// Returns the text after the last line break that has text after it.
    fn shown(&self) -> String {
        one_line(self.0.trim_end().rsplit('\n').next().unwrap_or(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_tail_of_a_text_is_its_last_line() {
        let mut tail = Tail::default();
        tail.push("first\nsec");
        assert_eq!(tail.shown(), "sec");
        tail.push("ond\n");
        assert_eq!(tail.shown(), "second");
        tail.push(&"ä".repeat(1000));
        assert_eq!(tail.shown().chars().count(), TAIL_CHARS);
    }

    #[test]
    fn a_run_can_be_shown_without_a_terminal() {
        let mut progress = Progress::new();
        let events = [
            ("node_run_started", json!({"id": "x", "node_id": "1"})),
            ("node_run_stream_chunk", json!({"id": "x", "chunk": "text"})),
            ("node_run_started", json!({"id": "y", "node_id": "2"})),
            ("node_run_retry", json!({"id": "x", "node_id": "1"})),
            ("node_run_succeeded", json!({"id": "x", "node_id": "1", "start_at": 1.0, "finished_at": 1.5})),
            ("graph_run_succeeded", json!({"outputs": {}})),
        ];
        for (seq, (name, data)) in events.iter().enumerate() {
            let raw = json!({"type": name, "data": data, "seq": seq + 1});
            progress.event(&Event::read(&raw.to_string()).expect("an event"));
        }
        assert_eq!(progress.at_work.keys().collect::<Vec<_>>(), ["y"]);
        progress.clear();
        assert!(progress.at_work.is_empty());
    }

    #[test]
    fn a_node_inside_another_node_stays_indented_until_it_ends() {
        let mut progress = Progress::new();
        let event = |name: &str, data: Json| {
            let raw = json!({"type": name, "data": data, "seq": 1});
            Event::read(&raw.to_string()).expect("an event")
        };
        let began =
            |id: &str, inside: bool| json!({"id": id, "node_id": id, "node_title": id, "is_virtual": inside});
        progress.event(&event("node_run_started", began("c", true)));
        let ended = event("node_run_succeeded", json!({"id": "c", "node_id": "c", "node_title": "c"}));
        assert!(progress.standing(&ended).starts_with("  ↳ ✓ c"), "{}", progress.standing(&ended));
        progress.event(&ended);
        progress.event(&event("node_run_started", began("p", false)));
        let ended = event("node_run_succeeded", json!({"id": "p", "node_id": "p", "node_title": "p"}));
        assert!(progress.standing(&ended).starts_with("✓ p"));
        assert!(progress.inside.is_empty());
    }
}
