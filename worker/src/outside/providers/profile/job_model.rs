//! Calls of a model by jobs: with a permit, if the model has limits, and with waits in which the job can be parked.

use std::time::Instant;

use bytes::Bytes;
use serde_json::Value as Json;
use tidemill_common::nodes::llm::message::{Message, MessagePart};
use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_common::nodes::llm::{Role, tokens};

use crate::outside::providers::limiter::{CallUsage, Waiter};
use crate::outside::providers::media;
use crate::outside::providers::profile::model::{Model, Question, REPLY_LIMITS, TOKEN_CHARS};
use crate::outside::providers::profile::vector;
use crate::outside::providers::{
    DeltaSink, Embeddings, ModelError, ModelReply, Ranking, Recording, Spoken, Transcript,
};

/// A model for one call of a job.
pub struct JobModel<'a> {
    model: &'a Model,
    waiter: &'a dyn Waiter,
    key: &'a str,
}

impl Model {
    /// The model for one call of a job. `key` is unique within the node's attempt: `llm`, `llm:1`, `embed`, ….
    pub const fn for_job<'a>(&'a self, waiter: &'a dyn Waiter, key: &'a str) -> JobModel<'a> {
        JobModel { model: self, waiter, key }
    }
}

impl JobModel<'_> {
    /// As [`Model::ask`]. A call to a model with limits waits for a permit, and any call is repeated after a retryable
    /// failure. The repetition may happen later in another worker, see [`Waiter::wait`]. If the provider counts no
    /// tokens, the reply has estimated ones, and so has the failure of a reply that broke off.
    ///
    /// # Errors
    /// As [`Model::ask`].
    pub async fn ask(&self, question: Question, on_delta: DeltaSink<'_>) -> Result<ModelReply, ModelError> {
        self.check_files(&question.messages).await?;
        let (prompt, mut chars) = (tokens::estimate(&question.messages), 0);
        let mut count = |piece: &str| {
            chars += piece.chars().count() as u64;
            on_delta(piece);
        };
        let answer = self.ask_counted(question, &mut count).await;
        let completion = tokens::of_chars(chars);
        match answer {
            Ok(reply) if reply.tokens == Tokens::default() && !self.model.is_for_embeddings() => {
                let said =
                    Message { tool_calls: reply.tool_calls.clone(), ..Message::text(Role::Assistant, "") };
                let calls = if said.tool_calls.is_empty() { 0 } else { tokens::estimate(&[said]) };
                let completion = completion.max(tokens::of_chars(reply.text.chars().count() as u64));
                let tokens = Tokens { prompt, completion: completion.saturating_add(calls) };
                Ok(ModelReply { tokens, estimated: true, ..reply })
            }
            Ok(reply) => Ok(reply),
            Err(error) if chars == 0 => Err(error),
            Err(error) => Err(ModelError { lost: Tokens { prompt, completion }, ..error }),
        }
    }

    /// Refuses files of the storage that the run of the job may not read: a node before this one may have written any path
    /// into a file object.
    async fn check_files(&self, messages: &[Message]) -> Result<(), ModelError> {
        for part in messages.iter().flat_map(|message| &message.parts) {
            let MessagePart::File(file) = part else { continue };
            let Some(reference) = media::reference(file) else { continue };
            let checked = self.waiter.check_file(reference).await;
            let filename = file.file.get("filename").and_then(Json::as_str).unwrap_or_default();
            checked.map_err(|error| media::unreadable(&self.model.label, filename, &error.to_string()))?;
        }
        Ok(())
    }

    /// As [`Self::ask`], with only the provider's own token counts.
    async fn ask_counted(
        &self,
        question: Question,
        on_delta: DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let Some(limited) = &self.model.limited else { return self.model.ask(question, on_delta).await };
        if self.model.is_for_embeddings() {
            let (text, began) = (vector::text_of(&question), Instant::now());
            return Ok(vector::reply(self.embed(&[text]).await?, began, on_delta));
        }
        let needed = self.estimate(&question);
        let request = self.model.request(question).await?;
        let mut partly = false;
        let mut limited_call = limited.new_call(self.waiter, self.key, needed);
        loop {
            let permit = limited_call.permit().await;
            let mut on_delta = |piece: &str| {
                partly = true;
                on_delta(piece);
            };
            let reply = permit.during(self.model.client.stream_chat(&request, &mut on_delta)).await;
            let usage = |reply: &ModelReply| CallUsage { tokens: reply.tokens, rate: reply.rate };
            let ended = permit.end(reply, usage, partly).await;
            if let Some(reply) = limited_call.over(ended).await {
                return reply;
            }
        }
    }

    /// As [`Model::embed`]; each request has its own permit.
    ///
    /// # Errors
    /// As [`Model::embed`].
    pub async fn embed(&self, texts: &[String]) -> Result<Embeddings, ModelError> {
        let Some(limited) = &self.model.limited else { return self.model.embed(texts).await };
        let mut all = (Vec::with_capacity(texts.len()), Tokens::default());
        for (number, batch) in self.model.batches(texts).enumerate() {
            let (key, tokens) = (format!("{}/{number}", self.key), tokens_of(&batch));
            let mut limited_call = limited.new_call(self.waiter, &key, tokens);
            loop {
                let permit = limited_call.permit().await;
                let answer = permit.during(self.model.embed_batch(&batch)).await;
                let usage = |(_, tokens): &Embeddings| CallUsage { tokens: *tokens, ..CallUsage::default() };
                let ended = permit.end(answer, usage, false).await;
                if let Some(answer) = limited_call.over(ended).await {
                    Model::gather(&mut all, answer?);
                    break;
                }
            }
        }
        Ok(all)
    }

    /// As [`Model::rerank`].
    ///
    /// # Errors
    /// As [`Model::rerank`].
    pub async fn rerank(
        &self,
        query: &str,
        documents: &[String],
        top_n: usize,
    ) -> Result<Ranking, ModelError> {
        let Some(limited) = &self.model.limited else {
            return self.model.rerank(query, documents, top_n).await;
        };
        let mut limited_call = limited.new_call(self.waiter, self.key, tokens_of(documents));
        loop {
            let permit = limited_call.permit().await;
            let answer = permit.during(self.model.rerank(query, documents, top_n)).await;
            let usage = |(_, tokens): &Ranking| CallUsage { tokens: *tokens, ..CallUsage::default() };
            let ended = permit.end(answer, usage, false).await;
            if let Some(answer) = limited_call.over(ended).await {
                return answer;
            }
        }
    }

    /// Returns the text that is said in a recording, with a permit as [`Self::ask`].
    ///
    /// # Errors
    /// As [`Self::ask`], and for a model without an API for speech.
    pub async fn transcribe(&self, recording: &Recording) -> Result<Transcript, ModelError> {
        let Some(limited) = &self.model.limited else { return self.model.transcribe(recording).await };
        // Nothing is known about the length of the recording.
        let mut limited_call = limited.new_call(self.waiter, self.key, 0);
        loop {
            let permit = limited_call.permit().await;
            let answer = permit.during(self.model.transcribe(recording)).await;
            let usage = |(_, tokens): &Transcript| CallUsage { tokens: *tokens, ..CallUsage::default() };
            let ended = permit.end(answer, usage, false).await;
            if let Some(answer) = limited_call.over(ended).await {
                return answer;
            }
        }
    }

    /// Returns the sound of a text, likewise.
    ///
    /// # Errors
    /// As [`Self::transcribe`].
    pub async fn speak(&self, spoken: Spoken<'_>) -> Result<Bytes, ModelError> {
        let Some(limited) = &self.model.limited else { return self.model.speak(&spoken).await };
        let prompt = tokens::of_chars(spoken.text.chars().count() as u64);
        let mut limited_call = limited.new_call(self.waiter, self.key, prompt);
        loop {
            let permit = limited_call.permit().await;
            let answer = permit.during(self.model.speak(&spoken)).await;
            let usage =
                |_: &Bytes| CallUsage { tokens: Tokens { prompt, completion: 0 }, ..CallUsage::default() };
            let ended = permit.end(answer, usage, false).await;
            if let Some(answer) = limited_call.over(ended).await {
                return answer;
            }
        }
    }

    /// As [`Model::moderate`], with a permit as [`Self::ask`].
    ///
    /// # Errors
    /// As [`Model::moderate`].
    pub async fn moderate(&self, text: &str) -> Result<bool, ModelError> {
        let Some(limited) = &self.model.limited else { return self.model.moderate(text).await };
        let prompt = tokens::of_chars(text.chars().count() as u64);
        let mut limited_call = limited.new_call(self.waiter, self.key, prompt);
        loop {
            let permit = limited_call.permit().await;
            let answer = permit.during(self.model.moderate(text)).await;
            let usage =
                |_: &bool| CallUsage { tokens: Tokens { prompt, completion: 0 }, ..CallUsage::default() };
            let ended = permit.end(answer, usage, false).await;
            if let Some(answer) = limited_call.over(ended).await {
                return answer;
            }
        }
    }

    /// Estimates the tokens of a question and its longest reply, as providers reserve them in advance.
    fn estimate(&self, question: &Question) -> u64 {
        let texts = question.messages.iter().flat_map(|message| &message.parts);
        let chars: usize = texts
            .map(|part| match part {
                MessagePart::Text(text) => text.chars().count(),
                MessagePart::File(_) => 0,
            })
            .sum();
        let said = |key: &str| question.params.values.get(key).or_else(|| self.model.parameters.get(key));
        let said = REPLY_LIMITS.iter().find_map(|key| said(key)?.as_u64());
        let reply = said.or(self.model.settings.max_tokens_default).unwrap_or(0);
        (chars as u64).div_ceil(TOKEN_CHARS).saturating_add(reply)
    }
}

fn tokens_of(texts: &[String]) -> u64 {
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    (chars as u64).div_ceil(TOKEN_CHARS)
}
