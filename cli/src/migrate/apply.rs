//! Publishes workflows so that a repetition makes no second app and no second key: the id of an app is derived from the
//! path of its file, and a version from its content.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value as Json;
use uuid::Uuid;

use super::kinds::Kind;
use super::report::{FileReport, Report, Standing};
use crate::client::{Client, ClientError};
use crate::error::Error;

/// The namespace of the ids.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f3f_0b1d_5f0a_4c55_9a3e_0f6b_7c1d_20e4);

/// The wait before the second attempt after a broken connection.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The outcome for a file.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Applied {
    pub(crate) path: String,
    pub(crate) outcome: Outcome,
    /// The id of the app.
    pub(crate) id: String,
    /// The key, which is sent only when the app is new.
    pub(crate) key: Option<String>,
    /// The paths of webhooks.
    pub(crate) webhooks: Vec<String>,
    /// The reason why it was refused.
    pub(crate) error: Option<String>,
    /// What to do about a key that was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// A new app.
    Created,
    /// A new version of its app.
    Updated,
    /// The app has this content already.
    Unchanged,
    /// The scheduler refused it.
    Refused,
}

/// The id of the app of a file. A file keeps its app as long as the collection and its path stay.
pub(crate) fn id_of(collection: &str, path: &str) -> String {
    Uuid::new_v5(&NAMESPACE, format!("{collection}\n{path}").as_bytes()).to_string()
}

/// The ids of all files that can be published, by path. A workflow that others of the folder call as a tool, by an id
/// of Dify's and its name, gets that id.
pub(crate) fn ids(report: &Report, collection: &str) -> BTreeMap<String, String> {
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for file in report.files.iter().filter(|file| file.standing != Standing::CannotRun) {
        ids.insert(file.path.clone(), id_of(collection, &file.path));
    }
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (called, id) in report.files.iter().flat_map(called) {
        // Two files cannot have one id: the first keeps it.
        if let Some(known) = ids.get_mut(&called)
            && (*known == id || taken.insert(id.clone()))
        {
            *known = id;
        }
    }
    ids
}

/// A file that is not published.
pub(crate) fn refused(path: &str, id: &str, reason: String) -> Applied {
    Applied {
        path: path.into(),
        outcome: Outcome::Refused,
        id: id.into(),
        key: None,
        webhooks: Vec::new(),
        error: Some(reason),
        note: None,
    }
}

/// The files that a file calls as tools, with the ids by which it calls them.
fn called(file: &FileReport) -> Vec<(String, String)> {
    let calls = file.needs.iter().filter(|need| need.kind == Kind::WorkflowTool);
    let parts = calls.filter_map(|need| {
        let (_, id) = need.name.strip_suffix(')')?.rsplit_once(" (")?;
        Uuid::parse_str(id).ok()?;
        Some((need.called.clone()?, id.to_owned()))
    });
    parts.collect()
}

/// Publishes a file under its id. `before` is the version that the app has, if it exists.
///
/// # Errors
/// The scheduler does not answer. A refusal is an outcome.
pub(crate) async fn publish(
    client: &Client,
    (path, text, id): (&str, &str, &str),
    before: Option<&str>,
) -> Result<Applied, Error> {
    let applied = |outcome, answer: &Json, error| Applied {
        path: path.into(),
        outcome,
        id: id.into(),
        key: answer["key"].as_str().map(str::to_owned),
        webhooks: webhooks(answer),
        error,
        note: None,
    };
    let mut answer = client.publish_under(text, id, false).await;
    if matches!(answer, Err(ClientError::Broken { .. } | ClientError::Unreachable { .. })) {
        // Publishing under an id can be repeated: a version that is there already stays the only one.
        tokio::time::sleep(AGAIN_AFTER).await;
        answer = client.publish_under(text, id, false).await;
    }
    match answer {
        Ok(answer) => {
            let note = lost_key(before.is_none(), &answer, id);
            Ok(Applied { note, ..applied(outcome(before, &answer), &answer, None) })
        }
        Err(error) if is_about_the_file(&error) => {
            Ok(applied(Outcome::Refused, &Json::Null, Some(error.to_string())))
        }
        Err(error) => Err(error.into()),
    }
}

/// What became of a file whose app had the version `before`.
fn outcome(before: Option<&str>, answer: &Json) -> Outcome {
    match before {
        None => Outcome::Created,
        Some(before) if answer["version"] == before => Outcome::Unchanged,
        Some(_) => Outcome::Updated,
    }
}

/// A new app has a key. If the answer lacks it, an attempt whose answer was lost has made the app.
fn lost_key(is_new: bool, answer: &Json, id: &str) -> Option<String> {
    let is_lost = is_new && answer["key"].as_str().is_none();
    is_lost.then(|| {
        format!("its key was not received, because the connection broke; `tidemill keys add {id}` makes another one")
    })
}

/// False when every other file would get the same answer.
fn is_about_the_file(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { status, .. } if ![401, 403].contains(status) && *status < 500)
}

fn webhooks(answer: &Json) -> Vec<String> {
    let triggers = answer["triggers"].as_array().into_iter().flatten();
    triggers.filter_map(|trigger| trigger["path"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_app_that_a_broken_attempt_made_is_new_and_its_key_is_lost() {
        let (with, without) = (json!({"version": "2", "key": "k"}), json!({"version": "2"}));
        for (before, answer, expected, is_lost) in [
            (None, &with, Outcome::Created, false),
            (None, &without, Outcome::Created, true),
            (Some("2"), &without, Outcome::Unchanged, false),
            (Some("1"), &without, Outcome::Updated, false),
        ] {
            assert_eq!(outcome(before, answer), expected);
            let note = lost_key(before.is_none(), answer, "a");
            assert_eq!(note.is_some_and(|note| note.contains("tidemill keys add a")), is_lost, "{before:?}");
        }
    }

    #[test]
    fn a_file_keeps_its_id_as_long_as_its_path() {
        let id = id_of("/flows", "a.yml");
        assert_eq!(id, id_of("/flows", "a.yml"));
        assert!(id != id_of("/flows", "b.yml") && id != id_of("/other", "a.yml"));
        assert!(Uuid::parse_str(&id).is_ok());
    }
}
