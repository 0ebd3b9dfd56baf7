//! The immediate response to the caller of a webhook, from the file. At that time the run is only accepted.

use serde_json::{Value as Json, json};

use super::TriggerWebhookData;

/// The response to an accepted request.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub body: Json,
}

impl TriggerWebhookData {
    /// The response to an accepted request.
    pub fn reply(&self) -> Reply {
        let text = self.response_body.trim();
        let body = match text.chars().next() {
            None => json!({"status": "success", "message": "Webhook processed successfully"}),
            Some('{' | '[') => serde_json::from_str(text).unwrap_or_else(|_| json!({"message": text})),
            Some(_) => json!({"message": text}),
        };
        Reply { status: self.status_code, body }
    }
}
