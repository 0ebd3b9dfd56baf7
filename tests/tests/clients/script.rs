//! Runs the script of one client and reads its report.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::Client;
use crate::apps::Served;
use crate::install::{self, Kind};
use crate::outcome::{Line, Outcome, Verdict};

/// Runs a client's script to its end.
///
/// # Panics
/// When it cannot be installed or started, or ends with an error before its report is whole.
pub(crate) async fn run(client: &Client, served: &mut Served) -> Outcome {
    let report = served.folder().join(format!("{}.report", client.script));
    let mut command = match client.kind {
        Kind::Python => {
            let mut command = Command::new(install::python(client.name));
            command.arg(install::sources().join(format!("python/{}.py", client.script)));
            command
        }
        Kind::Node | Kind::Browser => {
            let mut command = Command::new("node");
            command.arg(install::node().join(format!("{}.mjs", client.script)));
            command
        }
    };
    if client.kind == Kind::Browser {
        command.env("TIDEMILL_CHROMIUM", install::chromium());
    }
    given(&mut command, served, &report, client.script);
    let mut child = command.kill_on_drop(true).spawn().expect("the interpreter is installed");
    let mut input = child.stdin.take().expect("the script has an input");
    let mut output = BufReader::new(child.stdout.take().expect("the script has an output")).lines();
    while let Some(line) = output.next_line().await.expect("the output of a script is text") {
        if line == "restart-scheduler" {
            served.restart_scheduler().await;
            input.write_all(b"done\n").await.expect("the script waits for this");
        }
    }
    let status = child.wait().await.expect("a child can be waited for");
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line of a report"));
    let mut lines: Vec<Line> = lines.collect();
    if !status.success() {
        let note = format!("the script ends with {status}");
        lines.push(Line { method: "the script".into(), result: Verdict::Fails, note });
    }
    Outcome { name: client.name.into(), version: version(client), lines }
}

/// Gives a script the address, the keys and files to upload.
fn given(command: &mut Command, served: &Served, report: &Path, user: &str) {
    let paper = served.folder().join("paper.txt");
    let speech = served.folder().join("speech.mp3");
    std::fs::write(&paper, "stones and water\n").expect("the folder of the cluster can be written");
    // The header of an MP3 and silence: the mock model does not listen.
    std::fs::write(&speech, [b"ID3\x04\x00\x00\x00\x00\x00\x00".as_slice(), &[0; 512]].concat())
        .expect("the folder of the cluster can be written");
    command.env("TIDEMILL_V1", served.v1()).env("TIDEMILL_REPORT", report).env("TIDEMILL_USER", user);
    command.env("TIDEMILL_PAPER", paper).env("TIDEMILL_SPEECH", speech);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    for (app, key) in &served.keys {
        command.env(format!("TIDEMILL_KEY_{}", app.to_uppercase()), key);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
}

/// The version that is pinned.
fn version(client: &Client) -> String {
    let pins = match client.kind {
        Kind::Python => {
            let path = install::sources().join(format!("requirements/{}.txt", client.name));
            std::fs::read_to_string(path).expect("the pins of a client can be read")
        }
        Kind::Node => {
            let path = install::sources().join("node/package.json");
            std::fs::read_to_string(path).expect("the pins of Node can be read")
        }
        Kind::Browser => return "(Debian's)".into(),
    };
    let name = client.name.trim_end_matches(" (npm)");
    let of = |line: &str| -> Option<String> {
        let line = line.trim().trim_start_matches('"');
        let rest = line.strip_prefix(name)?.trim_start_matches(['"', ':', ' ', '=']);
        rest.starts_with(|c: char| c.is_ascii_digit()).then(|| rest.trim_matches(['"', ',']).to_owned())
    };
    pins.lines().find_map(of).unwrap_or_default()
}
