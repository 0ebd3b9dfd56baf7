//! Moderation of what a run answers. By keywords it follows from the events alone, so that each client that follows a run,
//! now or later, sees the same: when the text that it shows has a keyword, the preset response replaces the whole text,
//! and no more text is sent.
//!
//! A server's verdict ([`Projection::withhold`]) comes at the end of the run: then the whole text is replaced.
//!
//! From then on, texts with a keyword are replaced in all other events too. The end of a run, and of the nodes that give
//! its answer, is always checked, because a workflow may give texts that it has not streamed.

use serde_json::{Value as Json, json};
use tidemill_common::dsl::moderation::{self, Checker, Keywords};
use tidemill_common::nodes::NodeKind;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::event::{EventRecord, kind};

use crate::runs::projection::{Projection, ShownText, text};

/// The reason of a replacement, as Dify names it.
const OUTPUT_MODERATION: &str = "output_moderation";

/// The moderation of one run's answer.
#[derive(Debug, Default)]
pub(crate) struct Moderated {
    rules: Option<Rules>,
    /// The end of the text so far, in which a keyword may have begun.
    tail: String,
    is_flagged: bool,
    /// The text by which a server's verdict replaces the answer, at the end.
    withheld: Option<String>,
}

#[derive(Debug)]
struct Rules {
    words: Keywords,
    preset: String,
}

impl Moderated {
    /// Creates it for a run of a workflow with these features, before the first event.
    pub(crate) fn of(features: &JsonMap) -> Self {
        let moderation = moderation::of(features);
        let rules = moderation.and_then(|moderation| match (moderation.by, moderation.outputs) {
            (Checker::Keywords(words), Some(preset)) => Some(Rules { words, preset }),
            (Checker::Keywords(_) | Checker::OpenAi | Checker::Api(_), _) => None,
        });
        Self { rules, ..Self::default() }
    }

    /// True when answers are not checked by keywords, and no server has flagged the answer.
    pub(crate) fn is_off(&self) -> bool {
        self.rules.is_none() && self.withheld.is_none()
    }

    /// The text that replaces the whole answer, once it is flagged.
    pub(crate) fn text(&self) -> Option<&str> {
        let by_keyword = self.rules.as_ref().filter(|_| self.is_flagged).map(|rules| rules.preset.as_str());
        self.withheld.as_deref().or(by_keyword)
    }

    /// The reason why the text is replaced; empty while it is not flagged.
    pub(super) fn reason(&self) -> &'static str {
        if self.text().is_some() { OUTPUT_MODERATION } else { "" }
    }

    /// Replaces the answer by this text, which a server's verdict demands.
    pub(crate) fn withhold(&mut self, text: Option<String>) {
        self.withheld = text;
    }

    /// Replaces the texts of an agent's thought: all once the answer is replaced, else those with a keyword.
    pub(crate) fn clean_thought(&self, thought: &mut Json) {
        for part in ["thought", "observation", "tool_input"] {
            let Some(value) = thought.get_mut(part).filter(|value| value.as_str() != Some("")) else {
                continue;
            };
            match self.text() {
                Some(text) => *value = text.into(),
                None => self.clean(value),
            }
        }
    }

    /// Looks at a piece at the end of the text. Returns true when it makes the text flagged.
    fn flags(&mut self, piece: &str) -> bool {
        let Some(rules) = self.rules.as_ref().filter(|_| !self.is_flagged) else { return false };
        self.tail.push_str(piece);
        self.is_flagged = rules.words.are_in(&self.tail);
        let chars = self.tail.chars().count();
        let kept = rules.words.chars_max();
        if let Some((from, _)) =
            self.tail.char_indices().nth(chars.saturating_sub(kept)).filter(|_| chars > kept)
        {
            self.tail.drain(..from);
        }
        self.is_flagged
    }

    /// Looks at the whole text, after a part of it was replaced. Returns true when it makes the text flagged.
    fn flags_whole(&mut self, text: &str) -> bool {
        self.tail.clear();
        self.flags(text)
    }

    /// Looks at an event whose chunk is opened, after `shown` has taken it. Returns true when it makes the text flagged.
    pub(crate) fn take(&mut self, record: &EventRecord, shown: &ShownText) -> bool {
        match record.kind.as_str() {
            kind::NODE_RUN_STREAM_CHUNK if record.is_in_answer() => self.flags(text(record, "chunk")),
            kind::NODE_RUN_STREAM_REPLACED if record.is_in_answer() && !self.is_off() => {
                self.flags_whole(&shown.text())
            }
            _ => false,
        }
    }

    /// Replaces each text with a keyword.
    fn clean(&self, value: &mut Json) {
        let Some(rules) = &self.rules else { return };
        rules.words.clean(value, &rules.preset);
    }
}

/// Replaces flagged texts in the outputs of a run of a workflow with these features. `withheld` is the text by which a
/// server's verdict replaces them.
pub(crate) fn clean_outputs(features: &JsonMap, withheld: Option<&str>, outputs: &mut JsonMap) {
    if let Some(text) = withheld {
        return outputs.values_mut().for_each(|value| replace(value, text));
    }
    let moderated = Moderated::of(features);
    if !moderated.is_off() {
        outputs.values_mut().for_each(|value| moderated.clean(value));
    }
}

/// Replaces a text that keywords flag.
pub(crate) fn clean_text(features: &JsonMap, text: &mut String) {
    let mut moderated = Moderated::of(features);
    if let (true, Some(rules)) = (moderated.flags_whole(text), &moderated.rules) {
        text.clone_from(&rules.preset);
    }
}

/// Replaces all texts, but not those of files.
fn replace(value: &mut Json, by: &str) {
    match value {
        Json::String(text) => by.clone_into(text),
        Json::Array(items) => items.iter_mut().for_each(|item| replace(item, by)),
        Json::Object(fields) if !fields.contains_key("dify_model_identity") => {
            fields.values_mut().for_each(|field| replace(field, by));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => {}
    }
}

impl Projection {
    /// Replaces the answer at the end of the run by this text, which a server's verdict demands. Call it before the last
    /// event is projected.
    pub(crate) fn withhold(&mut self, text: Option<String>) {
        self.moderated.withhold(text);
    }

    /// The payloads that are sent for an event in place of these.
    pub(super) fn moderate(&mut self, record: &EventRecord, mut payloads: Vec<Json>) -> Vec<Json> {
        let was_flagged = self.moderated.is_flagged;
        // Clients show thoughts in place of the text.
        let thoughts = payloads.iter_mut().filter(|payload| payload["event"] == "agent_thought");
        thoughts.for_each(|thought| self.moderated.clean_thought(thought));
        let is_text =
            matches!(record.kind.as_str(), kind::NODE_RUN_STREAM_CHUNK | kind::NODE_RUN_STREAM_REPLACED);
        if self.moderated.take(record, &self.shown) {
            return vec![self.text_replace()];
        }
        if was_flagged && is_text {
            return Vec::new();
        }
        if let Some(text) = self.moderated.withheld.clone() {
            for payload in &mut payloads {
                if let Some(outputs) = payload.pointer_mut("/data/outputs") {
                    replace(outputs, &text);
                }
            }
            return std::iter::once(self.text_replace()).chain(payloads).collect();
        }
        if was_flagged || self.gives_answer(record) {
            payloads.iter_mut().for_each(|payload| self.clean(payload));
        }
        payloads
    }

    /// True for the end of the run, and of a node whose outputs are the answer.
    fn gives_answer(&self, record: &EventRecord) -> bool {
        let node = || NodeKind::from_wire(text(record, "node_type"));
        match record.kind.as_str() {
            kind::GRAPH_RUN_SUCCEEDED
            | kind::GRAPH_RUN_PARTIAL_SUCCEEDED
            | kind::GRAPH_RUN_FAILED
            | kind::GRAPH_RUN_ABORTED => true,
            kind::NODE_RUN_SUCCEEDED => matches!(node(), Some(NodeKind::Answer | NodeKind::End)),
            _ => false,
        }
    }

    fn clean(&self, payload: &mut Json) {
        let event = payload["event"].as_str().unwrap_or_default().to_owned();
        let Some(Json::Object(data)) = payload.get_mut("data") else { return };
        for part in ["inputs", "process_data", "outputs", "error", "pre_loop_output"] {
            if let Some(value) = data.get_mut(part) {
                self.moderated.clean(value);
            }
        }
        match event.as_str() {
            "agent_log" => data.values_mut().for_each(|value| self.moderated.clean(value)),
            // A piece of reasoning may have a part of a keyword.
            "reasoning_chunk" if self.moderated.is_flagged => {
                data.insert("reasoning".into(), json!(""));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(words: &str) -> JsonMap {
        let features = json!({"sensitive_word_avoidance": {"enabled": true, "type": "keywords", "config": {
            "keywords": words, "outputs_config": {"enabled": true, "preset_response": "Sorry."},
        }}});
        features.as_object().cloned().unwrap()
    }

    #[test]
    fn a_keyword_is_found_wherever_the_pieces_are_cut() {
        let text = "To build a Bömbe you need";
        let chars: Vec<char> = text.chars().collect();
        for size in 1..=chars.len() {
            let mut moderated = Moderated::of(&features("bömbe\nwill not occur"));
            let flagged: Vec<bool> =
                chars.chunks(size).map(|piece| moderated.flags(&piece.iter().collect::<String>())).collect();
            assert_eq!(flagged.iter().filter(|is| **is).count(), 1, "pieces of {size}");
            assert_eq!(moderated.text(), Some("Sorry."));
        }
    }

    #[test]
    fn a_thought_is_replaced_where_it_has_a_keyword_and_whole_once_the_answer_is() {
        let cleaned = |moderated: &Moderated| {
            let mut thought = json!({"thought": "a BOMB", "tool_input": "{\"q\": \"x\"}", "observation": "", "tool": "bomb"});
            moderated.clean_thought(&mut thought);
            thought
        };
        let mut moderated = Moderated::of(&features("bomb"));
        let expected =
            json!({"thought": "Sorry.", "tool_input": "{\"q\": \"x\"}", "observation": "", "tool": "bomb"});
        assert_eq!(cleaned(&moderated), expected);
        moderated.flags("bomb");
        assert_eq!(cleaned(&moderated)["tool_input"], "Sorry.");
        let mut moderated = Moderated::default();
        assert_eq!(cleaned(&moderated)["thought"], "a BOMB");
        moderated.withhold(Some("No.".into()));
        let expected = json!({"thought": "No.", "tool_input": "No.", "observation": "", "tool": "bomb"});
        assert_eq!(cleaned(&moderated), expected);
    }

    #[test]
    fn the_text_before_a_replacement_counts_no_more() {
        let mut moderated = Moderated::of(&features("bomb"));
        assert!(!moderated.flags("a bo"));
        assert!(!moderated.flags_whole("a "));
        assert!(!moderated.flags("mb"));
        assert!(moderated.flags_whole("a bomb"));
    }

    #[test]
    fn texts_with_a_keyword_are_replaced_at_any_depth() {
        let mut outputs = json!({"text": "a BOMB", "n": 1, "list": ["ok", {"deep": "bombs"}]});
        clean_outputs(&features("bomb"), None, outputs.as_object_mut().unwrap());
        assert_eq!(outputs, json!({"text": "Sorry.", "n": 1, "list": ["ok", {"deep": "Sorry."}]}));
        let mut outputs = json!({"text": "a BOMB"});
        clean_outputs(&JsonMap::new(), None, outputs.as_object_mut().unwrap());
        assert_eq!(outputs, json!({"text": "a BOMB"}));
        clean_outputs(&JsonMap::new(), Some("No."), outputs.as_object_mut().unwrap());
        assert_eq!(outputs, json!({"text": "No."}));
    }
}
