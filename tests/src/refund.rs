//! The example in which all that goes beyond Dify meets (`examples/refund`): what it talks to, what it is answered, and what
//! must come of it whoever dies meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::Method;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tidemill_mock_llm::Running;

use crate::client::Client;
use crate::llm;
use crate::outside::Outside;

/// Makes what somebody answers.
type Answer = fn() -> Json;

/// The workflow, as it is shown to users.
pub const WORKFLOW: &str = include_str!("../../examples/refund/refund.yml");
/// What a person says for each of its pauses, in their order: (kind, answer).
pub const ANSWERS: [(&str, Answer); 3] = [
    ("params", || json!({"query": {"country": "no"}})),
    ("confirm", || json!(true)),
    ("user_interaction", || json!({"approved": true, "comment": "of course"})),
];
/// How often a model is asked: by the node with a profile, by the extraction, and twice for what is missing.
pub const MODEL_CALLS: usize = 4;
/// What the carrier is asked.
pub const ASKED: &str = "/parcels?order=A17&country=no";
/// Nodes of the run that end well, the one inside another included.
pub const NODES: [&str; 9] =
    ["start", "read", "shorten", "parcel_ext_1", "parcel_slot", "parcel", "pay", "order", "paid"];

/// A model, a carrier and a shop's database.
#[derive(Debug)]
pub struct Refund {
    /// The model.
    pub model: Running,
    /// The carrier.
    pub outside: Outside,
    folder: TempDir,
}

impl Refund {
    /// Starts them.
    ///
    /// # Panics
    /// When there is no room, or no Python, which tests need anyway.
    pub async fn start() -> Self {
        let model = llm::rules(json!([
            {"match": {"system_contains": "missing parameters"}, "reply": "{}", "usage": {"prompt_tokens": 7, "completion_tokens": 1}},
            {"match": {"system_contains": "JSON schema"}, "reply": "{}", "usage": {"prompt_tokens": 7, "completion_tokens": 1}},
            {"match": {"contains": "Which order is it?"}, "reply": "A17", "usage": {"prompt_tokens": 20, "completion_tokens": 2}},
            {"match": {"contains": "A customer of our shop writes"}, "reply": "Order A17 is lost.", "usage": {"prompt_tokens": 10, "completion_tokens": 5}},
        ]));
        let (model, outside) = (model.await, Outside::start().await);
        let folder = tempfile::tempdir().expect("there is room");
        let refund = Self { model, outside, folder };
        let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
                      c.executescript('create table orders (id text, customer text, total integer); ' \
                      'insert into orders values (\"A17\", \"Ada\", 40), (\"B2\", \"Grace\", 12)')";
        let made = Command::new("python3").args(["-c", script, &refund.database()]).status();
        assert!(made.expect("python3 is installed").success());
        refund
    }

    fn database(&self) -> String {
        self.folder.path().join("orders.db").display().to_string()
    }

    /// Keeps what the workflow names: the default profile and the datasource.
    ///
    /// # Panics
    /// When one of them is refused.
    pub async fn keep(&self, client: &Client) {
        keep(client, &self.model, &self.database()).await;
    }

    /// What a run of it is submitted with.
    pub fn submission(&self) -> Json {
        let inputs = json!({"letter": "Order A17 never came", "carrier": self.outside.base_url});
        json!({"workflow": WORKFLOW, "inputs": inputs, "user": "tester"})
    }

    /// What comes of it.
    pub fn outputs() -> Json {
        json!({
            "read": "Order A17 is lost.", "kept": 2, "parcel": {"state": "lost"}, "approved": true,
            "order": [{"id": "A17", "customer": "Ada", "total": 40}],
        })
    }
}

/// Keeps what the workflow names: a default profile of this model, and this file as the shop's orders.
///
/// # Panics
/// When one of them is refused.
pub async fn keep(client: &Client, model: &Running, database: &str) {
    let profile = json!({"name": "default", "provider": "acme", "model": "m", "default": true});
    let datasource = json!({"database_type": "sqlite", "database": database});
    for (path, entry) in [
        ("providers/acme", json!({"base_url": model.base_url()})),
        ("profiles/default", profile),
        ("datasources/shop", datasource),
    ] {
        let request = client.request(Method::PUT, &format!("/api/v1/{path}"));
        let request = request.header("content-type", "application/json").body(entry.to_string());
        let answer = client.send(request).await;
        assert!([200, 201].contains(&answer.status), "{path}: {}", answer.text);
    }
}

/// The desk that users start (`examples/refund/desk.py`), in a folder and on a port of its own.
#[derive(Debug)]
pub struct Desk {
    process: Child,
    /// Where its carrier is.
    pub carrier: String,
    folder: TempDir,
}

impl Desk {
    /// Starts it.
    ///
    /// # Panics
    /// When there is no Python, or it says something else than where it is.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let desk = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/refund/desk.py");
        let mut command = Command::new("python3");
        command.args([desk, "0"]).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("python3 is installed");
        let mut line = String::new();
        let out = process.stdout.take().expect("it was asked for");
        BufReader::new(out).read_line(&mut line).expect("it says something");
        let said = line.split_once(" is at ").and_then(|(_, rest)| rest.split_once(','));
        let carrier = said.unwrap_or_else(|| panic!("it says {line:?}")).0.to_owned();
        Self { process, carrier, folder }
    }

    /// The file with the orders.
    pub fn database(&self) -> String {
        self.folder.path().join("refund-orders.db").display().to_string()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // One that is gone already needs nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
