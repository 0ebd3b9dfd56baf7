//! Tests of further inputs and outputs of an agent, and of a model that fails at times.

use super::*;
use crate::tests::fake::{charges, until};

const QUERY: &str = r#"{"q": "key"}"#;

fn found() -> Json {
    json!([{"type": "text", "text": "It is on the table."}])
}

/// Roles and texts of a request, with a placeholder for other parts.
fn conversation(request: &Json) -> Vec<(String, String)> {
    let text = |content: &Json| match content {
        Json::Array(parts) => {
            let shown = |part: &Json| part["text"].as_str().unwrap_or("<file>").to_owned();
            parts.iter().map(shown).collect::<Vec<_>>().join("|")
        }
        content => content.as_str().unwrap_or_default().to_owned(),
    };
    let messages = request["messages"].as_array().unwrap();
    messages.iter().map(|it| (it["role"].as_str().unwrap().to_owned(), text(&it["content"]))).collect()
}

/// Two turns of a chat; the first has a picture.
fn chat() -> Json {
    let picture = json!({
        "dify_model_identity": "__dify__file__", "type": "image", "transfer_method": "remote_url",
        "remote_url": "https://pictures.example/a.png", "filename": "a.png", "extension": ".png",
        "mime_type": "image/png", "size": 3,
    });
    let turns = json!([
        {"query": "What is this?", "answer": "A key.", "files": [picture]},
        {"query": "Whose?", "answer": "Ada's."},
    ]);
    json!({
        "sys": {"conversation_id": "c"},
        tidemill_common::nodes::llm::history::NODE: {tidemill_common::nodes::llm::history::NAME: turns},
    })
}

fn memory(size: u64) -> Json {
    json!({"memory": {"window": {"enabled": false, "size": size}, "query_prompt_template": ""}})
}

#[tokio::test]
async fn what_was_said_before_is_told_between_instruction_and_question_however_the_window_is_switched() {
    for strategy in STRATEGIES {
        for (size, expected) in [(1, 2), (2, 4)] {
            let server = mock_server(vec![answers(strategy, "Yes.")], vec![]).await;
            let setup = Setup { fields: memory(size), variables: chat(), ..Setup::of(strategy) };
            setup.run(&server, &FakeJobs::new()).await;
            let said = conversation(&server.model_requests()[0]);
            assert_eq!((said[0].0.as_str(), said.len()), ("system", expected + 2), "{strategy:?} {said:?}");
            assert!(said[0].1.contains("Be brief."), "{strategy:?} {said:?}");
            let last = &said[said.len() - 3..];
            let expected = [("user", "Whose?"), ("assistant", "Ada's."), ("user", "look")];
            let last: Vec<(&str, &str)> =
                last.iter().map(|(role, text)| (role.as_str(), text.as_str())).collect();
            assert_eq!(last, expected, "{strategy:?}");
        }
    }
}

#[tokio::test]
async fn files_are_sent_once_and_only_to_a_model_that_sees() {
    for strategy in STRATEGIES {
        for (features, first) in
            [(&["tool-call", "vision"][..], "<file>|What is this?"), (&["tool-call"], "[image]What is this?")]
        {
            let replies = vec![wants(strategy, "find", QUERY), answers(strategy, "Yes.")];
            let server = mock_server(replies, vec![found()]).await;
            let setup = Setup { fields: memory(2), variables: chat(), features, ..Setup::of(strategy) };
            let ran = setup.run(&server, &FakeJobs::new()).await;
            assert_eq!(ran.result.failure, None, "{strategy:?} {features:?}");
            let question =
                |at: usize| conversation(&server.model_requests()[at])[1].1.replace("[image]|", "[image]");
            assert_eq!(question(0), first, "{strategy:?} {features:?}");
            assert_eq!(question(1), "[image]What is this?", "{strategy:?} {features:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_the_file_names_is_reached_only_through_the_guard() {
    let constant = |value: &str| json!({"type": "constant", "value": value});
    for (servers, parts) in [
        ("http://127.0.0.1:9/sse", &["Failed to connect to MCP server", "http.allow", "127.0.0.1:9"][..]),
        (r#"{"files": {"command": "npx"}}"#, &["files has no url", "[tools.mcp.\"files\"]"]),
        (r#"{"maps": {"url": "ftp://h/sse"}}"#, &["MCP server maps of the agent", "http:// or https://"]),
    ] {
        let server = mock_server(vec![], vec![]).await;
        let parameters = json!({"mcp_server": constant(servers)});
        let setup = Setup { parameters, ..Setup::of(Strategy::FunctionCalling) };
        let ran = setup.run(&server, &FakeJobs::new()).await;
        let message = ran.result.failure.expect("the server cannot be used").message;
        assert!(parts.iter().all(|part| message.contains(part)), "{servers}: {message}");
        assert!(server.model_requests().is_empty(), "{servers}");
    }
}

#[tokio::test]
async fn passages_are_told_as_sources() {
    let passage =
        json!({"content": "Keys lie on tables.", "title": "Keys", "metadata": {"_source": "knowledge"}});
    for strategy in STRATEGIES {
        let (server, jobs) = (mock_server(vec![answers(strategy, "Yes.")], vec![]).await, FakeJobs::new());
        let setup = Setup {
            parameters: json!({"context": {"type": "variable", "value": ["k", "result"]}}),
            variables: json!({"k": {"result": [passage]}}),
            ..Setup::of(strategy)
        };
        setup.run(&server, &jobs).await;
        let told = || {
            let state = jobs.state();
            let facts = state.facts.iter().map(|(_, fact)| fact.to_string());
            facts.into_iter().find(|fact| fact.contains("node_run_retriever_resource"))
        };
        until("the sources are told", || told().is_some()).await;
        assert!(told().unwrap().contains("Keys lie on tables."), "{strategy:?}");
    }
}

#[tokio::test]
async fn files_that_tools_and_the_model_make_are_outputs() {
    let blob =
        json!([{"type": "blob", "base64": "YWJj", "meta": {"mime_type": "image/png", "filename": "a.png"}}]);
    for strategy in STRATEGIES {
        let last = match answers(strategy, "Here.") {
            Reply::Says { thought, text, calls, .. } => {
                Reply::Says { thought, text, calls, images: vec!["data:image/jpeg;base64,Ynl0ZXM="] }
            }
            other => other,
        };
        let server = mock_server(vec![wants(strategy, "find", QUERY), last], vec![blob.clone()]).await;
        let jobs = FakeJobs::new();
        let ran = Setup::of(strategy).run(&server, &jobs).await;
        let files = ran.output("files");
        let named: Vec<(&str, &str)> = files
            .as_array()
            .unwrap()
            .iter()
            .map(|file| (file["type"].as_str().unwrap(), file["mime_type"].as_str().unwrap()))
            .collect();
        assert_eq!(named, [("image", "image/png"), ("image", "image/jpeg")], "{strategy:?}: {files:#}");
        assert!(
            server.last_message(1).contains("Generated file a.png."),
            "{strategy:?}: {}",
            server.last_message(1)
        );
        // A repetition takes them from the journal.
        let again = Setup::of(strategy).run(&server, &jobs).await;
        assert_eq!((again.output("files"), again.text()), (files, ran.text()), "{strategy:?}");
        assert_eq!((server.model_requests().len(), server.tool_inputs().len()), (2, 1), "{strategy:?}");
    }
}

#[tokio::test]
async fn a_model_that_writes_what_it_would_do_is_stopped_before_it_makes_up_an_answer() {
    for (strategy, provider, params, stop) in [
        (Strategy::ReAct, "acme", json!({}), json!(["Observation"])),
        (Strategy::ReAct, "acme", json!({"stop": ["END"]}), json!(["END", "Observation"])),
        (Strategy::ReAct, "acme", json!({"stop": ["Observation"]}), json!(["Observation"])),
        // The one provider that does not accept this stop sequence.
        (Strategy::ReAct, "langgenius/wenxin/wenxin", json!({}), Json::Null),
        (Strategy::FunctionCalling, "acme", json!({}), Json::Null),
        (Strategy::FunctionCalling, "acme", json!({"stop": ["END"]}), json!(["END"])),
    ] {
        let server = mock_server(vec![answers(strategy, "Yes.")], vec![]).await;
        Setup { provider, params: params.clone(), ..Setup::of(strategy) }
            .run(&server, &FakeJobs::new())
            .await;
        let asked = &server.model_requests()[0];
        assert_eq!(asked["stop"], stop, "{strategy:?} {provider} {params}");
        // Each strategy describes the tools in its own way.
        assert_eq!(asked.get("tools").is_some(), strategy == Strategy::FunctionCalling, "{strategy:?}");
    }
}

#[tokio::test]
async fn a_model_that_fails_after_a_paid_round_fails_the_node_which_keeps_what_was_paid() {
    for strategy in STRATEGIES {
        let replies =
            vec![wants(strategy, "find", QUERY), Reply::Refuses(400, "too long"), answers(strategy, "Yes.")];
        let (server, jobs) = (mock_server(replies, vec![found()]).await, FakeJobs::new());
        let ran = Setup::of(strategy).run(&server, &jobs).await;
        let failure = ran.result.failure.as_ref().unwrap();
        assert_eq!(
            (failure.error_type.as_ref(), failure.message.as_str()),
            ("", "Failed to invoke agent: [acme] Bad Request Error, HTTP 400: too long"),
            "{strategy:?}"
        );
        assert_eq!(ran.result.usage.as_ref().unwrap().total_tokens, TOKENS, "{strategy:?}");
        assert_eq!(ran.result.metadata["total_tokens"], TOKENS, "{strategy:?}");
        assert_eq!(ran.lines("m Thought").iter().filter(|line| line.0 == "error").count(), 1, "{strategy:?}");
        until("the round is charged", || !charges(&jobs).is_empty()).await;
        let charged: Vec<(String, u64)> =
            charges(&jobs).into_iter().map(|(_, who, tokens)| (who, tokens)).collect();
        assert_eq!(charged, [("acme:m".to_owned(), TOKENS)], "{strategy:?}");
        // A repetition continues after the failure and repeats no recorded call.
        let again = Setup::of(strategy).run(&server, &jobs).await;
        assert!(again.text().ends_with("Yes."), "{strategy:?}: {}", again.text());
        assert_eq!((server.model_requests().len(), server.tool_inputs().len()), (3, 1), "{strategy:?}");
        assert_eq!(again.result.usage.unwrap().total_tokens, 2 * TOKENS, "{strategy:?}");
    }
}

#[tokio::test]
async fn a_model_that_cannot_stream_its_calls_is_asked_for_them_whole() {
    for (features, streams) in [(&["tool-call", "stream-tool-call"][..], true), (&["tool-call"], false)] {
        let strategy = Strategy::FunctionCalling;
        let replies = vec![wants(strategy, "find", QUERY), answers(strategy, "Here it is.")];
        let server = mock_server(replies, vec![found()]).await;
        let ran = Setup { features, ..Setup::of(strategy) }.run(&server, &FakeJobs::new()).await;
        assert_eq!(ran.text(), "Looking.\nHere it is.");
        assert!(
            server.model_requests().iter().all(|asked| (asked["stream"] == true) == streams),
            "{features:?}"
        );
        let whole = ["Looking.", "\n", "Here it is."];
        let cut = ["Look", "ing.", "\n", "Here ", "it is."];
        assert_eq!(ran.pieces, if streams { &cut[..] } else { &whole[..] }, "{features:?}");
    }
    // Text-only answers stream for every model.
    let server = mock_server(vec![answers(Strategy::ReAct, "Yes.")], vec![]).await;
    Setup { features: &[], ..Setup::of(Strategy::ReAct) }.run(&server, &FakeJobs::new()).await;
    assert_eq!(server.model_requests()[0]["stream"], true);
}

#[tokio::test]
async fn thoughts_before_a_call_do_not_swallow_what_is_said_after_it() {
    let strategy = Strategy::FunctionCalling;
    let calls = vec![("find".to_owned(), QUERY.to_owned())];
    let thinks = Reply::Says { thought: "Where?", text: String::new(), calls, images: Vec::new() };
    let last = Reply::Says { thought: "So.", text: "There.".into(), calls: Vec::new(), images: Vec::new() };
    let server = mock_server(vec![thinks, last], vec![found()]).await;
    let setup = Setup { fields: json!({"reasoning_format": "separated"}), ..Setup::of(strategy) };
    let ran = setup.run(&server, &FakeJobs::new()).await;
    assert_eq!((ran.text().as_str(), ran.output("reasoning_content")), ("There.", json!("Where?\nSo.")));
    let thoughts: Vec<&str> = ran.thoughts.split_whitespace().collect();
    assert_eq!((ran.pieces.concat().as_str(), thoughts), ("There.", vec!["Where?", "So."]));
}
