//! Records a stream of `/v1` as bytes and reads it in the two ways in which Dify's clients do: line by line, and frame by
//! frame. Both must give the same events, and every frame must be one that Dify could have sent.

use serde_json::Value as Json;

/// Dify's ping, a frame without data.
const PING: &str = "event: ping";
/// The only line of every other frame begins with this.
const DATA: &str = "data: ";

/// A recorded stream.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The bytes as text.
    pub text: String,
    /// The events, without pings.
    pub events: Vec<Json>,
}

impl Recording {
    /// Reads the bytes of a stream.
    ///
    /// # Errors
    /// A frame that Dify does not send, or a client that reads lines would see other events than one that reads frames.
    pub fn of(text: &str) -> Result<Self, String> {
        let whole =
            text.strip_suffix("\n\n").ok_or_else(|| format!("the last frame has no end: {text:?}"))?;
        let framed: Vec<Json> = whole.split("\n\n").map(frame).collect::<Result<Vec<_>, _>>()?.concat();
        let lined: Vec<Json> =
            text.lines().filter_map(|line| line.strip_prefix(DATA)).map(json).collect::<Result<_, _>>()?;
        if framed != lined {
            return Err(format!("by frames: {framed:?}\nby lines: {lined:?}"));
        }
        Ok(Self { text: text.to_string(), events: framed })
    }

    /// The names of the events.
    pub fn names(&self) -> Vec<&str> {
        self.events.iter().filter_map(|event| event["event"].as_str()).collect()
    }

    /// The events of this name.
    pub fn of_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Json> {
        self.events.iter().filter(move |event| event["event"] == name)
    }
}

/// The event of a frame; none of a ping.
fn frame(frame: &str) -> Result<Vec<Json>, String> {
    if frame == PING {
        return Ok(Vec::new());
    }
    let data = frame.strip_prefix(DATA).filter(|data| !data.contains(['\n', '\r']));
    let data = data.ok_or_else(|| format!("this is no frame of Dify: {frame:?}"))?;
    Ok(vec![json(data)?])
}

fn json(text: &str) -> Result<Json, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_by_lines_and_by_frames() {
        let read =
            Recording::of("event: ping\n\ndata: {\"event\":\"a\"}\n\ndata: {\"event\":\"b\"}\n\n").unwrap();
        assert_eq!(read.names(), ["a", "b"]);
        assert_eq!(read.of_name("b").count(), 1);
    }

    #[test]
    fn a_frame_that_dify_does_not_send_is_an_error() {
        for text in [
            "id: 1-0\ndata: {}\n\n",
            "event: message\ndata: {}\n\n",
            ": ping\n\n",
            "data: {}\ndata: {}\n\n",
            "data: {\n\n",
            "data: {}\n",
            "data: {}\r\n\r\n",
            "",
        ] {
            assert!(Recording::of(text).is_err(), "{text:?}");
        }
    }
}
