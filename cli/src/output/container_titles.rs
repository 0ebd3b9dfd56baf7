//! Names the container that a node runs in by its title, as in `Each letter#2`, instead of by its id. The titles come
//! from the events.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value as Json;

use super::text::one_line;
use crate::client::Event;

/// Titles of started nodes by node id.
#[derive(Debug, Default)]
pub(crate) struct ContainerTitles {
    titles: HashMap<String, String>,
}

impl ContainerTitles {
    /// Returns the event with titles in its frame. Containers that started before the first event keep their id.
    pub(super) fn named<'e>(&mut self, event: &'e Event) -> Cow<'e, Event> {
        let title = event.text("node_title");
        if !title.is_empty() && !self.titles.contains_key(event.text("node_id")) {
            // A slash separates the parts of a frame's path, so it cannot be part of a title.
            self.titles.insert(event.text("node_id").into(), one_line(&title.replace('/', " ")));
        }
        let frame = event.text("frame");
        if frame.is_empty() {
            return Cow::Borrowed(event);
        }
        let frame: Vec<String> = frame.split('/').map(|part| self.part(part)).collect();
        let mut data = event.data.clone();
        data["frame"] = frame.join("/").into();
        Cow::Owned(Event { kind: event.kind.clone(), data, seq: event.seq, raw: Json::Null })
    }

    fn part(&self, part: &str) -> String {
        let known = part.rsplit_once('#').and_then(|(id, index)| Some((self.titles.get(id)?, index)));
        known.map_or_else(|| part.into(), |(title, index)| format!("{title}#{index}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(data: &Json) -> Event {
        Event::read(&json!({"type": "node_run_started", "data": data, "seq": 1}).to_string())
            .expect("an event")
    }

    #[test]
    fn frames_are_named_by_the_titles_of_their_containers() {
        let mut container_titles = ContainerTitles::default();
        let begun = event(&json!({"node_id": "it", "node_title": "In/Out"}));
        assert_eq!(container_titles.named(&begun).into_owned(), begun);
        let inner = event(&json!({"node_id": "x", "node_title": "X", "frame": "it#3/lp#0"}));
        assert_eq!(container_titles.named(&inner).text("frame"), "In Out#3/lp#0");
        container_titles.named(&event(&json!({"node_id": "lp", "node_title": "Rounds", "frame": "it#3"})));
        assert_eq!(container_titles.named(&inner).text("frame"), "In Out#3/Rounds#0");
    }
}
