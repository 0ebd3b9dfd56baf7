//! Lists of messages while schedulers die.

use serde_json::{Value as Json, json};
use tidemill_common::crash::Program;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::flow::Flow;
use tidemill_tests::patient::{Followed, Patient};
use tidemill_tests::redis::free_port;

use super::QUICK;
use super::crash_points::{Armed, END_MAX, start};

/// Three commits: the start with the job of `a`; its end with the operation and the job of `b`; the end.
fn flow() -> Flow {
    let cut = json!({"type": "context-processor", "operation": "truncate", "truncate": {"keep_last": 2}, "tidemill": {}});
    let say = json!({"type": "context-processor", "operation": "append", "tidemill": {},
        "append": {"messages": [{"role": "user", "content": "more"}]}});
    Flow::new("start -> a -> cut -> say -> b -> end").with("cut", cut).with("say", say)
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a16_an_operation_takes_effect_once_wherever_the_scheduler_dies() {
    let places = ["scheduler.commit_computed", "scheduler.commit_sent", "scheduler.commit_answered"];
    let each = places.into_iter().flat_map(|place| (1..=2).map(move |nth| dies(place, nth)));
    let failures: Vec<String> =
        futures_util::future::join_all(each).await.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn dies(place: &str, nth: usize) -> Result<(), String> {
    let name = format!("{place}:{nth}");
    let mut settings = QUICK.to_vec();
    settings.push(("scheduler.shards", "1"));
    let cluster = Cluster::start(&settings, None).await;
    let address = format!("127.0.0.1:{}", free_port());
    let mut worker = start(&cluster, Program::Worker, "127.0.0.1:0", None);
    let process = start(&cluster, Program::Scheduler, &address, Some(&name));
    let mut armed =
        Armed { cluster: &cluster, program: Program::Scheduler, address: address.clone(), process };
    let patient = Patient::new(vec![address.clone()]);
    let message = |text: &str| json!({"role": "user", "content": text});
    let messages = json!({"main": [message("one"), message("two"), message("three")]});
    let body =
        json!({"workflow": flow().text(), "inputs": {}, "user": "t", "options": {"messages": messages}});
    let acting = async {
        let run = patient.submit(&body, "once").await.map_err(|trouble| format!("{name}: {trouble:?}"))?;
        let followed = patient.follow(&run, END_MAX).await;
        followed.map(|seen| (run, seen)).map_err(|(_, trouble)| format!("{name}: {trouble:?}"))
    };
    let (acted, died) = tokio::join!(acting, armed.until_dead(&name));
    died?;
    let (run, Followed { transcript, .. }) = acted?;
    let client = Client::new(&address, Some(ADMIN_KEY));
    let ended = patient.run(&run).await.map_err(|trouble| format!("{name}: {trouble:?}"))?;
    let list = client.get(&format!("/api/v1/runs/{run}/messages/main")).await.body;
    worker.kill();
    let updates = transcript.of_kind("conversation_updated").count();
    let found = json!([
        ended["status"],
        list["visible"],
        list["stored_count"],
        list["message_count"],
        list["version"],
        list["batches"].as_array().map(Vec::len),
        updates,
    ]);
    let expected: Json = json!(["succeeded", [1, 2, 3], 4, 3, 2, 2, 2]);
    if found == expected { Ok(()) } else { Err(format!("{name}: {found} instead of {expected}")) }
}
