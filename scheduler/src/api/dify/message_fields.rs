//! The parts of a message in `GET /v1/messages` that follow from the stored turn: usage, knowledge sources and forms.

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use uuid::Uuid;

use crate::runs::forms::FormTokens;

/// The digits after the point of a price. Dify's database keeps that many.
const PRICE_DIGITS: usize = 7;
/// One, in the smallest part of a price that is shown.
const PRICE_UNIT: u128 = 10_000_000;
/// The fields of a source, in Dify's order, beside its ids and its position.
const SOURCE_FIELDS: [&str; 14] = [
    "dataset_id",
    "dataset_name",
    "document_id",
    "document_name",
    "data_source_type",
    "segment_id",
    "score",
    "hit_count",
    "word_count",
    "segment_position",
    "index_node_hash",
    "content",
    "summary",
    "created_at",
];

/// Tokens and price of a message.
pub(super) struct MessageUsage {
    pub(super) prompt: u64,
    pub(super) completion: u64,
    pub(super) total: u64,
    pub(super) price: String,
    pub(super) currency: String,
}

/// The usage of a turn. Turns of earlier versions have only the sum of their tokens.
pub(super) fn usage(turn: &Json) -> MessageUsage {
    let usage = &turn["usage"];
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
    let total = if usage.is_object() { prompt + completion } else { turn["tokens"].as_u64().unwrap_or(0) };
    MessageUsage {
        prompt,
        completion,
        total,
        price: price(usage["total_price"].as_str().unwrap_or("0")),
        currency: usage["currency"].as_str().unwrap_or("USD").to_owned(),
    }
}

/// A price with [`PRICE_DIGITS`] digits after the point, rounded half up.
fn price(text: &str) -> String {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let number = |text: &str| text.parse::<u128>().ok();
    let kept = digits.get(..PRICE_DIGITS).unwrap_or(digits);
    let parts = number(whole).zip(number(&format!("{kept:0<PRICE_DIGITS$}")));
    let Some((whole, digits_kept)) = parts else { return text.to_owned() };
    let is_up = digits.as_bytes().get(PRICE_DIGITS).is_some_and(|digit| *digit >= b'5');
    let sum = whole * PRICE_UNIT + digits_kept + u128::from(is_up);
    format!("{}.{:0>PRICE_DIGITS$}", sum / PRICE_UNIT, sum % PRICE_UNIT)
}

/// The knowledge sources of a turn, each with all fields of Dify's.
pub(super) fn resources(turn: &Json) -> Vec<Json> {
    let message = &turn["id"];
    let sources = turn["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = |(at, source): (usize, &Json)| {
        let name = format!("{message} source {at}");
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string();
        let mut shown = json!({
            "id": source.get("id").cloned().unwrap_or_else(|| id.into()),
            "message_id": source.get("message_id").unwrap_or(message),
            "position": source.get("position").cloned().unwrap_or_else(|| (at + 1).into()),
        });
        for field in SOURCE_FIELDS {
            shown[field] = source.get(field).cloned().unwrap_or_default();
        }
        shown
    };
    sources.iter().enumerate().map(shown).collect()
}

/// The forms of a turn. Those that wait for an answer have a token.
pub(super) fn forms(turn: &Json, tokens: &FormTokens) -> Vec<Json> {
    let id = turn["id"].as_str().unwrap_or_default();
    let waits = turn["status"] == "paused";
    let forms = turn["forms"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = |form: &Json| {
        let (mut definition, submission) = (form["definition"].clone(), form.get("submission"));
        let run = id.parse::<RunId>().ok().filter(|_| waits && submission.is_none());
        let token = run.map(|run| tokens.token(run, definition["form_id"].as_str().unwrap_or_default()));
        definition["form_token"] = token.into();
        json!({
            "workflow_run_id": id,
            "submitted": submission.is_some(),
            "form_definition": definition,
            "form_submission_data": submission,
            "type": "human_input",
        })
    };
    forms.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::ids::ShardId;

    #[test]
    fn a_price_has_seven_digits_after_the_point() {
        for (given, shown) in [
            ("0", "0.0000000"),
            ("0.0", "0.0000000"),
            ("0.0012825", "0.0012825"),
            ("12.5", "12.5000000"),
            ("0.00000005", "0.0000001"),
            ("0.99999995", "1.0000000"),
            ("0.00000004", "0.0000000"),
            ("odd", "odd"),
        ] {
            assert_eq!(price(given), shown, "{given}");
        }
    }

    #[test]
    fn tokens_are_counted_by_their_kind_and_older_turns_have_only_the_sum() {
        let bill =
            json!({"prompt_tokens": 3, "completion_tokens": 2, "total_price": "0.5", "currency": "EUR"});
        let counted = usage(&json!({"tokens": 5, "usage": bill}));
        assert_eq!((counted.prompt, counted.completion, counted.total), (3, 2, 5));
        assert_eq!((counted.price.as_str(), counted.currency.as_str()), ("0.5000000", "EUR"));
        let older = usage(&json!({"tokens": 7}));
        assert_eq!((older.prompt, older.completion, older.total), (0, 0, 7));
        assert_eq!((older.price.as_str(), older.currency.as_str()), ("0.0000000", "USD"));
    }

    #[test]
    fn a_source_has_every_field() {
        let turn =
            json!({"id": "m", "resources": [{"dataset_id": "d", "score": 0.5, "position": 1, "other": 1}]});
        let [source] = &resources(&turn)[..] else { panic!("one source") };
        assert_eq!((&source["dataset_id"], &source["message_id"]), (&json!("d"), &json!("m")));
        assert_eq!((source["summary"].is_null(), source.get("other")), (true, None));
        assert_eq!(source.as_object().unwrap().len(), 3 + SOURCE_FIELDS.len());
        assert_eq!(resources(&turn), resources(&turn), "its id stays");
    }

    #[test]
    fn only_a_form_that_waits_has_a_token() {
        let tokens = FormTokens::of_secret("s");
        let run = RunId::new(1, 2, ShardId(3));
        let form = json!({"definition": {"form_id": "p", "form_token": ""}});
        let mut done = form.clone();
        done["submission"] = json!({"action_id": "yes"});
        let turn = |status: &str| json!({"id": run.to_string(), "status": status, "forms": [form, done]});
        let shown = forms(&turn("paused"), &tokens);
        assert_eq!(shown[0]["form_definition"]["form_token"], tokens.token(run, "p"));
        assert_eq!((&shown[0]["submitted"], &shown[0]["form_submission_data"]), (&json!(false), &Json::Null));
        assert_eq!((&shown[1]["submitted"], &shown[1]["type"]), (&json!(true), &json!("human_input")));
        assert_eq!(shown[1]["form_definition"]["form_token"], Json::Null);
        assert_eq!(forms(&turn("succeeded"), &tokens)[0]["form_definition"]["form_token"], Json::Null);
    }
}
