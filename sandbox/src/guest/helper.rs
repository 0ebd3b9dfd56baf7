//! The two processes of a guest: the supervisor, and the one that confines itself and becomes the guest.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getppid};

use super::{Guest, filter};
use crate::confine;
use crate::helper::WORD;

/// How often the supervisor looks whether its worker still exists.
const LOOK: Duration = Duration::from_millis(250);
/// Most open descriptors of a guest.
const DESCRIPTORS_MAX: u64 = 1024;

/// Starts the guest and waits for its end. Ends the whole group of the guest at its end, at the end of the worker, and when
/// the worker interrupts it (SIGINT). SIGTERM is passed on.
///
/// Returns after a failure; else it exits with the guest's code.
pub(crate) fn supervise(settings: &str) -> Result<(), String> {
    let io = |error: std::io::Error| format!("cannot start: {error}");
    let (worker, _) = read(settings)?;
    let worker = Pid::from_raw(i32::try_from(worker).map_err(|error| error.to_string())?);
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    // Before any other thread exists, so that all have it. The child inherits it, and empties it.
    signals.thread_block().map_err(|error| format!("sigprocmask: {error}"))?;
    let mut guest = Command::new("/proc/self/exe")
        .args([WORD, "guest-inside", settings])
        .process_group(0)
        .spawn()
        .map_err(io)?;
    let group = Pid::from_raw(i32::try_from(guest.id()).map_err(|error| error.to_string())?);
    std::thread::spawn(move || {
        loop {
            match signals.wait() {
                Ok(Signal::SIGTERM) => drop(kill(group, Signal::SIGTERM)),
                Ok(_) | Err(_) => end(group),
            }
        }
    });
    std::thread::spawn(move || {
        // When the worker ends, another process becomes the parent. A thread of the worker that ends changes nothing.
        while getppid() == worker {
            std::thread::sleep(LOOK);
        }
        end(group);
    });
    // Its number is not given to another process until it was waited for, so the group is still its own.
    waitid(Id::Pid(group), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).map_err(|error| error.to_string())?;
    let _ = killpg(group, Signal::SIGKILL);
    let status = guest.wait().map_err(io)?;
    std::process::exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
}

fn read(settings: &str) -> Result<(u32, Guest), String> {
    serde_json::from_str(settings).map_err(|error| format!("settings: {error}"))
}

/// Ends the group of the guest. The main thread then sees the end of the guest.
fn end(group: Pid) {
    let _ = killpg(group, Signal::SIGKILL);
}

/// Confines this process and becomes the guest. Returns only after a failure.
pub(crate) fn become_guest(settings: &str) -> Result<(), String> {
    let (_, guest) = read(settings)?;
    // The supervisor blocks signals, and this process has inherited that.
    SigSet::empty().thread_set_mask().map_err(|error| format!("sigprocmask: {error}"))?;
    let with_signals = confine::limits_signals();
    let never = filter::never().map_err(|error| format!("the filter of system calls: {error}"))?;
    let without_effect =
        filter::without_effect().map_err(|error| format!("the filter of system calls: {error}"))?;
    let own = filter::guest(with_signals, std::process::id())
        .map_err(|error| format!("the filter of system calls: {error}"))?;
    confine::close_descriptors();
    let or_weaker = |done: Result<(), String>| match done {
        Err(reason) if !guest.allow_weaker => Err(reason),
        Ok(()) | Err(_) => Ok(()),
    };
    or_weaker(confine::give_up_root(guest.user))?;
    let present = processes_of_user().unwrap_or(0);
    // After the change of the user, which would switch it off.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("prctl: {error}"))?;
    for (resource, most) in [
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_NOFILE, DESCRIPTORS_MAX),
        (Resource::RLIMIT_DATA, guest.memory_bytes),
        (Resource::RLIMIT_FSIZE, guest.file_bytes),
        (Resource::RLIMIT_MEMLOCK, 1 << 20),
        (Resource::RLIMIT_NPROC, present.saturating_add(guest.processes_max)),
    ] {
        // Limits of the worker that are lower stay.
        let (_, present) = getrlimit(resource).map_err(|error| format!("getrlimit: {error}"))?;
        confine::limit(resource, most.min(present))?;
    }
    nix::sys::prctl::set_no_new_privs().map_err(|error| format!("cannot give up new privileges: {error}"))?;
    or_weaker(confine::restrict(&guest.reads, &guest.writes, &guest.ports))?;
    for filter in [&own, &never, &without_effect] {
        seccompiler::apply_filter(filter)
            .map_err(|error| format!("the kernel rejects the filter of system calls: {error}"))?;
    }
    let failed = Command::new(&guest.executable).args(&guest.arguments).current_dir(&guest.folder).exec();
    Err(format!("cannot start {}: {failed}", guest.executable.display()))
}

/// The processes and threads of this user: the kernel counts all of them towards the limit.
fn processes_of_user() -> Option<u64> {
    let user = nix::unistd::getuid().as_raw();
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let is_process = entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        if is_process && value("Uid:") == Some(u64::from(user)) {
            count += value("Threads:").unwrap_or(1);
        }
    }
    Some(count)
}
