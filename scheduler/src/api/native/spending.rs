//! Sums up what a run has spent, by model, from its ledger. That can be more than its totals, when replies were
//! useless.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::decimal::Decimal;

/// The key of a line: provider, model, kind (`model`, `run` or `tool`), and currency.
type Line = (String, String, &'static str, String);

#[derive(Default)]
struct Sum {
    calls: u64,
    /// Calls whose reply was useless, and below their tokens.
    wasted_calls: u64,
    wasted: u64,
    prompt: u64,
    completion: u64,
    total: u64,
    price: Option<Decimal>,
}

/// One line per model, sorted by name, then sub-workflow runs and tools, whose own models are not known here.
pub(super) fn by_model(ledger: &[(String, String)]) -> Json {
    let mut lines: BTreeMap<Line, Sum> = BTreeMap::new();
    for (_, entry) in ledger {
        // Only the owner writes entries; an unreadable one is left out.
        let Ok(entry) = serde_json::from_str::<Json>(entry) else { continue };
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let count = |key: &str| entry[key].as_u64().unwrap_or(0);
        let kind = match (&entry["run"], &entry["model"]) {
            (Json::String(_), _) => "run",
            (_, Json::String(_)) => "model",
            _ => "tool",
        };
        let sum = lines.entry((text("provider"), text("model"), kind, text("currency"))).or_default();
        sum.calls += 1;
        sum.prompt = sum.prompt.saturating_add(count("prompt_tokens"));
        sum.completion = sum.completion.saturating_add(count("completion_tokens"));
        sum.total = sum.total.saturating_add(count("total_tokens"));
        if entry["wasted"] == true {
            sum.wasted_calls += 1;
            sum.wasted = sum.wasted.saturating_add(count("total_tokens"));
        }
        // The totals of a sub-workflow run do not include its wasted tokens.
        sum.wasted = sum.wasted.saturating_add(count("wasted_tokens"));
        sum.total = sum.total.saturating_add(count("wasted_tokens"));
        for price in
            ["total_price", "wasted_price"].map(|key| text(key).parse::<Decimal>()).into_iter().flatten()
        {
            sum.price = Some(sum.price.map_or(price, |all| all.plus(price)));
        }
    }
    let (models, others): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|((_, _, kind, _), _)| *kind == "model");
    models.into_iter().chain(others).map(|(line, sum)| to_json(&line, &sum)).collect()
}

fn to_json((provider, model, kind, currency): &Line, sum: &Sum) -> Json {
    let named = |text: &str| if *kind == "model" { json!(text) } else { Json::Null };
    json!({
        "kind": kind,
        "provider": named(provider),
        "model": named(model),
        "calls": sum.calls,
        "prompt_tokens": sum.prompt,
        "completion_tokens": sum.completion,
        "total_tokens": sum.total,
        "wasted_calls": sum.wasted_calls,
        "wasted_tokens": sum.wasted,
        "total_price": sum.price.map(Decimal::fixed),
        "currency": currency,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_model_are_one_line_per_currency() {
        let entry = |model: &str, tokens: u64, price: &str, currency: &str| {
            let entry = json!({
                "provider": "p", "model": model, "prompt_tokens": tokens, "completion_tokens": 1,
                "total_tokens": tokens + 1, "total_price": price, "currency": currency,
            });
            (format!("{model}/{tokens}/{currency}"), entry.to_string())
        };
        let run = json!({
            "run": "r", "total_tokens": 9, "total_price": "1", "currency": "EUR", "wasted_tokens": 3, "wasted_price": "0.5",
        });
        let run = run.to_string();
        let tool = json!({"total_tokens": 2, "total_price": "0.0", "currency": "USD"}).to_string();
        let ledger = [
            ("x".to_owned(), run),
            ("y".to_owned(), tool),
            ("z".to_owned(), "{".to_owned()),
            entry("b", 10, "0.5", "EUR"),
            entry("a", 1, "0.1", "EUR"),
            entry("a", 2, "0.2", "EUR"),
            entry("a", 3, "0.3", "USD"),
            (
                "in vain".to_owned(),
                json!({"provider": "p", "model": "b", "total_tokens": 7, "total_price": "0.1", "currency": "EUR", "wasted": true})
                    .to_string(),
            ),
        ];
        let shown = by_model(&ledger);
        let line = |line: &Json| {
            let text = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
            let count = |key: &str| line[key].as_u64().unwrap();
            (
                text("kind"),
                text("model"),
                count("calls"),
                count("total_tokens"),
                text("total_price"),
                text("currency"),
            )
        };
        let lines: Vec<_> = shown.as_array().unwrap().iter().map(line).collect();
        let of = |kind: &str, model: &str, calls, tokens, price: &str, currency: &str| {
            (kind.to_owned(), model.to_owned(), calls, tokens, price.to_owned(), currency.to_owned())
        };
        let expected = [
            of("model", "a", 2, 5, "0.3", "EUR"),
            of("model", "a", 1, 4, "0.3", "USD"),
            of("model", "b", 2, 18, "0.6", "EUR"),
            of("run", "-", 1, 12, "1.5", "EUR"),
            of("tool", "-", 1, 2, "0.0", "USD"),
        ];
        assert_eq!(lines, expected);
        let wasted: Vec<_> = shown
            .as_array()
            .unwrap()
            .iter()
            .map(|line| (&line["wasted_calls"], &line["wasted_tokens"]))
            .collect();
        let (none, three, seven) = (json!(0), json!(3), json!(7));
        let one = json!(1);
        assert_eq!(wasted, [(&none, &none), (&none, &none), (&one, &seven), (&none, &three), (&none, &none)]);
    }
}
