//! Models that answer with vectors, orders, judgements and sound.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::llm::tokens;
use tidemill_common::nodes::llm::usage::{self, Timing, Tokens};
use tidemill_plugins::process::Parts;

use super::llm::config;
use super::running::Running;
use super::{Answering, text};
use crate::attempt::journal::ChargeSource;
use crate::outside::providers::profile::ModelKind;
use crate::outside::providers::{Model, Recording, Spoken};

/// Bytes of sound in one part of an answer.
const SOUND_BYTES: usize = 256 * 1024;

impl Answering<'_> {
    pub(super) async fn embedding(&self, request: &Json) -> Result<Json, String> {
        let (provider, model) = self.model(request, ModelKind::TextEmbedding).await?;
        let call = Self::call_name();
        let waiter = self.waiter(&call);
        let texts = texts(request, "texts")?;
        let running = Running::new(&waiter, (&provider, &model), tokens_of(&texts));
        let answer = model.for_job(&waiter, &call).embed(&texts).await;
        running.end();
        let (vectors, tokens) = answer.map_err(|error| error.message)?;
        let usage = self.count(&call, &provider, &model, tokens);
        let price = |key: &str| usage.record.get(key).cloned().unwrap_or_else(|| json!("0"));
        Ok(json!({
            "model": model.name(), "embeddings": vectors,
            "usage": {
                "tokens": usage.total_tokens, "total_tokens": usage.total_tokens,
                "unit_price": price("prompt_unit_price"), "price_unit": price("prompt_price_unit"),
                "total_price": usage.total_price, "currency": usage.currency, "latency": 0.0,
            },
        }))
    }

    pub(super) async fn ranking(&self, request: &Json) -> Result<Json, String> {
        let (provider, model) = self.model(request, ModelKind::Rerank).await?;
        let (documents, query) = (texts(request, "docs")?, text(request, "query")?);
        let most = request["top_n"].as_u64().and_then(|most| usize::try_from(most).ok());
        let most = most.unwrap_or(documents.len());
        let call = Self::call_name();
        let waiter = self.waiter(&call);
        let running = Running::new(&waiter, (&provider, &model), tokens_of(&documents));
        let answer = model.for_job(&waiter, &call).rerank(query, &documents, most).await;
        running.end();
        let (ranking, tokens) = answer.map_err(|error| error.message)?;
        self.count(&call, &provider, &model, tokens);
        let least = request["score_threshold"].as_f64().unwrap_or(f64::MIN);
        let ranked = ranking.iter().filter(|(_, score)| *score >= least);
        let document =
            |(at, score): &(usize, f64)| json!({"index": at, "text": documents.get(*at), "score": score});
        Ok(json!({"model": model.name(), "docs": ranked.map(document).collect::<Vec<_>>()}))
    }

    pub(super) async fn moderation(&self, request: &Json) -> Result<Json, String> {
        let (_, model) = self.model(request, ModelKind::Moderation).await?;
        let call = Self::call_name();
        let waiter = self.waiter(&call);
        // No provider counts tokens for it.
        let flagged = model.for_job(&waiter, &call).moderate(text(request, "text")?).await;
        Ok(json!({"result": flagged.map_err(|error| error.message)?}))
    }

    pub(super) async fn transcript(&self, request: &Json) -> Result<Json, String> {
        let (provider, model) = self.model(request, ModelKind::Speech2Text).await?;
        let bytes = bytes_of(text(request, "file")?)?;
        let recording =
            Recording { filename: "audio.mp3".into(), mime_type: "audio/mpeg".into(), bytes: bytes.into() };
        let call = Self::call_name();
        let waiter = self.waiter(&call);
        let answer = model.for_job(&waiter, &call).transcribe(&recording).await;
        let (said, counted) = answer.map_err(|error| error.message)?;
        if counted == Tokens::default() {
            self.estimate(&call, &provider, &model, Tokens { prompt: 0, completion: chars_of(&said) });
        } else {
            self.count(&call, &provider, &model, counted);
        }
        Ok(json!({"result": said}))
    }

    pub(super) async fn sound(&self, request: &Json, parts: &Parts) -> Result<(), String> {
        let (provider, model) = self.model(request, ModelKind::Tts).await?;
        let spoken = Spoken {
            text: text(request, "content_text")?,
            voice: request["voice"].as_str().unwrap_or_default(),
            bytes_max: self.asker.http.bounds.file_bytes_max,
        };
        let call = Self::call_name();
        let waiter = self.waiter(&call);
        let prompt = chars_of(spoken.text);
        let running = Running::new(&waiter, (&provider, &model), prompt);
        let answer = model.for_job(&waiter, &call).speak(spoken).await;
        running.end();
        let sound: Bytes = answer.map_err(|error| error.message)?;
        // As for our own nodes.
        self.estimate(&call, &provider, &model, Tokens { prompt, completion: 0 });
        for piece in sound.chunks(SOUND_BYTES) {
            let digits: String = piece.iter().map(|byte| format!("{byte:02x}")).collect();
            parts.send(json!({"result": digits})).await?;
        }
        Ok(())
    }

    async fn model(&self, request: &Json, kind: ModelKind) -> Result<(String, Model), String> {
        let config = config(request)?;
        let model = self.worker()?.outside.providers.resolve_for(&config, kind, Some(*self.asker.run)).await;
        Ok((config.provider, model.map_err(|error| error.message)?))
    }

    fn count(&self, call: &str, provider: &str, model: &Model, tokens: Tokens) -> Usage {
        let usage = usage::bill(tokens, model.pricing.as_ref(), Timing::default());
        self.charge(call, &usage, ChargeSource::Model(provider.to_owned(), model.name().to_owned()));
        usage
    }

    /// Charges tokens that the provider has not counted.
    fn estimate(&self, call: &str, provider: &str, model: &Model, tokens: Tokens) {
        let usage = usage::estimated(usage::bill(tokens, model.pricing.as_ref(), Timing::default()));
        self.charge(call, &usage, ChargeSource::Model(provider.to_owned(), model.name().to_owned()));
    }
}

fn chars_of(text: &str) -> u64 {
    tokens::of_chars(text.chars().count() as u64)
}

fn tokens_of(texts: &[String]) -> u64 {
    texts.iter().map(|text| chars_of(text)).sum()
}

fn texts(request: &Json, key: &str) -> Result<Vec<String>, String> {
    let items = request[key].as_array().ok_or_else(|| format!("the request has no list {key:?}"))?;
    let text = |item: &Json| {
        item.as_str().map(str::to_owned).ok_or_else(|| format!("an item of {key:?} is no text"))
    };
    items.iter().map(text).collect()
}

/// The bytes of a text of hexadecimal digits.
fn bytes_of(digits: &str) -> Result<Vec<u8>, String> {
    let wrong = || "the content is not in hexadecimal digits".to_owned();
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_comes_in_hexadecimal_digits() {
        assert_eq!(bytes_of("00ff10"), Ok(vec![0, 255, 16]));
        assert!(bytes_of("0").is_err() && bytes_of("zz").is_err() && bytes_of("é").is_err());
    }
}
