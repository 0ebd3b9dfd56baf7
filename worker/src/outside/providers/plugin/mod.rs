//! Models of an installed Dify plugin: calls of a process on this worker instead of requests to an API.
//!
//! `body` writes a call, `chunks` reads the parts of a reply, and `failure` gives each failure its class.
//! [`plugins`](crate::outside::plugins) finds the plugin, its credentials and its process.

mod body;
mod chunks;
mod failure;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::message::MediaKind;
use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_plugins::model::answer;
use tidemill_plugins::model::{Named, chunk};
use tidemill_plugins::package::ModelKind;

use crate::outside::plugins::{CallFailure, FoundModel, PluginHost, ServedModels, WantedModel};
use crate::outside::providers::reply::Growing;
use crate::outside::providers::{
    ChatRequest, DeltaSink, Embeddings, ErrorClass, ModelError, ModelProvider, ModelReply, Ranking,
    RateFacts, Recording, Spoken, Transcript,
};

/// A client of the models of a plugin, for one run.
#[derive(Clone)]
struct PluginModels {
    served: ServedModels,
    /// True for texts that are searched for, instead of texts that are searched.
    for_queries: bool,
    /// The voice of a text for which none is named.
    voice: Option<String>,
}

impl fmt::Debug for PluginModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginModels").field("for_queries", &self.for_queries).finish_non_exhaustive()
    }
}

impl PluginHost {
    /// A model of the installed plugin that has its provider, ready on this worker. Waits while it is being prepared. `None`
    /// if none is installed, or if ours serves the model and the plugin cannot.
    ///
    /// # Errors
    /// The plugin is not ready here, there are no credentials for the model, or the process that describes it does not
    /// answer.
    pub(crate) async fn find_model(
        self: &Arc<Self>,
        wanted: WantedModel<'_>,
    ) -> Result<Option<FoundModel>, ModelError> {
        let WantedModel { provider, model, kind, .. } = wanted;
        let label = provider.rsplit('/').next().unwrap_or(provider);
        let served = self.served(wanted).await;
        let served = served.map_err(|error| failure::unready(label, model, error))?;
        let Some(served) = served else { return Ok(None) };
        let named = Named { kind, model };
        let facts = served.facts(named).await.map_err(|failure| failed(label, model, failure))?;
        let account = served.account(named).await;
        let voice = facts.as_ref().and_then(|facts| facts.default_voice.clone());
        let client = Arc::new(PluginModels { served, for_queries: false, voice });
        Ok(Some(FoundModel { client, account, facts }))
    }
}

fn failed(label: &str, model: &str, failure: CallFailure) -> ModelError {
    match failure {
        CallFailure::Unready(error) => failure::unready(label, model, error),
        CallFailure::Call(error) => failure::of_call(label, error),
    }
}

impl PluginModels {
    /// Makes a call whose answer is one part.
    async fn ask(&self, label: &str, named: Named<'_>, action: &str, more: Json) -> Result<Json, ModelError> {
        let answer = self.served.ask(named, action, more).await;
        answer.map_err(|failure| failed(label, named.model, failure))
    }
}

#[async_trait::async_trait]
impl ModelProvider for PluginModels {
    fn takes_url(&self, _: MediaKind) -> bool {
        true
    }

    fn for_queries(&self) -> Option<Arc<dyn ModelProvider>> {
        Some(Arc::new(Self { for_queries: true, ..self.clone() }))
    }

    async fn stream_chat(
        &self,
        request: &ChatRequest,
        on_delta: DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let (label, model) = (request.label.as_str(), request.model.as_str());
        let named = Named { kind: ModelKind::Llm, model };
        let mut reply = Growing::new(label, on_delta);
        reply.begin();
        if !request.stream {
            reply.whole();
        }
        let begun = self.served.begin(named, "invoke_llm", body::write(request)).await;
        let mut parts = begun.map_err(|failure| failed(label, model, failure))?;
        loop {
            let part = parts.next().await.map_err(|error| failed(label, model, error.into()))?;
            let Some(part) = part else { break };
            let chunk = chunk::read(&part).map_err(|reason| failure::unreadable(label, &reason))?;
            chunks::take(&mut reply, chunk)?;
        }
        reply.done();
        reply.end(RateFacts::default())?;
        Ok(reply.into_reply())
    }

    async fn embed(&self, label: &str, model: &str, texts: &[String]) -> Result<Embeddings, ModelError> {
        let named = Named { kind: ModelKind::TextEmbedding, model };
        let input = if self.for_queries { "query" } else { "document" };
        let more = json!({"texts": texts, "input_type": input});
        let answer = self.ask(label, named, "invoke_text_embedding", more).await?;
        let read = answer::vectors(&answer, texts.len());
        let (vectors, prompt) = read.map_err(|reason| failure::unreadable(label, &reason))?;
        Ok((vectors, Tokens { prompt, completion: 0 }))
    }

    async fn rerank(
        &self,
        label: &str,
        model: &str,
        query: &str,
        documents: &[String],
        top_n: usize,
    ) -> Result<Ranking, ModelError> {
        let named = Named { kind: ModelKind::Rerank, model };
        let more = json!({"query": query, "docs": documents, "score_threshold": null, "top_n": top_n});
        let answer = self.ask(label, named, "invoke_rerank", more).await?;
        let read = answer::ranking(&answer, documents.len(), top_n);
        // The SDK counts no tokens here.
        Ok((read.map_err(|reason| failure::unreadable(label, &reason))?, Tokens::default()))
    }

    async fn transcribe(
        &self,
        label: &str,
        model: &str,
        recording: &Recording,
    ) -> Result<Transcript, ModelError> {
        let named = Named { kind: ModelKind::Speech2Text, model };
        let more = json!({"file": answer::hexadecimal(&recording.bytes)});
        let answer = self.ask(label, named, "invoke_speech2text", more).await?;
        let text = answer::transcript(&answer).map_err(|reason| failure::unreadable(label, &reason))?;
        Ok((text, Tokens::default()))
    }

    async fn speak(&self, label: &str, model: &str, spoken: &Spoken<'_>) -> Result<Bytes, ModelError> {
        let named = Named { kind: ModelKind::Tts, model };
        let usual = self.voice.as_deref().filter(|_| spoken.voice.is_empty());
        let voice = usual.unwrap_or(spoken.voice);
        let more = json!({"content_text": spoken.text, "voice": voice, "tenant_id": "tidemill"});
        let begun = self.served.begin(named, "invoke_tts", more).await;
        let mut parts = begun.map_err(|failure| failed(label, model, failure))?;
        let mut sound = Vec::new();
        loop {
            let part = parts.next().await.map_err(|error| failed(label, model, error.into()))?;
            let Some(part) = part else { return Ok(sound.into()) };
            let piece = answer::sound(&part).map_err(|reason| failure::unreadable(label, &reason))?;
            sound.extend_from_slice(&piece);
            if sound.len() as u64 > spoken.bytes_max {
                let most = spoken.bytes_max;
                let cause = format!("the sound is larger than {most} bytes (features.audio_bytes_max)");
                return Err(ModelError::new(label, ErrorClass::BadRequest, &cause));
            }
        }
    }

    async fn moderate(&self, label: &str, model: &str, text: &str) -> Result<bool, ModelError> {
        let named = Named { kind: ModelKind::Moderation, model };
        let answer = self.ask(label, named, "invoke_moderation", json!({"text": text})).await?;
        answer::flagged(&answer).map_err(|reason| failure::unreadable(label, &reason))
    }
}
