//! `GET /v1/workflows/logs`: the runs of the app, newest first. A request looks at the newest runs of the app within its
//! times, at most `scheduler.logs_scanned_max`; older ones are found with `created_at__before`.

use std::collections::HashMap;

use axum::extract::State;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock, Timestamp};
use tidemill_common::dsl::moderation;
use tidemill_common::graph::GraphHash;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{App, ListRuns, REMOVED_FIELD};
use tidemill_common::value::JsonMap;

use super::end_users::short;
use super::{check_mode, given, limit_in, number_in};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::Params;
use crate::api::times;
use crate::runs::ids::log_uuid;
use crate::runs::record::{RunRecord, whole_seconds};
use crate::runs::scan::{Scan, just_after};

/// The last page, as on Dify.
const PAGE_MAX: usize = 99_999;
/// The length of a keyword; the rest is ignored, as on Dify.
const KEYWORD_CHARS: usize = 30;
/// The statuses that a request may name, as on Dify.
const STATUSES: [RunStatus; 3] = [RunStatus::Succeeded, RunStatus::Failed, RunStatus::Stopped];
/// The fields that decide whether a run is listed.
const LOOKED_AT: [&str; 4] = ["app", "user", "caller", REMOVED_FIELD];
/// The fields in which a keyword is searched, and the version that says whether answers are moderated. They are read of
/// runs that are listed without it.
const SEARCHED: [&str; 4] = ["user", "inputs", "outputs", "version"];

/// Lists the runs of a workflow. Other apps have none here, as on Dify.
///
/// # Errors
/// 400 for an invalid parameter.
pub async fn list(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    let filter = Filter::read(&params)?;
    let (page, limit) = (number_in(&params, "page", 1, PAGE_MAX)?, limit_in(&params)?);
    // Dify writes these logs only for workflows.
    let found = match check_mode(&app) {
        Ok(()) => search_all(&state, &app, &filter).await?,
        Err(_) => Vec::new(),
    };
    let from = (page - 1).saturating_mul(limit);
    let mut versions: HashMap<String, Timestamp> = HashMap::new();
    for known in state.store.app_records().versions(&app.id).await? {
        versions.insert(known.version, known.published_at);
    }
    let mut data = Vec::new();
    for run in found.iter().skip(from).take(limit) {
        // A run may be removed between the two reads.
        let Some(fields) = state.store.run_fields(*run).await? else { continue };
        let record = RunRecord::read(*run, &fields)?;
        let published = versions.get(record.published_version()).copied();
        data.push(entry(&app, &record, published.unwrap_or(Timestamp::from_millis(app.created_at_ms))));
    }
    let total = found.len();
    let has_more = total > from.saturating_add(limit);
    Ok(JsonBody(json!({"page": page, "limit": limit, "total": total, "has_more": has_more, "data": data})))
}

/// The wishes of a request.
#[derive(Debug, Default, PartialEq)]
struct Filter {
    /// In lower case.
    keyword: Option<String>,
    status: Option<RunStatus>,
    /// Both times are included.
    before: Option<Timestamp>,
    after: Option<Timestamp>,
    user: Option<String>,
}

impl Filter {
    fn read(params: &Params) -> Result<Self, ApiError> {
        let status = match given(params, "status") {
            None => None,
            Some(name) => {
                let status = STATUSES.into_iter().find(|status| status.name() == name);
                let wrong = || ApiError::invalid_param("status must be succeeded, failed or stopped");
                Some(status.ok_or_else(wrong)?)
            }
        };
        let time = |name: &str| match given(params, name) {
            None => Ok(None),
            Some(text) => {
                let wrong = || ApiError::invalid_param(format!("{name} must be a time in ISO 8601"));
                times::read(text).map(Some).ok_or_else(wrong)
            }
        };
        // There are no accounts here: only end users start runs.
        if let Some(email) = given(params, "created_by_account") {
            return Err(ApiError::invalid_param(format!("Account not found: {email}")));
        }
        Ok(Self {
            keyword: given(params, "keyword")
                .map(|it| it.chars().take(KEYWORD_CHARS).collect::<String>().to_lowercase()),
            status,
            before: time("created_at__before")?,
            after: time("created_at__after")?,
            user: given(params, "created_by_end_user_session_id").map(str::to_string),
        })
    }

    /// True for a run of this app that the request wants, its keyword aside. Sub-workflow runs are parts of others.
    fn takes(&self, app: &App, fields: &HashMap<String, String>) -> bool {
        let is = |name: &str, value: &str| fields.get(name).is_some_and(|known| known == value);
        let is_hidden = fields.contains_key("caller") || fields.contains_key(REMOVED_FIELD);
        is("app", &app.id) && !is_hidden && self.user.as_ref().is_none_or(|user| is("user", user))
    }
}

/// True when the keyword is in the inputs, the outputs or the user's name, or is the id of the run. Outputs of a moderated
/// run are stored as the workflow gave them, so a keyword would find what its client must not read.
fn has_keyword(keyword: &str, run: RunId, fields: &HashMap<String, String>, is_moderated: bool) -> bool {
    let names: &[&str] = if is_moderated { &["inputs", "user"] } else { &["inputs", "user", "outputs"] };
    let texts = names.iter().filter_map(|name| fields.get(*name));
    // The keyword was cut, so a whole id is compared by its beginning.
    let is_id = keyword.len() == KEYWORD_CHARS && run.to_string().starts_with(keyword);
    is_id || texts.into_iter().any(|text| text.to_lowercase().contains(keyword))
}

/// The runs of an app in which the keyword is found.
async fn search(state: &ApiState, keyword: &str, own: Vec<RunId>) -> Result<Vec<RunId>, ApiError> {
    let fields = state.store.app_records().fields_of_runs(&own, &SEARCHED).await?;
    let mut found = Vec::new();
    for (run, fields) in own.into_iter().zip(fields) {
        // A version that cannot be read any more may have been moderated.
        let is_moderated = match fields.get("version") {
            Some(version) if fields.contains_key("outputs") => {
                let hash = GraphHash(version.as_str().into());
                let workflow = state.workflows.of_run(&*state.store, run.shard(), &hash).await;
                workflow.ok().is_none_or(|it| are_outputs_moderated(&it.graph.features))
            }
            Some(_) | None => true,
        };
        if has_keyword(keyword, run, &fields, is_moderated) {
            found.push(run);
        }
    }
    Ok(found)
}

fn are_outputs_moderated(features: &JsonMap) -> bool {
    moderation::of(features).is_some_and(|moderation| moderation.outputs.is_some())
}

/// The wanted runs among those that may be looked at, newest first.
async fn search_all(state: &ApiState, app: &App, filter: &Filter) -> Result<Vec<RunId>, ApiError> {
    let query = ListRuns {
        status: filter.status,
        before: filter.before.map(just_after),
        since: filter.after,
        ..ListRuns::default()
    };
    let scan = Scan::new(query, &LOOKED_AT, state.config.scheduler.logs_scanned_max);
    let mut scan = scan.of_app(&app.id);
    let mut found = Vec::new();
    while let Some(piece) = scan.next(&*state.store).await? {
        let own = piece.into_iter().filter(|(_, fields)| filter.takes(app, fields));
        let own: Vec<RunId> = own.map(|(run, _)| run).collect();
        found.extend(match &filter.keyword {
            Some(keyword) if !own.is_empty() => search(state, keyword, own).await?,
            Some(_) | None => own,
        });
    }
    Ok(found)
}

fn entry(app: &App, record: &RunRecord, published: Timestamp) -> Json {
    json!({
        "id": log_uuid(record.id),
        "workflow_run": {
            "id": record.id.to_string(),
            "version": times::as_version(published),
            "status": record.status.name(),
            "triggered_from": "app-run",
            "error": record.error,
            "elapsed_time": record.elapsed(SystemClock.now()),
            "total_tokens": record.tokens.unwrap_or(0),
            "total_steps": record.steps.unwrap_or(0),
            "created_at": record.created_at.seconds(),
            "finished_at": whole_seconds(record.finished_at),
            "exceptions_count": record.exceptions.unwrap_or(0),
        },
        "details": null,
        "created_from": "service-api",
        "created_by_role": "end_user",
        "created_by_account": null,
        "created_by_end_user": short(&app.id, &record.user),
        "created_at": record.created_at.seconds(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::ids::ShardId;

    fn fields(changes: &[(&str, &str)]) -> HashMap<String, String> {
        let all =
            [("app", "a"), ("user", "Ada"), ("inputs", r#"{"city":"Köln"}"#), ("outputs", r#"{"n":1}"#)];
        all.iter().chain(changes).map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect()
    }

    #[test]
    fn runs_of_the_app_are_taken_by_user_and_keyword() {
        let run = RunId::new(1, 2, ShardId(0));
        let app = App { id: "a".into(), ..App::default() };
        let by = |keyword: &str, user: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
            Filter { keyword: some(keyword), user: some(user), ..Filter::default() }
        };
        let id: String = run.to_string().chars().take(KEYWORD_CHARS).collect();
        for (filter, changes, takes) in [
            (by("", ""), vec![], true),
            (by("", ""), vec![("app", "b")], false),
            (by("", ""), vec![("caller", "{}")], false),
            (by("", ""), vec![("removed", "1")], false),
            (by("", "Ada"), vec![], true),
            (by("", "ada"), vec![], false),
            (by("köln", ""), vec![], true),
            (by("ada", ""), vec![], true),
            (by("\"n\":1", ""), vec![], true),
            (by("bonn", ""), vec![], false),
            (by(&id, ""), vec![], true),
            (by("bonn", "Ada"), vec![], false),
        ] {
            let fields = fields(&changes);
            let has = |keyword: &String| has_keyword(keyword, run, &fields, false);
            let taken = filter.takes(&app, &fields) && filter.keyword.as_ref().is_none_or(has);
            assert_eq!(taken, takes, "{filter:?} {changes:?}");
        }
        for (keyword, found) in [("\"n\":1", false), ("köln", true), ("ada", true)] {
            assert_eq!(has_keyword(keyword, run, &fields(&[]), true), found, "moderated: {keyword}");
        }
    }
}
