//! The example that combines everything beyond Dify (`examples/refund`): the servers that it uses, the answers of
//! people, and the outputs that it must have, whichever processes die meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::Method;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tidemill_mock_llm::Running;

use crate::client::Client;
use crate::llm;
use crate::outside::Outside;

/// Makes an answer.
type Answer = fn() -> Json;

/// The workflow file that users see.
pub const WORKFLOW: &str = include_str!("../../examples/refund/refund.yml");
/// A person's answers to its pauses, in their order: (kind, answer).
pub const ANSWERS: [(&str, Answer); 3] = [
    ("params", || json!({"query": {"country": "no"}})),
    ("confirm", || json!(true)),
    ("user_interaction", || json!({"approved": true, "comment": "of course"})),
];
/// The number of calls to models: one by the node with a profile, one by the extraction, and two for missing values.
pub const MODEL_CALLS: usize = 4;
/// The request to the carrier.
pub const ASKED: &str = "/parcels?order=A17&country=no";
/// Nodes of the run that succeed, including the one inside another node.
pub const NODES: [&str; 9] =
    ["start", "read", "shorten", "parcel_ext_1", "parcel_slot", "parcel", "pay", "order", "paid"];

/// A model, a carrier and the database of a shop.
#[derive(Debug)]
pub struct Refund {
    pub model: Running,
    pub outside: Outside,
    folder: TempDir,
}

impl Refund {
    /// Starts the servers.
    ///
    /// # Panics
    /// When a temporary folder cannot be made, or Python is missing.
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

    /// Registers what the workflow uses: the default profile and the datasource.
    ///
    /// # Panics
    /// When one of them is refused.
    pub async fn keep(&self, client: &Client) {
        keep(client, &self.model, &self.database()).await;
    }

    /// The request that submits it.
    pub fn submission(&self) -> Json {
        let inputs = json!({"letter": "Order A17 never came", "carrier": self.outside.base_url});
        json!({"workflow": WORKFLOW, "inputs": inputs, "user": "tester"})
    }

    /// The expected outputs.
    pub fn outputs() -> Json {
        json!({
            "read": "Order A17 is lost.", "kept": 2, "parcel": {"state": "lost"}, "approved": true,
            "order": [{"id": "A17", "customer": "Ada", "total": 40}],
        })
    }
}

/// Registers what the workflow uses: a default profile of this model, and this file as the orders of the shop.
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

/// The program of the example (`examples/refund/desk.py`), with its own folder and port.
#[derive(Debug)]
pub struct Desk {
    process: Child,
    /// The address of its carrier.
    pub carrier: String,
    folder: TempDir,
}

impl Desk {
    /// Starts it.
    ///
    /// # Panics
    /// When Python is missing, or it does not print its address.
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
        // Fails only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
