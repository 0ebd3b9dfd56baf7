//! Custom API tools: the operations of an OpenAPI document are tools.
//!
//! The modules in the order of a call: [`document`] reads the document once (`manifest` fetches the document of a
//! plugin's manifest), [`request`] builds the request, and [`answer`] converts the answer to messages. Code
//! that other callers also use is in `crate::outside::openapi`. Calls pass the guard, because the document chose the address.

pub mod answer;
pub mod document;
mod manifest;
pub mod request;

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, HeaderName, HeaderValue};
use tidemill_common::config::HttpConfig;
use tidemill_common::mistakes::variable_shown;
use tidemill_common::nodes::tool::Declaration;
use tidemill_common::nodes::tool::config::{ApiConfig, AuthType};

use crate::outside::hide::Hide;
use crate::outside::http::watch::Waits;
use crate::outside::http::{Call, CallError};
use crate::outside::tools::openapi::document::Operation;
use crate::outside::tools::openapi::manifest::Named;
use crate::outside::tools::operator_client::{address, secret};
use crate::outside::tools::{
    MessageSink, Stage, ToolCall, ToolError, ToolName, ToolRuntime, ToolSettingError,
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Accepted content encodings.
const PACKINGS: HeaderValue = HeaderValue::from_static("gzip, deflate");

/// The credentials of calls.
enum Credentials {
    None,
    Header(HeaderName, HeaderValue),
    Query(String, String),
}

/// The source of operations.
enum Operations {
    /// Read from the document in the settings.
    Read(Vec<Operation>),
    /// From a manifest in the settings, which names the document.
    Named(Box<Named>),
}

/// A custom API provider; see the module.
pub struct OpenApi {
    operations: Operations,
    credentials: Credentials,
    connect: Duration,
    read: Duration,
}

impl OpenApi {
    /// Reads the document or manifest, and the credentials. `fetching` has the HTTP settings and the largest document
    /// in bytes.
    ///
    /// # Errors
    /// A setting or document that cannot be used.
    pub(super) fn new(
        id: &str,
        config: &ApiConfig,
        variable: &dyn Fn(&str) -> Option<String>,
        fetching: (&HttpConfig, u64),
    ) -> Result<Self, ToolSettingError> {
        let wrong = |key: &str, reason: String| ToolSettingError::new(format!("api.\"{id}\".{key}"), reason);
        let text = std::fs::read(&config.spec)
            .map_err(|error| wrong("spec", format!("cannot read {:?}: {error}", config.spec)))?;
        if !config.server.is_empty() {
            address(&format!("api.\"{id}\".server"), &config.server)?;
        }
        let server = Some(config.server.as_str()).filter(|server| !server.is_empty());
        let of_spec = |reason: String| wrong("spec", format!("{:?}: {reason}", config.spec));
        let wait = Duration::from_secs(config.read_seconds);
        let operations = match Named::of(&text, server, fetching, wait).map_err(of_spec)? {
            Some(named) => Operations::Named(Box::new(named)),
            None => Operations::Read(document::read(&text, server).map_err(of_spec)?),
        };
        let key = match config.api_key_env.as_str() {
            "" => config.api_key_value.0.clone(),
            name => variable(name).ok_or_else(|| {
                wrong("api_key_env", format!("the environment variable {} is not set", variable_shown(name)))
            })?,
        };
        if config.auth_type != AuthType::None && key.is_empty() {
            return Err(wrong("api_key_value", "Missing api_key_value".into()));
        }
        let credentials = match config.auth_type {
            AuthType::None => Credentials::None,
            AuthType::ApiKeyHeader => {
                let name = &config.api_key_header;
                let parsed = name
                    .parse()
                    .map_err(|_| wrong("api_key_header", format!("{name:?} is not a valid header name")))?;
                let value = secret(&config.api_key_header_prefix.before(&key));
                Credentials::Header(
                    parsed,
                    value.ok_or_else(|| wrong("api_key_value", "it cannot be sent".into()))?,
                )
            }
            AuthType::ApiKeyQuery => Credentials::Query(config.api_key_query_param.clone(), key),
        };
        let seconds = Duration::from_secs;
        Ok(Self {
            operations,
            credentials,
            connect: seconds(config.connect_seconds),
            read: seconds(config.read_seconds),
        })
    }

    async fn operations(&self) -> Result<&[Operation], ToolError> {
        match &self.operations {
            Operations::Read(operations) => Ok(operations),
            Operations::Named(named) => named.operations().await,
        }
    }

    async fn operation(&self, tool: &ToolName<'_>) -> Result<&Operation, ToolError> {
        let found = self.operations().await?.iter().find(|one| one.declaration.name == tool.tool);
        found.ok_or_else(|| {
            ToolError::unavailable(format!(
                "the document of provider {} has no operation {}",
                tool.provider_id, tool.tool
            ))
        })
    }

    async fn call(&self, operation: &Operation, call: ToolCall<'_>) -> Result<Call, ToolError> {
        let wrong = |message: String| ToolError::new(Stage::Tool, message);
        let mut request = request::assemble(operation, call).await.map_err(wrong)?;
        let mut private = Vec::new();
        match &self.credentials {
            Credentials::None => {}
            Credentials::Header(name, value) => {
                request.headers.insert(name.clone(), value.clone());
                private.push(name.clone());
            }
            Credentials::Query(name, value) => {
                request.url.query_pairs_mut().append_pair(name, value);
            }
        }
        if call.sends_key
            && !request.headers.contains_key(IDEMPOTENCY_KEY)
            && let Ok(key) = HeaderValue::from_str(call.idempotency_key)
        {
            request.headers.insert(IDEMPOTENCY_KEY, key);
        }
        request.headers.entry(ACCEPT_ENCODING).or_insert(PACKINGS);
        let bounds = &call.http.bounds;
        Ok(Call {
            method: operation.method.clone(),
            url: request.url,
            headers: request.headers,
            body: request.body,
            private,
            waits: Waits { connect: self.connect, write: bounds.write, read: self.read },
            verify: bounds.ssl_verify,
        })
    }

    /// Removes the key from a text of the server, which may repeat it.
    fn without_key(&self, text: &str) -> String {
        let key = match &self.credentials {
            Credentials::None => None,
            Credentials::Header(_, value) => value.to_str().ok().map(str::to_owned),
            Credentials::Query(_, value) => Some(value.clone()),
        };
        Hide::of(key).text(text)
    }
}

#[async_trait::async_trait]
impl ToolRuntime for OpenApi {
    async fn parameters(&self, tool: &ToolName<'_>) -> Result<Option<Declaration>, ToolError> {
        self.operation(tool).await.map(|operation| Some(operation.declaration.clone()))
    }

    async fn list(&self, _: &str) -> Result<Vec<Declaration>, ToolError> {
        Ok(self.operations().await?.iter().map(|operation| operation.declaration.clone()).collect())
    }

    async fn invoke(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError> {
        let operation = self.operation(tool).await?;
        let sent = call.http.send(self.call(operation, call).await?).await;
        let answer = sent.map_err(|error| {
            let message = self.without_key(&error.to_string());
            let passing = matches!(error, CallError::TimedOut(..) | CallError::Transport(_));
            let error = ToolError::new(Stage::Tool, message);
            if passing { error.passing() } else { error }
        })?;
        let messages = answer::messages(answer, operation, &call.http.bounds).await;
        let messages =
            messages.map_err(|error| ToolError { message: self.without_key(&error.message), ..error })?;
        messages.into_iter().for_each(sink);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
