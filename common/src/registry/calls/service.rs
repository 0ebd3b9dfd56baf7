//! Services: a server and the credentials that `api` calls send to it.

use reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::registry::http;
use crate::registry::secrets::Secret;
use tidemill_workflow::dsl::read_plain;

/// A service: a server and the credentials for it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// For display.
    pub name: Option<String>,
    /// The base address for the relative addresses of `api` nodes.
    pub server: String,
    /// Credentials sent with its calls.
    pub auth: Auth,
    /// Its OpenAPI document: an object, or text in JSON or YAML.
    pub openapi: Option<Json>,
    /// The URL of the OpenAPI document.
    pub openapi_url: Option<String>,
}

/// Credentials, all sent with every call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// As headers.
    pub header: Vec<Credential>,
    /// As cookies.
    pub cookie: Vec<Credential>,
    /// In the query.
    pub query: Vec<Credential>,
    /// Sent as the header `access-token`.
    pub oidc: Option<Oidc>,
}

/// A named value: sealed, or in the workers' environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Credential {
    /// The name of the header, cookie or query parameter.
    pub name: String,
    pub value: Option<Secret>,
    /// The workers' environment variable with the value.
    pub value_env: Option<String>,
}

/// A token: a permanent one, or one from a token endpoint for client credentials.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Oidc {
    /// A permanent token.
    pub token: Option<Secret>,
    /// The workers' environment variable with the token.
    pub token_env: Option<String>,
    /// The token endpoint.
    pub token_url: Option<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    /// The workers' environment variable with the client secret.
    pub client_secret_env: Option<String>,
    pub scope: Option<String>,
}

impl ServiceConfig {
    /// Checks the service.
    ///
    /// # Errors
    /// The problem, and what to do.
    pub(super) fn check(&self) -> Result<(), String> {
        http::base_url(&self.server)
            .map_err(|reason| reason.replace("base_url", "server").replace("api_key_env", "auth"))?;
        for (place, credentials) in
            [("header", &self.auth.header), ("cookie", &self.auth.cookie), ("query", &self.auth.query)]
        {
            for (at, credential) in credentials.iter().enumerate() {
                credential.check(place)?;
                let same = |other: &Credential| other.name.eq_ignore_ascii_case(&credential.name);
                if credentials[..at].iter().any(same) {
                    return Err(format!("auth.{place} has {} twice", credential.name));
                }
            }
        }
        self.check_document()?;
        self.auth.oidc.as_ref().map_or(Ok(()), Oidc::check)
    }

    fn check_document(&self) -> Result<(), String> {
        if self.openapi.is_some() && self.openapi_url.is_some() {
            return Err("openapi and openapi_url are both set: a service has one document".into());
        }
        if let Some(url) = &self.openapi_url {
            http::base_url(url).map_err(|reason| reason.replace("base_url", "openapi_url"))?;
        }
        let text;
        let document = match &self.openapi {
            None => return Ok(()),
            Some(Json::String(written)) => {
                text = read_plain(written.as_bytes())
                    .map_err(|problem| format!("openapi: {}", problem.message))?;
                &text
            }
            Some(document) => document,
        };
        let is_one = ["openapi", "swagger"].iter().any(|key| document.get(*key).is_some());
        if is_one && document.get("paths").is_some_and(Json::is_object) {
            return Ok(());
        }
        Err("openapi is not an OpenAPI document: it needs `openapi` (or `swagger`) and `paths`".into())
    }
}

impl Credential {
    fn check(&self, place: &str) -> Result<(), String> {
        let Self { name, value, value_env } = self;
        if name.trim().is_empty() {
            return Err(format!("auth.{place} has a credential without a name"));
        }
        if value.is_some() == value_env.is_some() {
            return Err(format!(
                "auth.{place} {name} needs a value, or value_env: the variable that holds it"
            ));
        }
        let sendable = match place {
            "header" => name.parse::<HeaderName>().is_ok(),
            "cookie" => !name.contains(['=', ';', ' ', '\r', '\n']),
            _ => true,
        };
        let value = value.as_ref().is_none_or(|value| {
            HeaderValue::from_str(&value.0).is_ok() && (place != "cookie" || !value.0.contains(';'))
        });
        if sendable && (value || place == "query") {
            return Ok(());
        }
        Err(format!("auth.{place} {name} cannot be sent: it has characters that a {place} cannot have"))
    }
}

impl Oidc {
    fn check(&self) -> Result<(), String> {
        let lasting = usize::from(self.token.is_some()) + usize::from(self.token_env.is_some());
        let secret =
            usize::from(self.client_secret.is_some()) + usize::from(self.client_secret_env.is_some());
        match (lasting, &self.token_url) {
            (1, None) if secret == 0 => Ok(()),
            (0, Some(url)) if secret == 1 && self.client_id.is_some() => http::base_url(url)
                .map(drop)
                .map_err(|reason| format!("auth.oidc {}", reason.replace("base_url", "token_url"))),
            _ => {
                Err("auth.oidc needs token or token_env, or token_url with client_id and client_secret (or \
                      client_secret_env)"
                    .into())
            }
        }
    }
}
