//! Questions other than forms that a run waits for: approvals, choices and values. Shows them, asks at the terminal,
//! and prints the command that answers them.

mod fields;

use serde_json::{Map, Value as Json, json};
use tidemill_common::nodes::pause::as_form::{Wanted, of_type, wanted};
use tidemill_common::nodes::{PauseKind, PauseRequest};

use crate::console::Console;
use crate::error::Error;
use crate::output::text::{one_line, safe};

/// Details that are of no use to users, or that are shown elsewhere.
const UNSHOWN: [&str; 8] = [
    "interaction_type",
    "form_token",
    "node_execution_id",
    "step",
    "timeout_ms",
    "on_timeout",
    "timeout_s",
    "simple",
];

/// Returns the text of a question.
pub(crate) fn shown(name: &str, asked: &PauseRequest) -> String {
    let mut text = format!("{} asks:\n", one_line(name));
    for line in safe(&asked.content).lines() {
        text.push_str(format!("  {line}").trim_end());
        text.push('\n');
    }
    if asked.kind == PauseKind::Params {
        text.push_str(&fields::summary(asked));
        return text;
    }
    for (key, value) in asked.details.iter().filter(|(key, value)| is_shown(key, value)) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        text.push_str(&format!("  {}: {}\n", one_line(key), one_line(&value)));
    }
    text
}

fn is_shown(key: &str, value: &Json) -> bool {
    let is_empty = match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Bool(_) | Json::Number(_) => false,
    };
    !is_empty && !UNSHOWN.contains(&key)
}

/// Asks for an answer: `{"input"}`. Returns `None` when the input ends.
///
/// # Errors
/// The terminal cannot be read.
pub(crate) async fn ask(
    name: &str,
    asked: &PauseRequest,
    console: &mut Console,
) -> Result<Option<Json>, Error> {
    console.note(format_args!("\n{}", shown(name, asked)));
    let input = match wanted(asked) {
        Wanted::Approval => approval(console).await?,
        Wanted::Choice => choice(asked, console).await?,
        Wanted::Fields => values(asked, console).await?,
        Wanted::Value => value(asked, console).await?,
    };
    Ok(input.map(|input| json!({ "input": input })))
}

async fn approval(console: &mut Console) -> Result<Option<Json>, Error> {
    loop {
        let Some(line) = console.ask("approve (yes, no): ").await? else { return Ok(None) };
        let approved = match line.trim().to_lowercase().as_str() {
            "y" | "yes" | "approve" | "true" => true,
            "n" | "no" | "reject" | "false" => false,
            _ => {
                console.note("answer yes or no");
                continue;
            }
        };
        let Some(comment) = console.ask("comment (may be empty): ").await? else { return Ok(None) };
        let mut input = json!({ "approved": approved });
        if !comment.trim().is_empty() {
            input["comment"] = comment.trim().into();
        }
        return Ok(Some(input));
    }
}

async fn choice(asked: &PauseRequest, console: &mut Console) -> Result<Option<Json>, Error> {
    let options = options(asked);
    for (at, (id, label)) in options.iter().enumerate() {
        console.note(format_args!("  {}  {} ({})", at + 1, one_line(label), one_line(id)));
    }
    let default = asked.defaults.as_str().unwrap_or_default();
    loop {
        let Some(line) = console.ask(&format!("choose{}: ", in_brackets(default))).await? else {
            return Ok(None);
        };
        let line = if line.trim().is_empty() { default } else { line.trim() };
        let by_number = line.parse().ok().and_then(|n: usize| options.get(n.checked_sub(1)?));
        let by_name = || options.iter().find(|(id, label)| id == line || label == line);
        match by_number.or_else(by_name) {
            Some((id, _)) => return Ok(Some(id.as_str().into())),
            None => console.note("choose by number or name"),
        }
    }
}

async fn values(asked: &PauseRequest, console: &mut Console) -> Result<Option<Json>, Error> {
    let mut input = Map::new();
    for (name, schema) in fields::properties(asked) {
        let known =
            asked.details.get("current").and_then(|known| known.get(name)).filter(|known| !known.is_null());
        let described = fields::described(schema);
        let described = if described.is_empty() { described } else { format!(" ({described})") };
        let known = in_brackets(&known.map(fields::shown).unwrap_or_default());
        let Some(line) = console.ask(&format!("{}{described}{known}: ", fields::path(name))).await? else {
            return Ok(None);
        };
        if !line.is_empty() {
            input.insert(name.clone(), of_type(schema, &line.into()));
        }
    }
    Ok(Some(Json::Object(input)))
}

async fn value(asked: &PauseRequest, console: &mut Console) -> Result<Option<Json>, Error> {
    let default = match &asked.defaults {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let Some(line) = console.ask(&format!("answer{}: ", in_brackets(&default))).await? else {
        return Ok(None);
    };
    if line.is_empty() && !asked.defaults.is_null() {
        return Ok(Some(asked.defaults.clone()));
    }
    Ok(Some(of_type(&asked.schema, &line.into())))
}

fn in_brackets(default: &str) -> String {
    if default.is_empty() { String::new() } else { format!(" [{}]", one_line(default)) }
}

fn options(asked: &PauseRequest) -> Vec<(String, String)> {
    let one = |option: &Json| {
        let id = option["id"].as_str()?;
        Some((id.to_string(), option["label"].as_str().unwrap_or(id).to_string()))
    };
    asked.options.as_array().into_iter().flatten().filter_map(one).collect()
}

/// Converts named values to the types that the question asks for.
pub(crate) fn named(asked: &PauseRequest, given: &[(String, String)]) -> Json {
    let typed = |(name, text): &(String, String)| {
        let (name, schema) = fields::meant(asked, name).unwrap_or((name, &Json::Null));
        (name.clone(), of_type(schema, &text.as_str().into()))
    };
    Json::Object(given.iter().map(typed).collect())
}

/// Returns the arguments of the command that answers the question.
pub(crate) fn how_to_answer(asked: &PauseRequest) -> String {
    match wanted(asked) {
        Wanted::Approval => " --approve|--reject".to_string(),
        Wanted::Choice => {
            let ids: Vec<String> = options(asked).into_iter().map(|(id, _)| id).collect();
            format!(" --choose {}", ids.join("|"))
        }
        Wanted::Fields => {
            fields::properties(asked).map(|(name, _)| format!(" --input {}=…", fields::path(name))).collect()
        }
        Wanted::Value => match asked.schema.get("type").and_then(Json::as_str) {
            None | Some("string") => " --text …".to_string(),
            Some(_) => " --json …".to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::tests::captured_with;
    use tidemill_common::nodes::PauseKind;
    use tidemill_common::nodes::pause::input::approval_schema;

    fn asking(kind: PauseKind, schema: Json) -> PauseRequest {
        PauseRequest::asking(kind, "Well?", schema)
    }

    #[tokio::test]
    async fn every_kind_is_asked_until_the_answer_is_valid() {
        let choice = PauseRequest {
            options: json!([{"id": "a", "label": "Ale"}, {"id": "b"}]),
            ..asking(PauseKind::UserInteraction, Json::Null)
        };
        let schema =
            json!({"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "number"}}});
        let number = asking(PauseKind::UserInteraction, json!({"type": "integer"}));
        let proposed = PauseRequest { defaults: json!("tea"), ..asking(PauseKind::HumanRelay, Json::Null) };
        for (asked, lines, expected) in [
            (
                asking(PauseKind::Confirm, approval_schema()),
                vec!["perhaps", "y", ""],
                json!({"approved": true}),
            ),
            (
                asking(PauseKind::ToolApproval, approval_schema()),
                vec!["no", "too dear"],
                json!({"approved": false, "comment": "too dear"}),
            ),
            (choice.clone(), vec!["3", "2"], json!("b")),
            (choice, vec!["Ale"], json!("a")),
            (asking(PauseKind::Params, schema), vec!["", "5"], json!({"n": 5})),
            (number, vec!["7"], json!(7)),
            (proposed, vec![""], json!("tea")),
        ] {
            let (mut console, _, _) = captured_with(&lines);
            let answer = ask("Review", &asked, &mut console).await.expect("asks");
            assert_eq!(answer, Some(json!({ "input": expected })), "{lines:?}");
        }
    }

    #[tokio::test]
    async fn ending_the_input_leaves_the_question_unanswered() {
        let (mut console, _, _) = captured_with(&["y"]);
        let asked = asking(PauseKind::Confirm, approval_schema());
        assert_eq!(ask("Review", &asked, &mut console).await.expect("asks"), None);
    }

    fn parameters() -> PauseRequest {
        let country = json!({"type": "string", "minLength": 2, "maxLength": 2, "description": "Two letters"});
        let schema = json!({"type": "object", "required": ["/query/country"],
            "properties": {"/query/country": country, "/query/days": {"type": "integer"}}});
        let mut asked = asking(PauseKind::Params, schema.clone());
        let current = json!({"url": "http://there", "query": {"order": "A17"}});
        for (name, value) in
            [("message", json!("Well?")), ("params", schema), ("current", current), ("round", json!(1))]
        {
            asked.details.insert(name.into(), value);
        }
        asked
    }

    #[tokio::test]
    async fn missing_parameters_are_asked_for_in_words_and_by_their_paths() {
        let asked = parameters();
        let expected = "\
Parcel asks:
  Well?
  - query.country: Two letters; text of 2 characters
  - query.days: whole number (may be left out)
  url is http://there
  query.order is A17
";
        assert_eq!(shown("Parcel", &asked), expected);
        let mut again = asked.clone();
        again.details.insert("round".into(), json!(2));
        assert!(shown("Parcel", &again).contains("asked again: a value was missing or not valid"));
        let (mut console, _, err) = captured_with(&["no", ""]);
        let answer = ask("Parcel", &asked, &mut console).await.expect("asks");
        assert_eq!(answer, Some(json!({"input": {"/query/country": "no"}})));
        let prompt = "query.country (Two letters; text of 2 characters): query.days (whole number): ";
        assert!(err.text().ends_with(prompt), "{}", err.text());
        assert_eq!(how_to_answer(&asked), " --input query.country=… --input query.days=…");
        for name in ["query.days", "/query/days"] {
            assert_eq!(named(&asked, &[(name.into(), "3".into())]), json!({"/query/days": 3}));
        }
    }

    #[test]
    fn a_question_is_shown_with_its_details() {
        let mut asked = asking(PauseKind::Confirm, approval_schema());
        asked.details.insert("risk".into(), "high".into());
        asked.details.insert("reason".into(), "".into());
        asked.details.insert("input".into(), json!({"start.city": "Bergen"}));
        let expected = "Pay asks:\n  Well?\n  risk: high\n  input: {\"start.city\":\"Bergen\"}\n";
        assert_eq!(shown("Pay", &asked), expected);
        assert_eq!(how_to_answer(&asked), " --approve|--reject");
    }
}
