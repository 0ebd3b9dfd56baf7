//! Child processes that end together with this one, and their processor time and memory.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde::Serialize;

use crate::error::Error;

/// Clock ticks per second in `/proc`: 100 on today's Linux, whatever the kernel uses inside.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;
const KIB: f64 = 1024.0;

/// A child process. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts a program. Its output goes to `log`, or to our standard error.
    pub(crate) fn start(program: &Path, arguments: &[&str], log: Option<&File>) -> Result<Self, Error> {
        let output = |log: Option<&File>| -> std::io::Result<Stdio> {
            Ok(match log {
                Some(log) => log.try_clone()?.into(),
                None => Stdio::inherit(),
            })
        };
        let start = || {
            Command::new(program)
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(match log {
                    Some(_) => output(log)?,
                    None => Stdio::null(),
                })
                .stderr(output(log)?)
                .spawn()
        };
        let child =
            start().map_err(|source| Error::Start { program: program.display().to_string(), source })?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Returns user and system time of all its threads, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, Error> {
        cpu_seconds(self.pid())
    }

    /// Returns the memory that it uses.
    pub(crate) fn memory(&self) -> Result<Memory, Error> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .map_err(Error::io("reading the memory of a process"))?;
        memory(&status).ok_or_else(|| {
            Error::Wrong(format!("/proc/{}/status has no memory figures: {status}", self.pid()))
        })
    }

    /// Resets the peak of its memory to the current value.
    pub(crate) fn forget_peak(&self) -> Result<(), Error> {
        fs::write(format!("/proc/{}/clear_refs", self.pid()), "5")
            .map_err(Error::io("resetting the peak of a process's memory"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already; nothing can be done about an error here.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Resident memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Memory {
    /// The current value.
    pub(crate) resident: f64,
    /// The highest value since the start, or since [`Process::forget_peak`].
    pub(crate) peak: f64,
}

/// Processor time of the three kinds of processes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Cpu {
    pub(crate) redis: f64,
    /// The schedulers, or the owner of the loop.
    pub(crate) scheduler: f64,
    pub(crate) worker: f64,
}

impl Cpu {
    /// Returns the processor time so far, in seconds.
    pub(crate) fn of(redis: u32, schedulers: &[Process], workers: &[Process]) -> Result<Self, Error> {
        let sum = |of: &[Process]| of.iter().map(Process::cpu_seconds).sum::<Result<f64, Error>>();
        Ok(Self { redis: cpu_seconds(redis)?, scheduler: sum(schedulers)?, worker: sum(workers)? })
    }

    /// Returns the sum of the three.
    pub(crate) fn sum(self) -> f64 {
        self.redis + self.scheduler + self.worker
    }

    /// Changes each of the three values.
    pub(crate) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        self.map_with(self, |own, _| change(own))
    }

    /// Combines each of the three values with the one of `other`.
    pub(crate) fn map_with(self, other: Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            redis: combine(self.redis, other.redis),
            scheduler: combine(self.scheduler, other.scheduler),
            worker: combine(self.worker, other.worker),
        }
    }
}

/// Returns user and system time of a process with all its threads, in seconds: in nanosecond steps where the kernel
/// counts them for each thread, else in ticks. The former misses threads that have ended, but working threads do not
/// end.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64, Error> {
    if let Some(seconds) = scheduled_seconds(pid) {
        return Ok(seconds);
    }
    let text =
        fs::read_to_string(format!("/proc/{pid}/stat")).map_err(Error::io("reading processor time"))?;
    ticks(&text)
        .map(|ticks| ticks / TICKS_PER_SECOND)
        .ok_or_else(|| Error::Wrong(format!("/proc/{pid}/stat has an unknown form: {text}")))
}

/// Sums the first fields of `schedstat` of all threads. Not every kernel has this file.
fn scheduled_seconds(pid: u32) -> Option<f64> {
    let mut nanos = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let path = thread.ok()?.path();
        match fs::read_to_string(path.join("schedstat")) {
            Ok(text) => nanos += text.split_whitespace().next()?.parse::<f64>().ok()?,
            // The thread ended between listing and reading.
            Err(_) if !path.exists() => {}
            Err(_) => return None,
        }
    }
    Some(nanos / 1e9).filter(|seconds| *seconds > 0.0)
}

/// Sums fields 14 and 15. The name in brackets may contain spaces, so counting begins after it.
fn ticks(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
}

fn memory(status: &str) -> Option<Memory> {
    let bytes = |name: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches(':').split_whitespace().next()?.parse::<f64>().ok()? * KIB)
    };
    Some(Memory { resident: bytes("VmRSS")?, peak: bytes("VmHWM")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_after_a_name_with_spaces_and_brackets() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 250 31 0 0 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(281.0));
        assert_eq!(ticks("nonsense"), None);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(memory(status), Some(Memory { resident: 1_048_576.0, peak: 2_097_152.0 }));
        assert_eq!(memory("Name:\tx\n"), None);
    }

    #[test]
    fn our_own_processor_time_only_grows() {
        let before = cpu_seconds(std::process::id()).unwrap();
        while cpu_seconds(std::process::id()).unwrap() <= before {}
    }
}
