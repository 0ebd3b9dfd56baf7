//! A removal as it is stored: what is removed, and how far that is.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;

use crate::runs::ids::end_user_uuid;

/// What becomes of the runs of an app that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunsFate {
    /// Those under way continue, and all are kept until their time is over.
    Keep,
    /// Those under way are stopped, and all are kept until their time is over.
    Stop,
    /// Those under way are stopped, and all are removed.
    Remove,
}

impl RunsFate {
    const ALL: [Self; 3] = [Self::Keep, Self::Stop, Self::Remove];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Stop => "stop",
            Self::Remove => "remove",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fate| fate.name() == name)
    }
}

/// A part of the work. They are done in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// What starts runs is removed: keys, triggers, the webhook.
    Begin,
    /// Runs that are under way are stopped, until none is left.
    Stop,
    DeadLetters,
    Annotations,
    Conversations,
    Users,
    /// Idempotency keys.
    Requests,
    Uploads,
    /// Runs are removed, until none is left.
    Runs,
    /// Dead letters that came meanwhile.
    LateDeadLetters,
    /// Uploads of requests that were under way.
    LateUploads,
    /// The app itself, with its versions.
    End,
}

impl Stage {
    const ALL: [(Self, &'static str); 12] = [
        (Self::Begin, "begin"),
        (Self::Stop, "stop"),
        (Self::DeadLetters, "dead letters"),
        (Self::Annotations, "annotations"),
        (Self::Conversations, "conversations"),
        (Self::Users, "users"),
        (Self::Requests, "requests"),
        (Self::Uploads, "uploads"),
        (Self::Runs, "runs"),
        (Self::LateDeadLetters, "late dead letters"),
        (Self::LateUploads, "late uploads"),
        (Self::End, "end"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(stage, _)| *stage == self).map_or("", |(_, name)| name)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(stage, _)| *stage)
    }

    /// The stage after this one; `None` after the last.
    pub(super) fn next(self) -> Option<Self> {
        let at = Self::ALL.iter().position(|(stage, _)| *stage == self)?;
        Self::ALL.get(at + 1).map(|(stage, _)| *stage)
    }
}

/// A removal of an app, or of a user of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) app: String,
    /// `None`: the whole app.
    pub(crate) user: Option<String>,
    pub(crate) runs: RunsFate,
    /// Of a user, only what began before this time is removed.
    pub(crate) asked_at: Timestamp,
    /// The ids of the API keys of the app, for the runs that they pay.
    pub(crate) keys: Vec<String>,
    pub(crate) stage: Stage,
    /// The place within the stage; empty at its begin.
    pub(crate) place: String,
    /// The present look has found something that is not done yet; at uploads: has removed some of the present day.
    pub(crate) is_left: bool,
    /// Looks of the stage that have found something: the pauses between them grow.
    pub(crate) looks: u32,
    /// Runs could not be stopped, because Redis was full: the stages up to their removal are done once more.
    pub(crate) is_unstopped: bool,
    /// Bytes that the user has uploaded on the day of the request, but after it, as far as the present look has seen.
    pub(crate) kept_bytes: u64,
    /// How many things of each kind were removed.
    pub(crate) removed: BTreeMap<String, u64>,
    /// Why the last piece failed; it is tried again.
    pub(crate) error: Option<String>,
}

impl Removal {
    /// A removal that begins.
    pub(crate) fn new(app: &str, user: Option<&str>, runs: RunsFate, asked_at: Timestamp) -> Self {
        Self {
            app: app.to_owned(),
            user: user.map(str::to_owned),
            runs,
            asked_at,
            keys: Vec::new(),
            stage: Stage::Begin,
            place: String::new(),
            is_left: false,
            looks: 0,
            is_unstopped: false,
            kept_bytes: 0,
            removed: BTreeMap::new(),
            error: None,
        }
    }

    /// Its id. It does not contain the user's name, and a repeated request has the same.
    pub(crate) fn id(&self) -> String {
        match &self.user {
            None => self.app.clone(),
            Some(user) => format!("{}/{}", self.app, end_user_uuid(&self.app, user)),
        }
    }

    pub(super) fn count(&mut self, kind: &str, number: usize) {
        if number > 0 {
            *self.removed.entry(kind.to_owned()).or_default() += number as u64;
        }
    }

    /// Begins the next stage; `false` after the last one.
    pub(super) fn advance(&mut self) -> bool {
        let Some(next) = self.stage.next() else { return false };
        self.stage = next;
        (self.place, self.is_left, self.looks, self.kept_bytes) = Default::default();
        true
    }

    /// The stored form.
    pub(crate) fn to_text(&self) -> String {
        json!({
            "app": self.app, "user": self.user, "runs": self.runs.name(), "asked_at": self.asked_at.micros(),
            "keys": self.keys, "stage": self.stage.name(), "place": self.place, "left": self.is_left,
            "looks": self.looks, "unstopped": self.is_unstopped, "kept_bytes": self.kept_bytes, "removed": self.removed,
            "error": self.error,
        })
        .to_string()
    }

    /// Reads the stored form.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let stored: Json = serde_json::from_str(text).ok()?;
        let word = |name: &str| stored[name].as_str();
        let removed = stored["removed"].as_object().into_iter().flatten();
        let keys = stored["keys"].as_array().into_iter().flatten();
        Some(Self {
            app: word("app")?.to_owned(),
            user: word("user").map(str::to_owned),
            runs: RunsFate::named(word("runs")?)?,
            asked_at: Timestamp::from_micros(stored["asked_at"].as_i64()?),
            error: word("error").map(str::to_owned),
            keys: keys.filter_map(|key| Some(key.as_str()?.to_owned())).collect(),
            stage: Stage::named(word("stage")?)?,
            place: word("place").unwrap_or_default().to_owned(),
            is_left: stored["left"].as_bool().unwrap_or_default(),
            looks: stored["looks"].as_u64().and_then(|looks| looks.try_into().ok()).unwrap_or_default(),
            is_unstopped: stored["unstopped"].as_bool().unwrap_or_default(),
            kept_bytes: stored["kept_bytes"].as_u64().unwrap_or_default(),
            removed: removed.filter_map(|(kind, number)| Some((kind.clone(), number.as_u64()?))).collect(),
        })
    }

    /// What clients see of it. `id` names it.
    pub(crate) fn to_json(&self) -> Json {
        json!({
            "id": self.id(), "app": self.app, "user": self.user, "runs": self.runs.name(),
            "asked_at": self.asked_at.seconds_f64(), "stage": self.stage.name(), "removed": self.removed,
            "error": self.error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_read_as_it_was_stored_and_goes_through_all_stages() {
        let at = Timestamp::from_millis(5);
        let mut removal = Removal::new("app", Some("ada"), RunsFate::Remove, at);
        removal.keys.push("k".into());
        removal.count("runs", 3);
        removal.error = Some("no server".into());
        removal.kept_bytes = 7;
        removal.count("uploads", 0);
        let mut stages = 1;
        loop {
            assert_eq!(Removal::read(&removal.to_text()).as_ref(), Some(&removal));
            removal.place = "x".into();
            if !removal.advance() {
                break;
            }
            stages += 1;
            assert_eq!(removal.place, "");
        }
        assert_eq!((stages, removal.stage), (Stage::ALL.len(), Stage::End));
        assert_eq!(removal.to_json()["removed"], json!({"runs": 3}));
    }

    #[test]
    fn the_id_of_a_removal_does_not_have_the_name_of_the_user() {
        let of = |user| Removal::new("app", user, RunsFate::Keep, Timestamp::default()).id();
        assert_eq!(of(None), "app");
        assert!(of(Some("ada")).starts_with("app/") && !of(Some("ada")).contains("ada"));
        assert_eq!(of(Some("ada")), of(Some("ada")));
        assert_ne!(of(Some("ada")), of(Some("bob")));
    }
}
