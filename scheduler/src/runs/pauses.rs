//! Reads the pauses of a run from its hash of pauses. An accepted answer counts at once, before the run's owner has
//! applied it; so does the end of the time for an answer.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::PauseRequest;
use tidemill_common::nodes::pause::as_form::form_of;
use tidemill_common::store::{Runs, StoreError};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::WireError;
use tidemill_common::wire::state::pause;

use crate::runs::record::seconds;

/// The suffix of the field that holds the answer to a pause.
const ANSWER: &str = ":answer";

/// The status of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseStatus {
    /// The pause waits for an answer.
    Pending,
    /// A person has answered.
    Answered,
    /// The time for an answer has ended.
    Expired,
    /// The pause was withdrawn, mostly because its run was stopped.
    Cancelled,
}

impl PauseStatus {
    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A pause of a run.
#[derive(Debug, Clone)]
pub struct Pause {
    pub id: String,
    map: JsonMap,
    answer: Option<JsonMap>,
}

/// Reads the pauses of a run, oldest first.
///
/// # Errors
/// Errors of the store. Unreadable pauses are logged and left out.
pub async fn of_run(store: &dyn Runs, run: RunId) -> Result<Vec<Pause>, StoreError> {
    Ok(read(run, store.pauses(run).await?))
}

fn read(run: RunId, fields: Vec<(String, String)>) -> Vec<Pause> {
    let mut answers = HashMap::new();
    let mut pauses = Vec::new();
    for (field, text) in fields {
        let Ok(Json::Object(map)) = serde_json::from_str(&text) else {
            tracing::error!(%run, field, "pause cannot be read");
            continue;
        };
        match field.strip_suffix(ANSWER) {
            Some(id) => {
                answers.insert(id.to_string(), map);
            }
            None => pauses.push(Pause { id: field, map, answer: None }),
        }
    }
    for pause in &mut pauses {
        pause.answer = answers.remove(&pause.id);
    }
    pauses.sort_by(|a, b| a.opened_at().cmp(&b.opened_at()).then_with(|| a.id.cmp(&b.id)));
    pauses
}

impl Pause {
    /// Reads a pause from an event.
    pub fn of_json(value: &Json) -> Option<Self> {
        let map = value.as_object()?.clone();
        Some(Self { id: map.get("pause_id")?.as_str()?.to_string(), map, answer: None })
    }

    /// The status at `now`.
    pub fn status(&self, now: Timestamp) -> PauseStatus {
        match self.text("status") {
            "answered" => PauseStatus::Answered,
            "expired" => PauseStatus::Expired,
            "cancelled" => PauseStatus::Cancelled,
            _ if self.is_called_off() => PauseStatus::Cancelled,
            _ if self.answer.is_some() => PauseStatus::Answered,
            _ if self.expires_at().is_some_and(|at| at <= now) => PauseStatus::Expired,
            _ => PauseStatus::Pending,
        }
    }

    /// The node that waits.
    pub fn node_id(&self) -> &str {
        self.text("node_id")
    }
    /// The title of the node.
    pub fn node_title(&self) -> &str {
        self.text("node_title")
    }
    /// The time when the pause expires.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.time("expires_at")
    }
    /// The requested inputs, as a list of fields.
    pub fn inputs(&self) -> Json {
        self.map.get("inputs").cloned().unwrap_or_else(|| json!([]))
    }
    /// The request of the node.
    ///
    /// # Errors
    /// A field has the wrong shape.
    pub fn request(&self) -> Result<PauseRequest, WireError> {
        pause::from_json(&Json::Object(self.map.clone()))
    }

    /// The form for our own API: times in seconds, and the answer beside the request.
    pub fn to_json(&self, now: Timestamp, form_token: String) -> Json {
        let mut map = self.map.clone();
        for key in ["opened_at", "expires_at"] {
            map.insert(key.into(), seconds(self.time(key)));
        }
        map.insert("status".into(), self.status(now).name().into());
        map.insert("form_token".into(), form_token.into());
        let answer = self.answer.clone().map(|mut answer| {
            answer.insert("answered_at".into(), seconds(time(&answer, "answered_at")));
            answer
        });
        map.insert("answer".into(), answer.map_or(Json::Null, Json::Object));
        Json::Object(map)
    }

    /// The form for Dify's clients, with the fields in the order of `human_input_required`.
    pub fn dify(&self, form_token: String) -> JsonMap {
        // An unreadable request has no fields and no buttons; the problem was logged when the pause was opened.
        let request = self.request().unwrap_or_default();
        let (inputs, actions) = form_of(&request);
        let defaults = if request.kind.is_form() { request.defaults } else { json!({}) };
        let shown = json!({
            "form_id": self.id,
            "node_id": self.node_id(),
            "node_title": self.node_title(),
            "form_content": request.content,
            "inputs": inputs,
            "actions": actions,
            "display_in_ui": true,
            "form_token": form_token,
            "resolved_default_values": defaults,
            "expiration_time": self.expires_at().map(Timestamp::seconds),
        });
        shown.as_object().cloned().unwrap_or_default()
    }

    fn is_called_off(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.get("cancel") == Some(&Json::Bool(true)))
    }
    fn opened_at(&self) -> Option<Timestamp> {
        self.time("opened_at")
    }
    fn text(&self, key: &str) -> &str {
        self.map.get(key).and_then(Json::as_str).unwrap_or_default()
    }
    fn time(&self, key: &str) -> Option<Timestamp> {
        time(&self.map, key)
    }
}

/// Reads a time that is stored as text, in microseconds.
fn time(map: &JsonMap, key: &str) -> Option<Timestamp> {
    map.get(key).and_then(Json::as_str).and_then(|text| text.parse().ok()).map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::ids::ShardId;

    #[test]
    fn an_answer_and_an_expiry_count_before_the_owner_has_applied_them() {
        let field = |id: &str, text: &str| (id.to_string(), text.to_string());
        let pauses = read(
            RunId::new(1, 2, ShardId(0)),
            vec![
                field("b", r#"{"status":"pending","opened_at":"2000000","expires_at":"9000000"}"#),
                field("a", r#"{"status":"pending","opened_at":"1000000"}"#),
                field("a:answer", r#"{"action":"ok","answered_at":"3000000"}"#),
                field("c", r#"{"status":"cancelled","opened_at":"3000000"}"#),
                field("d", "no JSON"),
            ],
        );
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let stand = |now| pauses.iter().map(|p| (p.id.as_str(), p.status(now).name())).collect::<Vec<_>>();
        assert_eq!(stand(at(8)), [("a", "answered"), ("b", "pending"), ("c", "cancelled")]);
        assert_eq!(stand(at(9))[1], ("b", "expired"));
        let shown = pauses[0].to_json(at(8), "token".to_string());
        assert_eq!((&shown["opened_at"], &shown["answer"]["answered_at"]), (&json!(1.0), &json!(3.0)));
        assert_eq!((&shown["expires_at"], &shown["form_token"]), (&Json::Null, &json!("token")));
    }
}
