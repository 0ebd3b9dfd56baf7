//! Child processes that end with us, and the processor time they take.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::error::Error;

/// Clock ticks a second in `/proc`: 100 on every Linux of today, whatever the kernel's own rate.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;

/// A child process; killed when this is dropped.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts a program. What it says goes to `log`, or to our standard error.
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

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already; there is nobody to tell anyway.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Processor time of the three processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cpu {
    /// redis-server.
    pub(crate) redis: f64,
    /// The scheduler, or the loop's owner.
    pub(crate) scheduler: f64,
    /// The worker.
    pub(crate) worker: f64,
}

impl Cpu {
    /// What they have taken so far, in seconds.
    pub(crate) fn of(redis: u32, scheduler: u32, worker: u32) -> Result<Self, Error> {
        Ok(Self {
            redis: cpu_seconds(redis)?,
            scheduler: cpu_seconds(scheduler)?,
            worker: cpu_seconds(worker)?,
        })
    }

    /// Each of the three.
    pub(crate) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        self.map_with(self, |own, _| change(own))
    }

    /// Each of the three with its like.
    pub(crate) fn map_with(self, other: Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            redis: combine(self.redis, other.redis),
            scheduler: combine(self.scheduler, other.scheduler),
            worker: combine(self.worker, other.worker),
        }
    }
}

/// User and system time of a process with all its threads, in seconds.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64, Error> {
    let text =
        fs::read_to_string(format!("/proc/{pid}/stat")).map_err(Error::io("reading processor time"))?;
    ticks(&text)
        .map(|ticks| ticks / TICKS_PER_SECOND)
        .ok_or_else(|| Error::Wrong(format!("/proc/{pid}/stat does not look as it should: {text}")))
}

/// Fields 14 and 15. The name in brackets may hold blanks, so counting begins behind it.
fn ticks(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_a_name_with_blanks_and_brackets() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 250 31 0 0 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(281.0));
        assert_eq!(ticks("nonsense"), None);
    }
}
