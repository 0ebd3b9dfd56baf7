//! The thoughts of an agent app: one for each round, with the model's text, the tools that it called and their answers. They
//! follow from the lines of the agent's log.

use serde_json::{Map, Value as Json, json};
use tidemill_common::value::pyrepr::json_line;
use tidemill_common::wire::event::EventRecord;
use uuid::Uuid;

use super::names;

/// The end of the label of a line about a model's reply.
const THOUGHT: &str = " Thought";
/// The beginning of the label of a line about a tool.
const CALL: &str = "CALL ";

/// The thoughts of a run so far, in the order of their rounds.
#[derive(Debug, Default)]
pub struct Thoughts {
    rounds: Vec<Thought>,
    /// True from the end of a reply that calls tools to the next text.
    is_between: bool,
}

/// A round of the agent.
#[derive(Debug)]
struct Thought {
    /// The id of the round's line in the log.
    round: String,
    text: String,
    /// Name and input of each tool.
    tools: Vec<(String, Json)>,
    /// Name and answer of each tool that has answered.
    answers: Vec<(String, Json)>,
    /// The time of its first line, in Unix seconds.
    began: i64,
}

impl Thoughts {
    /// Takes a line of an agent's log. Returns the number of the thought to show, if the line changes one: when its round
    /// begins, when the model has answered, and when all its tools have.
    pub fn take(&mut self, record: &EventRecord) -> Option<usize> {
        if record.kind != names::AGENT_LOG {
            return None;
        }
        let line = record.data.get("data")?;
        let (label, has_ended) = (line["label"].as_str()?, line["status"] != "start");
        let (round, output) = (line["parent_id"].as_str()?, &line["data"]["output"]);
        if label.ends_with(THOUGHT) {
            let at = self.at(round, record.ts.div_euclid(1000));
            self.is_between = false;
            let thought = &mut self.rounds[at];
            if has_ended {
                thought.text = output["llm_response"].as_str().unwrap_or_default().to_owned();
                let calls = output["tool_calls"].as_array().into_iter().flatten();
                thought.tools = calls.map(|call| (name(&call["name"]), input(&call["args"]))).collect();
                self.is_between = !thought.tools.is_empty();
            }
            return Some(at);
        }
        if !label.starts_with(CALL) || !has_ended {
            return None;
        }
        let at = self.rounds.iter().position(|thought| thought.round == round)?;
        let (thought, tool) = (&mut self.rounds[at], name(&output["tool_call_name"]));
        if !thought.tools.iter().any(|(known, _)| *known == tool) {
            // A model that writes its calls as text.
            thought.tools.push((tool.clone(), input(&output["tool_call_input"])));
        }
        thought.answers.push((tool, output["tool_response"].clone()));
        (thought.answers.len() >= thought.tools.len()).then_some(at)
    }

    /// The part of a piece of text that is shown. The agent separates the texts of its rounds by a line break, which on
    /// Dify is in the answer and not in the stream.
    pub(super) fn shown<'a>(&mut self, piece: &'a str) -> &'a str {
        let is_between = std::mem::take(&mut self.is_between);
        piece.strip_prefix('\n').filter(|_| is_between).unwrap_or(piece)
    }

    /// The place of a round's thought; a new one is last.
    fn at(&mut self, round: &str, began: i64) -> usize {
        self.rounds.iter().position(|thought| thought.round == round).unwrap_or_else(|| {
            let (round, text, tools, answers) = (round.to_owned(), String::new(), Vec::new(), Vec::new());
            self.rounds.push(Thought { round, text, tools, answers, began });
            self.rounds.len() - 1
        })
    }

    /// The fields of a thought in an event.
    pub(super) fn event(&self, run: &str, at: usize) -> Json {
        let thought = &self.rounds[at];
        json!({
            "id": thought.id(run), "position": at + 1, "thought": thought.text, "observation": thought.observation(),
            "tool": thought.names(), "tool_labels": thought.labels(), "tool_input": thought.input(), "message_files": [],
        })
    }

    /// All thoughts, as the list of messages shows them.
    pub fn listed(&self, run: &str) -> Vec<Json> {
        let shown = |(at, thought): (usize, &Thought)| {
            json!({
                "id": thought.id(run), "chain_id": null, "message_id": run, "position": at + 1,
                "thought": thought.text, "tool": thought.names(), "tool_labels": thought.labels(),
                "tool_input": thought.input(), "created_at": thought.began, "observation": thought.observation(),
                "files": [],
            })
        };
        self.rounds.iter().enumerate().map(shown).collect()
    }
}

impl Thought {
    /// Follows from the run and the round, so that every stream and list has the same.
    fn id(&self, run: &str) -> String {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{run}/{}", self.round).as_bytes()).to_string()
    }

    fn names(&self) -> String {
        self.tools.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";")
    }

    fn labels(&self) -> Map<String, Json> {
        self.tools.iter().map(|(name, _)| (name.clone(), json!({"en_US": name, "zh_Hans": name}))).collect()
    }

    fn input(&self) -> String {
        by_name(&self.tools)
    }

    fn observation(&self) -> String {
        by_name(&self.answers)
    }
}

/// The values by the names of their tools, as JSON text in Python's layout; empty without a tool.
fn by_name(values: &[(String, Json)]) -> String {
    if values.is_empty() {
        return String::new();
    }
    json_line(&Json::Object(values.iter().cloned().collect()))
}

fn name(value: &Json) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The input of a tool: an object if the model's text is one.
fn input(value: &Json) -> Json {
    let read = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    read.unwrap_or_else(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::ids::EntryId;

    fn line(label: &str, status: &str, output: Json) -> EventRecord {
        let data = json!({"data": {"label": label, "parent_id": "r1", "status": status, "data": {"output": output}}});
        let data = data.as_object().cloned().unwrap();
        let entry = EntryId::new(1, 0);
        EventRecord { entry, last_of_entry: true, kind: names::AGENT_LOG.into(), seq: 1, ts: 5_000, data }
    }

    fn answer(tool: &str, words: &str) -> EventRecord {
        let output = json!({"tool_call_name": tool, "tool_call_input": "{\"a\":1}", "tool_response": words});
        line(&format!("CALL {tool}"), "success", output)
    }

    #[test]
    fn a_thought_is_shown_when_it_begins_and_when_the_model_and_all_its_tools_have_answered() {
        let mut thoughts = Thoughts::default();
        let calls = json!([{"name": "add", "args": "{\"a\":1}"}, {"name": "say", "args": "plain"}]);
        let reply = json!({"llm_response": "Let me see", "tool_calls": calls});
        let begun = line("m Thought", "start", Json::Null);
        let lines = [
            (begun, true),
            (line("m Thought", "success", reply), true),
            (line("CALL add", "start", Json::Null), false),
            (answer("add", "2"), false),
            (answer("say", "ök"), true),
            (line("ROUND 1", "success", Json::Null), false),
        ];
        for (at, (record, is_shown)) in lines.iter().enumerate() {
            assert_eq!(thoughts.take(record).is_some(), *is_shown, "line {at}");
        }
        let shown = thoughts.event("run", 0);
        assert_eq!(
            (
                &shown["position"],
                &shown["thought"],
                &shown["tool"],
                &shown["tool_input"],
                &shown["observation"]
            ),
            (
                &json!(1),
                &json!("Let me see"),
                &json!("add;say"),
                &json!(r#"{"add": {"a": 1}, "say": "plain"}"#),
                &json!(r#"{"add": "2", "say": "ök"}"#)
            )
        );
        let listed = thoughts.listed("run");
        assert_eq!((&listed[0]["id"], &listed[0]["created_at"]), (&shown["id"], &json!(5)));
    }

    #[test]
    fn the_line_break_after_a_reply_that_calls_tools_is_not_shown() {
        let calls = json!([{"name": "add", "args": "{}"}]);
        let mut thoughts = Thoughts::default();
        for (reply, piece, shown) in [
            (None, "\ntext", "\ntext"),
            (Some(json!({"tool_calls": []})), "\n", "\n"),
            (Some(json!({"tool_calls": calls})), "\n", ""),
            (None, "\n", "\n"),
            (Some(json!({"tool_calls": calls})), "\n\nmore", "\nmore"),
            (Some(json!({"tool_calls": calls})), "more\n", "more\n"),
        ] {
            if let Some(reply) = reply {
                thoughts.take(&line("m Thought", "success", reply));
            }
            assert_eq!(thoughts.shown(piece), shown, "{piece:?}");
        }
    }

    #[test]
    fn a_tool_that_a_model_calls_in_its_text_belongs_to_the_thought_too() {
        let mut thoughts = Thoughts::default();
        thoughts.take(&line(
            "m Thought",
            "success",
            json!({"llm_response": "Action: add", "tool_calls": []}),
        ));
        assert_eq!(thoughts.take(&answer("add", "2")), Some(0));
        assert_eq!(thoughts.event("run", 0)["tool"], "add");
    }
}
