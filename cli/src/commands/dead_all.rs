//! `tidemill dead retry --all`: counts the dead letters that match, asks, and retries them.

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::{Map, Value as Json, json};

use super::dead::{retried, shown};
use crate::client::Client;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::json;

/// The conditions of a retry of many dead letters.
#[derive(Debug, Args)]
pub(super) struct RetryAll {
    /// Retry all dead letters that meet the conditions; shows their number and asks first
    #[arg(long)]
    all: bool,
    /// With --all: only those of this kind
    #[arg(long, requires = "all", value_parser = ["job", "fact"])]
    what: Option<String>,
    /// With --all: only those of runs of this app (id or name)
    #[arg(long, requires = "all", value_name = "APP")]
    app: Option<String>,
    /// With --all: only those of the node with this id
    #[arg(long, requires = "all", value_name = "NODE")]
    node: Option<String>,
    /// With --all: only those of this run
    #[arg(long, requires = "all", value_name = "ID")]
    run: Option<String>,
    /// With --all: only those whose reason has this text
    #[arg(long, requires = "all", value_name = "TEXT")]
    reason: Option<String>,
    /// With --all: only those given up since then: 2026-11-25T10:00:00Z, or 90m, 24h, 7d for that long ago
    #[arg(long, requires = "all", value_name = "TIME", value_parser = moment)]
    since: Option<DateTime<Utc>>,
    /// With --all: only those given up before then
    #[arg(long, requires = "all", value_name = "TIME", value_parser = moment)]
    until: Option<DateTime<Utc>>,
    /// With --all: only count them
    #[arg(long, requires = "all")]
    dry_run: bool,
    /// With --all: do not ask
    #[arg(long, requires = "all")]
    yes: bool,
}

impl RetryAll {
    /// Counts, asks, retries.
    pub(super) async fn perform(
        &self,
        client: &Client,
        json: bool,
        console: &mut Console,
    ) -> Result<Exit, Error> {
        let count = count(client, &self.filter()).await?;
        if self.dry_run || count == 0 {
            if json {
                json::whole(&json!({"matched": count}), console)?;
            } else {
                console.note(matched(count));
            }
            return Ok(Exit::Succeeded);
        }
        if !self.yes {
            if !console.can_ask() {
                let wanted = "add --yes to retry them without a question, or --dry-run to count them";
                return Err(Error::Usage(format!("{}; {wanted}", matched(count))));
            }
            let question = format!("{}. Retry? [y/N] ", matched(count));
            let answer = console.ask(&question).await?.unwrap_or_default();
            if !["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
                console.note("nothing is retried");
                return Ok(Exit::Succeeded);
            }
        }
        self.retry(client, json, console).await
    }

    async fn retry(&self, client: &Client, json: bool, console: &mut Console) -> Result<Exit, Error> {
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        let mut before = Json::Null;
        loop {
            let body = json!({"filter": self.filter(), "before": before});
            let mut page = client.retry_dead_letters(&body).await?;
            for (all, name) in [(&mut done, "retried"), (&mut refused, "refused")] {
                let Json::Array(some) = page[name].take() else { continue };
                if !json {
                    some.iter().for_each(|it| console.note(line(it)));
                }
                all.extend(some);
            }
            before = page["next"].take();
            if before.is_null() {
                break;
            }
        }
        if json {
            json::whole(&json!({"retried": done, "refused": refused}), console)?;
        } else {
            console.note(format_args!("{} retried, {} refused", done.len(), refused.len()));
        }
        Ok(if refused.is_empty() { Exit::Succeeded } else { Exit::Failed })
    }

    fn filter(&self) -> Json {
        let seconds = |at: &DateTime<Utc>| Json::from(at.timestamp_millis() as f64 / 1000.0);
        let texts = [
            ("what", &self.what),
            ("app", &self.app),
            ("node", &self.node),
            ("run", &self.run),
            ("reason", &self.reason),
        ];
        let mut filter = Map::new();
        for (name, text) in texts {
            filter.extend(text.as_ref().map(|text| (name.to_string(), Json::from(text.as_str()))));
        }
        for (name, at) in [("since", &self.since), ("until", &self.until)] {
            filter.extend(at.as_ref().map(|at| (name.to_string(), seconds(at))));
        }
        Json::Object(filter)
    }
}

/// Counts the dead letters that match, page by page.
async fn count(client: &Client, filter: &Json) -> Result<u64, Error> {
    let (mut count, mut before) = (0, Json::Null);
    loop {
        let body = json!({"filter": filter, "dry_run": true, "before": before});
        let mut page = client.retry_dead_letters(&body).await?;
        count += page["matched"].as_u64().unwrap_or(0);
        before = page["next"].take();
        if before.is_null() {
            return Ok(count);
        }
    }
}

fn matched(count: u64) -> String {
    match count {
        0 => "no dead letter matches".into(),
        1 => "1 dead letter matches".into(),
        many => format!("{many} dead letters match"),
    }
}

fn line(it: &Json) -> String {
    match it["message"].as_str() {
        Some(message) => format!("{} cannot be retried: {message}", shown(&it["letter"])),
        None => format!("{}: {}", shown(&it["letter"]), retried(it)),
    }
}

/// Reads a time, or how long ago it was.
fn moment(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Ok(at.to_utc());
    }
    let seconds_of = |unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    };
    let ago = || {
        let unit = text.chars().last()?;
        let number: i64 = text[..text.len() - unit.len_utf8()].parse().ok().filter(|n| *n >= 0)?;
        let seconds = number.checked_mul(seconds_of(unit)?)?;
        Utc::now().checked_sub_signed(chrono::TimeDelta::try_seconds(seconds)?)
    };
    ago().ok_or_else(|| "write a time such as 2026-11-25T10:00:00Z, or 90m, 24h, 7d for that long ago".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> RetryAll {
        RetryAll {
            all: true,
            what: None,
            app: None,
            node: None,
            run: None,
            reason: None,
            since: None,
            until: None,
            dry_run: false,
            yes: false,
        }
    }

    #[test]
    fn times_are_dates_or_ages() {
        assert_eq!(moment("2026-11-25T10:00:00+01:00").unwrap().timestamp(), 1_795_597_200);
        for (text, seconds) in [("30s", 30), ("90m", 5400), ("24h", 86_400), ("7d", 604_800)] {
            let ago = (Utc::now() - moment(text).unwrap()).num_seconds();
            // The later of the two readings of the clock is the one inside.
            assert!((seconds - 1..seconds + 60).contains(&ago), "{text}: {ago}");
        }
        for wrong in ["", "h", "yesterday", "-1h", "99999999999999999d", "1ü", "2026-11-25"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_given_conditions_are_sent() {
        assert_eq!(all().filter(), json!({}));
        let some = RetryAll {
            node: Some("llm".into()),
            reason: Some("delivered".into()),
            since: Some(moment("1970-01-01T00:00:01.5Z").unwrap()),
            ..all()
        };
        assert_eq!(some.filter(), json!({"node": "llm", "reason": "delivered", "since": 1.5}));
    }

    #[test]
    fn each_letter_is_one_line() {
        let done = json!({"letter": "0-17-0", "id": "r2", "retry_of": "r1", "begins_at": "llm"});
        assert_eq!(line(&done), "0-17-0: run r2 continues run r1 at node llm");
        let refused = json!({"letter": "0-17-0", "message": "run r1 is gone"});
        assert_eq!(line(&refused), "0-17-0 cannot be retried: run r1 is gone");
        assert_eq!(
            [matched(0), matched(1), matched(2)],
            ["no dead letter matches", "1 dead letter matches", "2 dead letters match"]
        );
    }
}
