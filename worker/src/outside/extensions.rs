//! API extensions, as on Dify: servers of the settings that get a `point` and its `params`, and answer with an object. The
//! guard checks their addresses.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Value as Json, json};
use tidemill_common::config::{Config, HttpConfig};
use tidemill_common::mistakes::variable_shown;

use crate::outside::hide::Hide;
use crate::outside::tools::ToolSettingError;
use crate::outside::tools::operator_client::{OperatorClient, Request, address, bearer, whole};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A setting of an extension that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("setting {key}: {reason}")]
pub struct ExtensionSettingError {
    pub key: String,
    pub reason: String,
}

impl From<ToolSettingError> for ExtensionSettingError {
    fn from(error: ToolSettingError) -> Self {
        Self { key: error.key, reason: error.reason }
    }
}

/// The extensions of the settings, by id.
#[derive(Debug, Default)]
pub struct Extensions {
    known: BTreeMap<String, Extension>,
    client: Option<OperatorClient>,
    silence: Duration,
    answer_bytes_max: u64,
}

#[derive(Debug)]
struct Extension {
    url: Url,
    headers: HeaderMap,
}

impl Extensions {
    /// Reads the extensions of the settings.
    ///
    /// # Errors
    /// An address or a key that cannot be used.
    pub fn new(
        config: &Config,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ExtensionSettingError> {
        let given = &config.features.moderation_extensions;
        if given.is_empty() {
            return Ok(Self::default());
        }
        let mut known = BTreeMap::new();
        for (id, one) in given {
            let key = |name: &str| format!("features.moderation_extensions.{id:?}.{name}");
            let url = address(&key("endpoint"), &one.endpoint)?;
            let secret = match one.api_key_env.as_str() {
                "" => one.api_key.0.clone(),
                name => variable(name).ok_or_else(|| {
                    let reason = format!("the environment variable {} is not set", variable_shown(name));
                    ExtensionSettingError { key: key("api_key_env"), reason }
                })?,
            };
            let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON), (ACCEPT, JSON)]);
            bearer(&mut headers, &key("api_key"), &secret)?;
            known.insert(id.clone(), Extension { url, headers });
        }
        Ok(Self {
            known,
            client: Some(client(&config.http)?),
            silence: Duration::from_secs(config.features.moderation_seconds_max),
            answer_bytes_max: config.tools.answer_bytes_max,
        })
    }

    /// Asks an extension, and returns the object that it answers.
    ///
    /// # Errors
    /// The reason, without the extension's key.
    pub async fn ask(&self, id: &str, point: &str, params: &Json) -> Result<Json, String> {
        let (Some(extension), Some(client)) = (self.known.get(id), &self.client) else {
            return Err(format!("this worker has no API extension {id:?}: features.moderation_extensions"));
        };
        let Extension { url, headers } = extension;
        let body = Bytes::from(json!({"point": point, "params": params}).to_string());
        let request =
            Request { method: Method::POST, url, headers: headers.clone(), body, silence: self.silence };
        let shown = |reason: String| {
            let message = format!("API extension {id:?}: {reason}");
            Hide::of_request(headers, url).text(&message)
        };
        let mut answer = client.send(request).await.map_err(|error| shown(error.to_string()))?;
        let status = answer.response.status();
        let bytes = whole(&mut answer, self.answer_bytes_max).await.map_err(shown)?;
        if !status.is_success() {
            return Err(shown(format!("HTTP {}", status.as_u16())));
        }
        match serde_json::from_slice(&bytes) {
            Ok(object @ Json::Object(_)) => Ok(object),
            Ok(_) | Err(_) => Err(shown("its answer is not a JSON object".into())),
        }
    }
}

fn client(http: &HttpConfig) -> Result<OperatorClient, ToolSettingError> {
    OperatorClient::guarded(http).map_err(|error| ToolSettingError::new("http", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::config::ExtensionConfig;
    use tidemill_common::hidden::HiddenUrl;

    #[test]
    fn a_wrong_address_and_a_missing_key_are_named() {
        for (endpoint, variable, named) in [
            ("ftp://x", "", "endpoint"),
            ("http://user:pw@x", "", "endpoint"),
            ("http://x", "NO_SUCH", "api_key_env"),
        ] {
            let one = ExtensionConfig {
                endpoint: HiddenUrl(endpoint.into()),
                api_key_env: variable.into(),
                ..ExtensionConfig::default()
            };
            let mut config = Config::default();
            config.features.moderation_extensions.insert("one".into(), one);
            let refused = Extensions::new(&config, &|_| None).unwrap_err().to_string();
            assert!(refused.contains(named) && !refused.contains("pw"), "{refused}");
        }
    }
}
