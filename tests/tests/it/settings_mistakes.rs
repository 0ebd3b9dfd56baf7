//! Mistakes in the settings: a missing quote, a value of the wrong type, a key in place of a variable's name. Each
//! program names the position of the mistake without the value, because its messages are logged.

use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::{LONG, until};

/// The beginning of every secret below.
const SECRET: &str = "LEAK";
/// A secret that is a number.
const NUMBER: &str = "7137137137137137";

/// Returns the log of a program that refuses these settings.
async fn refusal(cluster: &Cluster, program: &str, settings: &str) -> String {
    let file = cluster.logs().join("mistaken.toml");
    std::fs::write(&file, settings).expect("it can be written");
    let mut command = cluster.command(program);
    if program == "tidemill" {
        command.arg("doctor");
    }
    // The environment would replace the value of the file.
    command.arg("--config").arg(&file).env_remove("TIDEMILL_ADMIN_KEY");
    if settings.starts_with("[redis]") {
        command.env_remove("TIDEMILL_REDIS_URL");
    }
    // Another Tidemill on this machine may have the default addresses.
    command.env("TIDEMILL_WORKER_LISTEN", "127.0.0.1:0").env("TIDEMILL_SCHEDULER_LISTEN", "127.0.0.1:0");
    let mut process = cluster.spawn(program, command);
    until("it to give up", LONG, async || process.end().ok_or_else(|| process.tail())).await;
    process.log_text()
}

/// Checks that each program refuses the settings with these words, and without a secret.
async fn is_refused(cluster: &Cluster, programs: &[&str], settings: &str, told: &[&str]) {
    for program in programs {
        let said = refusal(cluster, program, settings).await;
        assert!(!said.contains(SECRET) && !said.contains(NUMBER), "{program}, {settings}: {said}");
        for part in told {
            assert!(said.contains(part), "{program}, {settings}: {part} is missing: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_in_the_settings_is_named_by_its_position_without_the_value() {
    let cluster = Cluster::start(&[("log.level", "trace"), ("log.format", "json")], None).await;
    let all = ["tidemill-scheduler", "tidemill-worker", "tidemill"];
    for (settings, told) in [
        ("[tools]\napi_key = \"LEAK-one\n", ["line 2, column ", "mistaken.toml"]),
        ("[scheduler]\nadmin_key = LEAK-eleven\n", ["line 2, column 13", "mistaken.toml"]),
        (
            "[scheduler]\nadmin_key = \"LEAK-0123456789\"\nadmin_key = \"LEAK-0123456789\"\n",
            ["line 3, column 1", "duplicate key"],
        ),
        ("[tools]\nheaders = \"Bearer LEAK\"\n", ["setting tools.headers in ", "string, expected a map"]),
        (
            "[tools.mcp.one]\ncommand = \"npx --token LEAK\"\n",
            ["setting tools.mcp.one.command in ", "string, expected a sequence"],
        ),
        (
            "[scheduler]\nsecret_key = 7137137137137137\n",
            ["setting scheduler.secret_key in ", "integer, expected a string"],
        ),
        ("[knowledge.datasets]\none = \"LEAK\"\n", ["setting knowledge.datasets.one in ", "string"]),
        ("scheduler = \"LEAK\"\n", ["setting scheduler in ", "string"]),
        ("[providers]\nopenai = \"LEAK\"\n", ["setting providers.openai in ", "string, expected a map"]),
    ] {
        is_refused(&cluster, &all, settings, &told).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_that_only_a_worker_reads_is_named_without_the_value() {
    let cluster = Cluster::start(&[("log.level", "trace"), ("log.format", "json")], None).await;
    for (settings, told) in [
        ("[providers.own]\nheaders = \"Bearer LEAK\"\n", ["[providers.own]: headers: ", "expected a map"]),
        ("[providers.own]\napi_key = 7137137137137137\n", ["[providers.own]: api_key: ", "integer"]),
        ("[profiles.own]\nheaders = \"Bearer LEAK\"\n", ["[profiles.own]", "string, expected a map"]),
        ("[profiles.own]\napiKey = 7137137137137137\n", ["[profiles.own]", "integer"]),
        (
            "[knowledge.datasets.one]\nendpoint = \"http://127.0.0.1:1\"\nknowledge_id = \"k\"\napi_key_env = \"sk-LEAK\"\n",
            ["api_key_env", "the environment variable *** is not set"],
        ),
        (
            "[tools.mcp.one]\nurl = \"http://127.0.0.1:1/\"\nheaders_env = { Authorization = \"Bearer-LEAK\" }\n",
            ["headers_env", "the environment variable *** is not set"],
        ),
        ("[files]\nurl = \"ftp://LEAK:LEAK@host/LEAK\"\n", ["files.url", "ftp://***@host/***"]),
        ("[tools]\nendpoint = \"LEAK LEAK\"\n", ["tools.endpoint", "URL"]),
        ("[tools.mcp.one]\nurl = \"https://LEAK:LEAK@host/\"\n", ["url", "as a header"]),
        ("[http]\nproxy = \"LEAK:LEAK@host\"\n", ["http.proxy", "***@host"]),
        ("[redis]\nurl = \"redis:/LEAK:LEAK@host\"\n", ["redis.url", "***@host"]),
    ] {
        is_refused(&cluster, &["tidemill-worker"], settings, &told).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_path_of_an_address_is_not_in_the_settings_that_are_logged() {
    let settings = r#"
[files]
url = "s3://bucket/prefix"
region = "r"
endpoint = "http://127.0.0.1:1"
[code]
endpoint = "http://127.0.0.1:1/LEAK"
[documents]
unstructured_url = "http://127.0.0.1:1/LEAK"
[http]
proxy = "http://127.0.0.1:1/LEAK"
[tools]
endpoint = "http://127.0.0.1:1/LEAK"
[tools.mcp.one]
url = "http://127.0.0.1:1/LEAK/sse"
[tools.api.two]
server = "http://127.0.0.1:1/LEAK"
[knowledge.datasets.three]
endpoint = "http://127.0.0.1:1/LEAK"
knowledge_id = "k"
"#;
    let cluster = Cluster::start(&[("log.level", "info"), ("log.format", "json")], None).await;
    let file = cluster.logs().join("paths.toml");
    std::fs::write(&file, settings).expect("it can be written");
    let scheduler = cluster.scheduler_with(&["--config", file.to_str().expect("paths are text")]).await;
    let said = scheduler.process.log_text();
    assert!(!said.contains(SECRET), "{said}");
    assert!(said.contains("http://127.0.0.1:1/***") && said.contains("s3://bucket/prefix"), "{said}");
}
