//! Embeddings, rerank and moderation. Texts with common words have similar vectors, so that a search finds what one expects.

use serde_json::{Value as Json, json};

/// Length of a vector, unless the request sets it (`dimensions`).
const DIMENSIONS: usize = 64;
/// Longest vector that a request can ask for.
const DIMENSIONS_MAX: u64 = 4096;

/// Returns the texts of a request: one, or a list.
pub fn inputs(body: &Json) -> Vec<String> {
    match body.get("input") {
        Some(Json::String(text)) => vec![text.clone()],
        Some(Json::Array(texts)) => texts.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) | None => Vec::new(),
    }
}

/// Builds the answer of OpenAI's API.
pub fn embeddings(body: &Json) -> Json {
    let texts = inputs(body);
    let data: Vec<Json> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            json!({"object": "embedding", "index": index, "embedding": vector(text, dimensions(body))})
        })
        .collect();
    let tokens = tokens(&texts);
    json!({
        "object": "list", "data": data, "model": body["model"],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens}
    })
}

/// Builds the answer of OpenAI's moderation: texts with the word "violence" are flagged.
pub fn moderations(body: &Json) -> Json {
    let flagged = |text: &String| json!({"flagged": text.to_lowercase().contains("violence")});
    let results: Vec<Json> = inputs(body).iter().map(flagged).collect();
    json!({"id": "modr-mock", "model": body["model"], "results": results})
}

/// Builds the answer of Ollama's API.
pub fn ollama(body: &Json) -> Json {
    let texts = inputs(body);
    let vectors: Vec<Vec<f64>> = texts.iter().map(|text| vector(text, dimensions(body))).collect();
    json!({"model": body["model"], "embeddings": vectors, "prompt_eval_count": tokens(&texts)})
}

/// Builds the answer of rerank. The score is the share of the query's words that a document has.
pub fn ranking(body: &Json) -> Json {
    let query = words(body["query"].as_str().unwrap_or_default());
    let documents = body["documents"].as_array().map_or(&[][..], Vec::as_slice);
    let score = |document: &Json| {
        let found = words(document.as_str().unwrap_or_default());
        let shared = query.iter().filter(|word| found.contains(word)).count();
        shared as f64 / query.len().max(1) as f64
    };
    let mut results: Vec<(usize, f64)> = documents.iter().map(score).enumerate().collect();
    results.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let top_n = body["top_n"].as_u64().and_then(|top_n| usize::try_from(top_n).ok());
    results.truncate(top_n.unwrap_or(usize::MAX));
    let results: Vec<Json> =
        results.into_iter().map(|(index, score)| json!({"index": index, "relevance_score": score})).collect();
    json!({"model": body["model"], "results": results})
}

fn dimensions(body: &Json) -> usize {
    let wanted = body["dimensions"].as_u64().map(|count| count.clamp(1, DIMENSIONS_MAX));
    wanted.and_then(|count| usize::try_from(count).ok()).unwrap_or(DIMENSIONS)
}

/// Builds a vector of length 1. Each word counts at the position that its hash chooses.
fn vector(text: &str, dimensions: usize) -> Vec<f64> {
    let mut vector = vec![0.0; dimensions];
    for word in words(text) {
        // FNV-1a gives the same on every machine.
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        vector[usize::try_from(hash % dimensions as u64).unwrap_or(0)] += 1.0;
    }
    let length = vector.iter().map(|it| it * it).sum::<f64>().sqrt();
    if length == 0.0 {
        vector[0] = 1.0;
        return vector;
    }
    vector.iter().map(|it| it / length).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn tokens(texts: &[String]) -> usize {
    texts.iter().map(|text| words(text).len()).sum()
}
