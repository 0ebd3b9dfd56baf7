//! A worker that cannot write to its scratch folder says so at `/readyz`, and in the errors of code nodes.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Worker};
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::called::file;

/// The status and the text of the worker's `/readyz`, at the address from its log.
async fn ready(worker: &Worker) -> (u16, String) {
    let address = until("the worker to listen", LONG, async || {
        let said = worker.process.log_text();
        let lines = said.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
        let mut addresses = lines.filter_map(|line| line["health"].as_str().map(str::to_owned));
        addresses.next().ok_or(said.clone())
    })
    .await;
    let answer = Client::new(&address, None).undescribed().get("/readyz").await;
    (answer.status, answer.text)
}

fn coded() -> String {
    let code = json!({"type": "code", "title": "C", "code_language": "python3", "variables": [],
        "code": "def main():\n    return {'x': 'y'}\n", "outputs": {"x": {"type": "string", "children": null}}});
    file("Coded", &[], &[("c", code)], &[("x", ["c", "x"])])
}

async fn failed_in(cluster: &Cluster, folder: &str, reason: &str, worker: &Worker) {
    let (status, text) = ready(worker).await;
    assert_eq!(status, 503, "{text}");
    // The worker also logged a warning when it started.
    let said = worker.process.log_text();
    assert!(said.contains(&format!("in {folder} fails: {reason}")), "{said}");
    assert!(!said.contains("code nodes run in"), "{said}");
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let run = client.submit(&json!({"workflow": coded(), "inputs": {}, "user": "u"})).await;
    let ended = client.ended(&run).await;
    let error = ended["error"].as_str().unwrap_or_default();
    for said in [&*text, error] {
        assert!(said.contains(&format!("in {folder} fails: {reason}")), "{said}");
        assert!(said.contains("code.scratch_folder") && !said.contains("install"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_scratch_folder_is_named_with_its_setting() {
    let model = llm::slow(&["x"], 0).await;
    // Even root cannot make a folder below a file.
    let cluster = Cluster::start(&[("code.scratch_folder", "/etc/hostname/scratch")], Some(&model)).await;
    let worker = cluster.worker().await;
    failed_in(&cluster, "/etc/hostname/scratch", "Not a directory", &worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scratch_folder_that_only_root_may_enter_is_named_with_its_setting() {
    // Without root, code runs as the worker's user, which may enter the folder.
    let own = tempfile::tempdir().expect("room for a folder");
    let only_its_owner = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(own.path(), only_its_owner).expect("its mode can be set");
    if std::fs::metadata(own.path()).expect("it is there").uid() != 0 {
        return;
    }
    let model = llm::slow(&["x"], 0).await;
    let folder = own.path().display().to_string();
    let cluster = Cluster::start(&[("code.scratch_folder", &folder)], Some(&model)).await;
    let worker = cluster.worker().await;
    failed_in(&cluster, &folder, "Permission denied", &worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_its_own_scratch_folder_is_ready_although_tmp_is_read_only() {
    let model = llm::slow(&["x"], 0).await;
    let own = tempfile::Builder::new()
        .prefix("tidemill-scratch-")
        .tempdir_in("/var/tmp")
        .expect("room for a folder");
    let cluster = Cluster::start(&[], Some(&model)).await;
    // A separate mount namespace, like a container with a read-only root.
    let script = "mount --bind -o ro /tmp /tmp && mount -o remount,bind,ro /tmp && exec \"$0\" \"$@\"";
    let in_namespace = |scratch: Option<&str>| {
        let plain = cluster.command("tidemill-worker");
        let mut command = cluster.command("tidemill-worker");
        let mut wrapped = std::process::Command::new("unshare");
        wrapped.args(["-m", "sh", "-c", script]).arg(plain.get_program()).args(["--listen", "127.0.0.1:0"]);
        for (name, value) in command.current_dir(cluster.logs()).get_envs() {
            match value {
                Some(value) => wrapped.env(name, value),
                None => wrapped.env_remove(name),
            };
        }
        wrapped.env_remove("TMPDIR").current_dir(cluster.logs());
        wrapped.envs(scratch.map(|folder| ("TIDEMILL_CODE_SCRATCH_FOLDER", folder)));
        wrapped
    };
    let allowed =
        std::process::Command::new("unshare").args(["-m", "sh", "-c", "mount --bind /tmp /tmp"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine does not allow mount namespaces");
        return;
    }
    let start = async |scratch: Option<&str>| {
        let mut process = cluster.spawn("worker", in_namespace(scratch));
        let line = process.wait_for_log("worker started").await;
        Worker { consumer: line["consumer"].as_str().unwrap_or_default().to_owned(), process }
    };
    let worker = start(None).await;
    failed_in(&cluster, "/tmp", "Read-only file system", &worker).await;
    drop(worker);
    let own = own.path().display().to_string();
    let worker = start(Some(&own)).await;
    let (status, text) = ready(&worker).await;
    assert_eq!(status, 200, "{text}");
}
