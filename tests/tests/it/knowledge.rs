//! Documents in Redis: added at the command line, searched by workflows, indexed by any worker.

use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler, Worker};
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

/// A model that repeats its input.
async fn echo() -> Running {
    llm::rules(json!([{"match": {}, "echo": "messages"}])).await
}

struct Library {
    cluster: Cluster,
    scheduler: Scheduler,
    _worker: Worker,
    client: Client,
}

impl Library {
    async fn new(settings: &[(&str, &str)], model: &Running) -> Self {
        let cluster = Cluster::start(settings, Some(model)).await;
        let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
        let client = scheduler.client();
        Self { cluster, scheduler, _worker: worker, client }
    }

    /// A file in the cluster's folder.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.cluster.logs().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
        std::fs::write(&path, text).expect("writes");
        path
    }

    /// Runs a `tidemill knowledge` command that succeeds, and returns its output.
    async fn knowledge(&self, arguments: &[&str]) -> String {
        let done = self.tidemill(arguments).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(done.status.success(), "{arguments:?}: {}{}", text(&done.stdout), text(&done.stderr));
        text(&done.stdout)
    }

    async fn tidemill(&self, arguments: &[&str]) -> Output {
        let mut command = self.cluster.command("tidemill");
        command.arg("knowledge").args(arguments);
        command.args(["--url", &format!("http://{}", self.scheduler.address), "--key", ADMIN_KEY]);
        tokio::task::spawn_blocking(move || command.output().expect("it starts")).await.expect("it ends")
    }

    /// Adds a document over HTTP and waits until its run succeeds.
    async fn add(&self, dataset: &str, body: &Json) {
        let run = add(&self.client, dataset, body).await;
        let ended = self.client.ended(&run).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
    }

    async fn search(&self, changes: Json, query: &str) -> Vec<String> {
        let run = self.client.submit(&asking(changes, query)).await;
        let ended = self.client.ended(&run).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        texts(&ended["outputs"]["result"])
    }
}

/// Adds a document; returns the run that indexes it.
async fn add(client: &Client, dataset: &str, body: &Json) -> String {
    let answer = client.post(&format!("/api/v1/knowledge/{dataset}/documents"), body).await;
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    answer.body["run"].as_str().expect("a run").to_owned()
}

fn texts(result: &Json) -> Vec<String> {
    let items = result.as_array().unwrap_or_else(|| panic!("no list: {result}"));
    items.iter().map(|item| item["content"].as_str().expect("a text").to_owned()).collect()
}

/// A request for a workflow that retrieves segments, has a model read them, and outputs both.
fn asking(changes: Json, query: &str) -> Json {
    let node = |id: &str, data: Json| json!({"id": id, "data": data});
    let edge = |a: &str, b: &str| json!({"id": format!("{a}-{b}"), "source": a, "sourceHandle": "source", "target": b});
    let mut retrieval = json!({
        "type": "knowledge-retrieval", "title": "K", "query_variable_selector": ["start", "q"],
        "dataset_ids": ["handbook"], "retrieval_mode": "multiple",
        "multiple_retrieval_config": {"top_k": 4, "reranking_enable": false},
    });
    for (key, value) in changes.as_object().expect("an object") {
        retrieval[key] = value.clone();
    }
    let llm = json!({
        "type": "llm", "title": "L",
        "model": {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "Read: {{#context#}}"}],
        "context": {"enabled": true, "variable_selector": ["k", "result"]},
        "vision": {"enabled": false},
    });
    let question = json!({"variable": "q", "label": "q", "type": "paragraph", "required": false});
    let workflow = json!({
        "app": {"mode": "workflow", "name": "Ask"}, "kind": "app", "version": "0.6.0",
        "workflow": {"graph": {
            "edges": [edge("start", "k"), edge("k", "llm"), edge("llm", "end")],
            "nodes": [
                node("start", json!({"type": "start", "title": "S", "variables": [question]})),
                node("k", retrieval),
                node("llm", llm),
                node("end", json!({"type": "end", "title": "E", "outputs": [
                    {"variable": "result", "value_selector": ["k", "result"]},
                    {"variable": "text", "value_selector": ["llm", "text"]},
                ]})),
            ],
        }},
    });
    json!({"workflow": workflow.to_string(), "inputs": {"q": query}})
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_an_added_folder_answer_questions_of_a_workflow() {
    let model = echo().await;
    let library = Library::new(&[], &model).await;
    library.file(
        "docs/leave.md",
        "# Leave\n\nEverybody has thirty days of leave.\n\n# Sickness\n\nTell your team.",
    );
    library.file("docs/travel/train.txt", "We travel by train.");
    library.file("docs/假期.md", "# 年假\n\n年假共有三十天。");
    library.file("docs/photo.jpeg", "no text");
    let docs = library.cluster.logs().join("docs");
    let docs = docs.to_str().expect("a text");
    let said = library
        .knowledge(&["add", "handbook", docs, "--create", "--embedding", "openai:e", "--meta", "year=2024"])
        .await;
    for line in ["leave.md  2 segments", "travel/train.txt  1 segment", "假期.md  1 segment"] {
        assert!(said.contains(line), "{said}");
    }
    // The model of the workflow gets the found segments, the best first.
    let run = library.client.submit(&asking(json!({}), "how many days of leave has everybody")).await;
    let ended = library.client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let first = &ended["outputs"]["result"][0];
    assert_eq!(first["content"], "# Leave\n\nEverybody has thirty days of leave.");
    let metadata = &first["metadata"];
    assert_eq!(
        (&metadata["document_name"], &metadata["dataset_id"]),
        (&json!("leave.md"), &json!("handbook"))
    );
    assert_eq!(
        (&metadata["data_source_type"], &metadata["doc_metadata"]["year"]),
        (&json!("upload_file"), &json!(2024))
    );
    assert!(metadata["score"].as_f64().is_some_and(|score| score > 0.5), "{metadata}");
    assert!(ended["outputs"]["text"].as_str().is_some_and(|text| text.contains("thirty days")), "{ended:#}");
    // The command line finds the same segments.
    let found = library.knowledge(&["search", "handbook", "by train", "--top-k", "1"]).await;
    assert!(
        found.starts_with("1  ") && found.contains("travel/train.txt #1\n    We travel by train."),
        "{found}"
    );
    let listed = library.knowledge(&["ls"]).await;
    assert!(listed.contains("handbook") && listed.contains("openai:e"), "{listed}");
    let listed = library.knowledge(&["ls", "handbook"]).await;
    assert!(listed.contains("leave.md") && listed.contains("completed"), "{listed}");
    let shown = library.knowledge(&["show", "handbook", "leave.md"]).await;
    assert!(shown.contains("#2  ") && shown.contains("Tell your team."), "{shown}");
    library.knowledge(&["rm", "handbook", "leave.md"]).await;
    let left = library.knowledge(&["search", "handbook", "days of leave"]).await;
    assert!(!left.contains("thirty"), "{left}");
    library.knowledge(&["rm", "handbook", "--all"]).await;
    assert_eq!(library.cluster.redis.cli(&["--scan", "--pattern", "tm:knowledge*:documents"]).trim(), "");
    let gone = library.tidemill(&["search", "handbook", "x"]).await;
    assert!(
        !gone.status.success()
            && String::from_utf8_lossy(&gone.stderr).contains("there is no dataset handbook")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keyword_search_and_filters_and_question_tables_need_no_model() {
    let model = echo().await;
    let library = Library::new(&[], &model).await;
    let made = library.client.post("/api/v1/knowledge", &json!({"id": "handbook", "name": "Handbook"})).await;
    assert_eq!((made.status, &made.body["indexing_technique"]), (201, &json!("economy")));
    let again = library.client.post("/api/v1/knowledge", &json!({"id": "other", "name": "Handbook"})).await;
    assert_eq!(again.status, 409);
    for (year, text) in [(2020, "Leave: twenty days."), (2024, "Leave: thirty days.")] {
        let name = format!("{year}.md");
        library.add("Handbook", &json!({"name": name, "text": text, "doc_metadata": {"year": year}})).await;
    }
    let table = library.file("faq.csv", "question,answer\nWho grants leave?,Your team\n");
    library
        .knowledge(&["add", "handbook", table.to_str().expect("a text"), "--qa", "--meta", "year=2000"])
        .await;
    let since = |year: u32| {
        let condition = json!({"name": "year", "comparison_operator": "≥", "value": year});
        json!({"metadata_filtering_mode": "manual",
            "metadata_filtering_conditions": {"logical_operator": "and", "conditions": [condition]}})
    };
    assert_eq!(library.search(since(2021), "days of leave").await, ["Leave: thirty days."]);
    assert_eq!(library.search(since(2020), "days of leave").await.len(), 2);
    assert!(library.search(since(2030), "days of leave").await.is_empty());
    let by_name = json!({"dataset_ids": ["Handbook", "handbook", "nowhere"]});
    let found = library.search(by_name, "who grants").await;
    assert_eq!(found[0], "question:Who grants leave? \nanswer:Your team");
    let single = json!({"retrieval_mode": "single", "single_retrieval_config": {"model":
        {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}}}});
    assert_eq!(library.search(single, "thirty").await, ["Leave: thirty days."]);
    assert!(model.requests().iter().all(|it| it["path"] != "/v1/embeddings"), "no vectors were asked for");
    // Invalid documents are refused.
    for (body, text) in [
        (json!({"name": "x", "text": " \n"}), "there is no text in it"),
        (json!({"name": "x", "segments": [{"answer": "a"}]}), "a segment needs content"),
        (json!({"name": "x", "text": "t", "split": {"size": 5, "overlap": 5}}), "split.overlap less"),
        (json!({"text": "t"}), "name is required"),
    ] {
        let answer = library.client.post("/api/v1/knowledge/handbook/documents", &body).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(answer.status == 400 && message.contains(text), "{body}: {message}");
    }
    let answer =
        library.client.post("/api/v1/knowledge/ghost/documents", &json!({"name": "x", "text": "t"})).await;
    assert_eq!(answer.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_indexed_even_if_its_worker_dies() {
    // The model makes vectors slowly, one batch at a time.
    let model = llm::rules(json!([{"match": {}, "delay_ms": 400, "reply": "x"}])).await;
    let cluster = Cluster::start(&[("worker.job_lease_ms", "1500")], Some(&model)).await;
    let (scheduler, mut first) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let dataset = json!({"id": "handbook", "embedding": {"provider": "openai", "model": "e"}});
    assert_eq!(client.post("/api/v1/knowledge", &dataset).await.status, 201);
    let segments: Vec<Json> = (0..300).map(|n| json!({"content": format!("sentence number {n}")})).collect();
    let run = add(&client, "handbook", &json!({"name": "long.md", "segments": segments})).await;
    let path = "/api/v1/knowledge/handbook/documents/long.md?segments=0";
    until("a part of it to be indexed", LONG, async || {
        let shown = client.get(path).await.body;
        let done = shown["indexing"]["done"].as_u64().unwrap_or(0);
        if done > 0 && done < 300 { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    first.process.kill();
    let before = asked(&model);
    assert!(before < 10, "it was running: {before}");
    let _second = cluster.worker().await;
    assert_eq!(client.ended(&run).await["status"], "succeeded");
    let shown = client.get(path).await.body;
    assert_eq!((&shown["status"], &shown["segments"]), (&json!("completed"), &json!(300)), "{shown}");
    // The vectors of the first worker are not requested again, except for the running batch.
    assert!(asked(&model) <= 12, "{} requests for 10 batches", asked(&model));
    let vectors = cluster.redis.cli(&["--scan", "--pattern", "tm:knowledge:{handbook}:vectors:*"]);
    assert_eq!(cluster.redis.cli(&["HLEN", vectors.trim()]).trim(), "300");
    assert_eq!(cluster.redis.cli(&["TTL", vectors.trim()]).trim(), "-1", "published vectors do not expire");
}

/// The number of requests for vectors.
fn asked(model: &Running) -> usize {
    model.requests().iter().filter(|it| it["path"] == "/v1/embeddings").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_find_the_old_document_or_the_new_one_and_never_both() {
    let model = echo().await;
    let library = Library::new(&[], &model).await;
    let dataset = json!({"id": "handbook", "embedding": {"provider": "openai", "model": "e"}});
    assert_eq!(library.client.post("/api/v1/knowledge", &dataset).await.status, 201);
    let version = |colour: &str| {
        let segments: Vec<Json> = (0..4).map(|n| json!({"content": format!("mill {colour} {n}")})).collect();
        json!({"name": "mill.md", "segments": segments})
    };
    library.add("handbook", &version("v0")).await;
    let mut searches = Vec::new();
    for n in 1..6 {
        let run = add(&library.client, "handbook", &version(&format!("v{n}"))).await;
        for _ in 0..4 {
            searches.push(library.client.submit(&asking(json!({}), "mill")).await);
        }
        assert_eq!(library.client.ended(&run).await["status"], "succeeded");
    }
    for run in searches {
        let ended = library.client.ended(&run).await;
        let mut found = texts(&ended["outputs"]["result"]);
        found.sort();
        let version: Vec<&str> = found.iter().filter_map(|text| text.split(' ').nth(1)).collect();
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(version.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
    }
    let newest = library.search(json!({}), "mill").await;
    assert!(newest.iter().all(|text| text.contains("v5")), "{newest:?}");
    // Segments of earlier versions expire.
    let keys = library.cluster.redis.cli(&["--scan", "--pattern", "tm:knowledge:{handbook}:segments:*"]);
    let lasting = keys.lines().filter(|key| library.cluster.redis.cli(&["TTL", key]).trim() == "-1");
    assert_eq!(lasting.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_cannot_be_indexed_says_why_and_leaves_the_old_one() {
    let model = llm::rules(json!([
        {"match": {"model": "bad"}, "status": 401, "error": "no such key"}, {"match": {}, "reply": "x"},
    ]))
    .await;
    let library = Library::new(&[], &model).await;
    let dataset = json!({"id": "bad", "embedding": {"provider": "openai", "model": "bad"}});
    assert_eq!(library.client.post("/api/v1/knowledge", &dataset).await.status, 201);
    let file = library.file("a.md", "Some text.");
    let done = library.tidemill(&["add", "bad", file.to_str().expect("a text")]).await;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        !done.status.success() && said.contains("a.md is not indexed") && said.contains("no such key"),
        "{said}"
    );
    let shown = library.client.get("/api/v1/knowledge/bad/documents/a.md").await.body;
    assert_eq!((&shown["status"], &shown["searchable"]), (&json!("error"), &json!(false)), "{shown}");
}
