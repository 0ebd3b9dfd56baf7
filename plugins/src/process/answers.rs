//! What plugins ask back: to call models, tools, nodes and apps, to store something, to upload a file. The host answers,
//! within what the manifest of the plugin asks to be allowed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value as Json, json};

use super::event;
use super::shared::Shared;
use crate::package::Permissions;

/// A question of a plugin.
#[derive(Debug, Clone)]
pub struct Question {
    /// The kind, such as `llm` or `storage`, as the SDK names it.
    pub kind: String,
    pub request: Json,
}

/// Answers questions. The process checks the permission before.
#[async_trait::async_trait]
pub trait Answers: Send + Sync {
    /// Sends the parts of the answer.
    ///
    /// # Errors
    /// The reason, which the plugin sees.
    async fn answer(&self, question: Question, parts: Parts) -> Result<(), String>;
}

/// Takes the parts of one answer. Sending waits until the plugin reads.
pub struct Parts {
    shared: Arc<Shared>,
    session: String,
    id: String,
    /// The bytes that the answers of the session may still have.
    left: Arc<AtomicU64>,
}

impl Parts {
    pub(super) fn new(shared: Arc<Shared>, session: String, id: String, left: Arc<AtomicU64>) -> Self {
        Self { shared, session, id, left }
    }

    /// Sends a part, an object.
    ///
    /// # Errors
    /// The answers of the session are too large, or the plugin takes no more.
    pub async fn send(&self, part: Json) -> Result<(), String> {
        let line = event::part(&self.session, &self.id, part);
        let size = line.len() as u64;
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(size));
        if taken.is_err() {
            let most = self.shared.limits.answers_bytes_max;
            return Err(format!("the answers to the plugin have more than {most} bytes (answers_bytes_max)"));
        }
        if self.put(line).await { Ok(()) } else { Err("the plugin takes no more answers".into()) }
    }

    /// Sends the end of the answer.
    pub(super) async fn end(self, outcome: Result<(), String>) {
        let line = match outcome {
            Ok(()) => event::end(&self.session, &self.id),
            Err(reason) => event::refusal(&self.session, &self.id, &reason),
        };
        self.put(line).await;
    }

    async fn put(&self, line: Vec<u8>) -> bool {
        // A sender is held only while a line is sent, because the input of a process that stops is closed with the last one.
        match self.shared.input() {
            Some(input) => input.send(line).await.is_ok(),
            None => false,
        }
    }
}

/// Answers nothing: each question is refused by its name.
#[derive(Debug, Clone, Copy)]
pub struct NoAnswers;

#[async_trait::async_trait]
impl Answers for NoAnswers {
    async fn answer(&self, question: Question, _: Parts) -> Result<(), String> {
        Err(format!("Tidemill does not answer plugins that ask for {:?} here", question.kind))
    }
}

/// The kinds that belong to each kind of model in a manifest.
const OF_MODELS: [(&str, &str); 10] = [
    ("llm", "llm"),
    ("llm_structured_output", "llm"),
    ("system_summary", "llm"),
    ("text_embedding", "text_embedding"),
    ("multimodal_embedding", "text_embedding"),
    ("rerank", "rerank"),
    ("multimodal_rerank", "rerank"),
    ("tts", "tts"),
    ("speech2text", "speech2text"),
    ("moderation", "moderation"),
];

/// Tests whether a manifest permits a question.
///
/// # Errors
/// The permission that is missing, in words for the plugin.
pub(super) fn permitted(permissions: &Permissions, kind: &str) -> Result<(), String> {
    let model = OF_MODELS.iter().find(|(known, _)| *known == kind).map(|(_, model)| *model);
    let (is_permitted, name) = match (kind, model) {
        (_, Some(model)) => (permissions.models.iter().any(|known| known == model), "model"),
        ("tool", _) => (permissions.tools, "tool"),
        ("app" | "fetch_app", _) => (permissions.apps, "app"),
        ("storage", _) => (permissions.storage_bytes.is_some(), "storage"),
        // Files are the plugin's own results; the SDK has no permission for them.
        ("upload_file", _) => (true, ""),
        (kind, _) if kind.starts_with("node_") => (permissions.nodes, "node"),
        _ => return Err(format!("a question of the kind {kind:?} is not known")),
    };
    if is_permitted {
        Ok(())
    } else {
        Err(format!(
            "the manifest of the plugin does not ask for the permission {name:?} that {kind:?} needs"
        ))
    }
}

/// Storage in memory, for a trial: it ends with the process. Everything else is refused by its name.
#[derive(Debug)]
pub struct MemoryStorage {
    bytes_max: u64,
    values: Mutex<BTreeMap<String, String>>,
}

impl MemoryStorage {
    /// An empty storage for this many bytes of keys and values.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, values: Mutex::default() }
    }

    fn perform(&self, request: &Json) -> Result<Json, String> {
        let key = request["key"].as_str().ok_or("the request has no key")?;
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        match request["opt"].as_str().unwrap_or_default() {
            "set" => {
                let value = request["value"].as_str().ok_or("the request has no value")?;
                // Values come in hexadecimal digits, two for a byte.
                let size = |key: &str, value: &str| (key.len() + value.len() / 2) as u64;
                let others = values.iter().filter(|(known, _)| *known != key);
                let used: u64 = others.map(|(key, value)| size(key, value)).sum();
                if used + size(key, value) > self.bytes_max {
                    return Err(format!(
                        "the storage of the plugin has more than {} bytes (its manifest)",
                        self.bytes_max
                    ));
                }
                values.insert(key.to_owned(), value.to_owned());
                Ok(json!({"data": "ok"}))
            }
            "get" => match values.get(key) {
                Some(value) => Ok(json!({"data": value})),
                None => Err(format!("the storage of the plugin has no key {key:?}")),
            },
            "del" => {
                values.remove(key);
                Ok(json!({"data": "ok"}))
            }
            "exist" => Ok(json!({"data": values.contains_key(key)})),
            other => Err(format!("the storage knows no operation {other:?}")),
        }
    }
}

#[async_trait::async_trait]
impl Answers for MemoryStorage {
    async fn answer(&self, question: Question, parts: Parts) -> Result<(), String> {
        if question.kind == "storage" {
            return parts.send(self.perform(&question.request)?).await;
        }
        NoAnswers.answer(question, parts).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_needs_its_permission() {
        let none = Permissions::default();
        let some =
            Permissions { models: vec!["llm".into()], storage_bytes: Some(10), ..Permissions::default() };
        for (kind, expected) in [
            ("llm", true),
            ("rerank", false),
            ("storage", true),
            ("tool", false),
            ("app", false),
            ("node_x", false),
        ] {
            assert!(permitted(&none, kind).is_err(), "{kind}");
            assert_eq!(permitted(&some, kind).is_ok(), expected, "{kind}");
        }
        assert!(permitted(&some, "unheard_of").unwrap_err().contains("not known"));
    }

    #[test]
    fn storage_keeps_values_within_its_bytes() {
        let storage = MemoryStorage::new(8);
        let ask = |opt: &str, key: &str, value: &str| {
            storage.perform(&json!({"opt": opt, "key": key, "value": value}))
        };
        assert_eq!(ask("exist", "a", "").unwrap(), json!({"data": false}));
        assert_eq!(ask("set", "a", "616263").unwrap(), json!({"data": "ok"}));
        assert_eq!(ask("set", "a", "61626364").unwrap(), json!({"data": "ok"}));
        assert_eq!(ask("get", "a", "").unwrap(), json!({"data": "61626364"}));
        assert!(ask("set", "b", "616263").unwrap_err().contains("8 bytes"));
        assert_eq!(ask("del", "a", "").unwrap(), json!({"data": "ok"}));
        assert!(ask("get", "a", "").is_err() && ask("x", "a", "").is_err());
    }
}
