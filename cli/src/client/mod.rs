//! Client for those parts of the scheduler's HTTP API that the command needs. [`Client`] sends requests, [`follow`]
//! reads the events of a run across reconnects, [`view`] has the types of a run.

mod admin;
mod app_life;
mod catalog;
mod error;
pub(crate) mod follow;
mod inside;
mod upload;
pub(crate) mod view;

use std::time::Duration;

use axum::Router;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value as Json, json};

pub(crate) use error::ClientError;
pub(crate) use follow::{Event, Follow};

use crate::target::Target;

/// The most runs in one answer of the API.
const RUNS_PAGE: u32 = 100;

/// Longest time that a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time without any byte. Event streams send a ping every ten seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of tries of one submission, all with the same idempotency key.
const SUBMIT_TRIES: u32 = 4;
/// Longest wait before the next try, even if the scheduler asks for more because its inbox is full.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// An HTTP client for one scheduler.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// The interface of an engine in this process; `None`: a scheduler at `base`.
    inside: Option<Router>,
    base: String,
    key: String,
}

impl Client {
    /// Creates a client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError::Url`] when the address cannot be used.
    pub(crate) fn new(target: &Target) -> Result<Self, ClientError> {
        let http = http(&target.url, READ_TIMEOUT)?;
        Ok(Self {
            http,
            inside: None,
            base: target.url.trim_end_matches('/').into(),
            key: target.key.clone(),
        })
    }

    /// Publishes a workflow: as a new app, or as the next version of the app `id`.
    pub(crate) async fn publish(
        &self,
        workflow: &str,
        id: Option<&str>,
        strict: bool,
    ) -> Result<Json, ClientError> {
        let mut body = json!({"workflow": workflow});
        if let Some(id) = id {
            body["id"] = id.into();
        }
        let path = if strict { "/api/v1/apps?strict=true" } else { "/api/v1/apps" };
        self.json(self.post(path).json(&body)).await
    }

    /// Publishes a workflow under this id: as a new app, or as the next version of the app that has it. A repeated
    /// request makes no second app.
    pub(crate) async fn publish_under(
        &self,
        workflow: &str,
        id: &str,
        strict: bool,
    ) -> Result<Json, ClientError> {
        let strict = if strict { "&strict=true" } else { "" };
        let request = self.post(&format!("/api/v1/apps?create=true{strict}"));
        self.json(request.json(&json!({"workflow": workflow, "id": id}))).await
    }

    /// Lists all apps: `{"data": […]}`.
    pub(crate) async fn apps(&self) -> Result<Json, ClientError> {
        self.json(self.get("/api/v1/apps")).await
    }

    /// Lists all datasets of knowledge bases: `{"data": […]}`.
    pub(crate) async fn knowledge(&self) -> Result<Json, ClientError> {
        self.json(self.get("/api/v1/knowledge")).await
    }

    /// Creates a dataset.
    pub(crate) async fn make_dataset(&self, body: &Json) -> Result<Json, ClientError> {
        self.json(self.post("/api/v1/knowledge").json(body)).await
    }

    /// Returns a dataset with its documents.
    pub(crate) async fn dataset(&self, id: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("/api/v1/knowledge/{}", segment(id)))).await
    }

    /// Removes a dataset, or one of its documents.
    pub(crate) async fn remove_knowledge(&self, id: &str, document: Option<&str>) -> Result<(), ClientError> {
        let mut url = format!("{}/api/v1/knowledge/{}", self.base, segment(id));
        if let Some(document) = document {
            url.push_str(&format!("/documents/{}", segment(document)));
        }
        self.send(self.http.delete(url).bearer_auth(&self.key)).await?;
        Ok(())
    }

    /// Adds a document to a dataset. Adding the same document again replaces it.
    pub(crate) async fn add_document(&self, dataset: &str, body: &Json) -> Result<Json, ClientError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let path = format!("/api/v1/knowledge/{}/documents", segment(dataset));
            match self.json(self.post(&path).json(body)).await {
                Err(ClientError::Refused { status: 503, retry_after, .. }) if tries < SUBMIT_TRIES => {
                    tokio::time::sleep(retry_after.min(RETRY_AFTER_MAX)).await;
                }
                other => return other,
            }
        }
    }

    /// Returns a document with at most `segments` of its segments.
    pub(crate) async fn document(
        &self,
        dataset: &str,
        document: &str,
        segments: u32,
    ) -> Result<Json, ClientError> {
        let (dataset, document) = (segment(dataset), segment(document));
        let path = format!("/api/v1/knowledge/{dataset}/documents/{document}?segments={segments}");
        self.json(self.get(&path)).await
    }

    /// Lists all keys, or those of one app: `{"data": […]}`.
    pub(crate) async fn keys(&self, app: Option<&str>) -> Result<Json, ClientError> {
        match app {
            None => self.json(self.get("/api/v1/keys")).await,
            Some(app) => self.json(self.get(&format!("/api/v1/apps/{}/keys", segment(app)))).await,
        }
    }

    /// Creates another key of an app; it is in the response, and never shown again.
    pub(crate) async fn add_key(&self, app: &str, body: &Json) -> Result<Json, ClientError> {
        self.json(self.post(&format!("/api/v1/apps/{}/keys", segment(app))).json(body)).await
    }

    /// Creates a key of datasets; it is in the response, and never shown again.
    pub(crate) async fn add_dataset_key(&self, body: &Json) -> Result<Json, ClientError> {
        self.json(self.post("/api/v1/keys").json(body)).await
    }

    /// Replaces a key; the new one is in the response, and never shown again.
    pub(crate) async fn rotate_key(&self, id: &str, body: &Json) -> Result<Json, ClientError> {
        self.json(self.post(&format!("/api/v1/keys/{}/rotate", segment(id))).json(body)).await
    }

    /// Revokes a key by its id.
    pub(crate) async fn revoke_key(&self, id: &str) -> Result<(), ClientError> {
        let request = self.http.delete(format!("{}/api/v1/keys/{}", self.base, segment(id)));
        self.send(request.bearer_auth(&self.key)).await?;
        Ok(())
    }

    /// Lists all triggers: `{"data": […]}`.
    pub(crate) async fn triggers(&self) -> Result<Json, ClientError> {
        self.json(self.get("/api/v1/triggers")).await
    }

    /// Lists the living workers: `{"data": […]}`.
    pub(crate) async fn workers(&self) -> Result<Json, ClientError> {
        self.json(self.get("/api/v1/workers")).await
    }

    /// Lists the queues: `{"data": […]}`.
    pub(crate) async fn queues(&self) -> Result<Json, ClientError> {
        self.json(self.get("/api/v1/queues")).await
    }

    /// Lists the shards: `{"shards", "shards_first", "data": […]}`.
    pub(crate) async fn shards(&self) -> Result<Json, ClientError> {
        self.json(self.get("/api/v1/shards")).await
    }

    /// Raises the number of shards: `{"shards", "raised_from"}`.
    pub(crate) async fn raise_shards(&self, shards: u16) -> Result<Json, ClientError> {
        self.json(self.post("/api/v1/shards").json(&serde_json::json!({"shards": shards}))).await
    }

    /// Returns true if the app exists.
    pub(crate) async fn has_app(&self, id: &str) -> Result<bool, ClientError> {
        match self.json(self.get(&format!("/api/v1/apps/{}", segment(id)))).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns true if this API key of an app is valid.
    pub(crate) async fn opens(&self, key: &str) -> Result<bool, ClientError> {
        match self.json(self.http.get(format!("{}/v1/info", self.base)).bearer_auth(key)).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused { status: 401, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Submits a run exactly once, also when the connection breaks, and returns its id.
    pub(crate) async fn submit(&self, body: &Json) -> Result<String, ClientError> {
        let key = uuid::Uuid::new_v4().to_string();
        let mut tries = 0;
        let answer = loop {
            tries += 1;
            let request = self.post("/api/v1/runs").header("Idempotency-Key", &key).json(body);
            match self.json(request).await {
                Err(ClientError::Refused { status: 503, retry_after, .. }) if tries < SUBMIT_TRIES => {
                    tokio::time::sleep(retry_after.min(RETRY_AFTER_MAX)).await;
                }
                Err(ClientError::Broken { .. }) if tries < SUBMIT_TRIES => {
                    tokio::time::sleep(follow::back_off(tries)).await;
                }
                other => break other?,
            }
        };
        self.id_in(&answer, "a submission")
    }

    /// Lists the newest runs: `{"data": […], "next": …}`.
    pub(crate) async fn runs(&self, filters: &[(&str, &str)], limit: u32) -> Result<Json, ClientError> {
        let filters: String =
            filters.iter().map(|(name, value)| format!("&{name}={}", segment(value))).collect();
        let mut left = limit;
        let mut before = String::new();
        let mut runs = Vec::new();
        loop {
            let path = format!("/api/v1/runs?limit={}{filters}{before}", left.min(RUNS_PAGE));
            let mut page = self.json(self.get(&path)).await?;
            let next = page["next"].take();
            if let Json::Array(more) = page["data"].take() {
                left = left.saturating_sub(u32::try_from(more.len()).unwrap_or(u32::MAX));
                runs.extend(more);
            }
            match next.as_str().filter(|_| left > 0) {
                Some(at) => before = format!("&before={}", segment(at)),
                None => return Ok(serde_json::json!({"data": runs, "next": next})),
            }
        }
    }

    /// Returns a run with its nodes.
    pub(crate) async fn run(&self, id: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("/api/v1/runs/{}", segment(id)))).await
    }

    /// Returns all messages of one list of a run. Reads page by page.
    pub(crate) async fn messages(&self, id: &str, list: &str) -> Result<Json, ClientError> {
        self.pages(&format!("/api/v1/runs/{}/messages/{}?", segment(id), segment(list))).await
    }

    /// Returns the whole history of a run, either one of its views or the raw history.
    pub(crate) async fn history(&self, id: &str, view: Option<&str>) -> Result<Json, ClientError> {
        let view = view.map(|view| format!("view={}&", segment(view))).unwrap_or_default();
        self.pages(&format!("/api/v1/runs/{}/history?{view}", segment(id))).await
    }

    /// Returns the runtime record of a run.
    pub(crate) async fn runtime(&self, id: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("/api/v1/runs/{}/rt", segment(id)))).await
    }

    /// Reads all pages: returns the first one with the `data` of all of them.
    async fn pages(&self, path: &str) -> Result<Json, ClientError> {
        let mut whole = self.json(self.get(&format!("{path}limit=1000"))).await?;
        while let Some(next) = whole.get("next").and_then(Json::as_u64) {
            let mut page = self.json(self.get(&format!("{path}limit=1000&from={next}"))).await?;
            whole["next"] = page["next"].take();
            if let (Some(all), Json::Array(more)) = (whole["data"].as_array_mut(), page["data"].take()) {
                all.extend(more);
            }
        }
        Ok(whole)
    }

    /// Sends a command to a run.
    pub(crate) async fn command(&self, id: &str, body: &Json) -> Result<(), ClientError> {
        self.json(self.post(&format!("/api/v1/runs/{}/commands", segment(id))).json(body)).await?;
        Ok(())
    }

    /// Answers a pause of a run.
    pub(crate) async fn answer(&self, id: &str, pause: &str, body: &Json) -> Result<(), ClientError> {
        let path = format!("/api/v1/runs/{}/pauses/{}/answer", segment(id), segment(pause));
        self.json(self.post(&path).json(body)).await?;
        Ok(())
    }

    /// Lists the newest dead letters: `{"data": […], "next": …}`.
    pub(crate) async fn dead_letters(&self, limit: u32, before: Option<&str>) -> Result<Json, ClientError> {
        let before = before.map(|id| format!("&before={}", segment(id))).unwrap_or_default();
        self.json(self.get(&format!("/api/v1/dead?limit={limit}{before}"))).await
    }

    /// Returns one dead letter with its content.
    pub(crate) async fn dead_letter(&self, id: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("/api/v1/dead/{}", segment(id)))).await
    }

    /// Retries one dead letter.
    pub(crate) async fn retry_dead_letter(&self, id: &str) -> Result<Json, ClientError> {
        self.json(self.post(&format!("/api/v1/dead/{}/retry", segment(id)))).await
    }

    /// Counts or retries one page of the dead letters that match.
    pub(crate) async fn retry_dead_letters(&self, body: &Json) -> Result<Json, ClientError> {
        self.json(self.post("/api/v1/dead/retry").json(body)).await
    }

    /// Removes one dead letter.
    pub(crate) async fn drop_dead_letter(&self, id: &str) -> Result<(), ClientError> {
        let request = self.http.delete(format!("{}/api/v1/dead/{}", self.base, segment(id)));
        self.send(request.bearer_auth(&self.key)).await?;
        Ok(())
    }

    /// Returns a snapshot of a run as the unparsed text: parsing could change large numbers in it.
    pub(crate) async fn snapshot(&self, id: &str) -> Result<String, ClientError> {
        let response = self.send(self.get(&format!("/api/v1/runs/{}/snapshot", segment(id)))).await?;
        response.text().await.map_err(|error| ClientError::of_connection(&self.base, &error))
    }

    /// Creates a run from a snapshot and returns its id.
    pub(crate) async fn import(&self, snapshot: String) -> Result<String, ClientError> {
        let request =
            self.post("/api/v1/runs/import").header("Content-Type", "application/json").body(snapshot);
        let answer = self.json(request).await?;
        self.id_in(&answer, "an import")
    }

    /// Opens the event stream of a run; with `after` it begins after that entry.
    async fn events(&self, id: &str, after: Option<&str>) -> Result<Response, ClientError> {
        let mut request =
            self.get(&format!("/api/v1/runs/{}/events", segment(id))).header("Accept", "text/event-stream");
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after);
        }
        self.send(request).await
    }

    /// Returns the id of the new run from an answer.
    fn id_in(&self, answer: &Json, to: &str) -> Result<String, ClientError> {
        answer["id"].as_str().map(Into::into).ok_or_else(|| ClientError::NotTidemill {
            url: self.base.clone(),
            reason: format!("the answer to {to} has no id"),
        })
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.base)).bearer_auth(&self.key)
    }
    fn post(&self, path: &str) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.base)).bearer_auth(&self.key)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let sent = match &self.inside {
            None => request.send().await,
            Some(router) => match request.build() {
                Ok(request) => inside::answer(router, request).await,
                Err(error) => Err(error),
            },
        };
        let response = sent.map_err(|error| ClientError::of_connection(&self.base, &error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    async fn refusal(&self, response: Response) -> ClientError {
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = Duration::from_secs(retry_after.and_then(|text| text.parse().ok()).unwrap_or(1));
        // A refusal with an unreadable body is still a refusal.
        let body: Json = response.json().await.unwrap_or_default();
        match (body["code"].as_str(), body["message"].as_str()) {
            (Some(code), Some(message)) => ClientError::Refused {
                status,
                code: code.into(),
                message: message.into(),
                diagnostics: body["diagnostics"].as_array().cloned().unwrap_or_default(),
                retry_after,
            },
            _ => ClientError::NotTidemill {
                url: self.base.clone(),
                reason: format!("it answered with status {status}"),
            },
        }
    }

    async fn json(&self, request: RequestBuilder) -> Result<Json, ClientError> {
        let response = self.send(request).await?;
        let bytes = response.bytes().await.map_err(|error| ClientError::of_connection(&self.base, &error))?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::NotTidemill {
            url: self.base.clone(),
            reason: format!("its answer is not JSON ({error})"),
        })
    }
}

/// The HTTP client for an address.
fn http(address: &str, read_timeout: Duration) -> Result<reqwest::Client, ClientError> {
    let wrong = |reason: String| ClientError::Url { url: address.into(), reason };
    let url = reqwest::Url::parse(address).map_err(|error| wrong(error.to_string()))?;
    let mut http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(read_timeout);
    match url.scheme() {
        // Plain HTTP needs no certificates, so a machine without any is fine too.
        "http" => http = http.tls_certs_only([]),
        "https" => {}
        _ => return Err(wrong("it must begin with http:// or https://".into())),
    }
    if url.host_str().is_some_and(|host| ["127.0.0.1", "localhost", "[::1]"].contains(&host)) {
        http = http.no_proxy();
    }
    http.build().map_err(|error| wrong(error::chain(&error)))
}

/// Escapes an id, so that it cannot leave its segment of the path.
fn segment(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests;
