//! Sends a notice to the webhook of an app, signed as in the Standard Webhooks specification. The client's guard checks the
//! address, and redirects are not followed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tidemill_common::config::{Config, HttpConfig};
use tidemill_common::http::{Answer, CallError, Http};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use super::setting::Webhook;
use crate::runs::forms::hmac_sha256;

/// Most notices that a process sends at the same time.
const AT_ONCE: usize = 128;
/// Most of them for one app, so that a receiver that does not answer leaves places for others.
pub(super) const OF_APP_AT_ONCE: usize = 4;
/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// The longest time for them.
const REST: Duration = Duration::from_secs(1);
/// The longest text about a failure, in characters.
const ERROR_CHARS_MAX: usize = 500;
/// The status by which a receiver says that it wants nothing any more.
const GONE: u16 = 410;

/// The reason why a receiver has not taken a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Untaken {
    pub(crate) error: String,
    /// The status of its answer.
    pub(crate) status: Option<u16>,
    /// The pause that it asks for.
    pub(super) asked: Option<Duration>,
    /// Another try is of no use.
    pub(super) is_final: bool,
}

impl Untaken {
    pub(super) fn because(error: impl Into<String>) -> Self {
        let error = error.into().chars().take(ERROR_CHARS_MAX).collect();
        Self { error, status: None, asked: None, is_final: false }
    }
}

/// Sends notices. The client is built for the first one.
pub(crate) struct Sender {
    http: HttpConfig,
    client: OnceCell<Http>,
    timeout: Duration,
    at_once: Arc<Semaphore>,
    /// The places of each app that sends or waits.
    of_apps: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The permit to send a notice. It was waited for, so what is sent has to be made after it.
pub(super) struct Permit {
    _of_app: Option<OwnedSemaphorePermit>,
    _shared: Option<OwnedSemaphorePermit>,
}

impl Sender {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            http: config.http.clone(),
            client: OnceCell::new(),
            timeout: Duration::from_millis(config.webhooks.timeout_ms),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            of_apps: Mutex::default(),
        }
    }

    /// Waits until a notice of this app may be sent. An app that waits for itself holds up no other one.
    pub(super) async fn permit(&self, app: &str) -> Permit {
        // They are never closed.
        let of_app = self.of_app(app).acquire_owned().await.ok();
        Permit { _of_app: of_app, _shared: self.at_once.clone().acquire_owned().await.ok() }
    }

    /// Like [`Self::permit`]; `None` when that takes longer than an answer may.
    pub(super) async fn permit_soon(&self, app: &str) -> Option<Permit> {
        tokio::time::timeout(self.timeout, self.permit(app)).await.ok()
    }

    fn of_app(&self, app: &str) -> Arc<Semaphore> {
        let mut of_apps = self.of_apps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = of_apps.get(app).and_then(Weak::upgrade) {
            return known;
        }
        of_apps.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(OF_APP_AT_ONCE));
        of_apps.insert(app.into(), Arc::downgrade(&places));
        places
    }

    /// Sends a body. `now` is a Unix time in seconds. Returns the status of the answer if the receiver has taken it.
    pub(super) async fn send(
        &self,
        _permit: &Permit,
        to: &Webhook,
        id: &str,
        body: &str,
        now: i64,
    ) -> Result<u16, Untaken> {
        let client = self.client().await.map_err(Untaken::because)?;
        let headers = headers(to, id, body, now).ok_or_else(|| Untaken::because("its secret is invalid"))?;
        let body = Bytes::copy_from_slice(body.as_bytes());
        let posting = client.post_once(&to.url, headers, body, self.timeout);
        match tokio::time::timeout(self.timeout, posting).await {
            Ok(Ok(answer)) => {
                let taken = judge(answer.response.status().as_u16(), answer.response.headers());
                // The status decides; the rest is read so that the connection can be used again.
                let _ = tokio::time::timeout(REST, read_rest(answer)).await;
                taken
            }
            Ok(Err(error)) => Err(Untaken::because(text_of(&error))),
            Err(_) => {
                let ms = self.timeout.as_millis();
                Err(Untaken::because(format!("it did not answer within {ms} ms (webhooks.timeout_ms)")))
            }
        }
    }

    async fn client(&self) -> Result<&Http, String> {
        let build = || async {
            let config = self.http.clone();
            // It reads the certificates of the machine.
            match tokio::task::spawn_blocking(move || Http::new(&config)).await {
                Ok(built) => built.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        };
        // A failure is not kept: the next notice tries again.
        self.client.get_or_try_init(build).await
    }
}

/// A refusal of the guard without the host and the address that it found: readers of deliveries need not know the network.
fn text_of(error: &CallError) -> String {
    match error {
        CallError::Blocked(blocked) => format!(
            "its server is at {}; http.allow names what the guard lets through (http.guard)",
            blocked.class
        ),
        error => error.to_string(),
    }
}

/// The headers of a notice; `None` when the secret cannot be used.
fn headers(to: &Webhook, id: &str, body: &str, now: i64) -> Option<HeaderMap> {
    let signature = format!("v1,{}", signature(&Webhook::secret_bytes(&to.secret)?, id, now, body));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in
        [("webhook-id", id), ("webhook-timestamp", &now.to_string()), ("webhook-signature", &signature)]
    {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).ok()?);
    }
    Some(headers)
}

/// The signature of a notice, in base64.
fn signature(secret: &[u8], id: &str, now: i64, body: &str) -> String {
    STANDARD.encode(hmac_sha256(secret, format!("{id}.{now}.{body}").as_bytes()))
}

fn judge(status: u16, headers: &HeaderMap) -> Result<u16, Untaken> {
    if (200..300).contains(&status) {
        return Ok(status);
    }
    let error = match status {
        300..400 => format!("it answered {status}; redirects are not followed"),
        _ => format!("it answered {status}"),
    };
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let asked = seconds.map(Duration::from_secs);
    Err(Untaken { error, status: Some(status), asked, is_final: status == GONE })
}

async fn read_rest(mut answer: Answer) {
    let mut read = 0;
    while read <= ANSWER_BYTES_MAX
        && let Ok(Some(piece)) = answer.piece().await
    {
        read += piece.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn a_notice_is_signed_as_the_specification_says() {
        let secret = Webhook::secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = r#"{"test": 2432232314}"#;
        let signed = signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[tokio::test(start_paused = true)]
    async fn an_app_whose_receiver_does_not_answer_leaves_places_for_others() {
        let sender = Sender::new(&Config::default());
        let mut held = Vec::new();
        for _ in 0..OF_APP_AT_ONCE {
            held.push(sender.permit("slow").await);
        }
        assert!(sender.permit_soon("slow").await.is_none());
        assert!(sender.permit_soon("other").await.is_some());
        assert_eq!(sender.at_once.available_permits(), AT_ONCE - OF_APP_AT_ONCE);
        held.clear();
        assert!(sender.permit_soon("slow").await.is_some());
    }

    #[test]
    fn an_answer_says_whether_and_when_to_try_again() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        assert_eq!(judge(204, &headers), Ok(204));
        let busy = judge(429, &headers).unwrap_err();
        assert_eq!(
            (busy.status, busy.asked, busy.is_final),
            (Some(429), Some(Duration::from_secs(7)), false)
        );
        assert!(judge(410, &HeaderMap::new()).unwrap_err().is_final);
        assert!(judge(302, &HeaderMap::new()).unwrap_err().error.contains("redirects"));
    }
}
