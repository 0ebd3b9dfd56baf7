//! The commands of `docs/operations.md` for back-up and restore, run under load exactly as written. Runs that were in
//! flight during the back-up continue in the restored Redis and end correctly.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::json;
use tidemill_tests::check::answered;
use tidemill_tests::checker::contents::Contents;
use tidemill_tests::checker::remains::Remains;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::redis::{Redis, free_port};
use tidemill_tests::wait::{LONG, until};
use tidemill_tests::{llm, workspace};
use tokio::task::JoinHandle;

use super::{QUICK, chat};

const ASK: &str = include_str!("workflows/ask_with_key.yml");
const SECRET_KEY: (&str, &str) = ("scheduler.secret_key", "the-secret-key-of-the-restored");
/// The pieces of the model's reply, and the pause before each: no reply ends while the back-up is made.
const PIECES: usize = 100;
const PIECE_MS: u64 = 500;

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_taken_under_load_is_restored_and_its_runs_go_on() {
    backed_up_and_restored("Back up by a snapshot", "Restore a snapshot").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_only_folder_copied_under_load_is_restored_and_its_runs_go_on() {
    backed_up_and_restored("Back up the append-only folder", "Restore an append-only folder").await;
}

/// The runs that the lost fleet had accepted.
struct Taken {
    /// It waits at its form.
    asking: String,
    /// They are in the middle of the model's reply.
    talking: Vec<String>,
    /// Short runs that had ended, or were running, when the back-up began.
    before: Vec<String>,
    /// Short runs that were accepted while the back-up was made; it may contain some of them.
    meanwhile: Vec<String>,
    /// A run that was accepted after the back-up.
    later: String,
    /// The id of the last event that a reader of the first run in `talking` had received then.
    read_to: String,
}

async fn backed_up_and_restored(back_up: &str, restore: &str) {
    let backup = tempfile::tempdir().expect("there is room for a temporary folder");
    let taken = taken_and_lost(back_up, backup.path()).await;

    let data = tempfile::tempdir().expect("there is room for a temporary folder");
    let port = free_port();
    let mut blocks = steps(restore, &backup.path().join("tidemill"), data.path(), port).into_iter();
    let script = blocks.next().expect("steps that start a server");
    let (before, server) = script.trim_end().rsplit_once('\n').expect("steps of several lines");
    let own = own_user(data.path());
    let script = format!("set -eu\n{before}\nexec {own}{server}");
    let redis = Redis::start_by(&script, data, port).await;
    assert_eq!(redis.cli(&["CONFIG", "GET", "appendonly"]), "appendonly\nyes", "as the shipped file says");
    for block in blocks {
        follow(&block);
    }

    let pieces = llm::many_pieces(PIECES);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 0).await;
    let cluster = Cluster::around(redis, &[&QUICK[..], &[SECRET_KEY]].concat(), Some(&model));
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    for run in &taken.talking {
        assert_eq!(client.run(run).await["status"], "running", "it was running when the back-up was made");
    }
    let _worker = cluster.worker().await;
    goes_on(&client, &taken, &pieces.concat()).await;
    let remains = Remains::of(Contents::One(&cluster.redis)).await;
    assert!(remains.jobs.values().all(|left| *left == (0, 0)), "{remains:#?}");
    assert!(remains.open_runs.is_empty() && remains.dead.is_empty(), "{remains:#?}");
}

/// When root follows the commands, the folder belongs to Redis' own user, as in Debian's package, and the last server
/// runs as that user. Returns the prefix of its command.
fn own_user(data: &Path) -> String {
    if std::fs::metadata(data).expect("the folder is there").uid() != 0 {
        return String::new();
    }
    let is_there =
        |user: &&str| Command::new("id").arg(user).output().is_ok_and(|said| said.status.success());
    let user = ["redis", "nobody"].into_iter().find(is_there).expect("a user who is not root");
    let given = Command::new("chown").arg(user).arg(data).status();
    assert!(given.is_ok_and(|status| status.success()), "root may give a folder to {user}");
    format!("setpriv --reuid={user} --regid=$(id -g {user}) --clear-groups ")
}

/// Runs a fleet under load, makes the back-up, and then kills the fleet with its Redis.
async fn taken_and_lost(back_up: &str, folder: &Path) -> Taken {
    let pieces = llm::many_pieces(PIECES);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), PIECE_MS).await;
    let cluster = Cluster::start(&[&QUICK[..], &[SECRET_KEY]].concat(), Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let asking = client.submit(&json!({"workflow": ASK, "inputs": {}})).await;
    pause_of(&client, &asking).await;
    let mut talking = Vec::new();
    for _ in 0..3 {
        talking.push(client.start(&chat(), &[]).await);
    }
    let mut reader = client.follow(&talking[0], None).await;
    reader.until_text("<2>").await;
    let begun = Instant::now();
    let load = Load::begin(client.clone());
    let before = load.at_least(5).await;

    let data = cluster.redis.cli(&["CONFIG", "GET", "dir"]).lines().nth(1).expect("a folder").to_string();
    for block in steps(back_up, &folder.join("tidemill"), Path::new(&data), cluster.redis.port()) {
        follow(&block);
    }

    let meanwhile = load.end().await;
    let later = client.start(&Flow::new("start -> a -> end"), &[]).await;
    // A piece comes only after its pause, so this piece came after the back-up.
    let pieces_at_most = begun.elapsed().as_millis() / u128::from(PIECE_MS) + 4;
    reader.until_text(&format!("<{pieces_at_most}>")).await;
    let read_to = reader.transcript.last_id().expect("events have ids").to_string();
    Taken { asking, talking, before, meanwhile, later, read_to }
}

/// Checks that all runs in the back-up end correctly.
async fn goes_on(client: &Client, taken: &Taken, reply: &str) {
    let reader = client.follow(&taken.talking[0], Some(&taken.read_to)).await;
    let pause = pause_of(client, &taken.asking).await;
    let said = json!({"action": "ok", "inputs": {"word": "deep"}, "key": "k"});
    let answer = client.post(&format!("/api/v1/runs/{}/pauses/{pause}/answer", taken.asking), &said).await;
    assert!(answer.status < 300, "{}", answer.text);
    let ended = client.ended(&taken.asking).await;
    assert_eq!(ended["outputs"], json!({"out": "deep, 24 letters"}), "the secret is opened: {ended:#}");
    for run in &taken.talking {
        answered(&client.ended(run).await, reply);
        let told = client.follow(run, None).await.to_the_end().await;
        assert_eq!(told.text(), reply);
        told.nodes_end_once();
    }
    let told = reader.to_the_end().await;
    assert_eq!(told.of_kind("reset").count(), 1, "a reader of lost events gets a reset: {told:#?}");
    assert_eq!(told.text(), reply);
    for run in &taken.before {
        assert_eq!(client.ended(run).await["outputs"], json!({"a": "a"}));
    }
    for run in &taken.meanwhile {
        let is_there = client.get(&format!("/api/v1/runs/{run}")).await.status;
        assert!([200, 404].contains(&is_there), "{run}: {is_there}");
        if is_there == 200 {
            assert_eq!(client.ended(run).await["outputs"], json!({"a": "a"}));
        }
    }
    let gone = client.get(&format!("/api/v1/runs/{}", taken.later)).await;
    assert_eq!(gone.status, 404, "accepted after the back-up: {}", gone.text);
}

/// Waits for the pause of a run and returns its id.
async fn pause_of(client: &Client, run: &str) -> String {
    until("the run to wait at its form", LONG, async || {
        let shown = client.run(run).await;
        let pause = shown["pauses"].as_array().into_iter().flatten().find(|p| p["status"] == "pending");
        pause.and_then(|pause| pause["pause_id"].as_str()).map(str::to_string).ok_or(shown.to_string())
    })
    .await
}

/// Submits short runs, one after the other, until it is ended.
struct Load {
    is_over: Arc<AtomicBool>,
    taken: Arc<std::sync::Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Load {
    fn begin(client: Client) -> Self {
        let (is_over, taken) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (ends, takes): (_, Arc<std::sync::Mutex<Vec<String>>>) =
            (Arc::clone(&is_over), Arc::clone(&taken));
        let task = tokio::spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                let run = client.start(&Flow::new("start -> a -> end"), &[]).await;
                takes.lock().expect("the thread with the lock did not panic").push(run);
            }
        });
        Self { is_over, taken, task }
    }

    /// Waits for this many accepted runs and returns them.
    async fn at_least(&self, count: usize) -> Vec<String> {
        until("some runs of the load", LONG, async || {
            let taken = self.taken.lock().expect("the thread with the lock did not panic").clone();
            if taken.len() >= count { Ok(taken) } else { Err(format!("{taken:?}")) }
        })
        .await
    }

    /// Ends the load and returns all accepted runs.
    async fn end(self) -> Vec<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.task.await.expect("the load is accepted");
        std::mem::take(&mut self.taken.lock().expect("the thread with the lock did not panic"))
    }
}

/// The `sh` blocks of a section of the page, with these folders and this port.
fn steps(heading: &str, backup: &Path, data: &Path, port: u16) -> Vec<String> {
    let path = workspace().join("docs/operations.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let section = page.split(&format!("\n### {heading}\n")).nth(1);
    let section = section.unwrap_or_else(|| panic!("{} has no {heading:?}", path.display()));
    let section = section.split("\n#").next().expect("a text begins with something");
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    // The workspace may be readable for root only.
    let readable = data.join("redis.conf");
    std::fs::copy(workspace().join("deploy/redis.conf"), &readable).expect("it can be copied");
    let mine = |block: &str| {
        let block = block.replace("/backup/tidemill", &backup.to_string_lossy());
        let block = block.replace("/var/lib/redis", &data.to_string_lossy());
        let block = block.replace("deploy/redis.conf", &readable.to_string_lossy());
        let block = block.replace("redis-cli ", &format!("redis-cli -p {port} "));
        block.replace("redis-server \"$CONF\"", &format!("redis-server \"$CONF\" --port {port}"))
    };
    let blocks: Vec<String> = blocks.map(mine).collect();
    assert!(!blocks.is_empty(), "{heading:?} has steps");
    blocks
}

/// Runs a block. None of its commands may print an error.
fn follow(block: &str) {
    let done =
        Command::new("sh").args(["-c", &format!("set -eu\n{block}")]).current_dir(workspace()).output();
    let done = done.expect("there is a shell");
    let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let is_well = done.status.success() && complained.is_empty() && !said.contains("ERR");
    assert!(is_well, "{block}\nsays\n{said}{complained}");
}
