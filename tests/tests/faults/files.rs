//! Files that nodes make are removed with their run. This also holds when a worker dies between noting a file and
//! storing the result that refers to it, and when a scheduler dies while it removes them.

use serde_json::json;
use tidemill_common::crash::{CRASH_POINTS, CrashPoint, Program};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::outside::Outside;
use tidemill_tests::patient::Patient;
use tidemill_tests::redis::free_port;
use tidemill_tests::wait::{LONG, until};

use super::QUICK;
use super::crash_points::{Armed, END_MAX, FIRED_MAX, start};

/// Downloads a file.
fn workflow(outside: &Outside) -> String {
    let url = format!("{}/file", outside.base_url);
    json!({
        "nodes": [
            {"id": "start", "data": {"type": "start", "variables": []}},
            {"id": "fetch", "data": {
                "type": "http-request", "title": "Fetch", "method": "get", "url": url, "headers": "", "params": "",
                "authorization": {"type": "no-auth"}, "body": {"type": "none", "data": []},
            }},
            {"id": "end", "data": {"type": "end", "outputs": [{"variable": "files", "value_selector": ["fetch", "files"]}]}},
        ],
        "edges": [{"source": "start", "target": "fetch"}, {"source": "fetch", "target": "end"}],
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_removed_with_their_run_wherever_a_process_dies() {
    for place in
        [None, Some(CrashPoint::FilesNoted), Some(CrashPoint::FileKept), Some(CrashPoint::FilesRemoved)]
    {
        goes_with_its_run(place).await;
    }
}

async fn goes_with_its_run(place: Option<CrashPoint>) {
    let outside = Outside::start().await;
    let mut settings = QUICK.to_vec();
    settings.extend([
        ("scheduler.shards", "1"),
        ("scheduler.shard_lease_ms", "6000"),
        ("scheduler.retention_seconds", "5"),
        ("http.allow", "127.0.0.1"),
    ]);
    let cluster = Cluster::start(&settings, None).await;
    let folder = cluster.logs().join("tidemill-files/runs");
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let row = CRASH_POINTS.iter().find(|(it, ..)| Some(*it) == place);
    let armed = |of: Program| row.filter(|(_, _, program, _)| *program == of).map(|(_, name, ..)| *name);
    let mut processes =
        [(Program::Scheduler, &scheduler_at), (Program::Worker, &worker_at)].map(|(program, address)| {
            Armed {
                cluster: &cluster,
                program,
                address: address.clone(),
                process: start(&cluster, program, address, armed(program)),
            }
        });

    let patient = Patient::new(vec![scheduler_at.clone()]);
    let body = json!({"workflow": workflow(&outside), "inputs": {}, "user": "tester"});
    let run = patient.submit(&body, "once").await.unwrap_or_else(|trouble| panic!("{place:?}: {trouble:?}"));
    let key = format!("tm:{{0}}:run:{run}");
    let acting = async {
        until("the run to end with its file", END_MAX, async || {
            let files = std::fs::read_dir(folder.join(&run)).map_or(0, Iterator::count);
            match cluster.redis.cli(&["HGET", &key, "status"]).as_str() {
                "succeeded" if files > 0 => Ok(()),
                status => Err(format!("{status}, {files} files")),
            }
        })
        .await;
    };
    let dying = async {
        for process in &mut processes {
            if let Some(name) = armed(process.program) {
                process.until_dead(name).await.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    };
    tokio::join!(acting, dying);
    until("the run and its files to be removed", FIRED_MAX, async || {
        let keys = cluster.redis.cli(&["--scan", "--pattern", &format!("*{run}*")]);
        let noted = cluster.redis.cli(&["EXISTS", "tm:{0}:files", "tm:{0}:files_left"]);
        let files = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        if keys.is_empty() && noted == "0" && files == 0 {
            Ok(())
        } else {
            Err(format!("{place:?}: keys {keys:?}, noted {noted}, {files} folders"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_removed_while_the_storage_of_its_files_is_down_and_the_files_are_removed_later() {
    let outside = Outside::start().await;
    let mut settings = QUICK.to_vec();
    settings.extend([
        ("scheduler.shards", "1"),
        ("scheduler.retention_seconds", "5"),
        ("http.allow", "127.0.0.1"),
        ("files.url", "place"),
    ]);
    let cluster = Cluster::start(&settings, None).await;
    let (place, away) = (cluster.logs().join("place"), cluster.logs().join("away"));
    let scheduler = cluster.scheduler().await;
    let worker = cluster.worker().await;
    let client = scheduler.client();
    let run = client.submit(&json!({"workflow": workflow(&outside), "inputs": {}})).await;
    until("a file", LONG, async || {
        let kept = std::fs::read_dir(place.join("runs").join(&run));
        kept.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;
    client.ended(&run).await;
    std::fs::rename(&place, &away).expect("renamed");
    until("the run to be removed without its files", LONG, async || {
        let left = cluster.redis.cli(&["SMEMBERS", "tm:{0}:files_left"]);
        let keys = cluster.redis.cli(&["EXISTS", &format!("tm:{{0}}:run:{run}")]);
        if left == run && keys == "0" { Ok(()) } else { Err(format!("{left} {keys}")) }
    })
    .await;
    std::fs::rename(&away, &place).expect("renamed");
    until("its files to be removed", LONG, async || {
        let left = std::fs::read_dir(place.join("runs")).map_or(1, Iterator::count);
        if left == 0 { Ok(()) } else { Err(format!("{left} folders")) }
    })
    .await;
    drop(worker);
}
