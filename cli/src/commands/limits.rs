//! `tidemill apps limits` and `tidemill keys limits`: how many requests a second, and how many runs at the same time, an app
//! or a key may have.

use clap::Args;
use serde_json::{Value as Json, json};

use super::common::Common;
use crate::client::Client;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table};

/// What is asked for; nothing: the limits are shown. A limit that is not named stays as it is.
#[derive(Debug, Args)]
pub(super) struct Change {
    /// Most requests a second; 0: no limit
    #[arg(long, value_name = "N")]
    requests_per_second: Option<u64>,
    /// Most runs at the same time; 0: no limit
    #[arg(long, value_name = "N")]
    runs_max: Option<u64>,
    /// Remove the limits that were set: the defaults of the scheduler hold again
    #[arg(long, conflicts_with_all = ["requests_per_second", "runs_max"])]
    default: bool,
}

impl Change {
    /// The body of the request, with what was set before; `None` when nothing is to be set.
    fn body(&self, set: &Json) -> Option<Json> {
        let new = [("requests_per_second", self.requests_per_second), ("runs_max", self.runs_max)];
        if new.iter().all(|(_, max)| max.is_none()) {
            return None;
        }
        let mut body = json!({});
        for (name, max) in new {
            body[name] = max.or_else(|| set[name].as_u64()).into();
        }
        Some(body)
    }
}

/// The owner of the limits.
#[derive(Clone, Copy)]
pub(super) enum Whose<'a> {
    App(&'a str),
    Key(&'a str),
}

pub(super) async fn perform(
    whose: Whose<'_>,
    change: &Change,
    common: &Common,
    console: &mut Console,
) -> Result<Exit, Error> {
    let client = common.client()?;
    let (kind, id) = match whose {
        Whose::App(id) => ("apps", id),
        Whose::Key(id) => ("keys", id),
    };
    let mut limits = in_force(&client, whose).await?;
    if change.default {
        client.remove_limits(kind, id).await?;
        limits = in_force(&client, whose).await?;
    } else if let Some(body) = change.body(&limits["set"]) {
        client.set_limits(kind, id, &body).await?;
        limits = in_force(&client, whose).await?;
    }
    if common.json {
        json::whole(&limits, console)?
    } else {
        console.text(render(&limits))?
    }
    Ok(Exit::Succeeded)
}

/// The limits of an app or a key, as the scheduler shows them.
async fn in_force(client: &Client, whose: Whose<'_>) -> Result<Json, Error> {
    let mut shown = match whose {
        Whose::App(id) => client.app(id).await?,
        Whose::Key(id) => {
            let mut keys = client.keys(None).await?;
            let keys = keys["data"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let key = keys.into_iter().find(|key| key["id"] == id);
            key.ok_or_else(|| Error::Failed(format!("there is no key {id}; `tidemill keys ls` lists them")))?
        }
    };
    Ok(shown["limits"].take())
}

fn render(limits: &Json) -> String {
    let number =
        |name: &str| limits[name].as_u64().map_or_else(|| "no limit".to_string(), |it| it.to_string());
    let runs = limits["runs"].as_u64().map_or_else(|| "not counted".to_string(), |it| it.to_string());
    table::pairs(&[
        ("requests a second", number("requests_per_second")),
        ("runs at the same time", number("runs_max")),
        ("runs now", runs),
    ])
}

/// Limits in a column of a list: empty when there are none.
pub(super) fn column(limits: &Json) -> String {
    let mut parts = Vec::new();
    if let Some(max) = limits["requests_per_second"].as_u64() {
        parts.push(format!("{max}/s"));
    }
    if let Some(max) = limits["runs_max"].as_u64() {
        parts.push(format!("{} of {max} runs", limits["runs"].as_u64().unwrap_or(0)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shown_with_the_runs_that_count_now() {
        let limits = json!({"requests_per_second": 5, "runs_max": 3, "runs": 2});
        assert_eq!(column(&limits), "5/s, 2 of 3 runs");
        assert!(render(&limits).contains("runs now               2"), "{}", render(&limits));
        let none = json!({"requests_per_second": null, "runs_max": null, "runs": null});
        assert_eq!(column(&none), "");
        assert!(render(&none).contains("no limit") && render(&none).contains("not counted"));
    }

    #[test]
    fn without_options_nothing_is_set_and_a_limit_that_is_not_named_stays() {
        let change = |requests_per_second, runs_max| Change { requests_per_second, runs_max, default: false };
        let set = json!({"requests_per_second": 5, "runs_max": null});
        assert_eq!(change(None, None).body(&set), None);
        let body = |requests_per_second: Option<u64>, runs_max: u64| {
            Some(json!({"requests_per_second": requests_per_second, "runs_max": runs_max}))
        };
        assert_eq!(change(None, Some(0)).body(&set), body(Some(5), 0));
        assert_eq!(change(Some(0), Some(2)).body(&set), body(Some(0), 2));
        // A scheduler of an older version does not say what is set.
        assert_eq!(change(None, Some(3)).body(&Json::Null), body(None, 3));
    }
}
