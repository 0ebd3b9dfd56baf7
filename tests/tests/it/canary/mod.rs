//! Canaries: secrets that must not appear anywhere. The tests make every part that uses them fail, and then search
//! everything that people can read: logs at `trace`, answers of both APIs, output of commands, metrics, and every key
//! of Redis.

mod cases;
mod dead;
mod derived;
mod nodes;
mod settings;
mod workflows;

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::OnceLock;

use serde_json::Value as Json;
use tidemill_tests::check::Transcript;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::redis::{Entry, Redis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const PAGE: &str = include_str!("../../../../docs/redis.md");
/// The section of that page about values that were built from secrets.
const PLACES: &str = "## Where values are stored in plain text";
/// Prefixes of the fields of a run's state in which that section allows such values.
const FIELDS: [&str; 5] = ["v:", "n:", "c:", "r:", "f:"];

/// A secret, by the texts that reveal it.
#[derive(Debug, Clone)]
struct Canary {
    /// A part of the secret that is the same in every spelling, and its forms in base64.
    shows: Vec<String>,
}

impl Canary {
    /// `part` must not contain anything that is escaped or quoted.
    fn of(part: &str) -> Self {
        let base64 = (0..3).map(|before| in_base64(before, part));
        Self { shows: std::iter::once(part.to_owned()).chain(base64).collect() }
    }

    /// Returns the first place where a text reveals it, with some context.
    fn seen_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        let at = self.shows.iter().filter_map(|part| text.find(part.as_str())).min()?;
        Some(&text[text.floor_char_boundary(at.saturating_sub(300))..text.ceil_char_boundary(at + 80)])
    }
}

/// The base64 letters that depend only on the text, when `before` bytes precede it.
fn in_base64(before: usize, text: &str) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(text.bytes()).collect();
    let bit = |at: usize| (bytes[at / 8] >> (7 - at % 8)) & 1;
    let letter = |nth: usize| (0..6).fold(0, |sum, at| (sum << 1) | usize::from(bit(nth * 6 + at)));
    ((before * 8).div_ceil(6)..bytes.len() * 8 / 6).map(|nth| char::from(LETTERS[letter(nth)])).collect()
}

/// Texts that people can read, with their source.
#[derive(Debug, Default)]
struct VisibleTexts(Vec<(String, String)>);

impl VisibleTexts {
    fn add(&mut self, what: impl Into<String>, text: impl Into<String>) {
        self.0.push((what.into(), text.into()));
    }

    async fn get(&mut self, client: &Client, path: &str) {
        self.add(path, client.get(path).await.text);
    }

    /// Adds everything that the API shows of a run, and returns its events.
    async fn run(&mut self, client: &Client, run: &str) -> Transcript {
        for view in ["", "/history", "/history?view=se", "/rt", "/snapshot", "/pauses", "/messages/main"] {
            self.get(client, &format!("/api/v1/runs/{run}{view}")).await;
        }
        let told = client.follow(run, None).await.to_the_end().await;
        self.add(format!("events of {run}"), format!("{:?}", told.events));
        let dialect = format!("/api/v1/runs/{run}/events?dialect=step");
        let mut stream = client.open(client.request(reqwest::Method::GET, &dialect)).await;
        while let Some(message) = stream.next().await {
            self.add(&dialect, format!("{message:?}"));
        }
        told
    }

    /// Adds all lists of the API.
    async fn lists(&mut self, client: &Client) {
        for path in [
            "apps",
            "runs?limit=100",
            "keys",
            "triggers",
            "providers",
            "profiles",
            "library",
            "calls",
            "services",
            "datasources",
            "knowledge",
            "dead?limit=100",
        ] {
            self.get(client, &format!("/api/v1/{path}")).await;
        }
        let dead = client.get("/api/v1/dead?limit=100").await.body;
        for letter in dead["data"].as_array().into_iter().flatten() {
            self.get(client, &format!("/api/v1/dead/{}", letter["id"].as_str().expect("an id"))).await;
        }
        self.get(&client.with_key(None), "/metrics").await;
    }

    /// Adds the output of a command.
    async fn command(&mut self, cluster: &Cluster, address: &str, arguments: &[&str]) {
        let mut command = cluster.command("tidemill");
        command
            .args(arguments)
            .env("TIDEMILL_URL", format!("http://{address}"))
            .env("TIDEMILL_KEY", ADMIN_KEY);
        command.stdin(Stdio::null());
        let done = tokio::task::spawn_blocking(move || command.output().expect("it starts")).await;
        let done = done.expect("it does not panic");
        let text = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        self.add(format!("tidemill {}", arguments.join(" ")), text.concat());
    }

    /// Adds the logs of all processes.
    fn logs(&mut self, cluster: &Cluster) {
        for file in std::fs::read_dir(cluster.logs()).expect("the folder exists").flatten() {
            if file.path().extension().is_some_and(|end| end == "log") {
                let bytes = std::fs::read(file.path()).expect("a log can be read");
                self.add(file.path().display().to_string(), String::from_utf8_lossy(&bytes));
            }
        }
    }

    /// Adds all of Redis except the entries that `may` allows.
    async fn redis(&mut self, redis: &Redis, may: impl Fn(&Entry) -> bool) {
        for entry in redis.everything().await.into_iter().filter(|entry| !may(entry)) {
            self.add(format!("{} {}", entry.key, entry.field), entry.text);
        }
    }

    /// # Panics
    /// If one of them appears.
    #[track_caller]
    fn has_none_of(&self, canaries: &[&Canary]) {
        let mut places = BTreeSet::new();
        for (what, text) in &self.0 {
            let seen = canaries.iter().filter_map(|canary| canary.seen_in(text));
            places.extend(seen.map(|around| format!("{what}:\n    … {around} …")));
        }
        let shown: Vec<String> = places.iter().take(30).cloned().collect();
        assert!(places.is_empty(), "{} places:\n{}", places.len(), shown.join("\n"));
    }
}

/// Returns true where docs/redis.md allows values that were built from a secret.
fn may_hold_values(entry: &Entry) -> bool {
    static KEYS: OnceLock<Vec<String>> = OnceLock::new();
    let keys = KEYS.get_or_init(|| {
        let section =
            PAGE.split(PLACES).nth(1).and_then(|rest| rest.split("\n## ").next()).expect("it exists");
        let rows =
            section.lines().filter(|line| line.starts_with("| `") && !line.contains("of sub-workflow runs"));
        let named = rows.flat_map(|row| row.split('|').nth(1).expect("a cell").split('`').skip(1).step_by(2));
        named.map(str::to_owned).collect()
    });
    assert_eq!(keys.len(), 6, "{PLACES} names other keys than this test expects: {keys:?}");
    keys.iter().any(|form| is_of_form(&entry.key, form))
        && (!entry.key.ends_with(":state") || FIELDS.iter().any(|begin| entry.field.starts_with(begin)))
}

/// Compares a key with a form in which `{n}` is a shard and a name in `<>` is any part.
fn is_of_form(key: &str, form: &str) -> bool {
    let (key, form): (Vec<&str>, Vec<&str>) = (key.split(':').collect(), form.split(':').collect());
    let fits = |(part, form): (&&str, &&str)| {
        form.starts_with('<') || *form == "{n}" && part.starts_with('{') || part == form
    };
    key.len() == form.len() && key.iter().zip(&form).all(fits)
}

/// Starts a server that answers every request with this status and the whole request, in the error formats of models,
/// tools and Calls. It stops with its runtime.
async fn mirror(status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut request, mut piece) = (Vec::new(), [0; 4096]);
                while !is_whole(&request) {
                    match stream.read(&mut piece).await {
                        Ok(read @ 1..) => request.extend_from_slice(&piece[..read]),
                        Ok(0) | Err(_) => return,
                    }
                }
                let said = String::from_utf8_lossy(&request).into_owned();
                let body = serde_json::json!({"error": {"message": said, "type": said}, "message": said, "err_msg": said,
                    "data": {"said": said, said.as_str(): 1}})
                .to_string();
                let head = format!(
                    "HTTP/1.1 {status} Mirrored\r\ncontent-type: application/json\r\nconnection: close\r\n\
                    x-mirrored: {}\r\ncontent-length: {}\r\n\r\n",
                    said.lines().next().unwrap_or_default(),
                    body.len()
                );
                drop(stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await);
            });
        }
    });
    format!("http://{address}")
}

/// Returns true if the request is complete.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return request.ends_with(b"0\r\n\r\n");
    }
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let head = request.windows(4).position(|four| four == b"\r\n\r\n").expect("it exists") + 4;
    request.len() >= head + length.unwrap_or(0)
}

/// A workflow file with these secrets in its environment.
fn with_secrets(mut document: Json, secrets: &[(&str, &str)]) -> Json {
    let variable = |(name, value): &(&str, &str)| serde_json::json!({"id": name, "name": name, "value_type": "secret", "value": value, "description": ""});
    document["workflow"]["environment_variables"] = secrets.iter().map(variable).collect();
    document
}

#[test]
fn a_canary_is_found_in_every_base64_text_that_contains_it() {
    let canary = Canary::of("seen0123456789");
    // `u:seen0123456789`, with one and with two bytes before it.
    for encoded in ["dTpzZWVuMDEyMzQ1Njc4OQ==", "OnNlZW4wMTIzNDU2Nzg5", "c2VlbjAxMjM0NTY3ODk="] {
        assert!(canary.seen_in(encoded).is_some(), "{encoded}: {canary:?}");
    }
    assert_eq!(canary.seen_in("unseen 0123456789"), None);
}
