//! Adds a service's credentials to its calls, and hides them in answers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value as Json;
use tidemill_common::nodes::step::CallError;
use tidemill_common::registry::calls::{Credential, Oidc, ServiceConfig};
use url::form_urlencoded::Serializer;

use crate::outside::calls::Calls;
use crate::outside::calls::api::SERVICE_METADATA;
use crate::outside::hide::Hide;
use crate::outside::tools::operator_client::{Request, secret, whole};

/// The header of a token.
const ACCESS_TOKEN: HeaderName = HeaderName::from_static("access-token");
/// Longest wait for a token.
const TOKEN_WAIT: Duration = Duration::from_secs(30);
/// A token is not used in this last part of its lifetime.
const TOKEN_MARGIN: Duration = Duration::from_secs(30);
/// The lifetime of a token that states none.
const TOKEN_LASTS: Duration = Duration::from_secs(300);

/// The opened credentials of a call.
#[derive(Default)]
pub(super) struct Credentials {
    headers: Vec<(String, String)>,
    cookies: Vec<(String, String)>,
    query: Vec<(String, String)>,
    token: Option<String>,
    /// The service of a temporary token.
    given_to: Option<String>,
}

/// A token from a token server.
#[derive(Clone)]
pub(in crate::outside::calls) struct Token {
    text: String,
    until: Instant,
    /// The settings used to get it. If they changed, the token is not reused.
    asked_with: Oidc,
}

impl Credentials {
    /// Loads the credentials of a service.
    ///
    /// # Errors
    /// A variable that is not set, or a token that the server refuses.
    pub(super) async fn of(calls: &Calls, id: &str, service: &ServiceConfig) -> Result<Self, CallError> {
        let owner = format!("the service {id}");
        let value = |credential: &Credential| {
            let value = match (&credential.value, &credential.value_env) {
                (Some(value), _) => value.0.clone(),
                (None, Some(name)) => variable(calls, name, &owner)?,
                (None, None) => String::new(),
            };
            Ok((credential.name.clone(), value))
        };
        let all = |list: &[Credential]| list.iter().map(value).collect::<Result<Vec<_>, CallError>>();
        let auth = &service.auth;
        let (token, given_to) = match &auth.oidc {
            None => (None, None),
            Some(oidc) => match (&oidc.token, &oidc.token_env) {
                (Some(token), _) => (Some(token.0.clone()), None),
                (None, Some(name)) => (Some(variable(calls, name, &owner)?), None),
                (None, None) => (Some(given(calls, id, oidc).await?), Some(id.to_owned())),
            },
        };
        let (headers, cookies, query) = (all(&auth.header)?, all(&auth.cookie)?, all(&auth.query)?);
        Ok(Self { headers, cookies, query, token, given_to })
    }

    /// Adds the credentials to a request. Returns the headers that must be sent only to its host.
    ///
    /// # Errors
    /// A credential that cannot be sent.
    pub(super) fn put(&self, url: &mut Url, headers: &mut HeaderMap) -> Result<Vec<HeaderName>, CallError> {
        let unsendable = |name: &str| {
            CallError::of(
                SERVICE_METADATA,
                format!("the credential {name} has characters that cannot be sent"),
            )
        };
        let mut private = Vec::new();
        for (name, value) in &self.headers {
            let parsed: HeaderName = name.parse().map_err(|_| unsendable(name))?;
            headers.insert(parsed.clone(), secret(value).ok_or_else(|| unsendable(name))?);
            private.push(parsed);
        }
        if !self.cookies.is_empty() {
            let own = headers.get(COOKIE).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let pairs = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
            let all: Vec<String> = own.into_iter().chain(pairs).collect();
            headers.insert(COOKIE, secret(&all.join("; ")).ok_or_else(|| unsendable("cookie"))?);
        }
        if let Some(token) = &self.token {
            headers.insert(ACCESS_TOKEN, secret(token).ok_or_else(|| unsendable("access-token"))?);
            private.push(ACCESS_TOKEN);
        }
        if !self.query.is_empty() {
            let mut pairs = url.query_pairs_mut();
            for (name, value) in &self.query {
                pairs.append_pair(name, value);
            }
        }
        Ok(private)
    }

    /// Drops a token the server no longer accepts.
    pub(super) fn forget(&self, calls: &Calls) {
        if let Some(id) = &self.given_to {
            calls.tokens().remove(id);
        }
    }

    /// Hides the credentials in texts, because a server may repeat them.
    pub(super) fn hide(&self) -> Hide {
        let values = self.headers.iter().chain(&self.cookies).chain(&self.query).map(|(_, value)| value);
        Hide::of(values.chain(&self.token).cloned())
    }
}

fn variable(calls: &Calls, name: &str, owner: &str) -> Result<String, CallError> {
    let found = calls.variable(name, owner);
    found.map_err(|error| CallError { error_type: SERVICE_METADATA.into(), ..error })
}

/// The form that requests a token.
fn form(oidc: &Oidc, client_secret: &str) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    form.append_pair("client_id", oidc.client_id.as_deref().unwrap_or_default());
    form.append_pair("client_secret", client_secret);
    if let Some(scope) = &oidc.scope {
        form.append_pair("scope", scope);
    }
    form.finish()
}

/// Returns a valid cached token, or requests a new one.
async fn given(calls: &Calls, id: &str, oidc: &Oidc) -> Result<String, CallError> {
    let known = calls.tokens().get(id).cloned();
    if let Some(token) = known.filter(|token| token.asked_with == *oidc && token.until > Instant::now()) {
        return Ok(token.text);
    }
    let wrong = |reason: String| {
        CallError::of(
            SERVICE_METADATA,
            format!("there is no token for the service {id} (auth.oidc): {reason}"),
        )
    };
    let client_secret = match (&oidc.client_secret, &oidc.client_secret_env) {
        (Some(secret), _) => secret.0.clone(),
        (None, Some(name)) => variable(calls, name, &format!("the service {id}"))?,
        (None, None) => String::new(),
    };
    let url = oidc.token_url.as_deref().unwrap_or_default();
    let url = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    let body = Bytes::from(form(oidc, &client_secret));
    let request = Request { method: Method::POST, url: &url, headers, body, silence: TOKEN_WAIT };
    let asking = async {
        let answer = calls.operator_client()?.send(request).await;
        let mut answer = answer.map_err(|error| wrong(error.to_string()).passing())?;
        let status = answer.response.status();
        let bytes = whole(&mut answer, calls.config.answer_bytes_max)
            .await
            .map_err(|error| wrong(error).passing())?;
        if !status.is_success() {
            // The answer may repeat the secret.
            let error = wrong(format!("the server answers with status {}", status.as_u16()));
            return Err(if status.is_server_error() { error.passing() } else { error });
        }
        serde_json::from_slice::<Json>(&bytes)
            .map_err(|_| wrong("the server does not answer with JSON".into()))
    };
    let late = |_| wrong(format!("no answer within {} s", TOKEN_WAIT.as_secs())).passing();
    let said = tokio::time::timeout(TOKEN_WAIT, asking).await.map_err(late)??;
    let text = said["access_token"].as_str().filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| wrong("the answer has no access_token".into()))?.to_owned();
    let lasts = said["expires_in"].as_u64().map_or(TOKEN_LASTS, Duration::from_secs);
    let until = Instant::now() + lasts.saturating_sub(TOKEN_MARGIN).min(Duration::from_secs(86_400));
    calls.tokens().insert(id.to_owned(), Token { text: text.clone(), until, asked_with: oidc.clone() });
    Ok(text)
}
