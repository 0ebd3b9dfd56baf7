//! A client of a dify-sandbox service: one request per execution, with Dify's error messages.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tidemill_common::config::CodeConfig;
use tidemill_common::hidden::HiddenUrl;
use tidemill_common::nodes::code::CodeLanguage;
use tidemill_sandbox::{CodeError, CodeRunner, Program, State};

/// The client; see the module.
pub(super) struct Remote {
    client: Result<reqwest::Client, String>,
    url: HiddenUrl,
    api_key: String,
    write_timeout: Duration,
    read_timeout: Duration,
}

/// The service's answer.
#[derive(Deserialize)]
struct Answer {
    code: i64,
    #[serde(default)]
    message: serde_json::Value,
    #[serde(default)]
    data: Option<Ran>,
}

/// The output of the program.
#[derive(Deserialize)]
struct Ran {
    #[serde(default)]
    stdout: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

impl Remote {
    pub(super) fn new(config: &CodeConfig) -> Self {
        Self {
            client: client(config),
            url: format!("{}/v1/sandbox/run", config.endpoint.trim_end_matches('/')).into(),
            api_key: config.api_key.0.clone(),
            write_timeout: Duration::from_secs(config.write_timeout_s),
            read_timeout: Duration::from_secs(config.read_timeout_s),
        }
    }

    async fn ask(
        &self,
        client: &reqwest::Client,
        program: Program<'_>,
    ) -> Result<(u16, String), reqwest::Error> {
        let (language, code) = super::program::program(program);
        let body = json!({"language": language, "code": code, "preload": "", "enable_network": true});
        let request = client
            .post(self.url.as_str())
            .header("X-Api-Key", &self.api_key)
            // The limit covers the time from the first byte sent to the last byte read.
            .timeout(self.write_timeout + self.read_timeout)
            .json(&body);
        let response = request.send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    }
}

#[async_trait::async_trait]
impl CodeRunner for Remote {
    async fn run(&self, program: Program<'_>) -> Result<String, CodeError> {
        let client = self.client.as_ref().map_err(|reason| CodeError(reason.clone()))?;
        let (status, body) = self.ask(client, program).await.map_err(|error| {
            CodeError(format!(
                "Failed to execute code, which is likely a network issue, please check if the sandbox service is running. ( Error: {} )",
                causes(&error)
            ))
        })?;
        outcome(status, &body)
    }

    fn seems_able(&self, _: CodeLanguage) -> Result<(), String> {
        self.client.as_ref().map(drop).map_err(Clone::clone)
    }

    async fn able(&self, language: CodeLanguage) -> Result<(), String> {
        self.seems_able(language)
    }

    fn state(&self) -> State {
        match &self.client {
            Ok(_) => State {
                sound: true,
                text: format!("code nodes run in the sandbox service at {}", self.url.masked()),
            },
            Err(reason) => State { sound: false, text: format!("code nodes are refused: {reason}") },
        }
    }
}

fn outcome(status: u16, body: &str) -> Result<String, CodeError> {
    let fail = |message: String| Err(CodeError(message));
    match status {
        200 => {}
        503 => return fail("Code execution service is unavailable".into()),
        other => {
            return fail(format!(
                "Failed to execute code, got status code {other}, please check if the sandbox service is running"
            ));
        }
    }
    let Ok(Answer { code, message, data }) = serde_json::from_str(body) else {
        return fail("Failed to parse response".into());
    };
    if code != 0 {
        let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
        return fail(format!("Got error code: {code}. Got error msg: {message}"));
    }
    let ran = data.unwrap_or(Ran { stdout: None, error: None });
    match ran.error.filter(|error| !error.is_empty()) {
        Some(error) => fail(error),
        None => Ok(ran.stdout.unwrap_or_default()),
    }
}

fn client(config: &CodeConfig) -> Result<reqwest::Client, String> {
    // The first call sets the default for the process. Later calls fail, which is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(config.connect_timeout_s))
        .read_timeout(Duration::from_secs(config.read_timeout_s))
        .redirect(reqwest::redirect::Policy::none());
    if config.endpoint.starts_with("http://") {
        // Plain HTTP also works on a machine without certificates.
        builder = builder.tls_certs_only([]);
    } else if !config.ssl_verify {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    builder.build().map_err(|error| format!("the client of code.endpoint does not start: {error:?}"))
}

/// An error with its causes, which the client's own text omits.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_of_the_service_is_told_in_dify_words() {
        let ran =
            r#"{"code": 0, "message": "success", "data": {"stdout": "out", "error": "", "exit_code": 0}}"#;
        for (status, body, wanted) in [
            (200, ran, Ok("out")),
            (200, r#"{"code": 0, "data": {"stdout": "out", "stderr": "warning"}}"#, Ok("out")),
            (200, r#"{"code": 0, "data": {"stdout": "", "error": "exit status 1"}}"#, Err("exit status 1")),
            (
                200,
                r#"{"code": -400, "message": "network is disabled", "data": null}"#,
                Err("Got error code: -400. Got error msg: network is disabled"),
            ),
            (200, "<html>", Err("Failed to parse response")),
            (503, "{}", Err("Code execution service is unavailable")),
            (
                401,
                "{}",
                Err(
                    "Failed to execute code, got status code 401, please check if the sandbox service is running",
                ),
            ),
        ] {
            let outcome = outcome(status, body);
            assert_eq!(outcome, wanted.map(str::to_owned).map_err(|text| CodeError(text.into())), "{body}");
        }
    }
}
