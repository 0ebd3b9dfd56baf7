//! `tidemill keys`: creates, lists, replaces and revokes API keys of apps and of datasets, with their costs and budgets.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::common::Common;
use super::limits;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create another key of an app, or a key of datasets; it is shown only now, and the other keys stay valid
    Add {
        /// Id of the app
        #[arg(required_unless_present = "datasets")]
        app: Option<String>,
        /// A key for `/v1/datasets`, in the place of a key of an app
        #[arg(long, conflicts_with = "app")]
        datasets: bool,
        /// What people call it, such as the name of the service that uses it
        #[arg(long)]
        label: Option<String>,
        /// What it may do: run, read, files, forms; without it, everything
        #[arg(long, value_delimiter = ',', value_name = "SCOPES", conflicts_with = "datasets",
            value_parser = ["run", "read", "files", "forms"])]
        scopes: Vec<String>,
        /// For how long it is valid: 90m, 24h, 90d; without it, until it is revoked
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        expires_in: Option<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// Show or set how many requests a second and runs at the same time a key may have
    Limits {
        /// Id of the key, as `keys ls` shows it
        id: String,
        #[command(flatten)]
        change: limits::Change,
        #[command(flatten)]
        common: Common,
    },
    /// List keys by id, with costs, budgets and limits
    Ls {
        /// Only the keys of the app with this id
        app: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Replace a key: makes another one that opens the same, and ends the old one later
    Rotate {
        /// Id of the old key, as `keys ls` shows it
        id: String,
        /// For how long the old key stays valid: 90m, 24h, 7d; 0s revokes it at once
        #[arg(long, value_name = "TIME", default_value = "24h", value_parser = seconds)]
        overlap: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Revoke a key: it is refused at once; runs that it has started continue
    Rm {
        /// Id of the key, as `keys ls` shows it
        id: String,
        #[command(flatten)]
        common: Common,
    },
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Add { app, label, scopes, expires_in, common, .. } => {
            let client = common.client()?;
            let mut body = json!({});
            if let Some(label) = label {
                body["label"] = label.as_str().into();
            }
            if let Some(seconds) = expires_in {
                body["expires_in_seconds"] = (*seconds).into();
            }
            if !scopes.is_empty() {
                body["scopes"] = json!(scopes);
            }
            let made = match app {
                Some(app) => client.add_key(app, &body).await?,
                None => {
                    body["scope"] = "datasets".into();
                    client.add_dataset_key(&body).await?
                }
            };
            if common.json { json::whole(&made, console)? } else { console.text(render_added(&made))? }
        }
        Verb::Limits { id, change, common } => {
            return limits::perform(limits::Whose::Key(id), change, common, console).await;
        }
        Verb::Ls { app, common } => {
            let keys = common.client()?.keys(app.as_deref()).await?;
            if common.json { json::whole(&keys, console)? } else { console.text(render(&keys))? }
        }
        Verb::Rotate { id, overlap, common } => {
            let made = common.client()?.rotate_key(id, &json!({"overlap_seconds": overlap})).await?;
            if common.json {
                json::whole(&made, console)?;
            } else {
                console.text(render_added(&made))?;
                console.note(format_args!("key {id} {}", after_rotation(*overlap)));
            }
        }
        Verb::Rm { id, common } => {
            common.client()?.revoke_key(id).await?;
            if common.json {
                json::whole(&json!({"id": id, "revoked": true}), console)?;
            } else {
                console.note(format_args!(
                    "key {id} is revoked; its open connections end within a second, its runs continue"
                ));
            }
        }
    }
    Ok(Exit::Succeeded)
}

/// The state of a rotated key that stays valid for so many seconds.
pub(super) fn after_rotation(overlap: u64) -> String {
    match overlap {
        0 => "is revoked".to_string(),
        seconds => format!("is valid for another {}", text::duration(seconds as f64)),
    }
}

/// A time such as 90m, 24h or 7d, in seconds.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "write a time such as 30s, 90m, 24h, 7d".to_string();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).ok_or_else(wrong)
}

fn render_added(made: &Json) -> String {
    let shown = |name: &str| made[name].as_str().unwrap_or_default().to_string();
    let names = if made["scope"] == "datasets" { ["id", "scope", "key"] } else { ["id", "app", "key"] };
    table::pairs(&names.map(|name| (name, shown(name))))
}

/// The scopes of a key; empty when it may do everything.
fn scopes(scopes: &Json) -> String {
    let names: Vec<&str> = scopes.as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    if names.len() == 4 { String::new() } else { names.join(",") }
}

fn render(keys: &Json) -> String {
    let row = |key: &Json| {
        let word = |value: &Json| text::one_line(value.as_str().unwrap_or_default());
        let paid = |spent: &Json| {
            let prices = spent["price"].as_object().into_iter().flatten();
            prices.map(|(of, price)| format!("{} {of}", word(price))).collect::<Vec<_>>().join(", ")
        };
        let budget = key["budget"].as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let budget = budget.map(|(name, value)| match value {
            Json::String(text) => format!("{name} {text}"),
            other => format!("{name} {other}"),
        });
        let (spent, today) = (&key["spent"], &key["today"]);
        let moment = |name: &str| key[name].as_f64().map(text::moment).unwrap_or_default();
        let mut status = Vec::new();
        if !key["revoked_at"].is_null() {
            status.push(format!("revoked {}", moment("revoked_at")));
        } else if !key["expires_at"].is_null() {
            status.push(format!("until {}", moment("expires_at")));
        }
        if !key["exceeded"].is_null() {
            status.push("exceeded".into());
        }
        vec![
            word(&key["id"]),
            word(&key["label"]),
            word(&key["name"]),
            if key["scope"] == "datasets" { "(datasets)".into() } else { word(&key["app"]) },
            scopes(&key["scopes"]),
            moment("created_at"),
            moment("last_used_at"),
            if key["first"] == true { "yes".into() } else { String::new() },
            spent["calls"].to_string(),
            spent["tokens"].to_string(),
            paid(spent),
            today["tokens"].to_string(),
            paid(today),
            budget.collect::<Vec<_>>().join(", "),
            limits::column(&key["limits"]),
            status.join(", "),
        ]
    };
    let rows: Vec<_> = keys["data"].as_array().into_iter().flatten().map(row).collect();
    let head = [
        "KEY",
        "LABEL",
        "NAME",
        "APP",
        "SCOPES",
        "CREATED",
        "LAST USED",
        "FIRST",
        "CALLS",
        "TOKENS",
        "PAID",
        "TOKENS TODAY",
        "PAID TODAY",
        "BUDGET",
        "LIMITS",
        "STATUS",
    ];
    table::render(&head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_a_line_with_its_costs_and_its_budget() {
        let spent = json!({"calls": 2, "tokens": 30, "price": {"EUR": "0.5000000"}});
        let keys = json!({"data": [{"id": "ab12", "app": "a", "name": "Greeter", "created_at": 0, "first": true,
            "revoked_at": 1, "spent": spent, "today": {"calls": 0, "tokens": 0, "price": {}},
            "budget": {"tokens": 30, "price_per_day": "1 EUR", "price": null}, "exceeded": "why"}]});
        let shown = render(&keys);
        let words: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = "ab12 - Greeter a - 1970-01-01 00:00:00 UTC - yes 2 30 0.5000000 EUR 0 - tokens 30, price_per_day 1 EUR - \
            revoked 1970-01-01 00:00:01 UTC, exceeded";
        let mut sorted = [words.join(" "), expected.to_string()].map(|line| {
            let mut parts: Vec<String> = line.split_whitespace().map(|part| part.replace(',', "")).collect();
            parts.sort();
            parts
        });
        assert_eq!(std::mem::take(&mut sorted[0]), sorted[1], "{shown}");
    }

    #[test]
    fn a_limited_key_shows_its_label_its_scopes_and_its_end() {
        let keys = json!({"data": [{"id": "ab12", "app": "a", "name": "Greeter", "label": "the shop",
            "scopes": ["run", "read"], "created_at": 0, "expires_at": 60, "last_used_at": 1, "revoked_at": null,
            "spent": {}, "today": {}}]});
        let shown = render(&keys);
        for word in ["the shop", "run,read", "1970-01-01 00:00:01 UTC", "until 1970-01-01 00:01:00 UTC"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }

    #[test]
    fn times_are_read_in_their_unit() {
        for (text, expected) in
            [("0s", Some(0)), ("90m", Some(5400)), ("7d", Some(604_800)), ("7", None), ("d", None)]
        {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_new_key_is_shown_with_its_id() {
        let made = json!({"id": "ab12", "app": "a", "name": "Greeter", "key": "app-1"});
        assert_eq!(render_added(&made), "id   ab12\napp  a\nkey  app-1\n");
        let made = json!({"id": "ab12", "app": null, "scope": "datasets", "key": "dataset-1"});
        assert!(render_added(&made).contains("datasets"));
    }
}
