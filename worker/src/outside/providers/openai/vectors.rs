//! Requests and answers for embeddings and rerank.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::usage::Tokens;

use crate::outside::providers::{Embeddings, ErrorClass, ModelError, Ranking};

pub(super) fn embed_body(model: &str, texts: &[String]) -> Json {
    json!({"model": model, "input": texts, "encoding_format": "float"})
}

/// Returns the vectors in the order of the texts, whatever their order in the answer.
pub(super) fn read_embeddings(label: &str, answer: &Json, count: usize) -> Result<Embeddings, ModelError> {
    fail_on_error(label, answer)?;
    let items = answer.get("data").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for (at, item) in items.iter().enumerate() {
        let index = place(item).unwrap_or(at);
        let slot =
            vectors.get_mut(index).ok_or_else(|| unusable(label, "a vector of a text that was not sent"))?;
        let vector = item.get("embedding").and_then(vector);
        *slot = Some(vector.ok_or_else(|| unusable(label, "an invalid vector"))?);
    }
    let vectors: Option<Vec<Vec<f32>>> = vectors.into_iter().collect();
    let vectors = vectors.ok_or_else(|| unusable(label, "fewer vectors than texts"))?;
    let prompt = answer.pointer("/usage/prompt_tokens").and_then(Json::as_u64).unwrap_or(0);
    Ok((vectors, Tokens { prompt, completion: 0 }))
}

pub(super) fn rerank_body(model: &str, query: &str, documents: &[String], top_n: usize) -> Json {
    json!({
        "model": model, "query": query, "documents": documents, "top_n": top_n, "return_documents": false
    })
}

/// Returns the indices with their scores, best first. If scores lie outside of 0 to 1, all are mapped into it, which
/// keeps their order.
pub(super) fn read_ranking(
    label: &str,
    answer: &Json,
    count: usize,
    top_n: usize,
) -> Result<Ranking, ModelError> {
    fail_on_error(label, answer)?;
    let items = ["results", "data"].iter().find_map(|key| answer.get(key)?.as_array());
    let items = items.ok_or_else(|| unusable(label, "no results"))?;
    let score = |item: &Json| {
        let score = ["relevance_score", "score"].iter().find_map(|key| item.get(key)?.as_f64())?;
        Some((place(item).filter(|index| *index < count)?, score))
    };
    let ranking: Option<Vec<(usize, f64)>> = items.iter().map(score).collect();
    let mut ranking = ranking.ok_or_else(|| unusable(label, "a result without a document or a score"))?;
    if ranking.iter().any(|(_, score)| !(0.0..=1.0).contains(score)) {
        for (_, score) in &mut ranking {
            *score = 1.0 / (1.0 + (-*score).exp());
        }
    }
    ranking.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranking.truncate(top_n);
    Ok((ranking, ranking_tokens(answer)))
}

/// The token counts of rerank services: those like OpenAI, and Cohere.
fn ranking_tokens(answer: &Json) -> Tokens {
    const PLACES: [&str; 4] = [
        "/usage/prompt_tokens",
        "/usage/total_tokens",
        "/meta/tokens/input_tokens",
        "/meta/billed_units/input_tokens",
    ];
    let prompt = PLACES.iter().find_map(|place| answer.pointer(place)?.as_u64());
    Tokens { prompt: prompt.unwrap_or(0), completion: 0 }
}

/// Parses a vector: numbers, or base64 of 32-bit little-endian floats.
fn vector(value: &Json) -> Option<Vec<f32>> {
    match value {
        Json::Array(numbers) => numbers.iter().map(|number| number.as_f64().map(|it| it as f32)).collect(),
        Json::String(text) => {
            let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len().is_multiple_of(4))?;
            let number = |bytes: &[u8]| Some(f32::from_le_bytes(bytes.try_into().ok()?));
            bytes.chunks_exact(4).map(number).collect()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => None,
    }
}

fn place(item: &Json) -> Option<usize> {
    item.get("index").and_then(Json::as_u64).and_then(|index| usize::try_from(index).ok())
}

fn fail_on_error(label: &str, answer: &Json) -> Result<(), ModelError> {
    match answer.get("error") {
        Some(error) if !error.is_null() => Err(ModelError::in_stream(label, answer)),
        Some(_) | None => Ok(()),
    }
}

fn unusable(label: &str, what: &str) -> ModelError {
    ModelError::new(label, ErrorClass::BadRequest, &format!("the answer holds {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_ordered_and_may_be_packed() {
        let packed = STANDARD.encode([1.0f32, -0.5].map(f32::to_le_bytes).concat());
        let answer = json!({
            "data": [{"index": 1, "embedding": packed}, {"index": 0, "embedding": [0, 1]}],
            "usage": {"prompt_tokens": 4, "total_tokens": 4}
        });
        let (vectors, tokens) = read_embeddings("p", &answer, 2).unwrap();
        assert_eq!(vectors, [vec![0.0, 1.0], vec![1.0, -0.5]]);
        assert_eq!((tokens.prompt, tokens.completion), (4, 0));
    }

    #[test]
    fn answers_that_lack_something_are_refused() {
        for (answer, said) in [
            (json!({}), "fewer vectors"),
            (json!({"data": [{"embedding": [1]}, {"embedding": [1]}]}), "not sent"),
            (json!({"data": [{"embedding": "abc"}]}), "an invalid vector"),
            (json!({"error": {"message": "busy"}}), "busy"),
        ] {
            let error = read_embeddings("p", &answer, 1).unwrap_err();
            assert!(error.message.contains(said), "{answer}: {error}");
        }
        assert!(read_ranking("p", &json!({"results": [{"index": 3, "score": 1}]}), 3, 1).is_err());
        assert!(read_ranking("p", &json!({}), 3, 1).is_err());
    }

    #[test]
    fn what_a_ranking_counts_is_read_wherever_it_stands() {
        for (more, counted) in [
            (json!({"usage": {"total_tokens": 7}}), 7),
            (json!({"usage": {"prompt_tokens": 6, "total_tokens": 7}}), 6),
            (json!({"meta": {"tokens": {"input_tokens": 5}}}), 5),
            (json!({"meta": {"billed_units": {"search_units": 1}}}), 0),
        ] {
            let mut answer = json!({"results": [{"index": 0, "relevance_score": 1}]});
            answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let (_, tokens) = read_ranking("p", &answer, 1, 1).unwrap();
            assert_eq!((tokens.prompt, tokens.completion), (counted, 0), "{more}");
        }
    }

    #[test]
    fn rankings_are_best_first_and_between_0_and_1() {
        let answer = |scores: [f64; 3]| {
            let results: Vec<Json> = scores
                .iter()
                .enumerate()
                .map(|(index, score)| json!({"index": index, "relevance_score": score}))
                .collect();
            json!({"results": results})
        };
        let (ranking, tokens) = read_ranking("p", &answer([0.1, 0.9, 0.5]), 3, 2).unwrap();
        assert_eq!((ranking, tokens.prompt), (vec![(1, 0.9), (2, 0.5)], 0));
        let (bent, _) = read_ranking("p", &answer([-4.0, 0.9, 1.5]), 3, 3).unwrap();
        assert_eq!(bent.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [2, 1, 0]);
        assert!(bent.iter().all(|(_, score)| (0.0..=1.0).contains(score)), "{bent:?}");
    }
}
