//! Decodes server-sent events from network pieces of any size.
//!
//! A piece may end inside a line, a `\r
//! ` or a character; only whole lines become text. Comments are ignored. Model APIs need only the field `data`;
//! resumable streams also use `id` and `retry`.

/// Largest event in bytes; streamed replies are far smaller.
pub(super) const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// An invalid event stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A line or an event exceeded the size limit.
    #[error("an event of the stream is larger than {EVENT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("a line of the stream is not UTF-8")]
    NotUtf8,
}

/// Turns bytes into events.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The current line, not yet complete.
    line: Vec<u8>,
    /// True when the last byte was `\r`; a following `
    /// ` belongs to it.
    after_return: bool,
    /// Data of the current event; `None` before its first `data` line.
    data: Option<String>,
    begun: bool,
    /// The id of the current event.
    id: Option<String>,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

impl Decoder {
    /// Takes the next bytes and adds the data of every completed event to `events`.
    ///
    /// # Errors
    /// [`StreamError`]; the stream cannot be continued.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<String>) -> Result<(), StreamError> {
        for &byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => {}
                b'\r' | b'\n' => {
                    self.after_return = byte == b'\r';
                    self.end_line(events)?;
                }
                _ => {
                    self.line.push(byte);
                    if self.line.len() > EVENT_BYTES_MAX {
                        return Err(StreamError::TooLarge);
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the stream. The last event counts even without its blank line, which some servers omit.
    ///
    /// # Errors
    /// [`StreamError`] for an invalid last line.
    pub fn finish(&mut self, events: &mut Vec<String>) -> Result<(), StreamError> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        events.extend(self.data.take());
        Ok(())
    }

    /// The id of the last complete event, or of an earlier one if that had none.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The wait before reconnecting, in milliseconds, if the stream sets one.
    pub const fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    fn end_line(&mut self, events: &mut Vec<String>) -> Result<(), StreamError> {
        let line = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&line).map_err(|_| StreamError::NotUtf8)?;
        // A stream may begin with a byte order mark.
        let line =
            if std::mem::replace(&mut self.begun, true) { line } else { line.trim_start_matches('\u{feff}') };
        if line.is_empty() {
            events.extend(self.data.take());
            if self.id.is_some() {
                self.last_id = self.id.take();
            }
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if field != "data" {
            match field {
                "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
                "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
                _ => {}
            }
            return Ok(());
        }
        match &mut self.data {
            Some(data) if data.len() + value.len() > EVENT_BYTES_MAX => return Err(StreamError::TooLarge),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str, piece: usize) -> Vec<String> {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        for bytes in text.as_bytes().chunks(piece) {
            decoder.feed(bytes, &mut events).unwrap();
        }
        decoder.finish(&mut events).unwrap();
        events
    }

    #[test]
    fn events_are_the_same_however_the_network_cuts_them() {
        for (text, events) in [
            ("data: a\n\ndata: b\n\n", &["a", "b"][..]),
            ("data:a\r\n\r\ndata:  b\r\n\r\n", &["a", " b"]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            (": keep-alive\n\ndata: größe 🙂\n\n", &["größe 🙂"]),
            ("event: x\nid: 1\ndata: one\ndata: two\nretry: 5\n\n", &["one\ntwo"]),
            ("\u{feff}data: a\n\n", &["a"]),
            ("data\n\n", &[""]),
            ("\n\n\n", &[]),
            ("data: last", &["last"]),
        ] {
            for piece in 1..=text.len() {
                assert_eq!(decode(text, piece), events, "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn the_id_is_that_of_the_last_event_that_came_whole() {
        let text = "id: 1\nretry: 70\ndata: a\n\nid: 2\ndata:\n\ndata: b\n\nid: 3\ndata: c";
        for piece in 1..=text.len() {
            let mut decoder = Decoder::default();
            for bytes in text.as_bytes().chunks(piece) {
                decoder.feed(bytes, &mut Vec::new()).unwrap();
            }
            assert_eq!(
                (decoder.last_id(), decoder.retry_ms()),
                (Some("2"), Some(70)),
                "in pieces of {piece}"
            );
        }
        assert_eq!(Decoder::default().last_id(), None);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"data: \xff\n", &mut Vec::new()), Err(StreamError::NotUtf8));
    }
}
