//! Requests and answers of OpenAI's moderation. A long text is sent in pieces, all in one request, as on Dify.

use serde_json::{Value as Json, json};

use crate::outside::providers::{ErrorClass, ModelError};

/// Longest piece of a text, in characters.
const PIECE_CHARS_MAX: usize = 2000;

pub(super) fn body(model: &str, text: &str) -> Json {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(PIECE_CHARS_MAX).map(|piece| piece.iter().collect()).collect();
    json!({"model": model, "input": if pieces.is_empty() { vec![String::new()] } else { pieces }})
}

/// True if one of the pieces is flagged.
pub(super) fn read(label: &str, answer: &Json) -> Result<bool, ModelError> {
    let unusable = |what: &str| ModelError::new(label, ErrorClass::BadRequest, what);
    let results = answer.get("results").and_then(Json::as_array).filter(|results| !results.is_empty());
    let results = results.ok_or_else(|| unusable("the answer has no `results`"))?;
    results.iter().try_fold(false, |any, result| match result["flagged"].as_bool() {
        Some(flagged) => Ok(any || flagged),
        None => Err(unusable("a result without `flagged`")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_sent_in_pieces() {
        let sent = body("m", &"é".repeat(PIECE_CHARS_MAX + 1));
        let lengths: Vec<usize> = sent["input"]
            .as_array()
            .map(|pieces| pieces.iter().map(|it| it.as_str().unwrap_or_default().chars().count()).collect())
            .unwrap_or_default();
        assert_eq!((lengths, &sent["model"]), (vec![PIECE_CHARS_MAX, 1], &json!("m")));
        assert_eq!(body("m", "")["input"], json!([""]));
    }

    #[test]
    fn a_text_is_flagged_when_a_piece_is() {
        for (answer, expected) in [
            (json!({"results": [{"flagged": false}, {"flagged": true}]}), Some(true)),
            (json!({"results": [{"flagged": false}]}), Some(false)),
            (json!({"results": []}), None),
            (json!({"results": [{"flagged": true}, {}]}), None),
            (json!({}), None),
        ] {
            assert_eq!(read("openai", &answer).ok(), expected, "{answer}");
        }
    }
}
