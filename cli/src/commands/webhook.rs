//! `tidemill apps webhook`: the server that is notified about the runs of an app.

use clap::Subcommand;
use serde_json::{Value as Json, json};

use super::common::Common;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Set the webhook of an app; a new secret is shown only now
    Set {
        /// Id of the app
        app: String,
        /// The address that gets the notices
        address: String,
        /// Which events: ended, failed, paused; without it, all
        #[arg(long, value_delimiter = ',', value_name = "EVENTS", value_parser = ["ended", "failed", "paused"])]
        events: Vec<String>,
        /// Send the outputs of runs, too
        #[arg(long)]
        outputs: bool,
        /// Make a new secret
        #[arg(long)]
        new_secret: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Show the webhook of an app, without its secret
    Show {
        /// Id of the app
        app: String,
        #[command(flatten)]
        common: Common,
    },
    /// Send a test to the webhook of an app
    Test {
        /// Id of the app
        app: String,
        #[command(flatten)]
        common: Common,
    },
    /// List the notices that wait, and the newest ones that were given up
    Deliveries {
        /// Id of the app
        app: String,
        #[command(flatten)]
        common: Common,
    },
    /// Remove the webhook of an app; notices that wait are dropped
    Rm {
        /// Id of the app
        app: String,
        #[command(flatten)]
        common: Common,
    },
}

pub(super) async fn perform(verb: &Verb, console: &mut Console) -> Result<Exit, Error> {
    match verb {
        Verb::Set { app, address, events, outputs, new_secret, common } => {
            let mut body = json!({"url": address});
            if !events.is_empty() {
                body["events"] = json!(events);
            }
            if *outputs {
                body["include"] = json!(["outputs"]);
            }
            if *new_secret {
                body["secret"] = "new".into();
            }
            let set = common.client()?.set_webhook(app, &body).await?;
            if common.json { json::whole(&set, console)? } else { console.text(render(&set))? }
        }
        Verb::Show { app, common } => {
            let webhook = common.client()?.webhook(app).await?;
            if common.json { json::whole(&webhook, console)? } else { console.text(render(&webhook))? }
        }
        Verb::Test { app, common } => {
            let answer = common.client()?.test_webhook(app).await?;
            let is_delivered = answer["delivered"] == true;
            if common.json {
                json::whole(&answer, console)?;
            } else if is_delivered {
                console.note(format_args!("the receiver took it and answered {}", answer["status"]));
            } else {
                let error = text::one_line(answer["error"].as_str().unwrap_or_default());
                console.note(format_args!("the receiver did not take it: {error}"));
            }
            return Ok(if is_delivered { Exit::Succeeded } else { Exit::Failed });
        }
        Verb::Deliveries { app, common } => {
            let all = common.client()?.webhook_deliveries(app).await?;
            if common.json { json::whole(&all, console)? } else { console.text(render_deliveries(&all))? }
        }
        Verb::Rm { app, common } => {
            common.client()?.remove_webhook(app).await?;
            if common.json {
                json::whole(&json!({"app": app, "removed": true}), console)?;
            } else {
                console.note(format_args!("the app {app} has no webhook any more"));
            }
        }
    }
    Ok(Exit::Succeeded)
}

fn render(webhook: &Json) -> String {
    let list = |name: &str| {
        let names = webhook[name].as_array().into_iter().flatten().filter_map(Json::as_str);
        names.collect::<Vec<_>>().join(",")
    };
    let word = |name: &str| text::one_line(webhook[name].as_str().unwrap_or_default());
    let mut pairs = vec![
        ("app", word("app")),
        ("url", word("url")),
        ("events", list("events")),
        ("include", list("include")),
    ];
    if webhook["secret"].is_string() {
        pairs.push(("secret", word("secret")));
    }
    table::pairs(&pairs)
}

fn render_deliveries(all: &Json) -> String {
    let row = |notice: &Json, state: &str| {
        let word = |name: &str| text::one_line(notice[name].as_str().unwrap_or_default());
        let moment = |name: &str| notice[name].as_f64().map(text::moment).unwrap_or_default();
        let tries = notice["tries"].to_string();
        vec![
            state.into(),
            word("event"),
            word("run"),
            tries,
            moment("last_at"),
            moment("next_at"),
            word("error"),
        ]
    };
    let list = |name: &str| all[name].as_array().cloned().unwrap_or_default();
    let mut rows: Vec<_> = list("data").iter().map(|notice| row(notice, "waits")).collect();
    rows.extend(list("given_up").iter().map(|notice| row(notice, "given up")));
    table::render(&["STATE", "EVENT", "RUN", "TRIES", "LAST TRY", "NEXT TRY", "ERROR"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_shows_its_secret_only_when_it_is_new() {
        let mut webhook =
            json!({"app": "a", "url": "https://a.example", "events": ["ended", "failed"], "include": []});
        let shown = render(&webhook);
        assert!(shown.contains("ended,failed") && !shown.contains("secret"), "{shown}");
        webhook["secret"] = "whsec_1".into();
        assert!(render(&webhook).contains("whsec_1"));
    }

    #[test]
    fn deliveries_are_rows_with_their_errors() {
        let notice = json!({"event": "ended", "run": "r1", "tries": 2, "last_at": 0.0, "next_at": 60.0, "error": "it answered 500"});
        let shown = render_deliveries(&json!({"waiting": 1, "data": [notice], "given_up": [notice]}));
        for word in ["waits", "given up", "r1", "it answered 500", "1970-01-01 00:01:00 UTC"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }
}
