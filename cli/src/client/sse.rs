//! Parses server-sent events from bytes that arrive in pieces of any size.

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SseEvent {
    pub(crate) id: Option<String>,
    /// The `event` field; empty when absent.
    pub(crate) name: String,
    /// The `data` lines, joined with line feeds.
    pub(crate) data: String,
}

/// Turns bytes into events. Ignores comments and unknown fields.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    line: Vec<u8>,
    /// The last byte was a carriage return. A line feed that follows belongs to the same line end.
    after_cr: bool,
    began: bool,
    event: SseEvent,
    has_data: bool,
}

impl SseReader {
    /// Adds bytes and returns the events that are complete now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    self.after_cr = *byte == b'\r';
                    self.end_line(&mut events);
                }
                _ => {
                    self.after_cr = false;
                    self.line.push(*byte);
                }
            }
        }
        events
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        // The first line may begin with a byte order mark.
        let text = if self.began { &*text } else { text.trim_start_matches('\u{feff}') };
        self.began = true;
        if text.is_empty() {
            let event = std::mem::take(&mut self.event);
            // Like browsers do, drop events without data.
            if std::mem::take(&mut self.has_data) {
                events.push(event);
            }
            return;
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "event" => self.event.name = value.into(),
            "id" if !value.contains('\0') => self.event.id = Some(value.into()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, name: &str, data: &str) -> SseEvent {
        SseEvent { id: id.map(Into::into), name: name.into(), data: data.into() }
    }

    #[test]
    fn streams_are_parsed_as_browsers_parse_them() {
        let cases: [(&str, Vec<SseEvent>); 8] = [
            ("id: 1-0\nevent: a\ndata: {}\n\n", vec![event(Some("1-0"), "a", "{}")]),
            (": ping\n\n: ping\n\ndata: x\n\n", vec![event(None, "", "x")]),
            ("data: a\ndata:b\ndata:\n\n", vec![event(None, "", "a\nb\n")]),
            (
                "data: a\r\n\r\ndata: b\r\rdata: c\n\n",
                vec![event(None, "", "a"), event(None, "", "b"), event(None, "", "c")],
            ),
            ("event: no data\n\ndata\n\n", vec![event(None, "", "")]),
            ("\u{feff}data: ä\n\n", vec![event(None, "", "ä")]),
            ("retry: 3\nother\ndata:  two blanks\n\n", vec![event(None, "", " two blanks")]),
            ("data: cut off\n", vec![]),
        ];
        for (text, expected) in cases {
            assert_eq!(SseReader::default().push(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut() {
        let text = "id: 7-1\r\nevent: e\r\ndata: größer\r\ndata: 2\r\n\r\n: c\n\ndata: last\n\n".as_bytes();
        let whole = SseReader::default().push(text);
        assert_eq!(whole.len(), 2);
        for at in 0..text.len() {
            let mut reader = SseReader::default();
            let mut events = reader.push(&text[..at]);
            events.extend(reader.push(&text[at..]));
            assert_eq!(events, whole, "cut at {at}");
        }
    }
}
