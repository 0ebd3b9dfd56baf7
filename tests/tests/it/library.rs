//! What is kept for calls, from the command that keeps it to the keys that hold it.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};

const MARKER: &str = "marker-never-to-be-seen";

async fn tidemill(cluster: &Cluster, scheduler: &Scheduler, arguments: &[&str], input: &str) -> Output {
    let mut command = cluster.command("tidemill");
    command.args(arguments).env("TIDEMILL_URL", format!("http://{}", scheduler.address));
    command.env("TIDEMILL_KEY", ADMIN_KEY);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("it starts");
        // Who needs no input may be gone before it is written.
        let _ = child.stdin.take().expect("it was asked for").write_all(input.as_bytes());
        child.wait_with_output().expect("it ends")
    });
    done.await.expect("it does not panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a01_what_is_kept_lies_in_redis_as_it_was_written_and_without_secrets() {
    let cluster = Cluster::start(&[("scheduler.secret_key", "open sesame")], None).await;
    let scheduler = cluster.scheduler().await;
    let well = async |arguments: &[&str], input: &str| {
        let output = tidemill(&cluster, &scheduler, arguments, input).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        let shown = String::from_utf8(output.stdout).expect("a text");
        assert!(!said.contains(MARKER) && !shown.contains(MARKER), "{said}{shown}");
        shown
    };
    let badly = async |arguments: &[&str]| {
        let output = tidemill(&cluster, &scheduler, arguments, "").await;
        assert!(!output.status.success(), "{arguments:?} went well");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    well(&["services", "add", "svc", "--set", "server=http://svc"], "").await;
    let known = r#"{"url":"http://svc/weather","method":"get","query":{"unit":"C"}}"#;
    let (known_params, name) = (format!("knownParams={known}"), r#"name={"zh":"天气","en":"Weather"}"#);
    let mut arguments = vec!["library", "add", "n1", "--set", "callId=API", "--set", &known_params];
    arguments.extend(["--set", name, "--set", "service_id=svc"]);
    well(&arguments, "").await;
    let table = well(&["library", "ls"], "").await;
    assert!(table.contains("天气 / Weather") && table.contains("svc"), "{table}");
    let stored: String = cluster.redis.ask(&["HGET", "tm:library:n1", "knownParams"]).await;
    assert_eq!(stored, known);

    let db = ["datasources", "add", "db", "--set", "host=h", "--set", "username=u", "--set", "database=d"];
    well(&[&db[..], &["--secret-stdin", "password"]].concat(), MARKER).await;
    let shown: Json =
        serde_json::from_str(&well(&["datasources", "show", "db", "--json"], "").await).expect("JSON");
    assert_eq!((&shown["password"], &shown["database"]), (&json!("***"), &json!("d")));
    well(&["datasources", "add", "db", "--update", "--set", "port=5433"], "").await;
    let sealed: String = cluster.redis.ask(&["HGET", "tm:datasource:db", "password"]).await;
    assert!(sealed.starts_with("sealed:v1:"), "{sealed}");

    let error = badly(&["services", "rm", "svc"]).await;
    assert!(error.contains("used by library (n1)"), "{error}");
    well(&["services", "rm", "svc", "--force"], "").await;
    well(&["library", "rm", "n1"], "").await;
    assert!(badly(&["library", "show", "n1"]).await.contains("there is no library node n1"));
    let manifest = ["calls", "add", "greet", "--set", "operations=[\"init\"]", "--set", "streaming=true"];
    let error = badly(&manifest).await;
    assert!(error.contains("Call greet does not meet the Call standard"), "{error}");
}
