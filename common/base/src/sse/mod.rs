//! Decodes server-sent events. Model APIs, MCP servers and the scheduler's own API all stream in this format, so it is
//! read in one place: from pieces of any size, which may end inside a line, a `\r\n` or a character. [`Lines`] reads
//! the lines, [`Decoder`] the events.

/// Largest line and largest event of a foreign server, in bytes. Streamed replies are far smaller.
pub const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// An invalid event stream; it cannot be continued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line or an event exceeded the size limit.
    #[error("an event of the stream is larger than {max} bytes")]
    TooLarge {
        /// The limit.
        max: usize,
    },
    #[error("a line of the stream is not UTF-8")]
    NotUtf8,
}

/// A line of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// Ends an event.
    Empty,
    /// Ignored by clients; servers send it to keep a stream alive.
    Comment(&'a str),
    /// A field's name and value.
    Field(&'a str, &'a str),
}

impl<'a> Line<'a> {
    fn read(text: &'a str) -> Self {
        if text.is_empty() {
            return Self::Empty;
        }
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if name.is_empty() { Self::Comment(value) } else { Self::Field(name, value) }
    }
}

/// Turns bytes into lines.
#[derive(Debug)]
pub struct Lines {
    bytes_max: usize,
    /// The part of the current line that came with earlier pieces.
    begun: Vec<u8>,
    /// True when `begun` is a line that was already returned.
    is_returned: bool,
    /// True when the last byte was `\r`; a following `\n` belongs to it.
    after_return: bool,
    /// True after the first line, which may begin with a byte order mark.
    is_under_way: bool,
}

impl Lines {
    /// Starts a stream. A line may have at most `bytes_max` bytes.
    pub const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, begun: Vec::new(), is_returned: false, after_return: false, is_under_way: false }
    }

    /// Takes the next line from the front of `bytes`. Without a complete line it takes all of them and returns `None`.
    ///
    /// # Errors
    /// [`SseError`]
    pub fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Result<Option<Line<'a>>, SseError> {
        if std::mem::take(&mut self.is_returned) {
            self.begun.clear();
        }
        if !bytes.is_empty() && std::mem::take(&mut self.after_return) {
            *bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        if self.begun.len() + part.len() > self.bytes_max {
            return Err(SseError::TooLarge { max: self.bytes_max });
        }
        let Some((ended_by, rest)) = rest.split_first() else {
            self.begun.extend_from_slice(part);
            *bytes = rest;
            return Ok(None);
        };
        self.after_return = *ended_by == b'\r';
        *bytes = rest;
        // Most lines come whole and are not copied.
        if self.begun.is_empty() {
            return line(&mut self.is_under_way, part).map(Some);
        }
        self.begun.extend_from_slice(part);
        self.is_returned = true;
        line(&mut self.is_under_way, &self.begun).map(Some)
    }

    /// Ends the stream. Returns the last line if it has no line end.
    ///
    /// # Errors
    /// [`SseError::NotUtf8`]
    pub fn finish(&mut self) -> Result<Option<Line<'_>>, SseError> {
        if self.begun.is_empty() || std::mem::replace(&mut self.is_returned, true) {
            return Ok(None);
        }
        line(&mut self.is_under_way, &self.begun).map(Some)
    }
}

fn line<'a>(is_under_way: &mut bool, bytes: &'a [u8]) -> Result<Line<'a>, SseError> {
    let text = std::str::from_utf8(bytes).map_err(|_| SseError::NotUtf8)?;
    let is_first = !std::mem::replace(is_under_way, true);
    let text = text.strip_prefix('\u{feff}').filter(|_| is_first).unwrap_or(text);
    Ok(Line::read(text))
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its own id, not one of an earlier event.
    pub id: Option<&'a str>,
    /// Its `event` field; empty without one.
    pub name: &'a str,
    /// Its `data` lines, joined by line feeds.
    pub data: String,
}

/// Turns bytes into events. Comments and unknown fields are ignored, and so are events without data.
#[derive(Debug)]
pub struct Decoder {
    lines: Lines,
    block: Block,
}

/// The lines since the last empty one.
#[derive(Debug, Default)]
struct Block {
    id: Option<String>,
    name: String,
    /// `None` before the first `data` line.
    data: Option<String>,
    /// True when the event was returned; the next line begins another.
    is_over: bool,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(EVENT_BYTES_MAX)
    }
}

impl Decoder {
    /// Starts a stream. A line and an event may have at most `bytes_max` bytes each.
    pub fn new(bytes_max: usize) -> Self {
        Self { lines: Lines::new(bytes_max), block: Block::default() }
    }

    /// Takes the next event from the front of `bytes`. Without a complete event it takes all of them and returns
    /// `None`.
    ///
    /// # Errors
    /// [`SseError`]
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Event<'_>>, SseError> {
        let max = self.lines.bytes_max;
        while let Some(line) = self.lines.next(bytes)? {
            if let Some(data) = self.block.take(line, max)? {
                return Ok(Some(self.block.event(data)));
            }
        }
        Ok(None)
    }

    /// Takes the next bytes and adds the data of every completed event to `to`.
    ///
    /// # Errors
    /// [`SseError`]; the events before the invalid line were added.
    pub fn push(&mut self, mut bytes: &[u8], to: &mut Vec<String>) -> Result<(), SseError> {
        while let Some(event) = self.next(&mut bytes)? {
            to.push(event.data);
        }
        Ok(())
    }

    /// Ends the stream. Adds the data of the last event even without its empty line, which some servers omit.
    ///
    /// # Errors
    /// [`SseError`] for an invalid last line.
    pub fn finish(&mut self, to: &mut Vec<String>) -> Result<(), SseError> {
        let max = self.lines.bytes_max;
        if let Some(line) = self.lines.finish()? {
            to.extend(self.block.take(line, max)?);
        }
        to.extend(self.block.data.take());
        Ok(())
    }

    /// The id of the last complete event, or of an earlier one if that had none.
    pub fn last_id(&self) -> Option<&str> {
        self.block.last_id.as_deref()
    }

    /// The wait before reconnecting, in milliseconds, if the stream sets one.
    pub const fn retry_ms(&self) -> Option<u64> {
        self.block.retry_ms
    }
}

impl Block {
    /// Takes a line. Returns the data of an event that it completes.
    fn take(&mut self, line: Line<'_>, bytes_max: usize) -> Result<Option<String>, SseError> {
        if std::mem::take(&mut self.is_over) {
            self.id = None;
            self.name.clear();
        }
        match line {
            Line::Empty => {
                self.is_over = true;
                if self.id.is_some() {
                    self.last_id.clone_from(&self.id);
                }
                return Ok(self.data.take());
            }
            Line::Field("data", value) => match &mut self.data {
                Some(data) if data.len() + value.len() > bytes_max => {
                    return Err(SseError::TooLarge { max: bytes_max });
                }
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            Line::Field("event", value) => {
                self.name.clear();
                self.name.push_str(value);
            }
            Line::Field("id", value) if !value.contains('\0') => self.id = Some(value.to_owned()),
            Line::Field("retry", value) => self.retry_ms = value.parse().ok().or(self.retry_ms),
            Line::Field(..) | Line::Comment(_) => {}
        }
        Ok(None)
    }

    fn event(&self, data: String) -> Event<'_> {
        Event { id: self.id.as_deref(), name: &self.name, data }
    }
}

#[cfg(test)]
mod tests;
