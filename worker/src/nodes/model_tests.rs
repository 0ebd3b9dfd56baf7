//! Tests that pin surprising but intended behaviour of model nodes; Dify has a test for each too.

use serde_json::{Value as Json, json};
use tidemill_common::files::Folder;
use tidemill_common::graph::Node;
use tidemill_common::graph::builder::import;
use tidemill_common::nodes::evaluate::UndefinedNames;
use tidemill_common::nodes::{NodeData, NodeResult};

use super::mock_server::{MockServer, Reply, Values, mock_server, says};
use super::{llm, parameter_extractor, question_classifier};
use crate::nodes::model_files::FileStore;
use crate::outside::http::Http;
use crate::tests::fake::{FakeJobs, journal, run_id};

/// Runs a node with this data after a start node. Also returns the streamed text.
async fn run(server: &MockServer, data: Json) -> (NodeResult, String) {
    let model = json!({"provider": "acme", "name": "m", "mode": "chat", "completion_params": {}});
    let mut data = data;
    (data["title"], data["model"]) = (json!("T"), model);
    let document = json!({"graph": {
        "nodes": [{"id": "start", "data": {"type": "start", "title": "S", "variables": []}}, {"id": "t", "data": data}],
        "edges": [{"source": "start", "target": "t"}],
    }});
    let imported = import(document.to_string().as_bytes());
    let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
    let node: &Node = graph.node(graph.find("t").unwrap());
    let (providers, jobs) = (server.providers("acme", &["tool-call", "structured-output"]), FakeJobs::new());
    let journal = journal(&jobs);
    let values = Values(json!({"start": {"text": "It cost 5."}, "sys": {"query": "It cost 5."}}));
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
    let http = Http::new(&tidemill_common::config::HttpConfig::default()).unwrap();
    let mut told = String::new();
    let result = match &node.data {
        NodeData::Llm(data) => {
            let means = llm::Means {
                undefined: UndefinedNames::Empty,
                providers: &providers,
                waiter: &journal,
                file_store: FileStore { run: &run_id(), http: &http, files: &files },
                on_delta: &mut |text| told.push_str(text),
                on_thought: &mut |_, _| {},
                warn: &|_| {},
                emit: &|_, _| {},
            };
            llm::run(data, node, &values, means).await
        }
        NodeData::ParameterExtractor(data) => {
            parameter_extractor::run(data, node, &values, &providers, &journal, &|_| {}, false).await
        }
        NodeData::QuestionClassifier(data) => {
            question_classifier::run(data, node, &values, &providers, &journal, &|_| {}).await
        }
        other => panic!("{other:?}"),
    };
    (result, told)
}

fn output(result: &NodeResult, name: &str) -> Json {
    let found = result.outputs.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.value.clone()).unwrap_or_default()
}

fn structured() -> Json {
    json!({
        "type": "llm", "prompt_template": [{"role": "user", "text": "How much?"}], "context": {"enabled": false},
        "vision": {"enabled": false}, "structured_output_enabled": true,
        "structured_output": {"schema": {
            "type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"],
        }},
    })
}

/// A model's answer is checked against the schema, streamed or not.
#[tokio::test]
async fn a_structured_answer_is_validated_when_the_server_does_not_stream() {
    for whole in [false, true] {
        let reply = |text: &str| if whole { says(text).whole() } else { says(text) };
        let server = mock_server(vec![reply("{\"price\": 5}"), reply("{\"price\": \"five\"}")], vec![]).await;
        let (result, told) = run(&server, structured()).await;
        assert_eq!(result.failure, None);
        assert_eq!(output(&result, "structured_output"), json!({"price": 5}), "whole: {whole}");
        assert_eq!(told, "{\"price\": 5}", "whole: {whole}");
        let (result, _) = run(&server, structured()).await;
        let failure = result.failure.expect("the text is no number");
        assert!(failure.message.contains("five"), "whole: {whole}: {}", failure.message);
        assert!(
            server.model_requests().iter().all(|asked| asked["stream"] == true),
            "it is asked for in pieces"
        );
    }
}

/// Pictures of a failed attempt are not among the files of the next.
#[tokio::test]
async fn files_of_an_attempt_that_failed_are_not_in_the_next() {
    let draws = |text: &str, picture: &'static str| Reply::Says {
        thought: "",
        text: text.into(),
        calls: Vec::new(),
        images: vec![picture],
    };
    let replies = vec![
        draws("{\"price\": \"five\"}", "data:image/png;base64,YWJj"),
        draws("{\"price\": 5}", "data:image/jpeg;base64,Ynl0ZXM="),
    ];
    let server = mock_server(replies, vec![]).await;
    let (first, _) = run(&server, structured()).await;
    assert!(first.failure.is_some() && output(&first, "files").is_null(), "{first:?}");
    let (second, _) = run(&server, structured()).await;
    assert_eq!(second.failure, None);
    let files = output(&second, "files");
    let files = files.as_array().unwrap();
    assert_eq!((files.len(), &files[0]["mime_type"]), (1, &json!("image/jpeg")), "{files:?}");
}

/// The extractor never streams, whatever the model supports. The classifier streams, but sends nothing of it.
#[tokio::test]
async fn the_extractor_asks_for_its_answer_whole() {
    let extractor = |mode: &str| {
        json!({
            "type": "parameter-extractor", "query": ["start", "text"], "reasoning_mode": mode,
            "parameters": [{"name": "price", "type": "number", "description": "price", "required": true}],
        })
    };
    for (mode, tools) in [("function_call", true), ("prompt", false)] {
        let server = mock_server(vec![says("{\"price\": 5}")], vec![]).await;
        let (result, _) = run(&server, extractor(mode)).await;
        assert_eq!((result.failure.as_ref(), output(&result, "price")), (None, json!(5)), "{mode}");
        let asked = &server.model_requests()[0];
        assert_ne!(asked["stream"], true, "{mode}");
        assert_eq!((asked.get("stream_options"), asked.get("tools").is_some()), (None, tools), "{mode}");
    }
    let classifier = json!({
        "type": "question-classifier", "query_variable_selector": ["start", "text"], "instruction": "",
        "classes": [{"id": "1", "name": "prices"}, {"id": "2", "name": "other"}],
    });
    let server =
        mock_server(vec![says("{\"category_id\": \"1\", \"category_name\": \"prices\"}")], vec![]).await;
    let (result, _) = run(&server, classifier).await;
    assert_eq!((result.failure, server.model_requests()[0]["stream"].clone()), (None, json!(true)));
}
