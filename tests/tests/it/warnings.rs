//! Warnings of runs, from their causes to every place that shows them: a dataset that no worker has, an input that the
//! form does not have. They survive the death of a scheduler, and Dify's API does not show them.

use serde_json::{Value as Json, json};
use tidemill_common::warning::CODES;
use tidemill_tests::check::{Event, Transcript};
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

/// A workflow that searches the dataset `handbook`, and then does what `rest` says.
fn searching(rest: &str) -> Flow {
    let search = json!({
        "type": "knowledge-retrieval", "query_variable_selector": ["start", "q"], "dataset_ids": ["handbook"],
        "retrieval_mode": "multiple",
        "multiple_retrieval_config": {"top_k": 4, "reranking_enable": false},
    });
    Flow::new(&format!("start -> kb -> {rest}")).inputs(&["q"]).with("kb", search)
}

fn short() -> Flow {
    searching("end").with("end", json!({"outputs": [{"variable": "r", "value_selector": ["kb", "result"]}]}))
}

/// Runs the command; returns standard output and standard error.
async fn tidemill(cluster: &Cluster, scheduler: &Scheduler, words: &[&str]) -> (String, String) {
    let mut command = cluster.command("tidemill");
    command.args(words).env("TIDEMILL_URL", format!("http://{}", scheduler.address));
    command.env("TIDEMILL_KEY", ADMIN_KEY);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it starts")).await;
    let output = output.expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn codes(warnings: &Json) -> Vec<&str> {
    warnings.as_array().expect("a list").iter().map(|one| one["code"].as_str().unwrap_or_default()).collect()
}

/// The warnings that events reported.
fn told(transcript: &Transcript) -> Vec<Json> {
    transcript.of_kind("run_warning").map(|event: &Event| event.data.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_that_no_worker_has_is_a_warning_at_publishing_and_of_each_run_until_it_is_added() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let file = cluster.logs().join("searching.json");
    std::fs::write(&file, short().text()).expect("the folder exists");
    let path = file.to_str().expect("a plain path");

    let published = client.post("/api/v1/apps", &json!({"workflow": short().text()})).await;
    assert_eq!((published.status, codes(&published.body["warnings"])), (201, vec!["dataset.unknown"]));
    assert_eq!(published.body["warnings"][0]["datasets"], json!(["handbook"]), "{}", published.text);

    let run = client.start(&short(), &[("q", "why?")]).await;
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], codes(&ended["warnings"])), (&json!("succeeded"), vec!["dataset.unknown"]));
    let warning = &ended["warnings"][0];
    assert_eq!((&warning["node_id"], &warning["dataset"]), (&json!("kb"), &json!("handbook")), "{warning}");
    assert!(warning["hint"].as_str().is_some_and(|hint| hint.contains("[knowledge.datasets.")), "{warning}");
    let events = client.follow(&run, None).await.to_the_end().await;
    assert_eq!(told(&events), std::slice::from_ref(warning), "one event, with the same content");
    assert_eq!(events.events.last().expect("an event").data["warnings"], ended["warnings"]);
    let listed = client.get("/api/v1/runs").await.body;
    assert_eq!(listed["data"][0]["warnings_count"], json!(1), "{listed}");

    let key = published.body["key"].as_str();
    let body = json!({"inputs": {"q": "why?"}, "user": "u", "response_mode": "streaming"});
    let stream = scheduler.client().with_key(key).post("/v1/workflows/run", &body).await.text;
    assert!(stream.contains("workflow_finished") && !stream.contains("warning"), "{stream}");

    let (out, err) = tidemill(&cluster, &scheduler, &["run", path, "-i", "q=why?"]).await;
    let lines = |text: &str| text.lines().filter(|line| line.starts_with("warning: ")).count();
    assert_eq!((lines(&err), out.contains("warning")), (1, false), "{out}\n{err}");
    assert!(err.contains("dataset handbook is not set"), "{err}");
    let (out, _) = tidemill(&cluster, &scheduler, &["run", path, "-i", "q=why?", "--json"]).await;
    let last: Json = serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
    assert_eq!(codes(&last["warnings"]), ["dataset.unknown"], "{last}");
    for words in [["show", &run], ["watch", &run]] {
        let (out, err) = tidemill(&cluster, &scheduler, &words).await;
        assert_eq!(lines(&out) + lines(&err), 1, "{words:?}: {out}{err}");
    }
    let (out, _) = tidemill(&cluster, &scheduler, &["watch", &run, "--events"]).await;
    assert!(out.lines().any(|line| line.contains("run_warning") && line.contains("handbook")), "{out}");

    let made = client.post("/api/v1/knowledge", &json!({"id": "handbook", "name": "Handbook"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let published = client.post("/api/v1/apps", &json!({"workflow": short().text()})).await;
    assert_eq!((published.status, &published.body["warnings"]), (201, &json!([])), "{}", published.text);
    let run = client.start(&short(), &[("q", "why?")]).await;
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], &ended["warnings"]), (&json!("succeeded"), &json!([])), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_names_the_datasets_that_the_settings_do_not_have() {
    let cluster = Cluster::start(&[], None).await;
    let folder = cluster.logs().to_path_buf();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("the folder exists");
        path.display().to_string()
    };
    let file = write("searching.json", &short().text());
    let plain = write("plain.json", &Flow::new("start -> a -> end").text());
    let with = write("with.toml", "[knowledge.datasets.handbook]\nkind = \"embedded\"\n");
    let other = write("other.toml", "[knowledge.datasets.other]\nkind = \"embedded\"\n");
    for (words, expected) in [
        (vec!["check", &file], true),
        (vec!["check", &file, "--config", &other], true),
        (vec!["check", &file, "--config", &with], false),
        (vec!["check", &plain], false),
    ] {
        let mut command = cluster.command("tidemill");
        let output = command.args(&words).current_dir(&folder).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        assert_eq!(said.contains("handbook"), expected, "{words:?}: {said}");
        assert_eq!(said.matches("dataset.needed").count(), usize::from(expected), "{words:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_survive_the_death_of_the_scheduler_that_noted_them() {
    let pieces = llm::many_pieces(40);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 50).await;
    let settings = [("scheduler.shard_lease_ms", "1500"), ("scheduler.shard_renew_ms", "300")];
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let (first, second) = (cluster.scheduler().await, cluster.scheduler().await);
    let _worker = cluster.worker().await;
    until("both schedulers to own a shard", LONG, async || {
        let mut owners: Vec<String> = Vec::new();
        for shard in 0..2 {
            let owner: Option<String> = cluster.redis.ask(&["GET", &format!("tm:{{{shard}}}:owner")]).await;
            owners.extend(owner);
        }
        let shared = [&first, &second].iter().all(|scheduler| owners.contains(&scheduler.id));
        if shared { Ok(()) } else { Err(format!("{owners:?}")) }
    })
    .await;

    let flow = searching("llm -> answer");
    let inputs = json!({"q": "why?", "kew": "not in the form"});
    let body = json!({"workflow": flow.text(), "inputs": inputs, "user": "u"});
    let run = first.client().submit(&body).await;
    let shard = first.client().run(&run).await["shard"].to_string();
    let owner: String = cluster.redis.ask(&["GET", &format!("tm:{{{shard}}}:owner")]).await;
    let (mut dies, lives) = if owner == first.id { (first, second) } else { (second, first) };
    dies.client().follow(&run, None).await.until_text("<5>").await;
    dies.process.kill();

    let expected = ["input.not_declared", "dataset.unknown"];
    let ended = lives.client().ended(&run).await;
    assert_eq!((&ended["status"], codes(&ended["warnings"])), (&json!("succeeded"), expected.to_vec()));
    assert!(
        ended["warnings"][0]["hint"].as_str().is_some_and(|hint| hint.ends_with("fields are q")),
        "{ended:#}"
    );
    let events = lives.client().follow(&run, None).await.to_the_end().await;
    events.is_whole();
    assert_eq!(Json::from(told(&events)), ended["warnings"], "each once, in the order of the run");
}

#[test]
fn every_code_is_in_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/warnings.md");
    let page = std::fs::read_to_string(page).expect("the page exists");
    for code in CODES {
        assert!(page.contains(&format!("`{code}`")), "docs/warnings.md does not have {code}");
    }
}
