//! Questions that a user may ask next, suggested by a model after an answer. They are made once for a message: the run that
//! makes them has an id that follows from the message's, so every later request finds it, on every scheduler.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::config::{FeaturesConfig, model_of};
use tidemill_common::dsl::features::SUGGESTED;
use tidemill_common::ids::RunId;
use tidemill_common::value::JsonMap;

use crate::submit::Submitter;
use crate::submit::inner::{Inner, InnerEnd, InnerError, SUGGESTS, TRIES, beside};

const FILE: &str = include_str!("suggested.yml");
/// The place of the model in the file.
const MODEL: &str = "@model@";
const SETTING: &str = "features.suggested_seconds_max";
/// What the model is asked for, unless the app says it in its own words.
const INSTRUCTION: &str = "These are the last messages between a person and an assistant. Write the three questions that the person is most likely to \
     ask next. Each question has fewer than twenty words and is written in the language of the assistant's last message.";
/// Turns that the model sees, as on Dify.
const TURNS: usize = 3;
/// Longest dialogue that the model sees, in characters: about the 3000 tokens of Dify.
const DIALOGUE_CHARS_MAX: usize = 12_000;
/// Most questions that are returned, and the longest one, in characters.
const QUESTIONS_MAX: usize = 10;
const QUESTION_CHARS_MAX: usize = 500;

/// A message for which questions are wanted.
pub(crate) struct Wanted<'a> {
    pub(crate) message: RunId,
    /// The features of the app.
    pub(crate) features: &'a JsonMap,
    /// The turns of the conversation up to the message.
    pub(crate) turns: &'a [Json],
    pub(crate) user: String,
    /// The API key that pays.
    pub(crate) key: String,
}

/// The questions for a message; none if the model fails, as on Dify.
///
/// # Errors
/// The run cannot be created or read.
pub(crate) async fn questions(
    submitter: &Submitter,
    settings: &FeaturesConfig,
    wanted: Wanted<'_>,
) -> Result<Vec<String>, InnerError> {
    let Some(model) = model(wanted.features, settings) else { return Ok(Vec::new()) };
    for number in 0..TRIES {
        let run = beside(wanted.message, SUGGESTS, number);
        let end = match submitter.inner_end(run).await {
            Ok(Some(end)) => Ok(end),
            Err(InnerError::Failed { .. }) => continue,
            Err(error) => return Err(error),
            Ok(None) => submitter.inner(order(run, &model, settings, &wanted)).await,
        };
        return match end {
            Ok(end) => Ok(said(&end)),
            Err(error @ (InnerError::Failed { .. } | InnerError::Late { .. })) => {
                // The message of a model's failure may repeat the dialogue.
                let class = error.class();
                tracing::warn!(answer_to = %wanted.message, class, "no questions could be suggested");
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        };
    }
    Ok(Vec::new())
}

fn order(run: RunId, model: &Json, settings: &FeaturesConfig, wanted: &Wanted<'_>) -> Inner {
    let inputs =
        [("dialogue", dialogue(wanted.turns)), ("instruction", instruction(wanted.features).to_owned())];
    Inner {
        purpose: SUGGESTS,
        file: FILE.replace(MODEL, &model.to_string()).into(),
        inputs: inputs.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect(),
        user: wanted.user.clone(),
        key: Some(wanted.key.clone()),
        run: Some(run),
        has_files: false,
        wait_max: Duration::from_secs(settings.suggested_seconds_max),
        setting: SETTING,
    }
}

/// The model as a node names it: the app's own, else that of the settings.
fn model(features: &JsonMap, settings: &FeaturesConfig) -> Option<Json> {
    let own = features.get(SUGGESTED).and_then(|feature| feature.get("model"));
    let text = |key: &str| own?.get(key)?.as_str().filter(|text| !text.trim().is_empty());
    if let (Some(provider), Some(name)) = (text("provider"), text("name")) {
        let params = own.and_then(|own| own.get("completion_params")).filter(|params| params.is_object());
        let params = params.cloned().unwrap_or_else(|| json!({}));
        return Some(
            json!({"provider": provider, "name": name, "mode": "chat", "completion_params": params}),
        );
    }
    let named = model_of(&settings.suggested_model)?;
    Some(json!({"provider": named.provider, "name": named.model, "mode": "chat", "completion_params": {}}))
}

fn instruction(features: &JsonMap) -> &str {
    let own = features.get(SUGGESTED).and_then(|feature| feature.get("prompt")?.as_str());
    own.filter(|text| !text.trim().is_empty()).unwrap_or(INSTRUCTION)
}

/// The last turns, each with its question and its answer. What is too long loses its beginning.
fn dialogue(turns: &[Json]) -> String {
    let text = |turn: &Json, key: &str| turn[key].as_str().unwrap_or_default().to_owned();
    let said = |turn: &Json| format!("Human: {}\nAssistant: {}", text(turn, "query"), text(turn, "answer"));
    let last = &turns[turns.len().saturating_sub(TURNS)..];
    let whole = last.iter().map(said).collect::<Vec<_>>().join("\n");
    let over = whole.chars().count().saturating_sub(DIALOGUE_CHARS_MAX);
    whole.chars().skip(over).collect()
}

fn said(end: &InnerEnd) -> Vec<String> {
    parse(end.outputs.get("text").and_then(Json::as_str).unwrap_or_default())
}

/// The questions in the text of a model: a JSON array somewhere in it, else its lines that end like a question.
fn parse(text: &str) -> Vec<String> {
    let found = array(text).unwrap_or_else(|| lines(text));
    let tidy = |question: String| -> Option<String> {
        let question = question.trim();
        (!question.is_empty()).then(|| question.chars().take(QUESTION_CHARS_MAX).collect())
    };
    found.into_iter().filter_map(tidy).take(QUESTIONS_MAX).collect()
}

/// The first array of texts in the text, as itself or as a list in an object. Models put words and code fences around it.
fn array(text: &str) -> Option<Vec<String>> {
    text.match_indices('[').find_map(|(at, _)| {
        let items = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Vec<Json>>().next()?.ok()?;
        let texts = items.into_iter().map(|item| match item {
            Json::String(text) => Some(text),
            Json::Object(map) => map.get("question")?.as_str().map(str::to_owned),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => None,
        });
        texts.collect::<Option<Vec<String>>>().filter(|texts| !texts.is_empty())
    })
}

/// Lines that end with a question mark, without the signs of a list.
fn lines(text: &str) -> Vec<String> {
    const MARKS: [char; 4] = ['?', '？', '؟', ';'];
    let is_sign =
        |c: char| c.is_ascii_digit() || c.is_whitespace() || matches!(c, '-' | '*' | '•' | '.' | ')' | '"');
    let bare = |line: &'_ str| line.trim_start_matches(is_sign).trim_end_matches(['"', ',', ' ']).to_owned();
    text.lines().map(|line| bare(line.trim())).filter(|line| line.ends_with(MARKS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Json) -> JsonMap {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn questions_are_found_in_whatever_a_model_writes_around_them() {
        for (text, expected) in [
            (r#"["a?", "b?", "c?"]"#, vec!["a?", "b?", "c?"]),
            ("Here you are:\n```json\n[\"a?\", \" b? \"]\n```", vec!["a?", "b?"]),
            (r#"{"questions": ["a?"]}"#, vec!["a?"]),
            (r#"[{"question": "a?"}, {"question": "b?"}]"#, vec!["a?", "b?"]),
            ("see [1] and then [\"a?\"]", vec!["a?"]),
            ("1. Why?\n2) \"When?\"\n- Where？\nThat is all.", vec!["Why?", "When?", "Where？"]),
            ("I have no idea.", vec![]),
            ("[\"a?\", \"b", vec![]),
            ("", vec![]),
            (r#"["", "a?"]"#, vec!["a?"]),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        let many: Vec<String> = (0..30).map(|n| format!("{n}?")).collect();
        assert_eq!(parse(&json!(many).to_string()).len(), QUESTIONS_MAX);
        let long = json!(["x".repeat(QUESTION_CHARS_MAX + 1)]).to_string();
        assert_eq!(parse(&long)[0].len(), QUESTION_CHARS_MAX);
    }

    #[test]
    fn the_model_of_the_app_wins_over_that_of_the_settings() {
        let settings = FeaturesConfig { suggested_model: "openai/small".into(), ..FeaturesConfig::default() };
        let own = json!({"provider": "p", "name": "m", "completion_params": {"temperature": 0.1}});
        for (features, expected) in [
            (json!({}), json!(["openai", "small", {}])),
            (json!({SUGGESTED: {"enabled": true, "model": own}}), json!(["p", "m", {"temperature": 0.1}])),
            (
                json!({SUGGESTED: {"enabled": true, "model": {"provider": "p"}}}),
                json!(["openai", "small", {}]),
            ),
            (json!({SUGGESTED: {"model": {"provider": " ", "name": "m"}}}), json!(["openai", "small", {}])),
        ] {
            let model = model(&map(features), &settings).unwrap();
            assert_eq!(json!([model["provider"], model["name"], model["completion_params"]]), expected);
        }
        assert_eq!(model(&JsonMap::new(), &FeaturesConfig::default()), None);
    }

    #[test]
    fn the_model_sees_the_last_turns_and_the_words_of_the_app() {
        let turn = |n: usize| json!({"query": format!("q{n}"), "answer": format!("a{n}")});
        let turns: Vec<Json> = (0..5).map(turn).collect();
        let expected = "Human: q2\nAssistant: a2\nHuman: q3\nAssistant: a3\nHuman: q4\nAssistant: a4";
        assert_eq!(dialogue(&turns), expected);
        let long = [json!({"query": "ä".repeat(DIALOGUE_CHARS_MAX), "answer": "end"})];
        let cut = dialogue(&long);
        assert!(cut.chars().count() == DIALOGUE_CHARS_MAX && cut.ends_with("Assistant: end"));
        let own = map(json!({SUGGESTED: {"prompt": "Two, please"}}));
        assert_eq!((instruction(&own), instruction(&JsonMap::new())), ("Two, please", INSTRUCTION));
    }

    #[test]
    fn the_built_in_file_is_a_workflow_with_any_model() {
        for provider in ["openai", "profile/a \"b\"\n", "{}: #"] {
            let model = json!({"provider": provider, "name": "m", "mode": "chat", "completion_params": {}});
            let file = FILE.replace(MODEL, &model.to_string());
            let imported = tidemill_common::graph::import(file.as_bytes());
            assert!(imported.is_usable(), "{:?}", imported.diagnostics);
        }
    }
}
