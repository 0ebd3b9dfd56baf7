//! Sends one call and follows its redirects. The guard checks every hop, and credentials are sent only to the host they
//! were meant for.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, LOCATION, TRANSFER_ENCODING,
};
use reqwest::{Method, Response, StatusCode, Url};

use crate::http::guard::Blocked;
use crate::http::watch::{Stage, Waits, Watch, WatchedBody};
use crate::http::{Http, HttpSettingError};

/// A request and its time limits.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// Without user and password.
    pub url: Url,
    /// All headers except those for framing.
    pub headers: HeaderMap,
    /// The body in parts; empty for no body.
    pub body: Vec<Bytes>,
    /// Headers sent only to this host, besides `Authorization` and cookies.
    pub private: Vec<HeaderName>,
    pub waits: Waits,
    /// True when certificates are checked.
    pub verify: bool,
}

/// An answer whose body is not read yet. Dropping it closes the connection.
#[derive(Debug)]
pub struct Answer {
    pub response: Response,
    /// True when it came through a proxy.
    pub proxied: bool,
    /// `read` limits the wait for the next piece of the body.
    pub waits: Waits,
}

/// Reasons why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guard refused the address.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// A time limit passed.
    #[error("{}", stalled(.0, .1))]
    TimedOut(Stage, Duration),
    /// There were too many redirects.
    #[error("Exceeded maximum allowed redirects: {0} (http.redirects_max)")]
    Redirects(u32),
    /// A redirect has an unusable target.
    #[error("the redirect to {0:?} cannot be followed")]
    Location(String),
    /// The connection failed.
    #[error("{0}")]
    Transport(String),
}

fn stalled(stage: &Stage, limit: &Duration) -> String {
    let what = match stage {
        Stage::Connecting => "timed out: there was no connection within",
        Stage::Writing => "The write operation timed out: nothing was taken for",
        Stage::Reading => "The read operation timed out: nothing came for",
    };
    format!("{what} {} s", limit.as_secs_f64())
}

impl Http {
    /// Sends a request and follows redirects. Dropping the future closes the connection.
    ///
    /// # Errors
    /// [`CallError`]. An HTTP error status is not an error here.
    pub async fn send(&self, mut call: Call) -> Result<Answer, CallError> {
        let mut redirects = 0;
        loop {
            let answer = self.send_once(&call).await?;
            let Some(next) = redirect(&call.url, &answer.response)? else { return Ok(answer) };
            if redirects == self.bounds.redirects_max {
                return Err(CallError::Redirects(redirects));
            }
            redirects += 1;
            turn(&mut call, answer.response.status(), next);
        }
    }

    pub(super) async fn send_once(&self, call: &Call) -> Result<Answer, CallError> {
        let proxied = self.proxies.serves(&call.url);
        self.check(&call.url)?;
        let separate = call.method == Method::HEAD || self.quarantine.holds(&call.url);
        let sent = match self.execute(call, separate).await {
            // The client may have read leftover bytes of an earlier answer on that connection. Repeating a GET is
            // harmless; repeating other methods is not.
            Err(Broken::Call(error)) if !separate && call.method == Method::GET && is_no_http(&error) => {
                let host = call.url.host_str();
                tracing::warn!(host, "an answer is not valid HTTP; trying again on a new connection");
                self.quarantine.begin(&call.url);
                self.execute(call, true).await
            }
            sent => sent,
        };
        let response = sent.map_err(|broken| match broken {
            Broken::Client(error) => CallError::Transport(error.to_string()),
            Broken::Call(error) => of_transport(&error),
            Broken::TimedOut(stage) => CallError::TimedOut(stage, call.waits.of(stage)),
        })?;
        if matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) && !separate {
            self.quarantine.begin(&call.url);
        }
        Ok(Answer { response, proxied, waits: call.waits })
    }

    /// Checks what can be seen in a URL; names are checked when they are resolved.
    pub(super) fn check(&self, url: &Url) -> Result<(), Blocked> {
        self.guard.check_url(url)?;
        match url.host_str() {
            Some(host) if self.proxies.hosts().iter().any(|proxy| proxy.eq_ignore_ascii_case(host)) => {
                self.guard.refuse(host, "the host of a proxy")
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Sends once. `apart` uses a new connection instead of the shared ones.
    async fn execute(&self, call: &Call, separate: bool) -> Result<Response, Broken> {
        let watch = Watch::new(!call.body.is_empty());
        let mut request = reqwest::Request::new(call.method.clone(), call.url.clone());
        *request.headers_mut() = call.headers.clone();
        if !call.body.is_empty() {
            *request.body_mut() = Some(reqwest::Body::wrap(WatchedBody::new(&call.body, watch.clone())));
        } else if matches!(call.method, Method::POST | Method::PUT | Method::PATCH) {
            request.headers_mut().insert(CONTENT_LENGTH, 0.into());
        }
        let client = self.clients.get(call.verify, separate).map_err(Broken::Client)?;
        match watch.over(call.waits, client.execute(request)).await {
            Ok(done) => done.map_err(Broken::Call),
            Err(stage) => Err(Broken::TimedOut(stage)),
        }
    }
}

/// Reasons for no answer, before they become messages.
enum Broken {
    /// The client could not be built.
    Client(HttpSettingError),
    Call(reqwest::Error),
    TimedOut(Stage),
}

/// Returns true if the received bytes are not valid HTTP.
fn is_no_http(error: &reqwest::Error) -> bool {
    let mut at = error.source();
    while let Some(cause) = at {
        if cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return true;
        }
        at = cause.source();
    }
    false
}

impl Answer {
    /// Returns the next piece of the body, or `None` at its end.
    ///
    /// # Errors
    /// [`CallError::TimedOut`] or [`CallError::Transport`].
    pub async fn piece(&mut self) -> Result<Option<Bytes>, CallError> {
        match tokio::time::timeout(self.waits.read, self.response.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => Err(of_transport(&error)),
            Err(_) => Err(CallError::TimedOut(Stage::Reading, self.waits.read)),
        }
    }
}

/// Returns the guard's refusal if it is the cause, else all known causes. The URL is left out, because it may contain a
/// secret.
fn of_transport(error: &reqwest::Error) -> CallError {
    let mut text = String::new();
    let mut at = error.source();
    while let Some(cause) = at {
        if let Some(blocked) = cause.downcast_ref::<Blocked>() {
            return CallError::Blocked(blocked.clone());
        }
        let said = cause.to_string();
        if !text.contains(&said) {
            text = if text.is_empty() { said } else { format!("{text}: {said}") };
        }
        at = cause.source();
    }
    CallError::Transport(if text.is_empty() { "the request cannot be sent".into() } else { text })
}

/// Returns the target of a redirect, or `None` if the answer is not one.
fn redirect(from: &Url, response: &Response) -> Result<Option<Url>, CallError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
    let wrong = || CallError::Location(location.clone());
    let mut next = from.join(&location).map_err(|_| wrong())?;
    if !matches!(next.scheme(), "http" | "https") {
        return Err(wrong());
    }
    // These cannot fail for a URL with a host.
    let _ = next.set_username("");
    let _ = next.set_password(None);
    Ok(Some(next))
}

/// Changes the call for a redirect, by the rules of Dify's client.
fn turn(call: &mut Call, status: StatusCode, next: Url) {
    let becomes_get = match status.as_u16() {
        303 | 302 => call.method != Method::HEAD && call.method != Method::GET,
        301 => call.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        call.method = Method::GET;
        call.body.clear();
        // The content type of the removed body stays, as in Dify.
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING] {
            call.headers.remove(name);
        }
    }
    call.headers.remove(COOKIE);
    if next.origin() != call.url.origin() {
        call.headers.remove(HOST);
        // The same host over TLS counts as the same host.
        let upgraded = call.url.scheme() == "http"
            && next.scheme() == "https"
            && next.host() == call.url.host()
            && call.url.port_or_known_default() == Some(80)
            && next.port_or_known_default() == Some(443);
        if !upgraded {
            call.headers.remove(AUTHORIZATION);
            for name in &call.private {
                call.headers.remove(name);
            }
        }
    }
    call.url = next;
}
