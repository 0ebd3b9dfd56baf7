//! `tidemill apps limits` and `tidemill keys limits`: how many requests a second, and how many runs at the same time, an app
//! or a key may have.

use clap::Args;
use serde_json::{Value as Json, json};

use super::common::Common;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table};

/// What is asked for; nothing: the limits are shown.
#[derive(Debug, Args)]
pub(super) struct Change {
    /// Most requests a second; 0: no limit; without it, the default of the scheduler
    #[arg(long, value_name = "N")]
    requests_per_second: Option<u64>,
    /// Most runs at the same time; 0: no limit; without it, the default of the scheduler
    #[arg(long, value_name = "N")]
    runs_max: Option<u64>,
    /// Remove the limits that were set: the defaults of the scheduler hold again
    #[arg(long, conflicts_with_all = ["requests_per_second", "runs_max"])]
    default: bool,
}

impl Change {
    /// The body of the request; `None` when nothing is to be set.
    fn body(&self) -> Option<Json> {
        let is_any = self.requests_per_second.is_some() || self.runs_max.is_some();
        is_any.then(|| json!({"requests_per_second": self.requests_per_second, "runs_max": self.runs_max}))
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
    if change.default {
        client.remove_limits(kind, id).await?;
    } else if let Some(body) = change.body() {
        client.set_limits(kind, id, &body).await?;
    }
    let shown = match whose {
        Whose::App(id) => client.app(id).await?,
        Whose::Key(id) => {
            let keys = client.keys(None).await?;
            let key = keys["data"].as_array().into_iter().flatten().find(|key| key["id"] == id);
            // The scheduler says what is wrong with the id.
            match key.cloned() {
                Some(key) => key,
                None => client.set_limits(kind, id, &json!({})).await?,
            }
        }
    };
    let limits = &shown["limits"];
    if common.json {
        json::whole(limits, console)?
    } else {
        console.text(render(limits))?
    }
    Ok(Exit::Succeeded)
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
    fn without_options_nothing_is_set() {
        let change = |requests_per_second, runs_max| Change { requests_per_second, runs_max, default: false };
        assert_eq!(change(None, None).body(), None);
        let body = json!({"requests_per_second": null, "runs_max": 0});
        assert_eq!(change(None, Some(0)).body(), Some(body));
    }
}
