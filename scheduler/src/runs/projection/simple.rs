//! The events of apps that had no workflow in Dify: `chat`, `agent-chat` and `completion`. Their clients receive the message
//! and its end, and no event about workflows and nodes.

use serde_json::{Value as Json, json};
use tidemill_common::graph::SimpleMode;
use tidemill_common::wire::event::{EventRecord, kind};

use super::files::{among, file_id};
use super::{ChatFacts, ChatFailure, Projection, text};

impl Projection {
    /// The payloads for an event of such an app.
    pub(super) fn project_simple(
        &mut self,
        chat: &ChatFacts,
        mode: SimpleMode,
        record: &EventRecord,
    ) -> Vec<Json> {
        match record.kind.as_str() {
            kind::NODE_RUN_STREAM_CHUNK if record.is_in_answer() => {
                self.shown.take(record);
                self.piece(chat, mode, text(record, "chunk")).into_iter().collect()
            }
            kind::NODE_RUN_STREAM_REPLACED if record.is_in_answer() => {
                self.text_replaced(record).into_iter().collect()
            }
            kind::GRAPH_RUN_SUCCEEDED | kind::GRAPH_RUN_PARTIAL_SUCCEEDED | kind::GRAPH_RUN_ABORTED => {
                vec![self.message_end(chat, record)]
            }
            kind::GRAPH_RUN_FAILED => vec![self.error(chat, record)],
            _ if mode == SimpleMode::AgentChat => self.agent_thought(chat, record).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn piece(&mut self, chat: &ChatFacts, mode: SimpleMode, text: &str) -> Option<Json> {
        match mode {
            SimpleMode::AgentChat => {
                let text = self.thoughts.shown(text);
                let piece = || json!({"id": self.run.id, "answer": text});
                (!text.is_empty()).then(|| self.of_message(chat, "agent_message", piece()))
            }
            SimpleMode::Chat | SimpleMode::Completion => Some(self.message(chat, text, &Json::Null)),
        }
    }

    /// The files of the message at its end, the user's first: as on Dify null when there are none.
    pub(super) fn message_files(&self, record: &EventRecord) -> Json {
        let given = self.run.inputs.get("sys.files").and_then(Json::as_array);
        let made = among(record.data.get("outputs").unwrap_or(&Json::Null));
        let files: Vec<Json> = given
            .into_iter()
            .flatten()
            .chain(&made)
            .enumerate()
            .map(|(at, file)| self.message_file(at, file))
            .collect();
        if files.is_empty() { Json::Null } else { files.into() }
    }

    fn message_file(&self, at: usize, file: &Json) -> Json {
        let text = |key: &str| file.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let id = file_id(&self.run.id, at);
        let url = text("url").or_else(|| text("remote_url")).map(str::to_owned);
        let url = url.or_else(|| self.run.links.as_ref()?.link(file)).unwrap_or_default();
        let (is_upload, is_remote) =
            (text("transfer_method") == Some("local_file"), text("transfer_method") == Some("remote_url"));
        json!({
            "related_id": id,
            "extension": text("extension").unwrap_or_default(),
            "filename": text("filename").unwrap_or("file"),
            "size": file.get("size").and_then(Json::as_u64).unwrap_or(0),
            "mime_type": text("mime_type").unwrap_or("application/octet-stream"),
            "transfer_method": file["transfer_method"],
            "type": file["type"],
            "url": url,
            "upload_file_id": text("related_id").filter(|_| is_upload).unwrap_or(&id),
            "remote_url": if is_remote { &*url } else { "" },
        })
    }

    fn error(&self, chat: &ChatFacts, record: &EventRecord) -> Json {
        let failure = ChatFailure::of(self.failed_by(), text(record, "error"), true);
        let fields = json!({"code": failure.code, "status": 400, "message": failure.message});
        let mut error = self.of_message(chat, "error", fields);
        if let Json::Object(map) = &mut error {
            map.shift_remove("task_id");
        }
        error
    }

    fn agent_thought(&mut self, chat: &ChatFacts, record: &EventRecord) -> Option<Json> {
        let at = self.thoughts.take(record)?;
        Some(self.of_message(chat, "agent_thought", self.thoughts.event(&self.run.id, at)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidemill_common::ids::EntryId;
    use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY};

    use super::*;
    use crate::api::tests::fixtures;
    use crate::runs::answered::AnsweredBy;
    use crate::runs::projection::RunFacts;

    fn record(kind: &str, data: Json) -> EventRecord {
        let data = data.as_object().cloned().unwrap();
        EventRecord { entry: EntryId::new(1, 0), last_of_entry: true, kind: kind.into(), seq: 1, ts: 1, data }
    }

    fn end(inputs: &Json, outputs: Json, answered_by: Option<AnsweredBy>) -> Json {
        let chat = ChatFacts { conversation_id: "c".into(), simple: Some(SimpleMode::Chat) };
        let inputs = inputs.as_object().cloned().unwrap();
        let run = RunFacts { id: "m".into(), chat: Some(chat), inputs, answered_by, ..RunFacts::default() };
        let mut projection = Projection::new(run, Arc::clone(&fixtures::graph()));
        let record = record(kind::GRAPH_RUN_SUCCEEDED, json!({ "outputs": outputs }));
        projection.project(&record).pop().unwrap()
    }

    #[test]
    fn the_end_of_a_message_lists_the_files_of_the_user_and_of_the_answer() {
        let given = json!({
            FILE_IDENTITY_KEY: FILE_IDENTITY, "type": "document", "transfer_method": "local_file", "related_id": "u",
            "filename": "a.pdf", "extension": ".pdf", "mime_type": "application/pdf", "size": 3, "url": "https://h/u",
        });
        let made = json!({
            FILE_IDENTITY_KEY: FILE_IDENTITY, "type": "image", "transfer_method": "remote_url", "size": -1,
            "remote_url": "https://h/b",
        });
        let inputs = json!({"sys.files": [given]});
        let end_of = |by| end(&inputs, json!({"answer": "x", "files": [made]}), by);
        let files = end_of(None)["files"].take();
        let (first, second) = (file_id("m", 0), file_id("m", 1));
        let expected = json!([
            {
                "related_id": first, "extension": ".pdf", "filename": "a.pdf", "size": 3,
                "mime_type": "application/pdf", "transfer_method": "local_file", "type": "document",
                "url": "https://h/u", "upload_file_id": "u", "remote_url": "",
            },
            {
                "related_id": second, "extension": "", "filename": "file", "size": 0,
                "mime_type": "application/octet-stream", "transfer_method": "remote_url", "type": "image",
                "url": "https://h/b", "upload_file_id": second, "remote_url": "https://h/b",
            },
        ]);
        assert_eq!(files.to_string(), expected.to_string());
        assert_eq!(end_of(Some(AnsweredBy::InputModeration))["files"], expected, "a preset answer, too");
        for by in [None, Some(AnsweredBy::InputModeration)] {
            assert_eq!(end(&json!({"sys.files": []}), json!({"answer": "x"}), by)["files"], Json::Null);
        }
    }

    #[test]
    fn what_is_read_aloud_is_the_answer_that_moderation_leaves() {
        let said = |features: Json, withheld: Option<&str>| {
            let chat = ChatFacts { conversation_id: "c".into(), simple: Some(SimpleMode::AgentChat) };
            let mut graph = (*fixtures::graph()).clone();
            graph.features = features.as_object().cloned().unwrap();
            let run = RunFacts { id: "m".into(), chat: Some(chat), ..RunFacts::default() };
            let mut projection = Projection::new(run, graph.into());
            for chunk in ["a bo", "mb", " and more"] {
                let data = json!({"selector": ["llm", "text"], "chunk": chunk});
                projection.project(&record(kind::NODE_RUN_STREAM_CHUNK, data));
            }
            projection.withhold(withheld.map(str::to_owned));
            projection.project(&record(kind::GRAPH_RUN_SUCCEEDED, json!({"outputs": {}})));
            projection.answer()
        };
        let moderation = json!({"sensitive_word_avoidance": {"enabled": true, "type": "keywords", "config": {
            "keywords": "bomb", "outputs_config": {"enabled": true, "preset_response": "Sorry."},
        }}});
        assert_eq!(said(json!({}), None), "a bomb and more");
        assert_eq!(said(moderation, None), "Sorry.");
        assert_eq!(said(json!({}), Some("No.")), "No.");
    }
}
