//! Speech with OpenAI's API: a recording as a form (`audio/transcriptions`), and a text as JSON (`audio/speech`).

use bytes::Bytes;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::usage::Tokens;
use uuid::Uuid;

/// What an API without it lacks, in errors.
pub const SPEECH: &str = "speech";
/// The format of the sound. Pieces of MP3 one after another are MP3 again, so a long text needs no other program.
const FORMAT: &str = "mp3";

/// A recording.
#[derive(Clone, PartialEq, Eq)]
pub struct Recording {
    /// Its extension tells the provider the format.
    pub filename: String,
    pub mime_type: String,
    pub bytes: Bytes,
}

/// Shows only the number of bytes.
impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// A text to read aloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spoken<'a> {
    pub text: &'a str,
    pub voice: &'a str,
    /// Most bytes of its sound.
    pub bytes_max: u64,
}

/// The form with a recording: its content type and its bytes.
pub(super) fn form(model: &str, recording: &Recording) -> (String, Bytes) {
    let boundary = Uuid::new_v4().simple().to_string();
    let field = |name: &str, value: &str| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    // The name comes from the scheduler, but a quote or a line end would end it early.
    let name: String =
        recording.filename.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect();
    let head = format!(
        "{}{}--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: {}\r\n\r\n",
        field("model", model),
        field("response_format", "json"),
        recording.mime_type
    );
    let end = format!("\r\n--{boundary}--\r\n");
    let body = [head.as_bytes(), &recording.bytes, end.as_bytes()].concat();
    (format!("multipart/form-data; boundary={boundary}"), body.into())
}

/// The body of a request for sound.
pub(super) fn body(model: &str, spoken: &Spoken<'_>) -> Json {
    json!({"model": model, "input": spoken.text, "voice": spoken.voice, "response_format": FORMAT})
}

/// The text in an answer: of a JSON object with `text`, or the whole answer, which some servers send as plain text.
pub(super) fn transcript(answer: &[u8]) -> Option<(String, Tokens)> {
    let text = std::str::from_utf8(answer).ok()?;
    match serde_json::from_str::<Json>(text) {
        Ok(Json::Object(map)) => {
            let said = map.get("text")?.as_str()?.to_owned();
            let count = |keys: [&str; 2]| {
                let usage = map.get("usage");
                keys.iter().find_map(|key| usage?.get(*key)?.as_u64()).unwrap_or(0)
            };
            let prompt = count(["input_tokens", "prompt_tokens"]);
            let completion = count(["output_tokens", "completion_tokens"]);
            Some((said, Tokens { prompt, completion }))
        }
        Ok(Json::String(said)) => Some((said, Tokens::default())),
        Ok(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_)) | Err(_) => {
            Some((text.trim().to_owned(), Tokens::default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_has_the_model_and_the_recording() {
        let recording = Recording {
            filename: "a\"b\r\n.mp3".into(),
            mime_type: "audio/mpeg".into(),
            bytes: Bytes::from_static(b"\xff\xfbsound"),
        };
        let (kind, body) = form("whisper-1", &recording);
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains("name=\"model\"\r\n\r\nwhisper-1\r\n"), "{text}");
        assert!(text.contains("filename=\"ab.mp3\"\r\nContent-Type: audio/mpeg\r\n\r\n"), "{text}");
        assert!(text.ends_with(&format!("sound\r\n--{boundary}--\r\n")), "{text}");
        assert!(body.windows(7).any(|window| window == b"\xff\xfbsound"));
    }

    #[test]
    fn the_text_of_an_answer_is_found_in_each_form_that_servers_send() {
        for (answer, expected) in [
            (&br#"{"text": "hello"}"#[..], Some(("hello", 0, 0))),
            (
                br#"{"text": "hi", "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 2}}"#,
                Some(("hi", 14, 2)),
            ),
            (b"plain words\n", Some(("plain words", 0, 0))),
            (b"\"quoted\"", Some(("quoted", 0, 0))),
            (br#"{"error": "x"}"#, None),
            (b"\xff\xfe", None),
        ] {
            let found = transcript(answer);
            let found =
                found.as_ref().map(|(text, tokens)| (text.as_str(), tokens.prompt, tokens.completion));
            assert_eq!(found, expected);
        }
    }
}
