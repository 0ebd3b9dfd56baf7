//! Runs clients of Dify's service API that others wrote, unmodified, against a fleet with a mock model: from PyPI, from
//! npm, and a browser. Each has a script that calls its methods and reports one line for each. It prints a table; a run
//! of all clients writes it into docs/compatibility.md. It fails if a method fails that works on Dify.
//!
//! `CLIENTS="dify-client …"` runs some clients only. Clients are installed into the target folder, at the versions that
//! `requirements/` and `node/package-lock.json` pin.
#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

mod apps;
mod install;
mod outcome;
mod script;
mod table;

use std::process::ExitCode;

use tidemill_tests::llm;

use apps::Served;
use install::Kind;
use outcome::Outcome;

/// A client: its name on the registry, the kind of its script, and the script's name without its ending.
struct Client {
    name: &'static str,
    kind: Kind,
    script: &'static str,
}

const CLIENTS: &[Client] = &[
    Client { name: "dify-client", kind: Kind::Python, script: "dify_client_official" },
    Client { name: "dify-python-sdk", kind: Kind::Python, script: "dify_python_sdk" },
    Client { name: "dify-client-python", kind: Kind::Python, script: "dify_client_python" },
    Client { name: "dify-api-client", kind: Kind::Python, script: "dify_api_client" },
    Client { name: "dify-sdk", kind: Kind::Python, script: "dify_sdk" },
    Client { name: "pydify", kind: Kind::Python, script: "pydify_client" },
    Client { name: "dify-oapi2", kind: Kind::Python, script: "dify_oapi2" },
    Client { name: "dify-client (npm)", kind: Kind::Node, script: "dify_client" },
    Client { name: "dify-ai-provider", kind: Kind::Node, script: "dify_ai_provider" },
    Client { name: "Chromium", kind: Kind::Browser, script: "browser" },
];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let wanted = std::env::var("CLIENTS").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split([' ', ',']).filter(|name| !name.is_empty()).collect();
    let is_wanted = |client: &&Client| wanted.is_empty() || wanted.contains(&client.name);
    let clients: Vec<&Client> = CLIENTS.iter().filter(is_wanted).collect();
    if clients.len() < wanted.len() {
        let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        println!("CLIENTS={wanted:?} names an unknown client; these exist: {names:?}");
        return ExitCode::FAILURE;
    }
    let model = llm::rules(apps::model_rules()).await;
    let mut served = Served::start(&model).await;
    let mut outcomes = Vec::new();
    for client in clients {
        let outcome = script::run(client, &mut served).await;
        print!("{}", table::details(&outcome));
        outcomes.push(outcome);
    }
    println!("{}", table::markdown(&outcomes));
    if wanted.is_empty() {
        table::write(&outcomes);
    }
    let failed: usize = outcomes.iter().map(Outcome::failures).sum();
    println!("{failed} methods fail that work on Dify");
    ExitCode::from(u8::from(failed > 0))
}
