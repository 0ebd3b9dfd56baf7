//! The other servers of one case: `mock_server.py`, in a separate process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use tidemill_tests::workspace;

/// A running mock; it ends when this is dropped.
pub(crate) struct Mock {
    child: Child,
    _said: BufReader<ChildStdout>,
    /// `http://host:port`
    pub(crate) base_url: String,
}

impl Mock {
    /// Starts a mock for a case; its counters begin at zero.
    ///
    /// # Errors
    /// When Python is missing, or the mock does not report that it is ready.
    pub(crate) fn start(case: &Path) -> Result<Self, String> {
        let mut command = Command::new("python3");
        command.arg(workspace().join("tests/conformance/mock_server.py")).arg("--case").arg(case);
        // The mock ends when its standard input closes, so it ends with this process in any case.
        command.arg("--exit-with-stdin").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| format!("python3 does not start: {e}"))?;
        let mut said = BufReader::new(child.stdout.take().ok_or("the mock has no output")?);
        let mut line = String::new();
        said.read_line(&mut line).map_err(|e| format!("the mock says nothing: {e}"))?;
        let Some(base_url) = line.trim().strip_prefix("READY ") else {
            return Err(format!("the mock is not ready but says {line:?}"));
        };
        Ok(Self { base_url: base_url.to_string(), child, _said: said })
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
