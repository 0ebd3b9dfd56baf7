//! Commands and answers of people, as facts from the inbox.

use serde_json::{Value as Json, json};

use super::describe;
use super::play::Play;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::Fact;
use tidemill_engine::state::pause::Pause;
use tidemill_wire::fact::parse;
use tidemill_wire::state::breakpoint::updates_json;

impl Play {
    pub(super) fn pause(&mut self, reason: &str) -> &mut Self {
        self.command("pause", &json!({"reason": reason}))
    }

    pub(super) fn resume(&mut self) -> &mut Self {
        self.command("resume", &json!({}))
    }

    /// Sets a variable, `node.name`.
    pub(super) fn update(&mut self, name: &str, value: Json) -> &mut Self {
        let (node, name) = name.split_once('.').unwrap();
        let value = Stored::Inline(Segment::infer(value));
        let updates = updates_json(&[(node.to_string(), name.to_string(), value)]);
        self.command("update", &json!({"updates": updates, "key": "k"}))
    }

    /// Answers the form that a node waits for.
    pub(super) fn answer(&mut self, place: &str, action: &str, inputs: Json) -> &mut Self {
        let fact = self.answer_fact(&self.pause_of(place), action, inputs);
        self.feed(vec![fact])
    }

    /// Answers a question with a value.
    pub(super) fn say(&mut self, place: &str, input: Json) -> &mut Self {
        let pause = self.pause_of(place).id;
        self.command("answer", &json!({"pause": &*pause, "input": input}))
    }

    pub(super) fn answer_fact(&self, pause: &Pause, action: &str, inputs: Json) -> Fact {
        let body = json!({"pause": &*pause.id, "action": action, "inputs": inputs});
        parse("answer", &body.to_string(), &self.run.graph).unwrap()
    }

    /// The pause that a node waits for.
    pub(super) fn pause_of(&self, place: &str) -> Pause {
        let is_it = |pause: &&Pause| describe::place(&self.run.graph, &pause.frame, pause.node) == place;
        let found = self.run.pauses.values().find(is_it);
        found.cloned().unwrap_or_else(|| panic!("{place} does not wait for anything"))
    }

    fn command(&mut self, kind: &str, body: &Json) -> &mut Self {
        let fact = parse(kind, &body.to_string(), &self.run.graph).unwrap();
        self.feed(vec![fact])
    }
}
