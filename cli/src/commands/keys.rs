//! `tidemill keys`: creates, lists, replaces and revokes API keys of apps and of datasets, with their costs and budgets.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::common::Common;
use super::key_verbs::{self, Expiry, Revocation, Rotation};
use super::limits;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{table, text};

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
        #[command(flatten)]
        expiry: Expiry,
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
    Rotate(Rotation),
    /// Revoke a key: it is refused at once; runs that it has started continue
    Rm(Revocation),
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Add { app, label, scopes, expiry, common, .. } => {
            let client = common.client()?;
            let mut body = json!({});
            if let Some(label) = label {
                body["label"] = label.as_str().into();
            }
            expiry.add_to(&mut body);
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
            key_verbs::show(&made, common, render_added, console)?;
        }
        Verb::Limits { id, change, common } => {
            return limits::perform(limits::Whose::Key(id), change, common, console).await;
        }
        Verb::Ls { app, common } => {
            let keys = common.client()?.keys(app.as_deref()).await?;
            key_verbs::show(&keys, common, render, console)?;
        }
        Verb::Rotate(rotation) => {
            let made = rotation.common.client()?.rotate_key(&rotation.id, &rotation.body()).await?;
            rotation.show(&made, "key", render_added, console)?;
        }
        Verb::Rm(revocation) => {
            revocation.common.client()?.revoke_key(&revocation.id).await?;
            let effect = "its open connections end within a second, its runs continue";
            revocation.show("key", effect, console)?;
        }
    }
    Ok(Exit::Succeeded)
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
        let mut status: Vec<String> = key_verbs::status(key).into_iter().collect();
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
    fn a_new_key_is_shown_with_its_id() {
        let made = json!({"id": "ab12", "app": "a", "name": "Greeter", "key": "app-1"});
        assert_eq!(render_added(&made), "id   ab12\napp  a\nkey  app-1\n");
        let made = json!({"id": "ab12", "app": null, "scope": "datasets", "key": "dataset-1"});
        assert!(render_added(&made).contains("datasets"));
    }
}
