//! Puts signed URLs in place of the paths of files, in every text of an event. Text that is sent in pieces needs a memory: a
//! path may be cut.

use serde_json::Value as Json;

use super::Projection;
use crate::runs::text_links::LinkedPieces;

/// The text that is sent in pieces.
#[derive(Debug, Default)]
pub(super) struct Linked {
    pieces: LinkedPieces,
    /// The event whose text, or its end, is held back.
    held: Option<Json>,
}

/// The role of an event's text.
enum Text {
    /// It continues the text.
    Piece(&'static str),
    /// It is the whole text.
    Whole(&'static str),
    /// No text comes after this event, or only after an answer to a form.
    End,
    Other,
}

fn text_of(event: &Json) -> Text {
    match event["event"].as_str() {
        Some("message" | "agent_message") => Text::Piece("/answer"),
        Some("text_chunk") => Text::Piece("/data/text"),
        Some("message_replace") => Text::Whole("/answer"),
        Some("text_replace") => Text::Whole("/data/text"),
        Some("workflow_finished" | "workflow_paused" | "message_end" | "error") => Text::End,
        Some(_) | None => Text::Other,
    }
}

/// The variable that a piece of text comes from. No path is cut between two of them, and clients may sort pieces by it.
fn source_of(event: &Json) -> Option<&Json> {
    event.get("from_variable_selector").or_else(|| event.get("data")?.get("from_variable_selector"))
}

impl Projection {
    /// The payloads that are sent in place of these.
    pub(super) fn with_links(&mut self, payloads: Vec<Json>) -> Vec<Json> {
        let Some(links) = &self.run.links else { return payloads };
        let linked = &mut self.linked;
        let mut sent = Vec::with_capacity(payloads.len());
        for mut payload in payloads {
            match text_of(&payload) {
                Text::Piece(place) => {
                    if linked.held.as_ref().is_some_and(|held| source_of(held) != source_of(&payload)) {
                        sent.extend(linked.rest());
                    }
                    let Some(Json::String(text)) = payload.pointer_mut(place) else { continue };
                    let was_empty = text.is_empty();
                    *text = linked.pieces.take(links, std::mem::take(text));
                    let is_all_held = text.is_empty() && !was_empty;
                    linked.held = (!linked.pieces.held().is_empty()).then(|| payload.clone());
                    if is_all_held {
                        continue;
                    }
                }
                Text::Whole(place) => {
                    let text = payload.pointer(place).and_then(Json::as_str).unwrap_or_default();
                    *linked = Linked { pieces: LinkedPieces::after(text), held: None };
                    links.fill_texts(&mut payload);
                }
                Text::End => {
                    sent.extend(linked.rest());
                    links.fill_texts(&mut payload);
                }
                Text::Other => links.fill_texts(&mut payload),
            }
            sent.push(payload);
        }
        sent
    }

    /// The event with the whole text so far, without the end that is held back: its next piece contains that.
    pub(super) fn with_links_so_far(&self, mut payload: Json) -> Json {
        let Some(links) = &self.run.links else { return payload };
        let held = self.linked.pieces.held();
        if let Text::Whole(place) = text_of(&payload)
            && let Some(Json::String(text)) = payload.pointer_mut(place)
            && text.ends_with(held)
        {
            text.truncate(text.len() - held.len());
        }
        links.fill_texts(&mut payload);
        payload
    }

    /// The whole answer, with signed URLs.
    pub fn linked_answer(&self) -> String {
        let answer = self.answer();
        match &self.run.links {
            Some(links) => links.in_text("", &answer).into_owned(),
            None => answer,
        }
    }
}

impl Linked {
    /// The event with the text that was held back.
    fn rest(&mut self) -> Option<Json> {
        let rest = self.pieces.rest();
        let mut event = self.held.take().filter(|_| !rest.is_empty())?;
        if let Text::Piece(place) = text_of(&event)
            && let Some(text) = event.pointer_mut(place)
        {
            *text = rest.into();
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tidemill_common::config::UploadsConfig;
    use tidemill_common::ids::{EntryId, RunId, ShardId};
    use tidemill_common::wire::event::{EventRecord, kind};

    use super::*;
    use crate::api::tests::fixtures;
    use crate::runs::file_links::{FileLinks, OwnerOfRun};
    use crate::runs::forms::FormTokens;
    use crate::runs::projection::{ChatFacts, RunFacts};

    fn record(kind: &str, data: Json) -> EventRecord {
        let data = data.as_object().cloned().unwrap();
        EventRecord { entry: EntryId::new(1, 0), last_of_entry: true, kind: kind.into(), seq: 1, ts: 1, data }
    }

    fn chunk(text: &str) -> EventRecord {
        record(kind::NODE_RUN_STREAM_CHUNK, json!({"selector": ["llm", "text"], "chunk": text}))
    }

    fn projection(is_chat: bool) -> Projection {
        let links = FileLinks::new(FormTokens::of_secret("secret"), &UploadsConfig::default());
        let links = Some(links.shown_to(OwnerOfRun { app: "a", user: "u" }));
        let chat = is_chat.then(|| ChatFacts { conversation_id: "c".into(), simple: None });
        Projection::new(RunFacts { links, chat, ..RunFacts::default() }, Arc::clone(&fixtures::graph()))
    }

    fn path() -> String {
        format!("runs/{}/{}", RunId::generate(ShardId(1)), "0".repeat(32))
    }

    #[test]
    fn a_path_in_pieces_becomes_one_link_in_chats_and_workflows() {
        let path = path();
        for (is_chat, place) in [(true, "/answer"), (false, "/data/text")] {
            let mut projection = projection(is_chat);
            let cut =
                [format!("see [a]({}", &path[..3]), path[3..30].to_owned(), format!("{}) ok", &path[30..])];
            let sent: Vec<Json> = cut.iter().flat_map(|text| projection.project(&chunk(text))).collect();
            assert_eq!(sent.len(), 2, "the middle is held back: {sent:?}");
            let text: String = sent.iter().filter_map(|event| event.pointer(place)?.as_str()).collect();
            assert!(text.starts_with(&format!("see [a](/files/{path}?timestamp=")), "{text}");
            assert!(text.ends_with(") ok"), "{text}");
            let end = record(kind::GRAPH_RUN_SUCCEEDED, json!({"outputs": {"t": format!("[a]({path})")}}));
            let ended =
                projection.project(&end).into_iter().find(|event| event["event"] == "workflow_finished");
            let output = ended.unwrap()["data"]["outputs"]["t"].as_str().unwrap().to_owned();
            assert!(output.starts_with(&format!("[a](/files/{path}?")), "{output}");
            assert!(projection.linked_answer().contains(&format!("[a](/files/{path}?")));
        }
    }

    #[test]
    fn what_is_held_back_is_sent_before_the_end() {
        let mut projection = projection(true);
        let mut sent = projection.project(&chunk("left (ru"));
        let so_far = projection.text_so_far().unwrap();
        assert_eq!(so_far["answer"], "left (", "its end comes with the next piece");
        sent.extend(projection.project(&record(kind::GRAPH_RUN_SUCCEEDED, json!({"outputs": {}}))));
        let told: Vec<(&str, &str)> = sent
            .iter()
            .map(|event| (event["event"].as_str().unwrap(), event["answer"].as_str().unwrap_or_default()))
            .collect();
        assert_eq!(
            told,
            [("message", "left ("), ("message", "ru"), ("message_end", ""), ("workflow_finished", "")]
        );
    }

    #[test]
    fn text_that_is_held_back_keeps_its_source() {
        let mut projection = projection(false);
        let other = json!({"selector": ["other", "text"], "chunk": "un"});
        let mut sent = projection.project(&chunk("left (r"));
        sent.extend(projection.project(&record(kind::NODE_RUN_STREAM_CHUNK, other)));
        let told: Vec<(&Json, &Json)> = sent
            .iter()
            .map(|event| (&event["data"]["text"], &event["data"]["from_variable_selector"]))
            .collect();
        let (llm, other) = (json!(["llm", "text"]), json!(["other", "text"]));
        assert_eq!(told, [(&json!("left ("), &llm), (&json!("r"), &llm), (&json!("un"), &other)]);
    }

    #[test]
    fn a_replacement_is_linked_whole_and_nothing_that_was_held_back_follows_it() {
        let (mut projection, path) = (projection(true), path());
        projection.project(&chunk("a (run"));
        let data = json!({"selector": ["llm", "text"], "text": format!("[b]({path})")});
        let replaced = projection.project(&record(kind::NODE_RUN_STREAM_REPLACED, data));
        assert_eq!(replaced.len(), 1);
        assert!(replaced[0]["answer"].as_str().unwrap().starts_with("[b](/files/runs/"), "{replaced:?}");
        let next = projection.project(&chunk(" more"));
        assert_eq!((next.len(), &next[0]["answer"]), (1, &json!(" more")));
    }
}
