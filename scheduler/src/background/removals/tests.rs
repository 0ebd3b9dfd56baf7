//! Removals over a store in memory and a folder of uploads, piece by piece.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tidemill_common::clock::{SystemClock, Timestamp};
use tidemill_common::config::Config;
use tidemill_common::files::{Upload, UploadId, Uploads};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{
    Created, INNER_FIELD, NewRun, REMOVED_FIELD, Runs, Shards, UploadCharge, UploadCharged,
};
use tidemill_common::wire::fact::kind;

use super::found::CALLER;
use super::record::Stage;
use super::*;
use crate::workflows::Workflows;

const SHARD: ShardId = ShardId(0);
/// 2025-01-31, at noon.
const ASKED: i64 = 1_738_324_800;
const DAY: i64 = 86_400;

/// A store, the removals of a process, and the folder of its uploads, which is removed at the end.
struct Fixture {
    store: Arc<MemoryStore>,
    removals: Removals,
    folder: PathBuf,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // There is none if a test has no uploads.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Fixture {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(UploadId::generate().to_string());
        let store = Arc::new(MemoryStore::with(Arc::new(SystemClock), 1, 10_000));
        let removals = process(&store, &folder);
        Self { store, removals, folder }
    }

    fn uploads(&self) -> Arc<dyn Uploads> {
        self.removals.submitter.uploads.open().unwrap()
    }

    async fn begin(&self, removal: &Removal) {
        let text = removal.to_text();
        assert!(self.store.removals().move_removal(&removal.id(), None, Some(&text)).await.unwrap());
    }

    /// Does a piece of each removal, also of those that would wait. Returns those that are left.
    async fn look(&self) -> Vec<Removal> {
        self.removals.look(&mut Vec::new()).await.unwrap();
        let left = self.store.removals().removals_under_way().await.unwrap();
        left.iter().map(|(_, text)| Removal::read(text).unwrap()).collect()
    }

    async fn until_removed(&self) {
        for _ in 0..1_000 {
            if self.look().await.is_empty() {
                return;
            }
        }
        panic!("removals do not end");
    }

    async fn create(&self, at: i64, status: &str, mut fields: Vec<(&'static str, String)>) -> RunId {
        fields.extend([("created_at", at.to_string()), ("status", status.to_owned())]);
        let run = RunId::generate(SHARD);
        let new = NewRun {
            id: run,
            graph: ("hash".into(), "{}".into()),
            fields,
            kind: kind::START,
            start: "{}".into(),
            queues: Vec::new(),
            blobs: Vec::new(),
            created_at: Timestamp::from_micros(at),
            schedule: None,
            called: None,
            has_files: false,
            takes_messages: None,
        };
        assert_eq!(self.store.create_run(&new).await.unwrap(), Created::Created);
        run
    }

    async fn is_hidden(&self, run: RunId) -> bool {
        self.store.run_fields(run).await.unwrap().is_some_and(|fields| fields.contains_key(REMOVED_FIELD))
    }

    /// Notes an upload of a user, which counts for the quotas.
    async fn upload(&self, user: &str, at: i64, size: u64) -> UploadId {
        let id = id_at(at, size);
        let upload = Upload {
            id,
            app: Some("a".into()),
            user: user.into(),
            name: "a.txt".into(),
            extension: ".txt".into(),
            mime_type: "text/plain".into(),
            size,
            created_at: at,
        };
        self.uploads().record(&upload).await.unwrap();
        assert_eq!(self.charge(user, at, size, (0, 0)).await, UploadCharged::Taken);
        id
    }

    async fn charge(
        &self,
        user: &str,
        at: i64,
        bytes: u64,
        (app_max, user_max): (u64, u64),
    ) -> UploadCharged {
        let charge = UploadCharge {
            app: "a".into(),
            user: user.into(),
            day: tidemill_common::files::day_of(at).unwrap(),
            first_day: String::new(),
            bytes,
            app_max,
            user_max,
            keep_seconds: 0,
        };
        self.store.charge_upload(&charge).await.unwrap()
    }

    /// The bytes that count for the app, and for a user.
    async fn used(&self, user: &str) -> (UploadCharged, UploadCharged) {
        let more = 1_000_000;
        (
            self.charge(user, ASKED, more, (more - 1, 0)).await,
            self.charge(user, ASKED, more, (0, more - 1)).await,
        )
    }
}

/// The removals of a process.
fn process(store: &Arc<MemoryStore>, folder: &Path) -> Removals {
    let mut config = Config::default();
    config.files.url = folder.display().to_string().as_str().into();
    let config = Arc::new(config);
    let workflows = Arc::new(Workflows::new(&config, None));
    let submitter = Arc::new(Submitter::new(store.clone(), config, workflows));
    Removals::new(store.clone(), submitter)
}

/// The id of an upload of this time.
fn id_at(seconds: i64, number: u64) -> UploadId {
    format!("{:012x}70008000{number:012x}", seconds * 1_000).parse().unwrap()
}

fn removal(user: Option<&str>, runs: RunsFate, stage: Stage) -> Removal {
    let mut removal = Removal::new("a", user, runs, Timestamp::from_millis(ASKED * 1_000));
    removal.stage = stage;
    removal
}

fn of(app: &str, user: &str) -> Vec<(&'static str, String)> {
    vec![("app", app.to_owned()), ("user", user.to_owned())]
}

#[tokio::test]
async fn runs_that_keys_of_the_app_pay_are_stopped_also_if_all_runs_are_kept() {
    let it = Fixture::new();
    it.create(5, "running", vec![("key", "k".into()), (INNER_FIELD, "speech".into())]).await;
    it.create(6, "running", of("b", "ada")).await;
    let mut removal = removal(None, RunsFate::Stop, Stage::Stop);
    removal.keys.push("k".into());
    it.begin(&removal).await;
    let before = it.store.inbox_len(SHARD).await.unwrap();
    for _ in 0..3 {
        it.look().await;
    }
    assert_eq!(it.store.inbox_len(SHARD).await.unwrap(), before + 1, "one run is stopped, once in a look");
}

#[tokio::test]
async fn runs_that_were_called_are_hidden_before_a_caller_that_does_not_know_them() {
    let it = Fixture::new();
    let caller = it.create(5, "succeeded", of("a", "ada")).await;
    let mut fields = of("b", "ada");
    // The order is not in the caller's `calls`.
    fields.push((CALLER, json!({"run": caller, "node": "t"}).to_string()));
    let called = it.create(6, "succeeded", fields).await;
    let other = it.create(7, "succeeded", of("b", "ada")).await;
    it.begin(&removal(Some("ada"), RunsFate::Remove, Stage::Runs)).await;
    let mut pieces = 0;
    while !it.is_hidden(caller).await {
        it.look().await;
        pieces += 1;
        assert!(pieces < 50, "the caller is not removed");
        assert!(it.is_hidden(called).await, "the run that was called would stay");
    }
    // Nothing removes hidden runs here, so they are found again, but they count once.
    let mut left = Vec::new();
    for _ in 0..5 {
        left = it.look().await;
    }
    assert_eq!(left[0].removed["runs"], 2);
    assert!(!it.is_hidden(other).await);
}

#[tokio::test]
async fn a_removal_says_that_redis_is_full_only_until_runs_can_be_stopped() {
    let it = Fixture::new();
    it.create(5, "running", of("a", "ada")).await;
    let mut removal = removal(Some("ada"), RunsFate::Remove, Stage::Runs);
    removal.is_unstopped = true;
    removal.error = Some(UNSTOPPED.into());
    removal.place = "app ".into();
    it.begin(&removal).await;
    let left = it.look().await;
    assert_eq!((left[0].is_unstopped, left[0].error.as_deref()), (true, None));
}

#[tokio::test]
async fn uploads_of_a_removed_user_count_no_longer_and_those_that_stay_do() {
    let mut it = Fixture::new();
    let removed = [it.upload("ada", ASKED - DAY, 10).await, it.upload("ada", ASKED - 60, 20).await];
    let kept = [it.upload("ada", ASKED + 60, 5).await, it.upload("ada", ASKED + DAY, 4).await];
    let others = it.upload("bob", ASKED - 60, 7).await;
    // An upload that is gone, but counts still.
    assert_eq!(it.charge("ada", ASKED - 2 * DAY, 3, (0, 0)).await, UploadCharged::Taken);
    let full = |used| (UploadCharged::AppFull { used }, UploadCharged::UserFull { used });
    assert_eq!(it.used("ada").await, (full(49).0, full(42).1));
    for again in [false, true] {
        it.begin(&removal(Some("ada"), RunsFate::Remove, Stage::Uploads)).await;
        it.until_removed().await;
        assert_eq!(it.used("ada").await, (full(16).0, full(9).1), "again: {again}");
        // Another process does all of it once more.
        it.removals = process(&it.store, &it.folder);
    }
    let place = it.uploads();
    for id in removed {
        assert!(place.find(id).await.is_err());
    }
    for id in kept.into_iter().chain([others]) {
        assert!(place.find(id).await.is_ok());
    }
}

#[tokio::test]
async fn a_day_of_uploads_is_looked_at_until_nothing_of_it_is_removed() {
    let it = Fixture::new();
    for number in 0..501 {
        it.upload("ada", ASKED - 60, number).await;
    }
    it.begin(&removal(Some("ada"), RunsFate::Remove, Stage::LateUploads)).await;
    assert_eq!(it.look().await[0].removed["uploads"], 500);
    // Whether a folder that is open shows this one is its own affair.
    let late = it.upload("ada", ASKED - 60, 501).await;
    it.until_removed().await;
    assert!(it.uploads().find(late).await.is_err());
}

#[tokio::test]
async fn some_removals_look_at_uploads_at_the_same_time_and_the_others_wait_for_them() {
    const REMOVALS: usize = 18;
    const MOST: usize = 16;
    let it = Fixture::new();
    for number in 0..501 {
        it.upload("bob", ASKED - 60, number).await;
    }
    let begin = async || {
        for number in 0..REMOVALS {
            it.begin(&removal(Some(&number.to_string()), RunsFate::Remove, Stage::LateUploads)).await;
        }
    };
    let open = async || it.removals.looks_at_uploads.lock().await.len();
    begin().await;
    assert_eq!((it.look().await.len(), open().await), (REMOVALS, MOST));
    it.until_removed().await;
    assert_eq!(open().await, 0);

    begin().await;
    assert_eq!((it.look().await.len(), open().await), (REMOVALS, MOST));
    for (id, text) in it.store.removals().removals_under_way().await.unwrap() {
        assert!(it.store.removals().move_removal(&id, Some(&text), None).await.unwrap());
    }
    assert_eq!((it.look().await.len(), open().await), (0, 0), "another process has done them");
}
