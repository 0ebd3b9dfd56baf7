//! Sends a notice to the webhook of an app, signed as in the Standard Webhooks specification. The client's guard checks the
//! address, and redirects are not followed.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tidemill_common::config::{Config, HttpConfig};
use tidemill_common::http::{Answer, Http};
use tokio::sync::{OnceCell, Semaphore};

use super::setting::Webhook;
use crate::runs::forms::hmac_sha256;

/// Most notices that a process sends at the same time.
const AT_ONCE: usize = 128;
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
    client: OnceCell<Result<Http, String>>,
    timeout: Duration,
    at_once: Semaphore,
}

impl Sender {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            http: config.http.clone(),
            client: OnceCell::new(),
            timeout: Duration::from_millis(config.webhooks.timeout_ms),
            at_once: Semaphore::new(AT_ONCE),
        }
    }

    /// Sends a body. `now` is a Unix time in seconds. Returns the status of the answer if the receiver has taken it.
    pub(crate) async fn send(&self, to: &Webhook, id: &str, body: &str, now: i64) -> Result<u16, Untaken> {
        let Ok(_permit) = self.at_once.acquire().await else { return Err(Untaken::because("it stops")) };
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
            Ok(Err(error)) => Err(Untaken::because(error.to_string())),
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
        self.client.get_or_init(build).await.as_ref().map_err(Clone::clone)
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
