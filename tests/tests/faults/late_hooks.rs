//! Hooks after an answer while processes die: each runs once, and the answer counts once.

use serde_json::{Value as Json, json};
use tidemill_common::crash::Program;
use tidemill_tests::check::Transcript;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::patient::{Followed, Patient};
use tidemill_tests::redis::free_port;

use super::QUICK;
use super::crash_points::{Armed, END_MAX, start};

/// The node has two jobs: the first asks, the second handles the answer.
fn flow() -> Flow {
    let hook = |hook_type: &str, payload: &str| json!({"hook_type": hook_type, "event_name": hook_type, "event_payload": payload});
    let q = json!({"type": "user-interaction", "interaction_type": "ask_for_input", "show_message": "Colour?", "tidemill": {},
        "hooks": [hook("before_execute", "{{ status }}"), hook("after_execute", "{{ status }} {{ output.input }}")]});
    Flow::new("start -> q -> end").with("q", q)
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_18_hooks_after_an_answer_run_once_wherever_a_process_dies() {
    let worker = ["job_taken", "step_begun", "step_kept", "hand_in_begun", "hand_in_done"];
    let worker = worker.into_iter().flat_map(|place| (1..=2).map(move |nth| format!("worker.{place}:{nth}")));
    let commits = ["commit_computed", "commit_sent", "commit_answered"];
    let commits =
        commits.into_iter().flat_map(|place| (1..=4).map(move |nth| format!("scheduler.{place}:{nth}")));
    let scheduler = commits.chain(["scheduler.answer_kept:1".to_owned()]);
    let each = worker
        .map(|name| dies(name, Program::Worker))
        .chain(scheduler.map(|name| dies(name, Program::Scheduler)));
    let failures: Vec<String> =
        futures_util::future::join_all(each).await.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn dies(name: String, program: Program) -> Result<(), String> {
    let mut settings = QUICK.to_vec();
    settings.push(("scheduler.shards", "1"));
    let cluster = Cluster::start(&settings, None).await;
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let (address, other_at) = match program {
        Program::Worker => (worker_at, scheduler_at.clone()),
        Program::Scheduler => (scheduler_at.clone(), worker_at),
    };
    let other_program = if program == Program::Worker { Program::Scheduler } else { Program::Worker };
    let mut other = start(&cluster, other_program, &other_at, None);
    let process = start(&cluster, program, &address, Some(&name));
    let mut armed = Armed { cluster: &cluster, program, address, process };
    let patient = Patient::new(vec![scheduler_at]);
    let body = json!({"workflow": flow().text(), "inputs": {}, "user": "t"});
    let acting = async {
        let run = patient.submit(&body, "once").await.map_err(|trouble| format!("{name}: {trouble:?}"))?;
        let followed = tokio::select! {
            followed = patient.follow(&run, END_MAX) => followed,
            never = patient.answer_pauses(&run, "red") => match never {},
        };
        followed.map(|seen| (run, seen)).map_err(|(_, trouble)| format!("{name}: {trouble:?}"))
    };
    let (acted, died) = tokio::join!(acting, armed.until_dead(&name));
    died?;
    let (run, Followed { transcript, .. }) = acted?;
    let ended = patient.run(&run).await.map_err(|trouble| format!("{name}: {trouble:?}"))?;
    other.kill();
    let ends = transcript.count("node_run_succeeded", "q");
    let found = json!([ended["status"], said(&transcript), ends]);
    let expected: Json = json!(["succeeded", ["running", "succeeded red"], 1]);
    if found == expected { Ok(()) } else { Err(format!("{name}: {found} instead of {expected}")) }
}

fn said(transcript: &Transcript) -> Vec<Json> {
    transcript.of_kind("node_custom_event").map(|event| event.data["event_data"].clone()).collect()
}
