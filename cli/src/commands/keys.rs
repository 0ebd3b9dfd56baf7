//! `tidemill keys`: what API keys have spent on models, and what they may spend.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::common::Common;
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
    /// List keys by their ids, with their spendings and budgets
    Ls {
        #[command(flatten)]
        common: Common,
    },
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let Verb::Ls { common } = &arguments.verb;
    let keys = common.client()?.keys().await?;
    if common.json {
        json::whole(&keys, console)?;
    } else {
        console.text(render(&keys))?;
    }
    Ok(Exit::Succeeded)
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
        vec![
            word(&key["id"]),
            word(&key["name"]),
            spent["calls"].to_string(),
            spent["tokens"].to_string(),
            paid(spent),
            today["tokens"].to_string(),
            paid(today),
            budget.collect::<Vec<_>>().join(", "),
            if key["exceeded"].is_null() { String::new() } else { "exceeded".into() },
        ]
    };
    let rows: Vec<_> = keys["data"].as_array().into_iter().flatten().map(row).collect();
    let head = ["KEY", "APP", "CALLS", "TOKENS", "PAID", "TOKENS TODAY", "PAID TODAY", "BUDGET", "STATUS"];
    table::render(&head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_a_line_with_what_it_has_spent_and_may_spend() {
        let spent = json!({"calls": 2, "tokens": 30, "price": {"EUR": "0.5000000"}});
        let keys = json!({"data": [{"id": "ab12", "app": "a", "name": "Greeter", "spent": spent, "today": {"calls": 0,
            "tokens": 0, "price": {}}, "budget": {"tokens": 30, "price_per_day": "1 EUR", "price": null}, "exceeded": "why"}]});
        let shown = render(&keys);
        let words: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = "ab12 Greeter 2 30 0.5000000 EUR 0 - tokens 30, price_per_day 1 EUR exceeded";
        let mut sorted = [words.join(" "), expected.to_string()].map(|line| {
            let mut parts: Vec<String> = line.split(' ').map(|part| part.replace(',', "")).collect();
            parts.sort();
            parts
        });
        assert_eq!(std::mem::take(&mut sorted[0]), sorted[1], "{shown}");
    }
}
