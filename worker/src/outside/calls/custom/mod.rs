//! Registered Calls: a manifest describes each, and it is reached over HTTP or as a program. Each operation is one JSON
//! object (`{"operation": "init" | "exec" | "after_exec", …}`). `exec` answers line by line.

mod check;
mod hosted;
mod http;
mod lines;
mod process;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::language::Language;
use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::registry::calls::{Manifest, Operation, Transport};
use tidemill_common::value::JsonMap;
use tidemill_common::value::secrets::Secrets;

pub(super) use crate::outside::calls::custom::check::LastCheck;
pub(crate) use crate::outside::calls::custom::check::NOT_HOSTED;
use crate::outside::calls::custom::lines::Reader;
use crate::outside::calls::{Call, CallContext, CallInfo, Calls, ChunkSink};
use crate::outside::hide::{Hide, queried};

/// The error type of an invalid piece.
const TYPE_ERROR: &str = "TypeError";

/// A registered Call.
#[derive(Debug)]
pub(super) struct Custom {
    pub(super) id: Arc<str>,
    pub(super) manifest: Manifest,
}

/// A request for one operation.
struct OperationRequest<'a> {
    id: &'a str,
    body: Json,
    calls: &'a Calls,
    /// The same for every delivery of an attempt.
    key: String,
    /// The secrets of the transport.
    hide: &'a Hide,
    /// Those of the workflow; the log names it as well.
    secrets: &'a Secrets,
}

#[async_trait::async_trait]
impl Call for Custom {
    fn info(&self, language: Language) -> CallInfo {
        let info = self.manifest.info(language);
        CallInfo { name: info.name, description: info.description }
    }
    fn input_schema(&self) -> Json {
        Json::Object(self.manifest.input_schema.clone())
    }
    fn output_schema(&self) -> Option<Json> {
        let schema = &self.manifest.output_schema;
        (!schema.is_empty()).then(|| Json::Object(schema.clone()))
    }
    fn enable_filling(&self) -> bool {
        self.manifest.enable_filling
    }
    fn to_user(&self) -> bool {
        self.manifest.to_user
    }
    fn chooses(&self) -> bool {
        self.manifest.branch
    }
    fn keeps_init(&self) -> bool {
        true
    }
    async fn init(&self, cx: CallContext<'_>, params: JsonMap) -> Result<JsonMap, CallError> {
        if matches!(self.manifest.transport, Some(Transport::Worker)) {
            return hosted::init(self, cx, params, variables(cx)).await;
        }
        let body = json!({
            "operation": Operation::Init.name(), "call_vars": variables(cx), "params": params
        });
        // It has its own journal entry and key, so that the answers of two operations cannot be confused.
        self.init_by(cx.calls, cx.key.to_owned(), body, cx.journal.secrets()).await
    }
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        if matches!(self.manifest.transport, Some(Transport::Worker)) {
            return hosted::exec(self, cx, input, out).await;
        }
        self.exec_by(cx.calls, cx.key.to_owned(), input, (cx.journal.secrets(), out)).await
    }
}

/// The run's variables sent to a Call.
fn variables(cx: CallContext<'_>) -> Json {
    let background = cx.background;
    let sys = |name: &str| {
        let found = cx.variables.found(&["sys".to_owned(), name.to_owned()]);
        found.and_then(|segment| segment.value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let (run, app) = (cx.name.run.to_string(), sys("app_id"));
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    let order: Vec<&Json> = background.history.iter().filter_map(|record| record.get("node_id")).collect();
    json!({
        "ids": {
            "task_id": run,
            "executor_id": or(app.clone(), &cx.graph.hash.to_string()),
            "execution_id": cx.name.execution.to_string(),
            "step_id": cx.node.id.as_str(),
            "session_id": or(sys("conversation_id"), &run),
            "app_id": app,
            "user": sys("user_id"),
        },
        "history_order": order,
        "question": background.question,
        "summary": background.summary,
        "history": background.history,
        "language": cx.language.name(),
    })
}

impl Custom {
    async fn init_by(
        &self,
        calls: &Calls,
        key: String,
        body: Json,
        secrets: &Secrets,
    ) -> Result<JsonMap, CallError> {
        let (mut whole, hide) = (Vec::new(), self.hide(calls)?);
        let request = OperationRequest { id: &self.id, body, calls, key, hide: &hide, secrets };
        self.ask(request, &mut |piece| {
            whole.extend_from_slice(piece);
            Ok(())
        })
        .await?;
        let answer: Json = serde_json::from_slice(&whole).unwrap_or_default();
        match answer.get("input") {
            Some(Json::Object(input)) => Ok(hide.map(input)),
            _ => {
                let message = format!(
                    "the Call {} answers init with something else than {{\"input\": {{…}}}}",
                    self.id
                );
                Err(CallError::of(TYPE_ERROR, message))
            }
        }
    }

    async fn exec_by(
        &self,
        calls: &Calls,
        key: String,
        input: JsonMap,
        (secrets, out): (&Secrets, ChunkSink<'_>),
    ) -> Result<(), CallError> {
        let body = json!({"operation": Operation::Exec.name(), "input": input});
        let mut reader = Reader::new(&self.id, calls.config.line_bytes_max);
        let hide = self.hide(calls)?;
        let mut take = |chunk: Chunk| {
            out(match chunk {
                Chunk::Text(text) => Chunk::Text(hide.text(&text)),
                Chunk::Data(data) => Chunk::Data(hide.map(&data)),
            });
        };
        let request = OperationRequest { id: &self.id, body, calls, key: key.clone(), hide: &hide, secrets };
        self.ask(request, &mut |piece| reader.take(piece, &mut take)).await?;
        reader.end(&mut take)?;
        if !self.manifest.has(Operation::AfterExec) {
            return Ok(());
        }
        let body = json!({"operation": Operation::AfterExec.name(), "input": input});
        let key = format!("{key}:{}", Operation::AfterExec.name());
        self.ask(OperationRequest { id: &self.id, body, calls, key, hide: &hide, secrets }, &mut |_| Ok(()))
            .await
    }

    /// Requests an operation; the answer goes to `take` as it arrives.
    async fn ask(&self, request: OperationRequest<'_>, take: Take<'_>) -> Result<(), CallError> {
        let (calls, id, hide) = (request.calls, request.id, request.hide);
        let most = Duration::from_secs(calls.config.seconds_max);
        let work = async {
            match &self.manifest.transport {
                Some(Transport::Http { url, headers, headers_env }) => {
                    http::ask(request, url, (headers, headers_env), take).await
                }
                Some(Transport::Process { command, env, env_from }) => {
                    process::ask(request, command, (env, env_from), take).await
                }
                Some(Transport::Worker) | None => Err(CallError::of(
                    crate::outside::calls::catalog::VALUE_ERROR,
                    format!("the Call {id} has no transport"),
                )),
            }
        };
        let done = tokio::time::timeout(most, work).await;
        let late = || {
            let message =
                format!("the Call {id} has not ended within {} s (calls.seconds_max)", most.as_secs());
            CallError::of("TimeoutError", message)
        };
        let done = done.unwrap_or_else(|_| Err(late()));
        done.map_err(|error| CallError {
            message: hide.text(&error.message),
            data: hide.map(&error.data),
            ..error
        })
    }

    /// The secrets of its transport.
    fn hide(&self, calls: &Calls) -> Result<Hide, CallError> {
        let (kept, named, url) = match &self.manifest.transport {
            Some(Transport::Http { url, headers, headers_env }) => (headers, headers_env, url.as_str()),
            Some(Transport::Process { env, env_from, .. }) => (env, env_from, ""),
            Some(Transport::Worker) | None => return Ok(Hide::default()),
        };
        let mut secrets: Vec<String> = kept.values().map(|value| value.0.clone()).collect();
        for name in named.values() {
            secrets.push(calls.variable(name, &format!("the Call {}", self.id))?);
        }
        Ok(Hide::of(secrets.into_iter().chain(queried(url))))
    }
}

/// Receives the answer, piece by piece.
type Take<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), CallError> + Send);

#[cfg(test)]
mod tests;
