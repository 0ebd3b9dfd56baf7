//! `POST /api/v1/dead/retry`: counts or retries all dead letters that match a filter. One request reads a bounded number
//! of them, and `next` is where the following request continues.

use std::collections::HashMap;

use axum::Json as JsonBody;
use axum::extract::State;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::store::{DeadId, DeadLetter, ListDead};
use tidemill_common::value::JsonMap;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::native::dead;
use crate::api::request::Body;

/// Dead letters that one request reads.
const READ_MAX: usize = 1000;
/// Dead letters that are read from the store at a time; each may have 16 KiB.
const PAGE: usize = 100;
/// Most dead letters that one request retries, and the default.
const RETRIED_MAX: usize = 100;
const FILTERS: [&str; 7] = ["what", "app", "node", "run", "reason", "since", "until"];
const FIELDS: [&str; 4] = ["filter", "dry_run", "before", "limit"];

/// The dead letters that are meant. An absent condition is met by all of them.
#[derive(Debug, Clone, Default, PartialEq)]
struct Filter {
    what: Option<String>,
    /// The id or name of the app whose run it is.
    app: Option<String>,
    node: Option<String>,
    run: Option<String>,
    /// A part of the reason, in any case.
    reason: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// A request.
#[derive(Debug, PartialEq)]
struct Asked {
    filter: Filter,
    dry_run: bool,
    before: Option<DeadId>,
    limit: usize,
}

/// Counts (`dry_run`) or retries the dead letters that match, newest first.
///
/// # Errors
/// 400 for an invalid request. What cannot be retried is listed and is no error.
pub async fn retry(State(state): State<ApiState>, body: Body) -> Result<JsonBody<Json>, ApiError> {
    let asked = parse(&body.object()?)?;
    let mut apps = Apps::of(&state, asked.filter.app.as_deref()).await?;
    let (mut before, mut read, mut matched) = (asked.before, 0, 0);
    let (mut retried, mut refused) = (Vec::new(), Vec::new());
    while read < READ_MAX {
        let letters = state.store.dead_letters(&ListDead { before, limit: PAGE }).await?;
        let is_last = letters.len() < PAGE;
        for letter in letters {
            if !asked.dry_run && retried.len() + refused.len() >= asked.limit {
                return Ok(answer(matched, retried, refused, before));
            }
            before = Some(letter.id);
            read += 1;
            if !asked.filter.matches(&letter) || !apps.has(&state, &letter.run).await? {
                continue;
            }
            matched += 1;
            if !asked.dry_run {
                match dead::retry_letter(&state, &letter).await {
                    Ok((_, mut done)) => {
                        done["letter"] = letter.id.to_string().into();
                        retried.push(done);
                    }
                    Err(error) if error.status().is_client_error() => refused.push(refusal(&letter, &error)),
                    Err(error) => return Err(error),
                }
            }
        }
        if is_last {
            before = None;
            break;
        }
    }
    Ok(answer(matched, retried, refused, before))
}

fn refusal(letter: &DeadLetter, error: &ApiError) -> Json {
    json!({"letter": letter.id.to_string(), "run": letter.run, "message": error.message()})
}

fn answer(matched: usize, retried: Vec<Json>, refused: Vec<Json>, next: Option<DeadId>) -> JsonBody<Json> {
    let next = next.map(|id| id.to_string());
    JsonBody(json!({"matched": matched, "retried": retried, "refused": refused, "next": next}))
}

/// The id of the app with this id, or else with this name.
async fn app_called(state: &ApiState, wanted: &str) -> Result<String, ApiError> {
    if let Some(app) = state.store.app(wanted).await? {
        return Ok(app.id);
    }
    let mut named = Vec::new();
    for id in state.store.apps().await? {
        let app = state.store.app(&id).await?;
        named.extend(app.filter(|app| app.name == wanted).map(|app| app.id));
    }
    let found = named.len();
    match named.pop() {
        Some(id) if found == 1 => Ok(id),
        _ => Err(ApiError::invalid_param(format!(
            "filter.app: {found} apps are called {wanted}; write the id"
        ))),
    }
}

/// The runs of the wanted app.
struct Apps {
    /// `None` when runs of all apps are meant.
    wanted: Option<String>,
    /// Whether a run belongs to it.
    known: HashMap<RunId, bool>,
}

impl Apps {
    async fn of(state: &ApiState, wanted: Option<&str>) -> Result<Self, ApiError> {
        let wanted = match wanted {
            None => None,
            Some(name) => Some(app_called(state, name).await?),
        };
        Ok(Self { wanted, known: HashMap::new() })
    }

    /// Returns true if the run belongs to the app. A run that is gone belongs to none.
    async fn has(&mut self, state: &ApiState, run: &str) -> Result<bool, ApiError> {
        let Some(wanted) = &self.wanted else { return Ok(true) };
        let Ok(run) = run.parse::<RunId>() else { return Ok(false) };
        if let Some(known) = self.known.get(&run) {
            return Ok(*known);
        }
        let fields = state.store.run_fields(run).await?;
        let is_of_it = fields.is_some_and(|fields| fields.get("app") == Some(wanted));
        self.known.insert(run, is_of_it);
        Ok(is_of_it)
    }
}

impl Filter {
    /// Whether a letter meets all conditions except that of the app.
    fn matches(&self, letter: &DeadLetter) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == found)
        };
        let at = dead::given_up_at(letter.id);
        let reason = letter.reason.to_lowercase();
        is(&self.what, Some(&letter.what))
            && is(&self.run, Some(&letter.run))
            && is(&self.node, letter.place.as_ref().map(|(_, node)| node.as_str()))
            && self.reason.as_ref().is_none_or(|part| reason.contains(&part.to_lowercase()))
            && self.since.is_none_or(|since| at >= since)
            && self.until.is_none_or(|until| at < until)
    }
}

fn parse(body: &JsonMap) -> Result<Asked, ApiError> {
    let wrong = |name: &str, expected: &str| ApiError::invalid_param(format!("{name} must be {expected}"));
    known("the request", body, &FIELDS)?;
    let filter = match body.get("filter") {
        Some(Json::Object(filter)) => parse_filter(filter)?,
        // An empty filter means all letters, so it has to be there.
        _ => return Err(wrong("filter", "an object; {} means all dead letters")),
    };
    let dry_run = match body.get("dry_run") {
        None => false,
        Some(value) => value.as_bool().ok_or_else(|| wrong("dry_run", "true or false"))?,
    };
    let before = match body.get("before") {
        None | Some(Json::Null) => None,
        Some(value) => {
            let id = value.as_str().and_then(|text| text.parse().ok());
            Some(id.ok_or_else(|| wrong("before", "the next of an earlier answer"))?)
        }
    };
    let limit = match body.get("limit") {
        None => RETRIED_MAX,
        Some(value) => {
            let limit = value.as_u64().and_then(|n| usize::try_from(n).ok());
            let valid = limit.filter(|n| (1..=RETRIED_MAX).contains(n));
            valid.ok_or_else(|| wrong("limit", "1 to 100"))?
        }
    };
    Ok(Asked { filter, dry_run, before, limit })
}

fn parse_filter(filter: &JsonMap) -> Result<Filter, ApiError> {
    let wrong =
        |name: &str, expected: &str| ApiError::invalid_param(format!("filter.{name} must be {expected}"));
    known("filter", filter, &FILTERS)?;
    let text = |name: &str| match filter.get(name) {
        None | Some(Json::Null) => Ok::<_, ApiError>(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(wrong(name, "a text")),
    };
    let time = |name: &str| match filter.get(name) {
        None | Some(Json::Null) => Ok::<_, ApiError>(None),
        Some(value) => {
            let seconds = value.as_f64().filter(|s| (0.0..1e12).contains(s));
            let seconds = seconds.ok_or_else(|| wrong(name, "a time in Unix seconds"))?;
            Ok(Some(Timestamp::from_millis((seconds * 1000.0) as i64)))
        }
    };
    let what = text("what")?;
    if what.as_deref().is_some_and(|what| !["job", "fact"].contains(&what)) {
        return Err(wrong("what", "job or fact: nothing else can be retried"));
    }
    Ok(Filter {
        what,
        app: text("app")?,
        node: text("node")?,
        run: text("run")?,
        reason: text("reason")?,
        since: time("since")?,
        until: time("until")?,
    })
}

fn known(what: &str, map: &JsonMap, names: &[&str]) -> Result<(), ApiError> {
    match map.keys().find(|key| !names.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let names = names.join(", ");
            Err(ApiError::invalid_param(format!("{what} has an unknown field {key:?}; it may have {names}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_common::ids::{EntryId, ShardId};

    use super::*;

    fn letter() -> DeadLetter {
        DeadLetter {
            id: DeadId { entry: EntryId::new(1_700_000_000_500, 0), shard: ShardId(1) },
            what: "job".into(),
            run: "r".into(),
            reason: "node llm was delivered 3 times and No Worker returned a result".into(),
            content: "{}".into(),
            is_whole: true,
            place: Some(("it#1".into(), "llm".into())),
        }
    }

    fn asked(body: Json) -> Result<Asked, ApiError> {
        parse(body.as_object().unwrap())
    }

    #[test]
    fn a_letter_must_meet_every_condition() {
        for (filter, expected) in [
            (json!({}), true),
            (json!({"what": "job", "run": "r", "node": "llm", "reason": "no worker"}), true),
            (json!({"what": "fact"}), false),
            (json!({"run": "R"}), false),
            (json!({"node": "ll"}), false),
            (json!({"node": "llm", "reason": "other"}), false),
            (json!({"since": 1_700_000_000.5, "until": 1_700_000_000.6}), true),
            (json!({"since": 1_700_000_001}), false),
            (json!({"until": 1_700_000_000.5}), false),
            (json!({"node": null, "since": null}), true),
        ] {
            let asked = asked(json!({"filter": filter})).unwrap();
            assert_eq!(asked.filter.matches(&letter()), expected, "{filter}");
        }
        let no_node = DeadLetter { place: None, ..letter() };
        let of_a_node = Filter { node: Some("llm".into()), ..Filter::default() };
        assert!(!of_a_node.matches(&no_node) && Filter::default().matches(&no_node));
    }

    #[test]
    fn an_invalid_request_says_what_is_expected() {
        for (body, says) in [
            (json!({}), "filter must be an object"),
            (json!({"filter": {"nod": "x"}}), "what, app, node, run, reason, since, until"),
            (json!({"filter": {"node": 1}}), "filter.node must be a text"),
            (json!({"filter": {"what": "timer"}}), "job or fact"),
            (json!({"filter": {"since": "yesterday"}}), "Unix seconds"),
            (json!({"filter": {}, "dry_run": 1}), "true or false"),
            (json!({"filter": {}, "before": "x"}), "next of an earlier answer"),
            (json!({"filter": {}, "limit": 101}), "1 to 100"),
            (json!({"filter": {}, "all": true}), "unknown field"),
        ] {
            let error = asked(body.clone()).unwrap_err();
            assert!(error.message().contains(says), "{body}: {}", error.message());
        }
        let whole = asked(json!({"filter": {}, "dry_run": true, "before": "1-17-0", "limit": 7})).unwrap();
        assert_eq!((whole.dry_run, whole.limit, whole.before), (true, 7, "1-17-0".parse().ok()));
    }
}
