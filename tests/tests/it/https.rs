//! The API over TLS: streams, the command line, clients that do not speak it, and a certificate that is renewed.

use reqwest::tls::TlsInfo;
use serde_json::json;
use tidemill_tests::certificates::Certificates;
use tidemill_tests::check::answered;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

const CERTIFICATE: &str = "scheduler.tls_certificate_file";
const KEY: &str = "scheduler.tls_key_file";

fn secured(scheduler: &Scheduler, certificates: &Certificates) -> Client {
    Client::secured(&scheduler.address, Some(ADMIN_KEY), &certificates.file("ca.pem"))
}

/// The certificate that the scheduler shows.
async fn shown(client: &Client) -> Vec<u8> {
    let answer = client.request(reqwest::Method::GET, "/livez").send().await.expect("it answers");
    let info = answer.extensions().get::<TlsInfo>().expect("it was TLS");
    info.peer_certificate().expect("a certificate").to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_submitted_followed_and_shown_over_tls() {
    let certificates = Certificates::make();
    let (certificate, key) = (certificates.file("server.pem"), certificates.file("server.key"));
    // More than the buffers of TLS and of the sockets hold.
    let pieces: Vec<String> = (0..400).map(|n| format!("<{n}>{}", "x".repeat(8_000))).collect();
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 0).await;
    let cluster = Cluster::start(&[(CERTIFICATE, &certificate), (KEY, &key)], Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = secured(&scheduler, &certificates);

    let run = client.start(&Flow::new("start -> llm -> answer"), &[]).await;
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    assert_eq!(told.text(), pieces.concat());
    answered(&client.ended(&run).await, &pieces.concat());

    let mut command = cluster.command("tidemill");
    command.args(["ps", "--url", &format!("https://{}", scheduler.address), "--key", ADMIN_KEY]);
    let listed = command.env("SSL_CERT_FILE", certificates.file("ca.pem")).output().expect("it starts");
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(
        listed.status.success() && text.contains(&run),
        "{text} {}",
        String::from_utf8_lossy(&listed.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_speaks_plain_http_is_told_to_use_https() {
    let certificates = Certificates::make();
    let (certificate, key) = (certificates.file("server.pem"), certificates.file("server.key"));
    let cluster = Cluster::start(&[(CERTIFICATE, &certificate), (KEY, &key)], None).await;
    let scheduler = cluster.scheduler().await;
    // The answer also reaches a client that is still sending.
    let large = "x".repeat(4 << 20);
    let told = scheduler.client().post("/v1/chat-messages", &json!({"query": large})).await;
    assert_eq!((told.status, &told.body["code"]), (400, &json!("https_only")), "{}", told.text);
    let told = scheduler.client().undescribed().get("/livez").await;
    assert_eq!((told.status, &told.body["code"]), (400, &json!("https_only")), "{}", told.text);
    assert_eq!(secured(&scheduler, &certificates).get("/livez").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let certificates = Certificates::make();
    let (certificate, key) = (certificates.file("server.pem"), certificates.file("server.key"));
    let settings = [(CERTIFICATE, certificate.as_str()), (KEY, &key), ("scheduler.tls_check_seconds", "1")];
    let cluster = Cluster::start(&settings, None).await;
    let mut scheduler = cluster.scheduler().await;
    let client = secured(&scheduler, &certificates);
    let first = shown(&client).await;

    certificates.write("server.key", "this is not a key".into());
    let said = scheduler.process.wait_for_log("the renewed certificate cannot be used").await.to_string();
    assert!(said.contains("scheduler.tls_key_file") && !said.contains("this is not a key"), "{said}");
    assert_eq!(shown(&client).await, first);

    certificates.renew();
    until("the new certificate to be used", LONG, async || {
        let now = shown(&client).await;
        if now == first { Err("the first one".to_string()) } else { Ok(()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_cannot_be_used_names_its_setting_at_the_start() {
    let certificates = Certificates::make();
    let (certificate, key) = (certificates.file("server.pem"), certificates.file("client.key"));
    for (settings, expected) in [
        (vec![(CERTIFICATE, certificate.as_str())], KEY),
        (vec![(CERTIFICATE, "/nowhere/server.pem"), (KEY, &key)], "/nowhere/server.pem"),
        (vec![(CERTIFICATE, &certificate), (KEY, &key)], "client.key"),
    ] {
        let cluster = Cluster::start(&settings, None).await;
        let mut command = cluster.command("tidemill-scheduler");
        let output = command.args(["--listen", "127.0.0.1:0"]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        // Another line has the settings.
        let lines = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let failed = |line: serde_json::Value| line["error"].as_str().map(str::to_owned);
        let error = lines.filter_map(failed).next_back().unwrap_or_default();
        assert!(!output.status.success() && error.contains(expected), "{expected}: {said}");
    }
}
