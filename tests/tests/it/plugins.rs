//! Plugins that are installed for all workers, as far as no worker is needed: packages, their ids and signatures, and the
//! credentials of their providers.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::workspace;

const ID: &str = "tidemill/many:0.1.0";
const PATH: &str = "/api/v1/plugins/tidemill%2Fmany:0.1.0";
const KEY: &str = "hush-never-to-be-seen";

struct Fleet {
    cluster: Cluster,
    scheduler: Scheduler,
}

impl Fleet {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let cluster = Cluster::start(settings, None).await;
        let scheduler = cluster.scheduler().await;
        Self { cluster, scheduler }
    }

    fn tidemill(&self, arguments: &[&str]) -> Output {
        let mut command = self.cluster.command("tidemill");
        command.args(arguments);
        command.env("TIDEMILL_URL", format!("http://{}", self.scheduler.address));
        command.env("TIDEMILL_KEY", ADMIN_KEY);
        command.output().expect("it starts")
    }

    fn add(&self, folder: &Path) -> Output {
        self.tidemill(&["plugins", "add", &folder.display().to_string(), "--yes"])
    }
}

fn many() -> PathBuf {
    workspace().join("plugins/tests/plugins/many")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_installed_once_under_its_id_and_removed_with_its_package() {
    let fleet = Fleet::start(&[]).await;
    let client = fleet.scheduler.client();
    for _ in 0..2 {
        let added = fleet.add(&many());
        assert!(added.status.success(), "{}", said(&added));
        assert!(said(&added).contains("asks to be allowed: may store 1024 bytes"), "{}", said(&added));
    }
    let shown = client.get(PATH).await.body;
    let package = format!("tm:plugin-package:{}", shown["sha256"].as_str().expect("a hash"));
    assert_eq!(fleet.cluster.redis.cli(&["TTL", &package]).trim(), "-1", "an entry names it");
    // The same package again stores it where it was lost.
    fleet.cluster.redis.cli(&["DEL", &package]);
    assert!(fleet.add(&many()).status.success());
    assert_eq!(fleet.cluster.redis.cli(&["TTL", &package]).trim(), "-1");
    // The record of a version that has read less from the package is written again.
    fleet.cluster.redis.cli(&["HSET", &format!("tm:plugin:{ID}"), "providers", "[]"]);
    assert_eq!(client.get(PATH).await.body["providers"], json!([]));
    assert!(fleet.add(&many()).status.success());
    assert_eq!(client.get(PATH).await.body["providers"], shown["providers"]);
    assert_eq!((&shown["id"], &shown["signature"]), (&json!(ID), &json!("unchecked")));
    assert_eq!(shown["providers"][0]["tools"].as_array().map(Vec::len), Some(5), "{shown}");
    assert_eq!(shown["workers"], json!([]));
    let listed = String::from_utf8(fleet.tidemill(&["plugins", "ls"]).stdout).expect("a text");
    assert!(listed.contains(ID) && listed.contains("0/0"), "{listed}");
    let details = String::from_utf8(fleet.tidemill(&["plugins", "show", ID]).stdout).expect("a text");
    assert!(details.contains(shown["sha256"].as_str().expect("a hash")), "{details}");

    let folder = tempfile::tempdir().expect("a folder");
    for name in ["manifest.yaml", "main.py", "requirements.txt"] {
        std::fs::copy(many().join(name), folder.path().join(name)).expect("it can be copied");
    }
    let broken = fleet.add(folder.path());
    assert!(!broken.status.success() && said(&broken).contains("cannot run"), "{}", said(&broken));
    let noise = client.send(client.request(reqwest::Method::POST, "/api/v1/plugins").body("no zip")).await;
    assert_eq!((noise.status, &noise.body["code"]), (400, &json!("invalid_param")), "{}", noise.text);

    assert!(fleet.tidemill(&["plugins", "rm", ID]).status.success());
    assert_eq!(client.get(PATH).await.status, 404);
    assert_eq!(fleet.cluster.redis.cli(&["KEYS", "tm:plugin*"]).trim(), "");

    // An invocation that outlived the removal has stored something: a new installation does not find it.
    let values = "tm:plugin-values:{tidemill/many}";
    fleet.cluster.redis.cli(&["HSET", values, "k:key", "61", "bytes", "105"]);
    assert!(fleet.add(&many()).status.success());
    assert_eq!(fleet.cluster.redis.cli(&["EXISTS", values]).trim(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_for_options_that_no_worker_answers_leaves_no_run() {
    let fleet = Fleet::start(&[("scheduler.wait_seconds_max", "1")]).await;
    let client = fleet.scheduler.client();
    assert!(fleet.add(&many()).status.success());
    let body = json!({"provider": "many", "tool": "say", "parameter": "text"});
    let answer = client.post(&format!("{PATH}/options"), &body).await;
    assert_eq!((answer.status, &answer.body["code"]), (504, &json!("not_answered")), "{}", answer.text);
    let (_, rest) =
        answer.body["message"].as_str().unwrap_or_default().split_once("the run ").expect("its id");
    let run = rest.split(' ').next().unwrap_or_default().to_owned();
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "stopped", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_are_bounded_and_must_be_signed_where_keys_are_set() {
    let small = Fleet::start(&[("plugins.package_bytes_max", "100")]).await;
    let refused = small.add(&many());
    assert!(said(&refused).contains("plugins.package_bytes_max"), "{}", said(&refused));
    let full = Fleet::start(&[("plugins.packages_bytes_max", "100")]).await;
    let refused = full.add(&many());
    assert!(said(&refused).contains("plugins.packages_bytes_max"), "{}", said(&refused));
    let signed = Fleet::start(&[("plugins.signing_keys", "key.pem")]).await;
    let unusable = signed.add(&many());
    assert!(said(&unusable).contains("plugins.signing_keys key.pem"), "{}", said(&unusable));
    let pem = "-----BEGIN RSA PUBLIC KEY-----\nMAA=\n-----END RSA PUBLIC KEY-----\n";
    std::fs::write(signed.cluster.logs().join("key.pem"), pem).expect("it can be written");
    let refused = signed.add(&many());
    assert!(said(&refused).contains("the signature of tidemill/many:0.1.0 is missing"), "{}", said(&refused));
    assert_eq!(signed.cluster.redis.cli(&["KEYS", "tm:plugin*"]).trim(), "", "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_fit_the_form_and_are_stored_sealed() {
    let fleet = Fleet::start(&[("scheduler.secret_key", "open sesame, open wide")]).await;
    let client = fleet.scheduler.client();
    let put = async |id: &str, body: Json| {
        let path = format!("/api/v1/plugin-credentials/{}", id.replace('/', "%2F"));
        client.send(client.request(reqwest::Method::PUT, &path).json(&body)).await
    };
    let provider = "tidemill/many/many";
    let early = put(provider, json!({"values": {"key": KEY}})).await;
    assert!(
        early.text.contains("no plugin tidemill/many with a provider many is installed"),
        "{}",
        early.text
    );
    assert!(fleet.add(&many()).status.success());
    let wrong = put(provider, json!({"values": {"kez": KEY}})).await;
    assert!(wrong.text.contains("no field kez; its fields: key"), "{}", wrong.text);
    let kept = put(provider, json!({"values": {"key": KEY}})).await;
    assert_eq!((kept.status, &kept.body["values"]["key"]), (201, &json!("***")), "{}", kept.text);
    let of_app = put(&format!("{provider}@some-app"), json!({"env": {"key": "MANY_KEY"}})).await;
    assert_eq!((of_app.status, &of_app.body["env"]["key"]), (201, &json!("MANY_KEY")), "{}", of_app.text);
    for entry in fleet.cluster.redis.everything().await {
        assert!(!entry.text.contains(KEY), "{}: {}", entry.key, entry.text);
    }
    assert!(!fleet.scheduler.process.log_text().contains(KEY));
    let keyless = Fleet::start(&[]).await;
    assert!(keyless.add(&many()).status.success());
    let keyless = keyless.scheduler.client();
    let path = "/api/v1/plugin-credentials/tidemill%2Fmany%2Fmany";
    let request = keyless.request(reqwest::Method::PUT, path).json(&json!({"values": {"key": KEY}}));
    let refused = keyless.send(request).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("secrets_unusable")),
        "{}",
        refused.text
    );
}
