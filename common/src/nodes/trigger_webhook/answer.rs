//! What the caller of a webhook is told: what the file says, at once. The run has only been accepted then.

use serde_json::{Value as Json, json};

use super::TriggerWebhookData;

/// The answer to a request that was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Json,
}

impl TriggerWebhookData {
    /// What a request is answered with.
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
