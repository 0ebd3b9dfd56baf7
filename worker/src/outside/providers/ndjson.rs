//! Decodes lines of JSON from network pieces of any size.

use tidemill_common::sse::{EVENT_BYTES_MAX, SseError};

/// Largest line in bytes, the same as for an event.
const LINE_BYTES_MAX: usize = EVENT_BYTES_MAX;

/// Turns bytes into lines.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The current line, not yet complete.
    line: Vec<u8>,
}

impl Decoder {
    /// Takes the next bytes and adds every completed non-empty line to `lines`.
    ///
    /// # Errors
    /// [`SseError`]; the stream cannot be continued.
    pub fn feed(&mut self, bytes: &[u8], lines: &mut Vec<String>) -> Result<(), SseError> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.push(&rest[..at])?;
            self.end_line(lines)?;
            rest = &rest[at + 1..];
        }
        self.push(rest)
    }

    /// Ends the stream. The last line counts even without its line end.
    ///
    /// # Errors
    /// [`SseError`] for an invalid last line.
    pub fn finish(&mut self, lines: &mut Vec<String>) -> Result<(), SseError> {
        self.end_line(lines)
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            return Err(SseError::TooLarge { max: LINE_BYTES_MAX });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, lines: &mut Vec<String>) -> Result<(), SseError> {
        let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| SseError::NotUtf8)?;
        if !line.trim().is_empty() {
            lines.push(line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_network_cuts_them() {
        for (text, expected) in [
            ("{\"a\":1}\n{\"b\":\"größe 🙂\"}\n", &["{\"a\":1}", "{\"b\":\"größe 🙂\"}"][..]),
            ("{}\r\n\r\n\n{}", &["{}\r", "{}"]),
            ("\n", &[]),
            ("", &[]),
        ] {
            for piece in 1..=text.len().max(1) {
                let (mut decoder, mut lines) = (Decoder::default(), Vec::new());
                for bytes in text.as_bytes().chunks(piece) {
                    decoder.feed(bytes, &mut lines).unwrap();
                }
                decoder.finish(&mut lines).unwrap();
                assert_eq!(lines, expected, "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn what_is_no_text_and_what_never_ends_is_refused() {
        let mut lines = Vec::new();
        assert_eq!(Decoder::default().feed(b"\xff\n", &mut lines), Err(SseError::NotUtf8));
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        assert_eq!(
            Decoder::default().feed(&long, &mut lines),
            Err(SseError::TooLarge { max: LINE_BYTES_MAX })
        );
    }
}
