//! `GET /api/v1/runs`: runs with filters, newest first. A page is the same when it is asked for again, whatever begins
//! meanwhile: `next` names the last run that was looked at, not a number of runs. A search that finds little ends at its
//! limit, and its `next` continues it.

use std::fmt;

use axum::Json as JsonBody;
use axum::extract::{Query, State};
use futures_util::future::try_join_all;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{INNER_FIELD, LABELS_FIELD, ListRuns, Runs, label_id, labels_in};

use super::labels;
use super::runs::summary;
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::Params;
use crate::api::times;
use crate::runs::record::RunRecord;
use crate::runs::scan::{Fields, Scan, just_after};

const LIST_DEFAULT: usize = 20;
const LIST_MAX: usize = 100;
/// The longest text that is searched for in errors, in characters.
const TEXT_CHARS_MAX: usize = 200;
/// Runs that are read at once at least, when no filter leaves some of them out.
const PIECE_MIN: usize = 20;

/// Lists runs, newest first, without those that Tidemill does for itself.
///
/// # Errors
/// 400 for invalid parameters.
pub async fn list(
    State(state): State<ApiState>,
    params: Params,
    Query(all): Query<Vec<(String, String)>>,
) -> Result<JsonBody<Json>, ApiError> {
    let mut filter = Filter::read(&params)?;
    let labels = all.iter().filter(|(name, _)| name == "label").map(|(_, text)| labels::wanted(text));
    filter.labels = labels.collect::<Result<_, _>>()?;
    let with_total = params.truth("total", false)?;
    let store = &*state.store;
    let mut scan = filter.scan(state.config.scheduler.logs_scanned_max);
    let (mut found, mut last, mut scanned, mut is_more) = (Vec::new(), None, 0_usize, false);
    'pieces: while let Some(piece) = scan.next(store).await? {
        for (run, fields) in piece {
            // A run without fields was removed between the two reads.
            let Some(place) = Place::of(run, &fields) else { continue };
            if filter.after.is_some_and(|after| !place.is_after(after)) {
                continue;
            }
            if found.len() >= filter.limit {
                is_more = true;
                break 'pieces;
            }
            last = Some(place);
            scanned += 1;
            if filter.takes(&fields) {
                found.push(run);
            }
        }
    }
    is_more |= !scan.has_seen_all();
    let all_fields = try_join_all(found.iter().map(|run| store.run_fields(*run))).await?;
    let mut data = Vec::with_capacity(found.len());
    for (run, fields) in found.into_iter().zip(all_fields) {
        let Some(fields) = fields else { continue };
        data.push(Json::Object(summary(&RunRecord::read(run, &fields)?)));
    }
    let next = last.filter(|_| is_more).map(|last| last.to_string());
    let mut page = json!({"data": data, "next": next, "scanned": scanned});
    if with_total {
        let (name, count) = match filter.total(store).await? {
            Some(total) => ("total", total),
            None => ("at_least", data_len(&page) + u64::from(is_more)),
        };
        page[name] = count.into();
    }
    Ok(JsonBody(page))
}

fn data_len(page: &Json) -> u64 {
    page["data"].as_array().map_or(0, |data| data.len() as u64)
}

/// The place of a run in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    created_at: Timestamp,
    /// `None` is before all runs of this time.
    run: Option<RunId>,
}

impl Place {
    fn of(run: RunId, fields: &Fields) -> Option<Self> {
        let micros = fields.get("created_at")?.parse().ok()?;
        Some(Self { created_at: Timestamp::from_micros(micros), run: Some(run) })
    }

    /// Reads the `next` of a page, or a time in microseconds alone.
    fn read(text: &str) -> Option<Self> {
        let (micros, run) = match text.split_once('.') {
            Some((micros, run)) => (micros, Some(run.parse().ok()?)),
            None => (text, None),
        };
        let micros: i64 = micros.parse().ok()?;
        // All runs before a time alone come after the place.
        Some(Self { created_at: Timestamp::from_micros(micros), run })
    }

    /// True when it comes after another place: it is older, or its id is smaller.
    fn is_after(self, other: Self) -> bool {
        match (self.created_at.cmp(&other.created_at), other.run) {
            (std::cmp::Ordering::Less, _) => true,
            (std::cmp::Ordering::Equal, Some(run)) => self.run.is_some_and(|own| own < run),
            (std::cmp::Ordering::Equal, None) | (std::cmp::Ordering::Greater, _) => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.created_at.micros())?;
        self.run.map_or(Ok(()), |run| write!(f, ".{run}"))
    }
}

/// The wishes of a request.
#[derive(Debug, Default, PartialEq)]
struct Filter {
    app: Option<String>,
    user: Option<String>,
    status: Option<RunStatus>,
    /// In lower case.
    error: Option<String>,
    since: Option<Timestamp>,
    /// This time is not included.
    until: Option<Timestamp>,
    after: Option<Place>,
    /// All of them.
    labels: Vec<(String, String)>,
    limit: usize,
}

impl Filter {
    fn read(params: &Params) -> Result<Self, ApiError> {
        let wrong =
            |name: &str, expected: &str| ApiError::invalid_param(format!("{name} must be {expected}"));
        let text = |name: &str| match params.get(name) {
            Some("") => Err(wrong(name, "a text that is not empty")),
            text => Ok(text.map(str::to_owned)),
        };
        let time = |name: &str| match params.get(name) {
            None => Ok(None),
            Some(text) => moment(text).map(Some).ok_or_else(|| {
                wrong(name, "a time in ISO 8601, such as 2026-01-31T08:00:00Z, or in seconds since 1970")
            }),
        };
        let status = match params.get("status") {
            None => None,
            Some(name) => Some(RunStatus::from_name(name).ok_or_else(|| {
                wrong("status", &format!("one of {}", RunStatus::ALL.map(RunStatus::name).join(", ")))
            })?),
        };
        let limit = match params.get("limit") {
            None => LIST_DEFAULT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|n| (1..=LIST_MAX).contains(n))
                .ok_or_else(|| wrong("limit", &format!("1 to {LIST_MAX}")))?,
        };
        let after = match params.get("before") {
            None => None,
            Some(text) => {
                Some(Place::read(text).ok_or_else(|| wrong("before", "the next of an earlier page"))?)
            }
        };
        let error = text("error")?;
        if error.as_ref().is_some_and(|error| error.chars().count() > TEXT_CHARS_MAX) {
            return Err(wrong("error", &format!("at most {TEXT_CHARS_MAX} characters long")));
        }
        Ok(Self {
            app: text("app")?,
            user: text("user")?,
            status,
            error: error.map(|error| error.to_lowercase()),
            since: time("since")?,
            until: time("until")?,
            after,
            labels: Vec::new(),
            limit,
        })
    }

    /// The number of runs that it takes, if an index knows it: those of an app or with one label, and of any time. Other lists
    /// also have runs that Tidemill does for itself.
    async fn total(&self, store: &dyn Runs) -> Result<Option<u64>, ApiError> {
        if self.status.is_some() || self.user.is_some() || self.error.is_some() {
            return Ok(None);
        }
        let (app, label) = match (&self.app, self.labels.as_slice()) {
            (Some(app), []) => (Some(app.clone()), None),
            (None, [(name, value)]) => (None, Some(label_id(name, value))),
            _ => return Ok(None),
        };
        if let Some(app) = &app
            && !store.lists_runs_by_app(app, None).await?
        {
            return Ok(None);
        }
        let query = ListRuns { app, label, before: self.until, since: self.since, ..ListRuns::default() };
        Ok(Some(store.count_runs(&query).await?))
    }

    /// The look at the runs that may be wanted, at most `most` of them.
    fn scan(&self, most: usize) -> Scan {
        let after = self.after.map(|place| match place.run {
            Some(_) => just_after(place.created_at),
            None => place.created_at,
        });
        let before = [after, self.until].into_iter().flatten().min();
        let label = self.labels.first().map(|(name, value)| label_id(name, value));
        let query = ListRuns { status: self.status, before, since: self.since, label, ..ListRuns::default() };
        let mut names = vec!["created_at", INNER_FIELD];
        names.extend((!self.labels.is_empty()).then_some(LABELS_FIELD));
        names.extend(self.user.as_ref().map(|_| "user"));
        names.extend(self.error.as_ref().map(|_| "error"));
        let mut scan = Scan::new(query, &names, most);
        if let Some(app) = &self.app {
            scan = scan.of_app(app);
        }
        let leaves_out =
            self.user.is_some() || self.error.is_some() || self.app.is_some() || self.labels.len() > 1;
        // One more than the page, to know whether there are more.
        if leaves_out { scan } else { scan.in_pieces_of((self.limit + 1).max(PIECE_MIN)) }
    }

    fn takes(&self, fields: &Fields) -> bool {
        let is = |name: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| fields.get(name).is_some_and(|known| known == wanted))
        };
        let has_error =
            |part: &String| fields.get("error").is_some_and(|it| it.to_lowercase().contains(part));
        let has_labels = || {
            let known = labels_in(fields.get(LABELS_FIELD).map(String::as_str));
            self.labels.iter().all(|(name, value)| known.get(name) == Some(value))
        };
        !fields.contains_key(INNER_FIELD)
            && (self.labels.is_empty() || has_labels())
            && is("app", &self.app)
            && is("user", &self.user)
            && self.error.as_ref().is_none_or(has_error)
    }
}

/// A time in ISO 8601, or in seconds since 1970 as this API writes times.
fn moment(text: &str) -> Option<Timestamp> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && seconds.abs() < 1e11);
    // A date is no number, so the forms cannot be confused.
    seconds
        .map(|seconds| Timestamp::from_micros((seconds * 1e6).round() as i64))
        .or_else(|| times::read(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::ids::ShardId;

    #[test]
    fn the_next_page_begins_after_the_last_run_also_among_runs_of_the_same_time() {
        let run = |n: u128| RunId::new(1, n << 20, ShardId(0));
        let at = |micros: i64, run: Option<RunId>| Place { created_at: Timestamp::from_micros(micros), run };
        let last = at(50, Some(run(5)));
        assert_eq!(Place::read(&last.to_string()), Some(last));
        for (place, is_after) in [
            (at(49, Some(run(9))), true),
            (at(50, Some(run(4))), true),
            (at(50, Some(run(5))), false),
            (at(50, Some(run(6))), false),
            (at(51, Some(run(1))), false),
        ] {
            assert_eq!(place.is_after(last), is_after, "{place}");
        }
        // As earlier versions gave it.
        let time = Place::read("50").expect("a time alone");
        assert!(at(49, Some(run(1))).is_after(time) && !at(50, Some(run(1))).is_after(time));
        for text in ["", "x", "50.", "50.x", ".1"] {
            assert_eq!(Place::read(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_read_in_seconds_and_in_iso_8601() {
        for (text, micros) in [
            ("1736956800", Some(1_736_956_800_000_000)),
            ("1736956800.25", Some(1_736_956_800_250_000)),
            ("2025-01-15T16:00:00Z", Some(1_736_956_800_000_000)),
            ("2025-01-15", Some(1_736_899_200_000_000)),
            ("inf", None),
            ("1e300", None),
            ("soon", None),
        ] {
            assert_eq!(moment(text), micros.map(Timestamp::from_micros), "{text}");
        }
    }

    #[test]
    fn filters_take_runs_by_app_user_and_a_part_of_the_error() {
        let fields = |pairs: &[(&str, &str)]| -> Fields {
            pairs.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string())).collect()
        };
        let run = fields(&[("app", "a"), ("user", "Ada"), ("error", "Rate limit: too many requests")]);
        let some = |text: &str| Some(text.to_string());
        for (filter, takes) in [
            (Filter::default(), true),
            (Filter { app: some("a"), ..Filter::default() }, true),
            (Filter { app: some("b"), ..Filter::default() }, false),
            (Filter { user: some("Ada"), error: some("rate limit"), ..Filter::default() }, true),
            (Filter { user: some("ada"), ..Filter::default() }, false),
            (Filter { error: some("timeout"), ..Filter::default() }, false),
        ] {
            assert_eq!(filter.takes(&run), takes, "{filter:?}");
        }
        assert!(!Filter::default().takes(&fields(&[("app", "a"), (INNER_FIELD, "suggested")])));
        let labelled = fields(&[("app", "a"), (LABELS_FIELD, r#"{"team":"blue","env":"prod"}"#)]);
        let label = |name: &str, value: &str| (name.to_string(), value.to_string());
        for (labels, takes) in [
            (vec![label("team", "blue")], true),
            (vec![label("team", "blue"), label("env", "prod")], true),
            (vec![label("team", "blue"), label("env", "test")], false),
            (vec![label("other", "blue")], false),
        ] {
            let filter = Filter { labels, ..Filter::default() };
            assert_eq!(filter.takes(&labelled), takes, "{filter:?}");
            assert!(!filter.takes(&run));
        }
    }
}
