//! A model that nodes can call: the client of its provider and the known facts about the model.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde_json::json;
use tidemill_common::nodes::llm::ModelMode;
use tidemill_common::nodes::llm::known;
use tidemill_common::nodes::llm::message::{MediaKind, Message, ModelFacts, ToolSpec};
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::prompt::Prompt;
use tidemill_common::nodes::llm::usage::{Pricing, Tokens};
use tidemill_common::registry::{AskedWith, EMBED_TEXTS_MAX, MediaSend, ModelSettings};
use tidemill_common::value::{JsonMap, merged};

use crate::outside::providers::limiter::Limited;
use crate::outside::providers::media;
use crate::outside::providers::media::{FileAccess, Sending};
use crate::outside::providers::profile::{FilesSending, vector};
use crate::outside::providers::{
    ChatRequest, DeltaSink, Embeddings, ModelError, ModelProvider, ModelReply, Ranking, Recording, Spoken,
    Transcript,
};

/// Assumed characters per token when texts are cut to a model's size; right for English. For scripts with fewer
/// characters per token too much is sent, and the server cuts or refuses it.
pub(super) const TOKEN_CHARS: u64 = 4;

/// Names that providers use for the longest reply.
pub(super) const REPLY_LIMITS: [&str; 4] =
    ["max_tokens", "max_completion_tokens", "max_tokens_to_sample", "num_predict"];

/// A model that nodes can call.
#[derive(Debug, Clone)]
pub struct Model {
    pub settings: ModelSettings,
    /// The price of its tokens.
    pub pricing: Option<Pricing>,
    pub(super) client: Arc<dyn ModelProvider>,
    pub(super) label: String,
    pub(super) name: String,
    pub(super) files: FilesSending,
    pub(super) file_access: Option<Arc<FileAccess>>,
    /// Parameters of each call; those of a question win.
    pub(super) parameters: Arc<JsonMap>,
    /// The limits of its calls, if any.
    pub(super) limited: Option<Limited>,
    /// Set when a profile replaces the provider.
    pub(super) of_profile: Option<OfProfile>,
    /// Most characters of a text that it speaks at once. `None`: its API takes pieces of the usual size.
    pub(super) spoken_max: Option<usize>,
}

/// The identity of a model whose provider is a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfProfile {
    /// The profile's id.
    pub id: String,
    /// The profile's version; 0 for a profile in the worker's settings.
    pub version: u64,
    /// The provider the profile names.
    pub provider: String,
    pub model: String,
}

/// A question to a model.
#[derive(Debug, Clone)]
pub struct Question {
    /// The conversation; at least one message.
    pub messages: Vec<Message>,
    /// Parameters of the call and stop sequences.
    pub params: Params,
    /// Tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// Chat, or completion of the only message's text; the profile may override it.
    pub mode: ModelMode,
    /// True when the reply should be streamed.
    pub stream: bool,
}

impl From<&Prompt> for Question {
    fn from(prompt: &Prompt) -> Self {
        Self {
            messages: prompt.messages.clone(),
            params: prompt.params.clone(),
            tools: Vec::new(),
            mode: ModelMode::Chat,
            stream: true,
        }
    }
}

impl Model {
    /// Returns its limits.
    #[cfg(test)]
    pub(crate) fn limited_for_tests(&self) -> &Limited {
        self.limited.as_ref().expect("it has limits")
    }

    /// The model's name in the workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tests whether it speaks a whole text at once: pieces of sound that were made alone cannot be joined in every format.
    pub fn speaks_whole(&self, text: &str) -> bool {
        self.spoken_max.is_some_and(|most| text.chars().count() <= most)
    }

    /// The profile, if one replaces the provider.
    pub fn of_profile(&self) -> Option<&OfProfile> {
        self.of_profile.as_ref()
    }

    /// The facts that decide how the model is called: those of the settings, then those of the table of known models.
    pub fn facts(&self) -> ModelFacts {
        let known = || known::find(self.sent_name()).or_else(|| known::find(&self.name));
        ModelFacts::new(self.settings.features.as_deref(), self.settings.context_size, known())
    }

    /// Calls the model; see [`ModelProvider::stream_chat`]. Files of the messages are fetched first. For an embedding
    /// model the reply is the vector of the last message, as JSON.
    ///
    /// # Errors
    /// A file that cannot be sent, or an error of the provider.
    pub async fn ask(&self, question: Question, on_delta: DeltaSink<'_>) -> Result<ModelReply, ModelError> {
        if self.is_for_embeddings() {
            let (text, began) = (vector::text_of(&question), Instant::now());
            return Ok(vector::reply(self.embed(&[text]).await?, began, on_delta));
        }
        let request = self.request(question).await?;
        self.client.stream_chat(&request, on_delta).await
    }

    /// Returns true for an embedding model.
    pub(super) fn is_for_embeddings(&self) -> bool {
        self.settings.mode == Some(AskedWith::Embedding)
    }

    /// Builds the request to the provider, with its files loaded.
    pub(super) async fn request(&self, question: Question) -> Result<ChatRequest, ModelError> {
        let Question { messages, params, tools, mode, stream } = question;
        let as_url = |kind: MediaKind| self.files.send == MediaSend::Url && self.client.takes_url(kind);
        let file_access = self.file_access.as_deref();
        let sending =
            Sending { label: &self.label, as_url: &as_url, bytes_max: self.files.bytes_max, file_access };
        Ok(ChatRequest {
            label: self.label.clone(),
            model: self.sent_name().to_owned(),
            messages: media::load(messages, sending).await?,
            params: self.sent_params(&params.values),
            stop: params.stop,
            tools,
            mode: match self.settings.mode {
                Some(AskedWith::Chat) => ModelMode::Chat,
                Some(AskedWith::Completion) => ModelMode::Completion,
                Some(AskedWith::Embedding) | None => mode,
            },
            stream,
            reasoning: self.settings.reasoning,
            context_size: self.settings.context_size,
        })
    }

    /// Returns vectors of texts in their order, with as many requests as needed. Texts that are too long for the model
    /// are cut. The tokens are the sum of all requests.
    ///
    /// # Errors
    /// An error of the provider.
    pub async fn embed(&self, texts: &[String]) -> Result<Embeddings, ModelError> {
        let mut all = (Vec::with_capacity(texts.len()), Tokens::default());
        for batch in self.batches(texts) {
            Self::gather(&mut all, self.embed_batch(&batch).await?);
        }
        Ok(all)
    }

    /// The model for texts that are searched for.
    #[must_use]
    pub fn for_queries(self) -> Self {
        let client = self.client.for_queries();
        Self { client: client.unwrap_or_else(|| self.client.clone()), ..self }
    }

    /// Splits and cuts texts to fit into requests.
    pub(super) fn batches(&self, texts: &[String]) -> impl Iterator<Item = Vec<String>> {
        let chars_max = self.settings.context_size.map_or(u64::MAX, |size| size.saturating_mul(TOKEN_CHARS));
        let chars_max = usize::try_from(chars_max).unwrap_or(usize::MAX);
        let at_once = self.settings.max_chunks.unwrap_or(EMBED_TEXTS_MAX).max(1);
        texts
            .chunks(at_once)
            .map(move |batch| batch.iter().map(|text| cut(text, chars_max).to_owned()).collect())
    }

    pub(super) async fn embed_batch(&self, batch: &[String]) -> Result<Embeddings, ModelError> {
        self.client.embed(&self.label, self.sent_name(), batch).await
    }

    pub(super) fn gather((vectors, tokens): &mut Embeddings, (more, counted): Embeddings) {
        vectors.extend(more);
        tokens.prompt = tokens.prompt.saturating_add(counted.prompt);
        tokens.completion = tokens.completion.saturating_add(counted.completion);
    }

    /// Returns the indices of the `top_n` most relevant documents with their relevance from 0 to 1, best first, and the
    /// counted tokens.
    ///
    /// # Errors
    /// An error of the provider.
    pub async fn rerank(
        &self,
        query: &str,
        documents: &[String],
        top_n: usize,
    ) -> Result<Ranking, ModelError> {
        if documents.is_empty() || top_n == 0 {
            return Ok((Vec::new(), Tokens::default()));
        }
        self.client.rerank(&self.label, self.sent_name(), query, documents, top_n).await
    }

    /// Returns the text that is said in a recording; see [`ModelProvider::transcribe`].
    pub(super) async fn transcribe(&self, recording: &Recording) -> Result<Transcript, ModelError> {
        self.client.transcribe(&self.label, self.sent_name(), recording).await
    }

    /// Returns the sound of a text; see [`ModelProvider::speak`].
    pub(super) async fn speak(&self, spoken: &Spoken<'_>) -> Result<Bytes, ModelError> {
        self.client.speak(&self.label, self.sent_name(), spoken).await
    }

    /// Returns true if the provider's moderation flags the text.
    ///
    /// # Errors
    /// An error of the provider.
    pub async fn moderate(&self, text: &str) -> Result<bool, ModelError> {
        self.client.moderate(&self.label, self.sent_name(), text).await
    }

    fn sent_name(&self) -> &str {
        self.settings.send_as.as_deref().unwrap_or(&self.name)
    }

    fn sent_params(&self, params: &JsonMap) -> JsonMap {
        let mut params = merged(&self.parameters, params);
        if let Some(max_tokens) = self.settings.max_tokens_default
            && !REPLY_LIMITS.iter().any(|key| params.contains_key(*key))
        {
            params.insert("max_tokens".into(), json!(max_tokens));
        }
        let kept = params.into_iter().filter(|(key, _)| !self.settings.drop_params.contains(key));
        let named = |key: String| self.settings.param_map.get(&key).cloned().unwrap_or(key);
        kept.map(|(key, value)| (named(key), value)).collect()
    }
}

fn cut(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(at, _)| &text[..at])
}
