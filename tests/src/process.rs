//! One real process: its log in a file, its signals, its end. It is killed when its test drops it. It stays in the
//! test's process group, so that Ctrl-C reaches it too.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value as Json;

use crate::wait::{LONG, until};

/// The number of lines of its log that a failed test shows.
const LINES_SHOWN: usize = 60;

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a process; its standard output and errors go to a file.
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

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its log so far.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns its exit status if it has ended.
    pub fn end(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the status of a child can be read")
    }

    /// Kills it with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The memory that it uses, in bytes.
    ///
    /// # Panics
    /// When it has ended.
    pub fn memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of KiB") * 1024
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }
    /// Sends SIGSTOP.
    pub fn freeze(&self) {
        self.signal("STOP");
    }
    /// Sends SIGCONT.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it has not ended in time.
    pub async fn ended(&mut self, at_most: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        until(&what, at_most, async || self.end().ok_or_else(|| self.tail())).await
    }

    /// Waits for a line of its log with this message, and returns the line.
    ///
    /// # Panics
    /// When the process ends before, or time is up.
    pub async fn wait_for_log(&mut self, message: &str) -> Json {
        let what = format!("{} to say {message:?}", self.name);
        until(&what, LONG, async || {
            let lines = self.log_text();
            let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
            if let Some(line) = lines.find(|line| line["message"] == message) {
                return Ok(line);
            }
            let end = self.end();
            assert!(
                end.is_none(),
                "{} ended ({end:?}) before it logged {message:?}:\n{}",
                self.name,
                self.tail()
            );
            Err(self.tail())
        })
        .await
    }

    fn signal(&self, signal: &str) {
        // The `kill` of the shell, which exists on every system.
        let line = format!("kill -{signal} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &line]).status().expect("there is a shell");
        assert!(sent.success(), "{line} failed");
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
        let said = self.log_text();
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
