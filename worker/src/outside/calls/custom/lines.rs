//! Reads a Call's answer to `exec`: one piece per line. Pure.

use serde_json::Value as Json;
use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::value::JsonMap;

use crate::outside::calls::custom::TYPE_ERROR;

/// Characters of a line that an error shows.
const SHOWN_CHARS_MAX: usize = 200;

/// Converts bytes to pieces.
pub(super) struct Reader {
    id: String,
    held: Vec<u8>,
    line_bytes_max: usize,
}

impl Reader {
    pub(super) fn new(id: &str, line_bytes_max: usize) -> Self {
        Self { id: id.to_owned(), held: Vec::new(), line_bytes_max }
    }

    /// Takes the next bytes.
    pub(super) fn take(&mut self, bytes: &[u8], out: &mut dyn FnMut(Chunk)) -> Result<(), CallError> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.held.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            let line = std::mem::take(&mut self.held);
            self.line(&line, out)?;
        }
        self.held.extend_from_slice(rest);
        self.fits(self.held.len())
    }

    /// Ends the answer; the rest is the last line.
    pub(super) fn end(&mut self, out: &mut dyn FnMut(Chunk)) -> Result<(), CallError> {
        let line = std::mem::take(&mut self.held);
        self.line(&line, out)
    }

    fn fits(&self, bytes: usize) -> Result<(), CallError> {
        let most = self.line_bytes_max;
        if bytes <= most {
            return Ok(());
        }
        let message =
            format!("the Call {} sends a line of more than {most} bytes (calls.line_bytes_max)", self.id);
        Err(CallError::of("CallLimitExceeded", message))
    }

    fn line(&self, line: &[u8], out: &mut dyn FnMut(Chunk)) -> Result<(), CallError> {
        self.fits(line.len())?;
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let value: Json = serde_json::from_slice(line).unwrap_or_default();
        let content = value.get("content");
        match (value.get("type").and_then(Json::as_str), content) {
            (Some("text" | "TEXT"), Some(Json::String(text))) => out(Chunk::Text(text.clone())),
            (Some("data" | "DATA"), Some(Json::Object(data))) => out(Chunk::Data(data.clone())),
            (Some("error"), _) => return Err(raised(&self.id, &value)),
            _ => {
                let shown: String = String::from_utf8_lossy(line).chars().take(SHOWN_CHARS_MAX).collect();
                let message = format!(
                    "the Call {} sends a line that is not a piece: {shown} (a piece is {{\"type\": \"text\" | \"data\", \
                     \"content\": …}})",
                    self.id
                );
                return Err(CallError::of(TYPE_ERROR, message));
            }
        }
        Ok(())
    }
}

/// An error reported by a Call: `err_msg` and `data`.
pub(super) fn raised(id: &str, said: &Json) -> CallError {
    let message = said.get("err_msg").and_then(Json::as_str).filter(|text| !text.is_empty());
    let message = message.map_or_else(|| format!("the Call {id} failed and does not say why"), str::to_owned);
    let data = said.get("data").and_then(Json::as_object).cloned();
    CallError { data: data.unwrap_or_else(JsonMap::new), ..CallError::new(message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(pieces: &[&[u8]], line_bytes_max: usize) -> Result<Vec<Chunk>, CallError> {
        let (mut reader, mut chunks) = (Reader::new("greet", line_bytes_max), Vec::new());
        let mut out = |chunk| chunks.push(chunk);
        for piece in pieces {
            reader.take(piece, &mut out)?;
        }
        reader.end(&mut out)?;
        Ok(chunks)
    }

    #[test]
    fn se_a11_a_line_that_is_no_piece_is_a_type_error() {
        for line in [
            "42",
            "nonsense",
            r#"{"type":"text"}"#,
            r#"{"type":"text","content":1}"#,
            r#"{"type":"data","content":"x"}"#,
            "[]",
        ] {
            let error = read(&[line.as_bytes(), b"\n"], 1000).unwrap_err();
            assert_eq!((error.error_type.as_str(), error.retryable), ("TypeError", false), "{line}");
            assert!(error.message.contains(line) && error.message.contains("greet"), "{error}");
        }
    }

    #[test]
    fn se_a12_an_error_of_a_call_keeps_its_words_and_data() {
        let line = json!({"type": "error", "err_msg": "bad", "data": {"k": 1}}).to_string();
        let error = read(&[line.as_bytes()], 1000).unwrap_err();
        assert_eq!(error.object(), json!({"err_msg": "bad", "data": {"k": 1}}));
        assert_eq!(error.error_type, "CallError");
        let error = read(&[br#"{"type":"error"}"#], 1000).unwrap_err();
        assert!(!error.message.is_empty() && error.data.is_empty());
    }

    #[test]
    fn the_types_of_pieces_may_be_in_upper_case() {
        let chunks =
            read(&[b"{\"type\":\"TEXT\",\"content\":\"a\"}\n{\"type\":\"DATA\",\"content\":{}}"], 1000);
        assert_eq!(chunks.unwrap(), [Chunk::Text("a".into()), Chunk::Data(JsonMap::new())]);
        assert!(read(&[br#"{"type":"Text","content":"a"}"#], 1000).is_err());
    }

    #[test]
    fn xc_11_a_line_that_is_too_long_is_an_error_that_names_the_setting() {
        let long = format!(r#"{{"type":"text","content":"{}"}}"#, "x".repeat(100));
        let error = read(&[long.as_bytes()], 50).unwrap_err();
        assert!(error.message.contains("50 bytes (calls.line_bytes_max)"), "{error}");
    }

    proptest! {
        #[test]
        fn how_lines_are_cut_on_the_way_does_not_show(cuts in prop::collection::vec(0usize..90, 0..6)) {
            let whole = "{\"type\":\"text\",\"content\":\"H\u{e9}\"}\n\n{\"type\":\"data\",\"content\":{\"a\":1}}\r\n{\"type\":\"text\",\"content\":\"\"}".as_bytes();
            let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).chain([0, whole.len()]).collect();
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &whole[pair[0]..pair[1]]).collect();
            let data = JsonMap::from_iter([("a".to_owned(), json!(1))]);
            let expected = vec![Chunk::Text("Hé".into()), Chunk::Data(data), Chunk::Text(String::new())];
            prop_assert_eq!(read(&pieces, 1000).unwrap(), expected);
        }
    }
}
