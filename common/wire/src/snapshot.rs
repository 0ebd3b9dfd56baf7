//! A run as one document, to export it and continue it elsewhere.
//!
//! | field | holds |
//! | --- | --- |
//! | `tidemill_snapshot` | the version of this form: 1, or 2 for one with `secrets` |
//! | `run_id`, `exported_at` (µs) | the exported run |
//! | `secrets` | `named`: names replace the secrets in all parts but `workflow` and `version` (form 2) |
//! | `version`, `workflow` | hash and text of the stored workflow, secrets sealed |
//! | `head` | what was submitted, as in a `start` fact |
//! | `status`, `started_at` (µs) | at the time of the export |
//! | `variable_pool` | the variables of the root frame, in Dify's form |
//! | `frames` | those of other frames: `{path: {"variable_dictionary", "hidden"}}` |
//! | `state` | the other fields of the state hash |
//! | `collected`, `pauses`, `held` | as in their keys |
//! | `messages` | `messages`, `rt`, and the last records of `history`, if there are any |
//! | `blobs` | blobs that are not in a pool, by name |
//!
//! A pool holds every value complete, also large ones, but only the names of secrets.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value as Json, json};
use uuid::Uuid;

use super::WireError;
use super::fact::start_body;
use super::state::{AtRest, head_from_json, load};
use crate::codec::value::{MARK, StoredJson};
use crate::state::messages::MessagesAtRest;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, FramePath, NodeId, RunId};
use tidemill_base::value::secrets::Secrets;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Stored, Variables};
use tidemill_engine::Fact;
use tidemill_engine::rewind::rewind;
use tidemill_engine::state::run::{RunHead, RunState, RunStatus};
use tidemill_workflow::graph::Graph;

const WHAT: &str = "a snapshot";

/// The version that is written.
pub const VERSION: u64 = 1;
/// The version in which names replace secrets; the newest that is read.
pub const VERSION_SEALED: u64 = 2;
/// Parts in which no secret is replaced.
const PLAIN: [&str; 4] = ["tidemill_snapshot", "secrets", "version", "workflow"];

/// A variable of a frame, for export or import.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolVariable {
    /// Empty for the root frame.
    pub frame: FramePath,
    /// A node's id, or `sys`, `env`, `conversation`.
    pub node: String,
    pub name: String,
    /// The complete value, or the name of a secret.
    pub value: PoolValue,
}

/// The value of a variable in a pool.
#[derive(Debug, Clone, PartialEq)]
pub enum PoolValue {
    Whole(Segment),
    /// The name of a secret of the environment.
    Secret(String),
}

/// A snapshot that was read.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The exported run.
    pub run_id: String,
    /// The hash of its workflow.
    pub version: String,
    pub workflow: String,
    pub head: RunHead,
    /// Variables to store; the caller moves large ones to blobs.
    pub variables: Vec<PoolVariable>,
    /// Blobs: name and JSON text.
    pub blobs: Vec<(BlobId, String)>,
    rest: JsonMap,
}

/// The variables of a run for its snapshot: those of the root frame, including given ones, and what other
/// frames wrote. The caller loads the blobs.
pub fn variables(run: &RunState) -> Vec<(FramePath, String, String, Stored)> {
    let root = FramePath::root();
    let pool = run.pool(&root);
    let mut found: Vec<_> = pool
        .names()
        .into_iter()
        .filter_map(|(node, name)| {
            let stored = pool.stored(&node, &name)?.into_owned();
            Some((root.clone(), node, name, stored))
        })
        .collect();
    for (path, frame) in run.frames.iter().filter(|(path, _)| !path.is_root()) {
        for (node, values) in &frame.variables {
            found.extend(
                values
                    .iter()
                    .map(|(name, value)| (path.clone(), node.to_string(), name.clone(), value.clone())),
            );
        }
    }
    found
}

/// The names of the blobs that a snapshot must hold besides its pools.
pub fn blobs(run: &RunState, rest: &AtRest) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let texts = other_state(rest).map(|(_, text)| text).chain(rest.collected.iter().map(|(_, text)| text));
    for value in texts.filter_map(|text| serde_json::from_str::<Json>(text).ok()) {
        blob_names(&value, &mut names);
    }
    if let Ok(head) = serde_json::from_str(&start_body(&run.head)) {
        blob_names(&head, &mut names);
    }
    names
}

/// State fields that are not variables.
fn other_state(rest: &AtRest) -> impl Iterator<Item = (&String, &String)> {
    rest.state.iter().filter(|(field, _)| !field.starts_with("v:")).map(|(field, text)| (field, text))
}

fn blob_names(value: &Json, into: &mut BTreeSet<String>) {
    match value {
        Json::Object(map) => match map.get(MARK).and_then(Json::as_str) {
            Some("blob" | "item") => {
                into.extend(map.get("id").and_then(Json::as_str).map(str::to_string));
            }
            // A user's own value may look like a reference but is not one.
            Some("value") => {}
            Some(_) | None => map.values().for_each(|inner| blob_names(inner, into)),
        },
        Json::Array(items) => items.iter().for_each(|inner| blob_names(inner, into)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Writes a snapshot.
pub fn write(
    run: &RunState,
    rest: &AtRest,
    workflow: &str,
    variables: &[PoolVariable],
    blobs: Vec<(String, Json)>,
    now: Timestamp,
) -> Json {
    let json = |text: &String| serde_json::from_str(text).unwrap_or(Json::Null);
    let fields = |fields: &mut dyn Iterator<Item = (&String, &String)>| -> JsonMap {
        fields.map(|(field, text)| (field.clone(), json(text))).collect()
    };
    let mut frames = JsonMap::new();
    for (path, frame) in run.frames.iter().filter(|(path, _)| !path.is_root()) {
        let mut shown = dictionary(run, variables, path);
        shown.insert(
            "hidden".into(),
            frame.hidden.iter().map(|(node, name)| json!([node.as_str(), name])).collect(),
        );
        frames.insert(path.to_string(), Json::Object(shown));
    }
    let mut snapshot = json!({
        "tidemill_snapshot": VERSION,
        "run_id": run.id.to_string(),
        "exported_at": now.micros(),
        "version": run.graph.hash.to_string(),
        "workflow": workflow,
        "head": serde_json::from_str::<Json>(&start_body(&run.head)).unwrap_or_default(),
        "status": run.status.name(),
        "started_at": run.started_at.map(Timestamp::micros),
        "variable_pool": dictionary(run, variables, &FramePath::root()),
        "frames": frames,
        "state": fields(&mut other_state(rest)),
        "collected": fields(&mut rest.collected.iter().map(|(field, text)| (field, text))),
        "pauses": fields(&mut rest.pauses.iter().map(|(field, text)| (field, text))),
        "held": rest.held.iter().map(json).collect::<Vec<Json>>(),
        "blobs": blobs.into_iter().collect::<JsonMap>(),
    });
    if !rest.messages.is_empty() {
        snapshot["objects"] = messages_json(&rest.messages);
    }
    snapshot
}

/// Replaces secrets by their names, if the snapshot holds any. Readers do not see the secrets; a run created
/// from it gets them back.
pub fn sealed(snapshot: Json, secrets: &Secrets) -> Json {
    let map = match snapshot {
        Json::Object(map) if !secrets.are_none() => map,
        other => return other,
    };
    if !secrets.may_be_in_json(&Json::Object(map.clone()).to_string()) {
        return Json::Object(map);
    }
    let mut sealed = each_part(map, |part| secrets.sealed(part));
    sealed.insert("tidemill_snapshot".into(), VERSION_SEALED.into());
    sealed.insert("secrets".into(), "named".into());
    Json::Object(sealed)
}

/// Replaces the names of secrets by the secrets.
///
/// # Errors
/// The text is not JSON.
pub fn opened(text: &str, secrets: &Secrets) -> Result<String, WireError> {
    let map = object(serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?)?;
    Ok(Json::Object(each_part(map, |part| secrets.opened(part))).to_string())
}

fn each_part(map: JsonMap, change: impl Fn(Json) -> Json) -> JsonMap {
    let part = |(name, part): (String, Json)| {
        let part = if PLAIN.contains(&name.as_str()) { part } else { change(part) };
        (name, part)
    };
    map.into_iter().map(part).collect()
}

/// The messages, runtime values and last history records of a run.
fn messages_json(messages: &MessagesAtRest) -> Json {
    let json = |text: &String| serde_json::from_str::<Json>(text).unwrap_or(Json::Null);
    let lists =
        messages.messages.iter().map(|(name, texts)| (name.clone(), texts.iter().map(json).collect()));
    let runtime = messages.runtime.iter().map(|(key, text)| (key.clone(), json(text)));
    json!({
        "messages": Json::Object(lists.collect()), "rt": Json::Object(runtime.collect()),
        "history": messages.history.iter().map(json).collect::<Vec<Json>>(),
    })
}

fn read_messages(value: Option<&Json>) -> MessagesAtRest {
    let part = |key: &str| value.and_then(|value| value.get(key));
    let texts =
        |value: &Json| value.as_array().into_iter().flatten().map(Json::to_string).collect::<Vec<_>>();
    let map = |key: &str| part(key).and_then(Json::as_object).into_iter().flatten();
    MessagesAtRest {
        messages: map("messages").map(|(name, list)| (name.clone(), texts(list))).collect(),
        runtime: map("rt").map(|(key, value)| (key.clone(), value.to_string())).collect(),
        history: part("history").map(texts).unwrap_or_default(),
    }
}

/// A frame's variables in Dify's form.
fn dictionary(run: &RunState, variables: &[PoolVariable], frame: &FramePath) -> JsonMap {
    let mut nodes = JsonMap::new();
    for variable in variables.iter().filter(|variable| variable.frame == *frame) {
        let selector = [variable.node.as_str(), variable.name.as_str()];
        let id = Uuid::new_v5(&run.id.uuid(), selector.join(".").as_bytes());
        let mut shown = JsonMap::new();
        match &variable.value {
            PoolValue::Whole(segment) => {
                shown.insert("value_type".into(), segment.ty.name().into());
                shown.insert("value".into(), segment.value.clone());
            }
            PoolValue::Secret(name) => {
                shown.insert("value_type".into(), SegmentType::Secret.name().into());
                shown.insert("value".into(), Json::Null);
                shown.insert("secret".into(), name.as_str().into());
            }
        }
        shown.insert("id".into(), id.to_string().into());
        shown.insert("name".into(), variable.name.as_str().into());
        shown.insert("description".into(), "".into());
        shown.insert("selector".into(), json!(selector));
        let of_node = nodes.entry(variable.node.clone()).or_insert_with(|| json!({}));
        of_node[variable.name.as_str()] = Json::Object(shown);
    }
    JsonMap::from_iter([("variable_dictionary".to_string(), Json::Object(nodes))])
}

/// Reads a snapshot. Its blobs get new names, because the exported run's blobs are deleted with that run.
///
/// # Errors
/// Not a snapshot, a newer version, or fields that are missing or invalid.
pub fn read(text: &str) -> Result<Snapshot, WireError> {
    let mut map = object(serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?)?;
    match map.get("tidemill_snapshot").and_then(Json::as_u64) {
        Some(version) if version <= VERSION_SEALED => {}
        Some(version) => return Err(WireError::Version { what: WHAT, version }),
        None => return Err(WireError::malformed(WHAT, "tidemill_snapshot is missing")),
    }
    let blobs = object(map.remove("blobs").unwrap_or_else(|| json!({})))?;
    let (mut map, blobs) = renamed(map, blobs);
    let text = |map: &JsonMap, key: &str| {
        let found = map.get(key).and_then(Json::as_str).map(str::to_string);
        found.ok_or_else(|| WireError::malformed(WHAT, format!("{key} is missing")))
    };
    let mut variables = pool(&FramePath::root(), map.remove("variable_pool"))?;
    if let Some(Json::Object(frames)) = map.get("frames") {
        for (path, frame) in frames {
            variables.extend(pool(&FramePath::from(path.as_str()), Some(frame.clone()))?);
        }
    }
    Ok(Snapshot {
        run_id: text(&map, "run_id")?,
        version: text(&map, "version")?,
        workflow: text(&map, "workflow")?,
        head: head_from_json(object(map.remove("head").unwrap_or_default())?)?,
        variables,
        blobs,
        rest: map,
    })
}

/// Gives every blob a new name, and renames the references.
fn renamed(map: JsonMap, blobs: JsonMap) -> (JsonMap, Vec<(BlobId, String)>) {
    let mut names = HashMap::with_capacity(blobs.len());
    let mut fresh = Vec::with_capacity(blobs.len());
    for (old, value) in blobs {
        let id = BlobId::generate();
        names.insert(old, id.as_str().to_string());
        fresh.push((id, value.to_string()));
    }
    let mut whole = Json::Object(map);
    rename(&mut whole, &names);
    let map = match whole {
        Json::Object(map) => map,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => JsonMap::new(),
    };
    (map, fresh)
}

fn rename(value: &mut Json, names: &HashMap<String, String>) {
    match value {
        Json::Object(map) => match map.get(MARK).and_then(Json::as_str) {
            Some("blob" | "item") => {
                let new = map.get("id").and_then(Json::as_str).and_then(|old| names.get(old)).cloned();
                if let Some(new) = new {
                    map.insert("id".into(), new.into());
                }
            }
            Some("value") => {}
            Some(_) | None => map.values_mut().for_each(|inner| rename(inner, names)),
        },
        Json::Array(items) => items.iter_mut().for_each(|inner| rename(inner, names)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn pool(frame: &FramePath, value: Option<Json>) -> Result<Vec<PoolVariable>, WireError> {
    let Some(Json::Object(mut pool)) = value else { return Ok(Vec::new()) };
    let nodes = object(pool.remove("variable_dictionary").unwrap_or_else(|| json!({})))?;
    let mut found = Vec::new();
    for (node, names) in nodes {
        for (name, variable) in object(names)? {
            let mut variable = object(variable)?;
            let ty = variable.get("value_type").and_then(Json::as_str).unwrap_or("");
            let ty: SegmentType = ty.parse().map_err(|e| WireError::malformed(WHAT, e))?;
            let secret = variable.get("secret").and_then(Json::as_str).map(str::to_string);
            let value = match secret {
                Some(secret) => PoolValue::Secret(secret),
                None => PoolValue::Whole(Segment::new(ty, variable.remove("value").unwrap_or_default())),
            };
            found.push(PoolVariable { frame: frame.clone(), node: node.clone(), name, value });
        }
    }
    Ok(found)
}

impl Snapshot {
    /// Whether names replace secrets. The caller must then call [`opened`] and read the result again.
    pub fn is_sealed(&self) -> bool {
        self.rest.contains_key("secrets")
    }

    /// The run's status; `None` when the snapshot has none.
    pub fn status(&self) -> Option<RunStatus> {
        RunStatus::from_name(self.rest.get("status")?.as_str()?)
    }

    /// The body of the fact that starts a run from this state, with its variables as stored here. With
    /// `rewind`, a frame and a node, the new run begins at that node.
    pub fn fact(
        &self,
        head: &RunHead,
        kept: &[(PoolVariable, Stored)],
        rewind: Option<&(FramePath, NodeId)>,
    ) -> String {
        let mut state = match self.rest.get("state") {
            Some(Json::Object(state)) => state.clone(),
            _ => JsonMap::new(),
        };
        for (variable, stored) in kept {
            let field = super::state::variable_field(&variable.frame, &variable.node, &variable.name);
            state.insert(field, serde_json::to_value(StoredJson(stored)).unwrap_or_default());
        }
        if let Some(Json::Object(frames)) = self.rest.get("frames") {
            for (path, frame) in frames {
                hide(&mut state, &FramePath::from(path.as_str()), frame);
            }
        }
        let part = |key: &str| self.rest.get(key).cloned().unwrap_or_default();
        let mut fact = json!({
            "head": serde_json::from_str::<Json>(&start_body(head)).unwrap_or_default(),
            "status": part("status"), "started_at": part("started_at"),
            "state": state, "collected": part("collected"), "pauses": part("pauses"), "held": part("held"),
        });
        if let Some(messages) = self.rest.get("objects") {
            fact["objects"] = messages.clone();
        }
        if let Some((frame, node)) = rewind {
            fact["rewind"] = json!({"frame": frame.as_str(), "node": node.as_str()});
        }
        fact.to_string()
    }
}

fn hide(state: &mut JsonMap, path: &FramePath, frame: &Json) {
    for pair in frame.get("hidden").and_then(Json::as_array).into_iter().flatten() {
        if let (Some(node), Some(name)) = (pair[0].as_str(), pair[1].as_str()) {
            state.insert(super::state::variable_field(path, node, name), json!({MARK: "hidden"}));
        }
    }
}

/// Reads the fact that [`Snapshot::fact`] wrote, for the run that begins with it.
///
/// # Errors
/// Fields that are missing or invalid.
pub fn parse_fact(run: RunId, graph: &std::sync::Arc<Graph>, body: &str) -> Result<Fact, WireError> {
    let Json::Object(mut map) = super::read(WHAT, body)? else {
        return Err(WireError::malformed(WHAT, "its body is not an object"));
    };
    let head = head_from_json(object(map.remove("head").unwrap_or_default())?)?;
    let mut fields: HashMap<String, String> =
        super::state::head_fields(&head, graph).into_iter().map(|(k, v)| (k.to_string(), v)).collect();
    let text = |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or("running").to_string();
    fields.insert("status".into(), text(map.get("status")));
    if let Some(at) = map.get("started_at").and_then(Json::as_i64) {
        fields.insert("started_at".into(), at.to_string());
    }
    let mut parts = |key: &str| -> Vec<(String, String)> {
        let Some(Json::Object(map)) = map.remove(key) else { return Vec::new() };
        map.into_iter().map(|(field, value)| (field, value.to_string())).collect()
    };
    let (state, collected, pauses) = (parts("state"), parts("collected"), parts("pauses"));
    let held = map.remove("held").and_then(|held| held.as_array().cloned()).unwrap_or_default();
    let rest = AtRest {
        run: fields,
        state,
        held: held.iter().map(Json::to_string).collect(),
        collected,
        pauses,
        messages: read_messages(map.get("objects")),
        seq: 0,
    };
    let state = load(run, graph.clone(), rest)?;
    let state = match map.get("rewind") {
        None => state,
        Some(place) => {
            let words = |key: &str| place.get(key).and_then(Json::as_str).unwrap_or_default();
            let node = NodeId::from(words("node"));
            rewind(&state, &FramePath::from(words("frame")), &node)
                .map_err(|e| WireError::malformed(WHAT, e))?
        }
    };
    Ok(Fact::Import(Box::new(state)))
}

fn object(value: Json) -> Result<JsonMap, WireError> {
    match value {
        Json::Object(map) => Ok(map),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Err(WireError::malformed(WHAT, "a part of it is not an object"))
        }
    }
}
