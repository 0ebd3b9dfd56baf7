//! Tests of the number of rounds, and of calls that cannot be made.

use super::*;

const FOUND: &str = "It is on the table.";

fn found() -> Json {
    json!([{"type": "text", "text": FOUND}])
}

const QUERY: &str = r#"{"q": "key"}"#;

#[tokio::test]
async fn in_the_last_round_no_tool_is_called_and_it_is_said_why() {
    const WORDS: &str = "Maximum iteration limit (2) reached. Cannot call tool 'find'. Please consider increasing the iteration limit.";
    for strategy in STRATEGIES {
        let wants = || wants(strategy, "find", QUERY);
        let server = mock_server(vec![wants(), wants()], vec![found()]).await;
        let ran = Setup::of(strategy).rounds(2).run(&server, &FakeJobs::new()).await;
        assert_eq!((server.model_requests().len(), server.tool_inputs().len()), (2, 1), "{strategy:?}");
        match strategy {
            Strategy::FunctionCalling => {
                assert_eq!(ran.text(), "Looking.\nLooking.\n");
                let line = |status: &str, error: &str| (status.to_owned(), error.to_owned());
                assert_eq!(ran.lines("CALL find"), [line("success", ""), line("error", WORDS)]);
            }
            // The limit message is the answer.
            Strategy::ReAct => assert_eq!(ran.text(), format!("Looking.\nLooking.\n{WORDS}")),
        }
        assert_eq!(ran.pieces.concat(), ran.text(), "{strategy:?}");
        assert_eq!(ran.lines("ROUND 2").len(), 1, "{strategy:?}");
    }
}

#[tokio::test]
async fn the_only_round_calls_its_tool_and_says_what_that_answered() {
    for strategy in STRATEGIES {
        let server = mock_server(vec![wants(strategy, "find", QUERY)], vec![found()]).await;
        let ran = Setup::of(strategy).rounds(1).run(&server, &FakeJobs::new()).await;
        assert_eq!(ran.text(), format!("Looking.\n{FOUND}"), "{strategy:?}");
        assert_eq!(ran.pieces.concat(), ran.text(), "{strategy:?}");
        assert_eq!((server.model_requests().len(), server.tool_inputs().len()), (1, 1), "{strategy:?}");
        assert_eq!(ran.lines("CALL find"), [("success".to_owned(), String::new())], "{strategy:?}");
    }
}

#[tokio::test]
async fn without_a_call_there_is_one_round() {
    for strategy in STRATEGIES {
        let server = mock_server(vec![answers(strategy, "No need.")], vec![]).await;
        let ran = Setup::of(strategy).run(&server, &FakeJobs::new()).await;
        assert!(ran.text().ends_with("No need."), "{strategy:?}: {}", ran.text());
        assert_eq!(
            (server.model_requests().len(), ran.lines("ROUND 1").len(), ran.lines("ROUND 2").len()),
            (1, 1, 0)
        );
    }
}

#[tokio::test]
async fn what_cannot_be_called_is_told_to_the_model_which_goes_on() {
    let no_json = "tool invoke error: the arguments of find are not JSON: ";
    for (strategy, tool, arguments, told) in [
        (Strategy::FunctionCalling, "dance", "{}", "there is not a tool named dance"),
        (Strategy::ReAct, "dance", "{}", "there is not a tool named dance"),
        (Strategy::FunctionCalling, "find", "{\"q\": ", no_json),
        (
            Strategy::FunctionCalling,
            "find",
            "[1]",
            "tool invoke error: the arguments of find are not a JSON object: [1]",
        ),
    ] {
        let server =
            mock_server(vec![wants(strategy, tool, arguments), answers(strategy, "Then not.")], vec![]).await;
        let ran = Setup::of(strategy).run(&server, &FakeJobs::new()).await;
        assert!(ran.text().ends_with("Then not."), "{strategy:?} {tool}: {}", ran.text());
        assert!(server.last_message(1).contains(told), "{strategy:?} {tool}: {}", server.last_message(1));
        assert_eq!(
            (server.model_requests().len(), server.tool_inputs().len()),
            (2, 0),
            "{strategy:?} {tool}"
        );
        let lines = ran.lines(&format!("CALL {tool}"));
        assert!(lines.len() == 1 && lines[0].0 == "error" && lines[0].1.starts_with(told), "{lines:?}");
    }
}

#[tokio::test]
async fn what_a_tool_fails_with_is_told_to_the_model_which_goes_on() {
    for strategy in STRATEGIES {
        let replies = vec![wants(strategy, "find", QUERY), answers(strategy, "Then not.")];
        let server = mock_server(replies, vec![json!("sensor offline")]).await;
        let ran = Setup::of(strategy).run(&server, &FakeJobs::new()).await;
        assert!(ran.text().ends_with("Then not."), "{strategy:?}");
        let told = server.last_message(1);
        assert!(
            told.contains("tool invoke error: ") && told.contains("sensor offline"),
            "{strategy:?}: {told}"
        );
        assert_eq!(ran.lines("CALL find")[0].0, "error", "{strategy:?}");
    }
}

#[tokio::test]
async fn words_that_are_no_object_are_the_parameter_of_a_tool_that_has_one() {
    let server = mock_server(
        vec![wants(Strategy::ReAct, "find", "\"the key\""), answers(Strategy::ReAct, "There.")],
        vec![found()],
    )
    .await;
    Setup::of(Strategy::ReAct).run(&server, &FakeJobs::new()).await;
    assert_eq!(server.tool_inputs()[0]["parameters"], json!({"q": "the key"}));
}

#[tokio::test]
async fn a_reply_without_an_action_or_an_answer_is_the_answer() {
    for text in ["I just know: yes.", "Action:\n```\n{\"action\": \"find\", \n```"] {
        let server = mock_server(vec![says(text)], vec![]).await;
        let ran = Setup::of(Strategy::ReAct).run(&server, &FakeJobs::new()).await;
        assert!(!ran.text().is_empty() && text.contains(ran.text().trim()), "{text}: {}", ran.text());
        assert_eq!((server.model_requests().len(), server.tool_inputs().len()), (1, 0), "{text}");
    }
}
