//! A workflow that calls another one as a tool: wherever a worker or a scheduler dies, each attempt has one
//! sub-workflow run, and its result is right.

use futures_util::{StreamExt, stream};
use serde_json::{Value as Json, json};
use tidemill_common::crash::Program;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::patient::{Followed, Patient};
use tidemill_tests::redis::free_port;
use tidemill_tests::wait::{LONG, until};

use super::QUICK;
use super::crash_points::{Armed, END_MAX, start};

/// The number of cases at the same time; each has a Redis and three processes.
const AT_ONCE: usize = 4;

fn file(name: &str, middle: Json, output: [&str; 2]) -> String {
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": name},
        "workflow": {"graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "S", "variables": []}},
                {"id": "m", "data": middle},
                {"id": "end", "data": {"type": "end", "title": "E",
                    "outputs": [{"variable": "said", "value_selector": output}]}},
            ],
            "edges": [{"source": "start", "target": "m"}, {"source": "m", "target": "end"}],
        }},
    })
    .to_string()
}

/// Three workflow files: the first calls the second, and the second calls the third.
fn files() -> [String; 3] {
    let tool = |app: &str| {
        json!({
            "type": "tool", "title": "T", "provider_id": app, "provider_name": app, "provider_type": "workflow",
            "tool_name": "t", "tool_label": "T", "tool_configurations": {}, "tool_parameters": {},
        })
    };
    let leaf = json!({"type": "template-transform", "title": "G", "template": "deep", "variables": [],
        "tidemill": {"runs_on": "worker"}});
    [
        file("Caller", tool("Middle"), ["m", "said"]),
        file("Middle", tool("Leaf"), ["m", "said"]),
        file("Leaf", leaf, ["m", "output"]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_workflow_becomes_one_run_wherever_a_process_dies() {
    let worker = [
        "worker.step_begun:1",
        "worker.step_begun:2",
        "worker.hand_in_begun:1",
        "worker.hand_in_begun:2",
        "worker.hand_in_done:1",
        "worker.hand_in_done:2",
        "worker.hand_in_done:3",
        "worker.step_made:1",
        "worker.step_kept:1",
        "worker.step_kept:2",
    ];
    let scheduler = [
        "scheduler.commit_computed:2",
        "scheduler.commit_sent:2",
        "scheduler.commit_answered:2",
        "scheduler.commit_sent:4",
        "scheduler.commit_answered:4",
        "scheduler.commit_answered:6",
        "scheduler.run_created:2",
        "scheduler.run_created:3",
    ];
    let cases = worker.map(|at| (Program::Worker, at)).into_iter();
    let cases = cases.chain(scheduler.map(|at| (Program::Scheduler, at)));
    let fired = stream::iter(cases).map(|(program, at)| async move { goes_on(program, at).await });
    let failures: Vec<String> =
        fired.buffer_unordered(AT_ONCE).filter_map(|outcome| async move { outcome.err() }).collect().await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn goes_on(program: Program, at: &str) -> Result<(), String> {
    let mut settings = QUICK.to_vec();
    settings.push(("scheduler.shards", "1"));
    let cluster = Cluster::start(&settings, None).await;
    let [caller, middle, leaf] = files();
    {
        // Apps are registered before a process dies.
        let first = cluster.scheduler().await;
        for text in [&middle, &leaf] {
            let answer = first.client().post("/api/v1/apps", &json!({"workflow": text})).await;
            if answer.status != 201 {
                return Err(format!("{at}: {}", answer.text));
            }
        }
    }
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let armed_of = |of: Program| (of == program).then_some(at);
    let scheduler = start(&cluster, Program::Scheduler, &scheduler_at, armed_of(Program::Scheduler));
    let worker = start(&cluster, Program::Worker, &worker_at, armed_of(Program::Worker));
    let (address, process, _other) = match program {
        Program::Scheduler => (scheduler_at.clone(), scheduler, worker),
        Program::Worker => (worker_at, worker, scheduler),
    };
    let mut armed = Armed { cluster: &cluster, program, address, process };
    let patient = Patient::new(vec![scheduler_at.clone()]);
    let body = json!({"workflow": caller, "inputs": {}, "user": "tester"});
    let acting = async {
        let run = patient.submit(&body, "once").await.map_err(|trouble| format!("{at}: {trouble:?}"))?;
        let followed = patient.follow(&run, END_MAX).await;
        followed.map(|seen| (run, seen)).map_err(|(_, trouble)| format!("{at}: {trouble:?}"))
    };
    let (acted, died) = tokio::join!(acting, armed.until_dead(at));
    died?;
    let (run, Followed { transcript, .. }) = acted?;
    let shown = patient.run(&run).await.map_err(|trouble| format!("{at}: {trouble:?}"))?;
    if shown["status"] != "succeeded" || shown["outputs"]["said"] != "deep" || shown["calls_count"] != 1 {
        return Err(format!("{at}: {shown:#}"));
    }
    if transcript.count("workflow_called", "m") != 1 {
        return Err(format!(
            "{at}: there are {} events about the call",
            transcript.count("workflow_called", "m")
        ));
    }
    // The run of the first workflow, and one sub-workflow run for each of the two calls.
    let client = Client::new(&scheduler_at, Some(ADMIN_KEY));
    let runs = until("all runs to end", LONG, async || {
        let runs = client.get("/api/v1/runs").await.body["data"].clone();
        let is_over = |run: &Json| run["status"] == "succeeded";
        if runs.as_array().is_some_and(|runs| runs.iter().all(is_over)) {
            Ok(runs)
        } else {
            Err(runs.to_string())
        }
    })
    .await;
    match runs.as_array().map(Vec::len) {
        Some(3) => Ok(()),
        _ => Err(format!("{at}: there are not exactly three runs: {runs:#}")),
    }
}
