//! The Python package that runs the cases: a program of its tests, which has an embedded engine and speaks as much of the
//! HTTP API as is needed here.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};
use tidemill_tests::binaries::binary;
use tidemill_tests::client::Client;
use tidemill_tests::workspace;

/// Names the Python to use.
const PYTHON: &str = "CONFORMANCE_PYTHON";

/// The program, and the file with its settings.
pub(crate) struct Python {
    child: Child,
    client: Client,
    file: PathBuf,
    /// True if a function in Python executes the nodes of the type `llm`.
    with_model: bool,
}

impl Python {
    /// Starts it.
    ///
    /// # Panics
    /// When it does not start.
    pub(crate) fn start(file: &Path, with_model: bool) -> Self {
        let (child, address) = spawn(file, with_model);
        Self { child, client: Client::new(&address, None).undescribed(), file: file.into(), with_model }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Begins again with a new engine, which reads the settings again and knows nothing of earlier cases.
    pub(crate) fn restart(&mut self) {
        self.end();
        let (child, address) = spawn(&self.file, self.with_model);
        self.child = child;
        self.client = Client::new(&address, None).undescribed();
    }

    /// Moves the clock past the end of a form.
    pub(crate) async fn expire(&self, pause: &Json) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let seconds = pause["expires_at"].as_f64().expect("the form expires") - now.as_secs_f64();
        let answer = self.client.post("/advance", &json!({"seconds": seconds.max(0.0) + 1.0})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }

    fn end(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(file: &Path, with_model: bool) -> (Child, String) {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let mut command = Command::new(python);
    command.arg(workspace().join("python/tests/conformance/serve.py")).arg(file);
    if with_model {
        command.arg("--llm");
    }
    // It ends when its standard input closes, so it ends with this process in any case.
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env("TIDEMILL_SECRET_KEY", "seals the secrets of the cases");
    command.env("TIDEMILL_CODE_HELPER", binary("tidemill"));
    let mut child = command.spawn().expect("Python starts");
    let mut said = BufReader::new(child.stdout.take().expect("it has an output"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it says something");
    let address = line.trim().strip_prefix("READY ").unwrap_or_else(|| panic!("it says {line:?}"));
    (child, address.to_owned())
}
