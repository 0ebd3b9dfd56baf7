//! Dead letters: jobs that no worker could finish, and facts and timers that cannot be applied. They are kept
//! for people to read and to retry.

use serde_json::Value as Json;

use tidemill_base::ids::{EntryId, FramePath, NodeId, RunId, ShardId};
use tidemill_base::limits;
use tidemill_base::value::JsonMap;
use tidemill_engine::state::run::RunStatus;

/// A dead letter to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// `fact`, `timer` or `job`.
    pub what: &'static str,
    /// The run id, as written.
    pub run: String,
    pub reason: String,
    /// Kind and body of a fact or timer, body of a job; at most [`limits::DEAD_BYTES_MAX`] bytes.
    pub content: String,
    /// Whether `content` is complete.
    pub is_whole: bool,
    /// The node of a job.
    pub place: Option<(FramePath, NodeId)>,
}

/// Replaces the texts that a letter must not show.
const WITHHELD: &str = "(withheld)";
/// Fields of a body that say where it belongs.
const PLACES: [&str; 9] =
    ["node", "type", "frame", "graph", "queue", "execution", "job", "holder", "error_type"];

/// Removes the texts from a body whose workflow cannot be read, because its secrets are unknown. What stays are numbers,
/// names of fields and where the body belongs.
pub fn withheld(body: &str) -> String {
    let Ok(map) = serde_json::from_str::<JsonMap>(body) else { return WITHHELD.into() };
    let shown = |(name, value): (String, Json)| {
        let stays = match &value {
            Json::Null | Json::Bool(_) | Json::Number(_) => true,
            Json::String(_) => PLACES.contains(&&*name),
            Json::Array(_) | Json::Object(_) => false,
        };
        (name, if stays { value } else { WITHHELD.into() })
    };
    Json::Object(map.into_iter().map(shown).collect()).to_string()
}

impl Dead {
    /// A dead letter of this kind and run.
    pub fn new(
        what: &'static str,
        run: impl Into<String>,
        reason: impl Into<String>,
        content: String,
    ) -> Self {
        let mut kept = content;
        let is_whole = kept.len() <= limits::DEAD_BYTES_MAX;
        if !is_whole {
            let end = (0..=limits::DEAD_BYTES_MAX).rev().find(|at| kept.is_char_boundary(*at)).unwrap_or(0);
            kept.truncate(end);
        }
        Self { what, run: run.into(), reason: reason.into(), content: kept, is_whole, place: None }
    }

    /// Adds the node of a job.
    #[must_use]
    pub fn at(mut self, frame: FramePath, node: NodeId) -> Self {
        self.place = Some((frame, node));
        self
    }

    /// Writes the fields of an entry; [`DeadLetter::from_fields`] reads them.
    pub fn fields(&self) -> Vec<(&'static str, &str)> {
        let mut fields = vec![("what", self.what), ("run", &*self.run), ("reason", &*self.reason)];
        if let Some((frame, node)) = &self.place {
            fields.extend([("frame", frame.as_str()), ("node", node.as_str())]);
        }
        if !self.is_whole {
            fields.push(("cut", "1"));
        }
        fields.push(("content", &*self.content));
        fields
    }
}

/// The id of a dead letter: `<shard>-<entry>`, as in `0-1763766000000-0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeadId {
    /// The first field, because dead letters are sorted by age.
    pub entry: EntryId,
    pub shard: ShardId,
}

impl std::fmt::Display for DeadId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.shard, self.entry)
    }
}

impl std::str::FromStr for DeadId {
    type Err = tidemill_base::ids::IdError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            tidemill_base::ids::IdError::new(
                "id of a dead letter",
                text,
                "three numbers such as 0-1763766000000-0",
            )
        };
        let (shard, entry) = text.split_once('-').ok_or_else(wrong)?;
        let shard = shard.parse().ok().filter(|n| *n < ShardId::COUNT_MAX).ok_or_else(wrong)?;
        if !entry.contains('-') {
            return Err(wrong());
        }
        Ok(Self { entry: entry.parse().map_err(|_| wrong())?, shard: ShardId(shard) })
    }
}

/// A stored dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: DeadId,
    /// `fact`, `timer` or `job`.
    pub what: String,
    /// The run id, as written; empty when there is none.
    pub run: String,
    pub reason: String,
    /// Kind and body of a fact or timer, body of a job.
    pub content: String,
    /// Whether `content` is complete.
    pub is_whole: bool,
    /// The node of a job.
    pub place: Option<(FramePath, NodeId)>,
}

impl DeadLetter {
    /// Reads what [`Dead::fields`] wrote. Missing fields are empty: older versions wrote fewer.
    pub fn from_fields(id: DeadId, fields: &[(String, String)]) -> Self {
        let find = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str());
        let text = |name: &str| find(name).unwrap_or_default().to_string();
        let frame = FramePath::from(find("frame").unwrap_or_default());
        Self {
            id,
            what: text("what"),
            run: text("run"),
            reason: text("reason"),
            content: text("content"),
            is_whole: find("cut").is_none(),
            place: find("node").map(|node| (frame, NodeId::from(node))),
        }
    }

    /// Kind and body of a fact; `None` for other dead letters.
    pub fn fact(&self) -> Option<(&str, &str)> {
        (self.what == "fact").then(|| self.content.split_once(' ')).flatten()
    }
}

/// The dead letters to list, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListDead {
    /// Only those after this one in the list.
    pub before: Option<DeadId>,
    /// At most so many.
    pub limit: usize,
}

/// The result of putting a dead fact back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutBack {
    /// The fact is in the inbox and the dead letter is deleted.
    Done,
    /// The dead letter does not exist (any more).
    Gone,
    /// The run does not exist (any more).
    NoRun,
    /// The run has ended.
    Over(RunStatus),
}

/// A dead fact to put back.
#[derive(Debug, Clone, Copy)]
pub struct DeadFact<'a> {
    pub id: DeadId,
    pub run: RunId,
    pub kind: &'a str,
    pub body: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_shard_and_entry() {
        let id = DeadId { entry: EntryId::new(17, 2), shard: ShardId(3) };
        assert_eq!((id.to_string().as_str(), "3-17-2".parse().ok()), ("3-17-2", Some(id)));
        for wrong in ["", "3", "3-17", "x-17-2", "3-17-x", "99999-1-1", "-17-2"] {
            assert!(wrong.parse::<DeadId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_body_whose_secrets_are_unknown_shows_only_its_place() {
        let body = r#"{"node":"n","attempt":2,"error_type":"E","error":"no hush","inputs":{"hush":["hush"]},"streams":true}"#;
        let shown = r#"{"node":"n","attempt":2,"error_type":"E","error":"(withheld)","inputs":"(withheld)","streams":true}"#;
        assert_eq!(withheld(body), shown);
        assert_eq!((withheld("hush"), withheld("[\"hush\"]")), ("(withheld)".into(), "(withheld)".into()));
    }

    #[test]
    fn a_letter_is_read_as_written_and_says_when_it_was_cut() {
        let id = DeadId { entry: EntryId::new(17, 2), shard: ShardId(3) };
        let read = |dead: &Dead| {
            let own = |(name, text): (&'static str, &str)| (name.to_string(), text.to_string());
            DeadLetter::from_fields(id, &dead.fields().into_iter().map(own).collect::<Vec<_>>())
        };
        let job = Dead::new("job", "r", "worker lost", "{}".into()).at("it#1".into(), "llm".into());
        let letter = read(&job);
        assert_eq!(letter.place, job.place);
        assert_eq!((letter.reason.as_str(), letter.is_whole, letter.fact()), ("worker lost", true, None));
        let large = "ä".repeat(limits::DEAD_BYTES_MAX);
        let letter = read(&Dead::new("fact", "r", "unknown", format!("done {large}")));
        assert!(!letter.is_whole && letter.content.len() <= limits::DEAD_BYTES_MAX);
        assert_eq!(letter.fact().map(|(kind, _)| kind), Some("done"));
    }
}
