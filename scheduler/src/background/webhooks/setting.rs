//! The webhook of an app: its stored form, in which address and secret are sealed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::dsl::SealingKey;
use tidemill_common::wire::notices::EVENTS;

/// The beginning of a secret, as in the Standard Webhooks specification.
const SECRET_BEGINS: &str = "whsec_";
/// The length of a secret, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// What a notice may have besides the run's record.
pub(crate) const OUTPUTS: &str = "outputs";

/// A webhook.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Webhook {
    pub(crate) url: String,
    /// `whsec_` and base64.
    pub(crate) secret: String,
    /// Some of [`EVENTS`], in their order.
    pub(crate) events: Vec<&'static str>,
    pub(crate) with_outputs: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// The reason why a webhook cannot be stored or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WebhookError {
    /// There is no key to seal its secret.
    #[error(
        "a webhook is kept only sealed: set TIDEMILL_SECRET_KEY (scheduler.secret_key) for all schedulers"
    )]
    NoKey,
    /// It was sealed with another key, or cannot be read.
    #[error(
        "the stored webhook does not open: TIDEMILL_SECRET_KEY (scheduler.secret_key) is not the key that it was sealed \
         with, or the stored text was changed; set the webhook again"
    )]
    WrongKey,
}

impl Webhook {
    /// Makes a secret.
    pub(crate) fn new_secret() -> String {
        let random = [uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat();
        format!("{SECRET_BEGINS}{}", STANDARD.encode(random))
    }

    /// The bytes of a secret; `None` when the text is no secret.
    pub(crate) fn secret_bytes(secret: &str) -> Option<Vec<u8>> {
        let bytes = STANDARD.decode(secret.strip_prefix(SECRET_BEGINS)?).ok()?;
        SECRET_BYTES.contains(&bytes.len()).then_some(bytes)
    }

    /// The stored form.
    pub(crate) fn seal(&self, app: &str, key: Option<&SealingKey>) -> Result<String, WebhookError> {
        let key = key.ok_or(WebhookError::NoKey)?;
        let seal =
            |what: &str, text: &str| key.seal(&sealed_name(app, what), text).map_err(|_| WebhookError::NoKey);
        let include: &[&str] = if self.with_outputs { &[OUTPUTS] } else { &[] };
        let kept = json!({
            "url": seal("url", &self.url)?,
            "secret": seal("secret", &self.secret)?,
            "events": self.events,
            "include": include,
            "created_at": self.created_at.millis(),
            "updated_at": self.updated_at.millis(),
        });
        Ok(kept.to_string())
    }

    /// Reads the stored form.
    pub(crate) fn open(app: &str, text: &str, key: Option<&SealingKey>) -> Result<Self, WebhookError> {
        let key = key.ok_or(WebhookError::NoKey)?;
        let kept: Json = serde_json::from_str(text).map_err(|_| WebhookError::WrongKey)?;
        let open = |what: &str| {
            let sealed = kept[what].as_str().ok_or(WebhookError::WrongKey)?;
            key.open(&sealed_name(app, what), sealed).ok_or(WebhookError::WrongKey)
        };
        let time = |name: &str| Timestamp::from_millis(kept[name].as_i64().unwrap_or(0));
        Ok(Self {
            url: open("url")?,
            secret: open("secret")?,
            events: events_of(&kept),
            with_outputs: kept["include"].as_array().is_some_and(|all| all.iter().any(|it| it == OUTPUTS)),
            created_at: time("created_at"),
            updated_at: time("updated_at"),
        })
    }

    /// When a stored webhook was first set. It can be read without the key.
    pub(crate) fn created_in(text: &str) -> Timestamp {
        let kept: Json = serde_json::from_str(text).unwrap_or_default();
        Timestamp::from_millis(kept["created_at"].as_i64().unwrap_or(0))
    }

    /// The events of a stored webhook, as the field of a run has them.
    pub(crate) fn events_in(text: &str) -> String {
        events_of(&serde_json::from_str(text).unwrap_or_default()).join(" ")
    }
}

/// A seal is bound to its place, so it cannot be used for another app.
fn sealed_name(app: &str, what: &str) -> String {
    format!("webhook/{app}/{what}")
}

fn events_of(kept: &Json) -> Vec<&'static str> {
    let is_wanted =
        |event: &&str| kept["events"].as_array().is_some_and(|all| all.iter().any(|it| it == event));
    EVENTS.into_iter().filter(is_wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_stored_sealed_for_its_app_alone() {
        let webhook = Webhook {
            url: "https://a.example/hush".into(),
            secret: Webhook::new_secret(),
            events: vec!["ended", "paused"],
            with_outputs: true,
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(2),
        };
        let key = SealingKey::from_passphrase("a passphrase");
        let text = webhook.seal("one", Some(&key)).unwrap();
        assert!(!text.contains("hush") && !text.contains(&webhook.secret), "{text}");
        assert!(Webhook::open("one", &text, Some(&key)).is_ok_and(|read| read == webhook));
        assert_eq!(Webhook::events_in(&text), "ended paused");
        assert_eq!(Webhook::created_in(&text), webhook.created_at);
        assert_eq!(Webhook::open("other", &text, Some(&key)).err(), Some(WebhookError::WrongKey));
        let other = SealingKey::from_passphrase("another passphrase");
        assert_eq!(Webhook::open("one", &text, Some(&other)).err(), Some(WebhookError::WrongKey));
        assert_eq!(webhook.seal("one", None).err(), Some(WebhookError::NoKey));
    }

    #[test]
    fn a_secret_has_enough_bytes() {
        assert_eq!(Webhook::secret_bytes(&Webhook::new_secret()).map(|bytes| bytes.len()), Some(32));
        for wrong in ["", "whsec_", "whsec_AAAA", "whsec_?", &Webhook::new_secret()[6..]] {
            assert_eq!(Webhook::secret_bytes(wrong), None, "{wrong}");
        }
    }
}
