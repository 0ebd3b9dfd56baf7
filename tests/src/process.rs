//! One real process: its log in a file, its signals, its end. It dies with the test that started it; it stays in the
//! test's process group, so that Ctrl-C reaches it too.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value as Json;

use crate::wait::{LONG, until};

/// Lines of its log that a failed test shows.
const LINES_SHOWN: usize = 60;

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it; both its outputs go to a file.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(name: &str, mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).expect("a test can write into its folder");
        let other = file.try_clone().expect("a file has room for two handles");
        command.stdin(Stdio::null()).stdout(file).stderr(other);
        let child =
            command.spawn().unwrap_or_else(|e| panic!("{name} does not start: {e}; is it installed?"));
        Self { name: name.into(), child, log }
    }

    /// The system's number for it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How it ended, if it has.
    pub fn end(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked")
    }

    /// SIGKILL; returns when it is gone.
    pub fn kill(&mut self) {
        // One that has ended cannot be killed, and need not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Memory that it holds, in bytes.
    ///
    /// # Panics
    /// When it is gone.
    pub fn memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of KiB") * 1024
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }
    /// SIGSTOP.
    pub fn freeze(&self) {
        self.signal("STOP");
    }
    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When time is up.
    pub async fn ended(&mut self, at_most: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        until(&what, at_most, async || self.end().ok_or_else(|| self.tail())).await
    }

    /// Waits for a line of its log with this message.
    ///
    /// # Panics
    /// When it ends or time is up.
    pub async fn says(&mut self, message: &str) -> Json {
        let what = format!("{} to say {message:?}", self.name);
        until(&what, LONG, async || {
            let lines = self.said();
            let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
            if let Some(line) = lines.find(|line| line["message"] == message) {
                return Ok(line);
            }
            let end = self.end();
            assert!(
                end.is_none(),
                "{} ended ({end:?}) before it said {message:?}:\n{}",
                self.name,
                self.tail()
            );
            Err(self.tail())
        })
        .await
    }

    fn signal(&self, signal: &str) {
        // The shell's own, which is there wherever a shell is.
        let line = format!("kill -{signal} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &line]).status().expect("there is a shell");
        assert!(sent.success(), "{line} failed");
    }

    /// The last lines that it wrote.
    pub fn tail(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("---- {} said last:\n{}", self.name, self.tail());
        }
    }
}
