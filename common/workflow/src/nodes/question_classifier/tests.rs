use serde_json::{Value as Json, json};

use super::answer::{Unread, choose};
use super::*;
use crate::nodes::llm::message::{Message, ModelFacts};
use crate::nodes::llm::{Role, history};
use tidemill_base::value::pool::Pool;

fn parse(changes: Json) -> Result<QuestionClassifierData, Vec<String>> {
    let mut data = json!({
        "query_variable_selector": ["sys", "query"],
        "model": {"provider": "p", "name": "m", "mode": "chat", "completion_params": {}},
        "classes": [
            {"id": "1", "name": "One of {{#start.kind#}}"},
            {"id": "2", "name": "Zwei ü", "label": "Two"}
        ]
    });
    for (key, value) in changes.as_object().unwrap() {
        data[key] = value.clone();
    }
    let mut problems = Problems::new();
    QuestionClassifierData::parse(data.as_object().unwrap(), &mut problems)
        .ok_or_else(|| problems.into_vec().into_iter().map(|problem| problem.path).collect())
}

fn pool() -> Pool {
    let turns = json!([{"query": "before?", "answer": "yes"}, {"query": "then?", "answer": "no"}]);
    let image = json!({
        "dify_model_identity": "__dify__file__", "type": "image", "extension": ".png", "mime_type": "image/png"
    });
    Pool::new(json!({
        "sys": {"query": "is \"this\" {{#start.kind#}}?", "conversation_id": "c", "files": [image]},
        "start": {"kind": "tea", "o": {"a": null}, "zero": 0},
        history::NODE: {history::NAME: turns}
    }))
}

fn messages(changes: Json) -> Vec<Message> {
    let facts = ModelFacts { features: Some(vec!["vision".into()]), ..ModelFacts::default() };
    prompt::assemble(&parse(changes).unwrap(), &pool(), &facts).unwrap().0.messages
}

#[test]
fn labels_are_optional_and_classes_are_called_by_their_place() {
    let data = parse(json!({})).unwrap();
    assert_eq!(data.classes[0].label, "");
    assert_eq!((data.label(0), data.label(1)), ("CLASS 1".into(), "Two".into()));
    let old = json!({"topics": [{"id": "7", "name": "Old"}]});
    assert_eq!(parse(old).unwrap().classes.len(), 2);
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let mut places = parse(json!({
        "query_variable_selector": "x", "model": 1, "classes": [{"id": "1"}, 5], "instruction": 5, "memory": {}, "vision": 1
    }))
    .unwrap_err();
    places.sort_unstable();
    let expected =
        ["classes[0]", "classes[1]", "instruction", "memory", "model", "query_variable_selector", "vision"];
    assert_eq!(places, expected);
}

#[test]
fn the_question_is_the_last_of_six_messages_and_all_of_it_is_filled_in() {
    let messages = messages(json!({"instruction": "mind {{#start.kind#}}"}));
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User]);
    assert_eq!(
        messages[5].joined_text(),
        "{\"input_text\": [\"is \"this\" tea?\"], \"categories\": [{\"category_id\": \"1\", \"category_name\": \"One of tea\"}, \
         {\"category_id\": \"2\", \"category_name\": \"Zwei ü\"}], \"classification_instructions\": [\"mind tea\"]}"
    );
    assert!(messages[0].joined_text().contains("<histories>\n\n</histories>"));
    for example in [2, 4] {
        let classes = [Class { id: String::new(), name: String::new(), label: String::new() }];
        assert_eq!(choose(&messages[example].joined_text(), &classes), Ok(0));
    }
}

#[test]
fn the_history_is_in_the_system_message_even_when_the_window_is_off() {
    let history = |window: Json| {
        let text = messages(json!({"memory": {"window": window}}))[0].joined_text();
        text[text.find("<histories>").unwrap()..].to_owned()
    };
    assert_eq!(
        history(json!({"enabled": false, "size": 1})),
        "<histories>\nHuman: then?\nAssistant: no\n</histories>"
    );
    assert!(history(json!({"enabled": true})).contains("Human: before?"));
}

#[test]
fn images_come_before_the_question() {
    let messages = messages(json!({"vision": {"enabled": true, "configs": {"detail": "low"}}}));
    assert_eq!(messages.len(), 6);
    assert_eq!(messages[5].parts.len(), 2);
    assert_eq!(messages[5].files().next().unwrap().detail, "low");
}

#[test]
fn a_completion_is_one_text_that_ends_where_the_answer_begins() {
    let model = json!({"provider": "p", "name": "m", "mode": "completion", "completion_params": {}});
    let messages = messages(json!({"model": model, "instruction": "mind"}));
    assert_eq!(messages.len(), 1);
    let text = messages[0].joined_text();
    assert!(text.starts_with('\n') && text.contains("\"classification_instruction\": [\"mind\"]}"), "{text}");
    assert!(text.ends_with("### Output\n"), "{text}");
}

#[test]
fn the_query_is_shown_as_python_shows_it_and_recorded_as_it_is() {
    for (selector, shown, recorded) in [
        (json!(["start", "o"]), "[\"{'a': None}\"]", json!({"a": null})),
        (json!(["start", "zero"]), "[\"\"]", json!(0)),
        (json!(["start", "gone"]), "[\"\"]", json!(null)),
        (json!([]), "[\"\"]", json!(null)),
    ] {
        let data = parse(json!({"query_variable_selector": selector})).unwrap();
        let (prompt, inputs) = prompt::assemble(&data, &pool(), &ModelFacts::default()).unwrap();
        let text = prompt.messages[5].joined_text();
        assert!(text.starts_with(&format!("{{\"input_text\": {shown}, ")), "{text}");
        assert_eq!(inputs[0].1.value, recorded, "{selector}");
    }
}

#[test]
fn preparation_fails_like_an_exception_that_leaves_the_node() {
    let vision = json!({"enabled": true, "configs": {"variable_selector": ["start", "kind"]}});
    let data = parse(json!({"vision": vision})).unwrap();
    let failure = prompt::assemble(&data, &pool(), &ModelFacts::default()).unwrap_err();
    assert_eq!(failure.error_type, "WorkflowNodeError");
}

#[test]
fn a_reply_names_a_class_or_the_first_is_taken() {
    let classes = parse(json!({})).unwrap().classes;
    for (reply, at) in [
        (r#"{"category_id": "2", "category_name": "anything"}"#, 1),
        ("Sure:\n```json\n{\"category_id\": \"2\", \"category_name\": \"x\"}\n```\nbye", 1),
        ("`{\"category_id\": \"2\", \"category_name\": \"x\"}`", 1),
        (r#"[{"category_id": "2", "category_name": "x"}]"#, 1),
        ("```json\n[{\"category_id\": \"2\", \"category_name\": \"x\"}]\n```", 1),
        ("<think>{\"category_id\": \"1\"}</think>{\"category_id\": \"2\", \"category_name\": \"x\"}", 1),
        (r#"{"category_id": 2, "category_name": "x"}"#, 0),
        (r#"{"category_id": "9", "category_name": "x"}"#, 0),
        (r#"{"category_id": "2"}"#, 0),
        (r#"{"answer": 1}"#, 0),
        ("`\"just words\"`", 0),
    ] {
        assert_eq!(choose(reply, &classes), Ok(at), "{reply}");
    }
}

#[test]
fn a_reply_that_cannot_be_read_fails_the_node_or_escapes_it() {
    let classes = parse(json!({})).unwrap().classes;
    let error_of = |reply: &str, classes: &[Class]| match choose(reply, classes).unwrap_err() {
        Unread::Failed(failure) => format!("{}: {}", failure.error_type, failure.message),
        Unread::Escaped(failure) => format!("escaped: {}", failure.message),
    };
    for (reply, expected) in [
        ("I cannot decide", "ValueError: could not find json block in the output."),
        ("}{", "ValueError: could not find json block in the output."),
        ("```[1, 2]```", "OutputParserError: got invalid return object. obj:[1, 2]"),
        (
            "{x}",
            "OutputParserError: got invalid json object. error: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        // A stray backtick takes precedence over the brace.
        (
            "a ` b {\"category_id\": \"2\"}",
            "OutputParserError: got invalid json object. error: Expecting value: line 1 column 1 (char 0)",
        ),
        ("`5`", "escaped: argument of type 'int' is not iterable"),
        ("`null`", "escaped: argument of type 'NoneType' is not iterable"),
        (r#"{"category_id": [], "category_name": "x"}"#, "escaped: unhashable type: 'list'"),
    ] {
        assert_eq!(error_of(reply, &classes), expected, "{reply}");
    }
    assert_eq!(error_of("{}", &[]), "escaped: list index out of range");
}
