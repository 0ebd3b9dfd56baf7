//! Models that answer in words, through the providers of this worker: with their limits, and charged at once.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::message::Message;
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::structured::Schema;
use tidemill_common::nodes::llm::tokens;
use tidemill_common::nodes::llm::{ModelConfig, ModelMode, Role};
use tidemill_common::value::JsonMap;
use tidemill_plugins::process::Parts;
use tokio::sync::mpsc;

use super::prompt::{calls, tools};
use super::running::Running;
use super::{Answering, text};
use crate::attempt::journal::ChargeSource;
use crate::nodes::llm::{bill, lost};
use crate::nodes::model_files::{FileStore, store_files};
use crate::outside::providers::profile::{ModelKind, Responder};
use crate::outside::providers::{Model, ModelReply, Question};

/// The longest time for which a model is read whose words the plugin does not take any more.
const READ_ON: Duration = Duration::from_secs(60);

/// What a model is asked, with where the answer goes.
struct Asking<'a> {
    provider: &'a str,
    model: &'a Model,
    question: Question,
    /// Pieces of the text; `None` if only the whole is wanted.
    pieces: Option<&'a Parts>,
}

impl Answering<'_> {
    /// Asks a model. The text comes in pieces if the plugin wants that, and the last part has tool calls and usage.
    pub(super) async fn chat(&self, request: &Json, parts: &Parts) -> Result<(), String> {
        let config = config(request)?;
        let providers = &self.worker()?.outside.providers;
        let model = providers.resolve_for(&config, ModelKind::Llm, Some(*self.asker.run)).await;
        let model = model.map_err(|error| error.message)?;
        let facts = model.facts();
        let tools = tools(request)?;
        let mut messages = self.messages(request).await?;
        let mut params = params(&config, request);
        let schema = match &request["structured_output_schema"] {
            Json::Null => None,
            schema => {
                let wanted = JsonMap::from_iter([("schema".to_owned(), schema.clone())]);
                Some(Schema::read(&wanted).map_err(|failure| failure.message)?)
            }
        };
        if let Some(schema) = &schema {
            schema.ask_for(&config, &facts, &mut messages, &mut params);
        }
        // Not every API streams a reply that may have tool calls.
        let streams = tools.is_empty() || facts.has("stream-tool-call");
        let is_wanted = request["stream"].as_bool().unwrap_or(true);
        let question =
            Question { messages, params, tools, mode: ModelMode::Chat, stream: streams && is_wanted };
        let pieces = is_wanted.then_some(parts);
        let asking = Asking { provider: &config.provider, model: &model, question, pieces };
        let (reply, rest, usage) = self.ask(asking).await?;
        let calls = calls(&reply.tool_calls);
        let mut last = chunk(&config.name, &rest, calls, usage, reply.finish_reason.as_deref());
        if let Some(schema) = schema {
            let output = schema.output(&reply.text).map_err(|failure| failure.message)?;
            last["structured_output"] = Json::Object(output);
        }
        parts.send(last).await
    }

    /// Asks the default profile for a summary, as Dify asks the model of the system.
    pub(super) async fn summary(&self, request: &Json) -> Result<Json, String> {
        let providers = &self.worker()?.outside.providers;
        let named = providers.profile("").await.map_err(|error| error.to_string())?;
        let Responder::Model(model) = named.responder else {
            return Err("the default profile is no model, so nothing can be summarized".into());
        };
        let system = format!(
            "Summarize the text of the user, in its language. Answer with the summary only.\n{}",
            request["instruction"].as_str().unwrap_or_default()
        );
        let messages =
            vec![Message::text(Role::System, system), Message::text(Role::User, text(request, "text")?)];
        let question = Question {
            messages,
            params: Params::default(),
            tools: Vec::new(),
            mode: ModelMode::Chat,
            stream: false,
        };
        let provider = named.profile.provider.clone();
        let asking = Asking { provider: &provider, model: &model, question, pieces: None };
        let (reply, ..) = self.ask(asking).await?;
        Ok(json!({"summary": reply.text}))
    }

    /// Returns the reply, the part of its text that was not sent, and its usage.
    async fn ask(&self, asking: Asking<'_>) -> Result<(ModelReply, String, Json), String> {
        let Asking { provider, model, question, pieces } = asking;
        let call = Self::call_name();
        let waiter = self.waiter(&call);
        let running = Running::new(&waiter, (provider, model), tokens::estimate(&question.messages));
        let (to, mut said) = mpsc::unbounded_channel();
        let mut has_piece = false;
        let mut on_delta = |piece: &str| {
            has_piece = true;
            running.said(piece);
            // The receiver lives longer.
            let _ = to.send(piece.to_owned());
        };
        let mut send = |piece: String| {
            async move {
                let Some(parts) = pieces else { return Ok(()) };
                parts.send(chunk(model.name(), &piece, Vec::new(), Json::Null, None)).await
            }
            .boxed()
        };
        let (answer, refused) = {
            let job = model.for_job(&waiter, &call);
            read(job.ask(question, &mut on_delta), &mut said, &mut send).await
        };
        let Some(answer) = answer else { return Err(refused.unwrap_or_default()) };
        running.end();
        let mut reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                if let (Some(journal), Some(usage)) = (self.asker.journal, lost(model, &error)) {
                    journal.add_wasted(provider, model.name(), usage);
                }
                return Err(format!("{}: {}", error.class.error_type(), error.message));
            }
        };
        let usage = bill(model, &reply);
        self.charge(&call, &usage, ChargeSource::Model(provider.to_owned(), model.name().to_owned()));
        if let Some(reason) = refused {
            return Err(reason);
        }
        while let Ok(piece) = said.try_recv() {
            send(piece).await?;
        }
        let file_store = FileStore { run: self.asker.run, http: self.asker.http, files: self.asker.files };
        let linked = store_files(&mut reply, file_store).await.map_err(|failure| failure.message)?;
        let is_sent = pieces.is_some() && has_piece;
        let rest = if is_sent { linked.rest().to_owned() } else { linked.text.clone() };
        reply.text = linked.text;
        Ok((reply, rest, Json::Object(usage.record)))
    }
}

/// Sends pieces until the answer is there. After a failed piece the model is read on without the plugin, so that it is charged
/// by what the provider has counted. Returns the answer, or `None` if it did not come in time, and why a piece failed.
async fn read<'s, T>(
    asked: impl Future<Output = T>,
    said: &mut mpsc::UnboundedReceiver<String>,
    send: &mut (impl FnMut(String) -> BoxFuture<'s, Result<(), String>> + Send),
) -> (Option<T>, Option<String>) {
    tokio::pin!(asked);
    let refused = loop {
        tokio::select! {
            biased;
            // The model is not read while the plugin does not read.
            Some(piece) = said.recv() => {
                if let Err(reason) = send(piece).await {
                    break reason;
                }
            }
            answer = &mut asked => return (Some(answer), None),
        }
    };
    (tokio::time::timeout(READ_ON, asked).await.ok(), Some(refused))
}

/// The model that a request names.
pub(super) fn config(request: &Json) -> Result<ModelConfig, String> {
    Ok(ModelConfig {
        provider: text(request, "provider")?.to_owned(),
        name: text(request, "model")?.to_owned(),
        mode: if request["mode"] == "completion" { ModelMode::Completion } else { ModelMode::Chat },
        completion_params: request["completion_params"].as_object().cloned().unwrap_or_default(),
    })
}

fn params(config: &ModelConfig, request: &Json) -> Params {
    let mut values = config.completion_params.clone();
    let of_params = values.shift_remove("stop").unwrap_or_default();
    let texts = |value: &Json| -> Vec<String> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let stop = match texts(&request["stop"]) {
        stop if stop.is_empty() => texts(&of_params),
        stop => stop,
    };
    Params { values, stop }
}

/// A part of a reply as the SDK reads it.
fn chunk(model: &str, text: &str, calls: Vec<Json>, usage: Json, finish_reason: Option<&str>) -> Json {
    json!({
        "model": model, "prompt_messages": [], "system_fingerprint": null,
        "delta": {
            "index": 0, "usage": usage, "finish_reason": finish_reason,
            "message": {"role": "assistant", "content": text, "name": null, "tool_calls": calls},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a model that says three pieces, and ends then or never, for a plugin that takes the first `taken`.
    async fn read_for(taken: usize, ends: bool) -> (Option<&'static str>, Option<String>, Vec<String>) {
        let (to, mut said) = mpsc::unbounded_channel();
        let asked = async move {
            for piece in ["a", "b", "c"] {
                to.send(piece.to_owned()).unwrap();
                tokio::task::yield_now().await;
            }
            if ends { "abc" } else { std::future::pending().await }
        };
        let mut sent = Vec::new();
        let mut send = |piece: String| {
            let is_taken = sent.len() < taken;
            sent.push(piece);
            std::future::ready(if is_taken { Ok(()) } else { Err("no more".to_owned()) }).boxed()
        };
        let (answer, refused) = read(asked, &mut said, &mut send).await;
        (answer, refused, sent)
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_is_read_to_its_end_also_if_the_plugin_takes_no_more() {
        let (answer, refused, sent) = read_for(3, true).await;
        assert_eq!((answer, refused), (Some("abc"), None));
        assert!(sent.starts_with(&["a".into(), "b".into()]), "{sent:?}");
        let refused = Some("no more".to_owned());
        assert_eq!(read_for(1, true).await, (Some("abc"), refused.clone(), vec!["a".into(), "b".into()]));
        // Until it is too long.
        assert_eq!(read_for(0, false).await, (None, refused, vec!["a".into()]));
    }
}
