//! The answers of models that are no LLMs, as the SDK writes them.

use serde_json::Value as Json;

/// Vectors, and the counted tokens.
pub type Vectors = (Vec<Vec<f32>>, u64);

/// Reads the vectors of so many texts.
///
/// # Errors
/// It has other ones; in words.
pub fn vectors(answer: &Json, texts: usize) -> Result<Vectors, String> {
    let rows = answer["embeddings"].as_array().ok_or("it has no embeddings")?;
    if rows.len() != texts {
        return Err(format!("it has {} vectors of {texts} texts", rows.len()));
    }
    let number = |value: &Json| value.as_f64().map(|number| number as f32);
    let vector = |row: &Json| row.as_array()?.iter().map(number).collect::<Option<Vec<f32>>>();
    let vectors =
        rows.iter().map(vector).collect::<Option<_>>().ok_or("a vector is not a list of numbers")?;
    Ok((vectors, answer["usage"]["tokens"].as_u64().unwrap_or(0)))
}

/// Reads the order of so many documents: their indices with their relevance, best first, at most `top_n`.
///
/// # Errors
/// It names a document that there is not; in words.
pub fn ranking(answer: &Json, documents: usize, top_n: usize) -> Result<Vec<(usize, f64)>, String> {
    let rows = answer["docs"].as_array().ok_or("it has no docs")?;
    let row = |row: &Json| {
        let index = row["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let index = index.filter(|index| *index < documents);
        let index =
            index.ok_or_else(|| format!("it ranks a document that there is not: {}", row["index"]))?;
        let score = row["score"].as_f64().ok_or("a document has no score")?;
        Ok::<_, String>((index, score))
    };
    let mut ranked = rows.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let mut seen = std::collections::BTreeSet::new();
    ranked.retain(|(index, _)| seen.insert(*index));
    ranked.truncate(top_n);
    Ok(ranked)
}

/// Reads the truth value of a moderation.
///
/// # Errors
/// It has none; in words.
pub fn flagged(answer: &Json) -> Result<bool, String> {
    answer["result"].as_bool().ok_or_else(|| "it has no result that is true or false".into())
}

/// Reads the text of a recording.
///
/// # Errors
/// It has none; in words.
pub fn transcript(answer: &Json) -> Result<String, String> {
    answer["result"].as_str().map(str::to_owned).ok_or_else(|| "it has no result that is a text".into())
}

/// Reads a piece of sound.
///
/// # Errors
/// It is not in hexadecimal digits; in words.
pub fn sound(part: &Json) -> Result<Vec<u8>, String> {
    let digits = part["result"].as_str().ok_or("a piece of the sound has no result")?.as_bytes();
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes
        .filter(|_| rest.is_empty())
        .ok_or_else(|| "a piece of the sound is not in hexadecimal digits".into())
}

/// Writes bytes in hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn vectors_are_as_many_as_the_texts() {
        let answer = json!({"model": "m", "embeddings": [[0.5, 1], [2.0, -1]], "usage": {"tokens": 7, "total_price": "0"}});
        assert_eq!(vectors(&answer, 2), Ok((vec![vec![0.5, 1.0], vec![2.0, -1.0]], 7)));
        assert!(vectors(&answer, 3).unwrap_err().contains("2 vectors of 3 texts"));
        assert!(vectors(&json!({"embeddings": [["a"]]}), 1).is_err());
    }

    #[test]
    fn a_ranking_is_sorted_and_names_only_documents_that_there_are() {
        let doc = |index: i64, score: f64| json!({"index": index, "text": "t", "score": score});
        let answer = json!({"docs": [doc(0, 0.1), doc(2, 0.9), doc(1, 0.5), doc(2, 0.2)]});
        assert_eq!(ranking(&answer, 3, 2), Ok(vec![(2, 0.9), (1, 0.5)]));
        assert!(ranking(&answer, 2, 2).unwrap_err().contains("that there is not: 2"));
        assert!(ranking(&json!({"docs": [doc(-1, 0.1)]}), 1, 1).is_err());
    }

    #[test]
    fn other_answers_are_read_or_refused() {
        assert_eq!(flagged(&json!({"result": true})), Ok(true));
        assert!(flagged(&json!({"result": "yes"})).is_err());
        assert_eq!(transcript(&json!({"result": "hello"})), Ok("hello".into()));
        assert_eq!(sound(&json!({"result": "00fF"})), Ok(vec![0, 255]));
        for wrong in ["0", "0g", "+f"] {
            assert!(sound(&json!({"result": wrong})).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn sound_comes_back_as_it_was_written(bytes in proptest::collection::vec(0_u8..=255, 0..50)) {
            proptest::prop_assert_eq!(sound(&json!({"result": hexadecimal(&bytes)})), Ok(bytes));
        }
    }
}
