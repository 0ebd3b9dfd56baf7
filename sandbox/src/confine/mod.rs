//! How a helper confines itself, before it touches anything foreign. Needs no user namespaces and no privileges; where the
//! process is root it gives that up first.
//!
//! This is what holds for a helper as a whole. A child that runs Python narrows it further (`python/serve.py`), a JavaScript
//! helper adds its own list of system calls; both lists are in [`filter`].

pub(crate) mod filter;

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid};
use serde::{Deserialize, Serialize};

/// The newest rights that are asked for; an older kernel gives what it has of them.
const RIGHTS: ABI = ABI::V6;
/// Most descriptors of a helper.
const DESCRIPTORS_MAX: u64 = 256;

/// What a helper may do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// Who it becomes when it is root: user, group.
    pub(crate) user: (u32, u32),
    /// What it may read and execute.
    pub(crate) reads: Vec<PathBuf>,
    /// Where it may write.
    pub(crate) writes: Vec<PathBuf>,
    /// It goes on where something of this cannot be done.
    pub(crate) allow_weaker: bool,
}

/// What the kernel lacks of what confinement needs; nothing when all is there.
pub(crate) fn missing() -> Option<&'static str> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let created = ruleset.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create);
    created.err().map(|_| "landlock (Linux 5.13 or newer, switched on by lsm=landlock)")
}

/// The parts that need no second look: no descriptors of others, no terminal, no root, no way back, no other files.
///
/// # Errors
/// What cannot be done, unless less will do.
pub(crate) fn enter(confinement: &Confinement) -> Result<(), String> {
    close_descriptors();
    // A group leader cannot, and needs not.
    let _ = nix::unistd::setsid();
    let or_weaker = |done: Result<(), String>| match done {
        Err(reason) if !confinement.allow_weaker => {
            Err(format!("{reason}; code.allow_weaker_sandbox runs code all the same"))
        }
        Ok(()) | Err(_) => Ok(()),
    };
    or_weaker(give_up_root(confinement.user))?;
    limit(Resource::RLIMIT_CORE, 0)?;
    limit(Resource::RLIMIT_NOFILE, DESCRIPTORS_MAX)?;
    nix::sys::prctl::set_no_new_privs().map_err(|error| format!("cannot give up new privileges: {error}"))?;
    or_weaker(restrict_files(confinement))
}

/// Sets a limit that cannot be raised again.
pub(crate) fn limit(resource: Resource, value: u64) -> Result<(), String> {
    setrlimit(resource, value, value).map_err(|error| format!("cannot limit {resource:?}: {error}"))
}

/// Closes what was inherited beside standard input, output and errors.
fn close_descriptors() {
    // The list first: reading it opens a descriptor of its own.
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The one of the list is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}

fn give_up_root((user, group): (u32, u32)) -> Result<(), String> {
    if !Uid::effective().is_root() {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(group));
    nix::unistd::setgroups(&[])
        .and_then(|()| nix::unistd::setresgid(gid, gid, gid))
        .and_then(|()| nix::unistd::setresuid(uid, uid, uid))
        .map_err(|error| {
            format!("cannot become user {user} (code.sandbox_uid): {error}; run the worker as another user than root")
        })
}

fn restrict_files(confinement: &Confinement) -> Result<(), String> {
    let restrict = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(RIGHTS))?
            .handle_access(AccessNet::from_all(RIGHTS))?
            .scope(Scope::from_all(RIGHTS))?
            .create()?
            // Paths that are not there, or not for this user, are left out.
            .add_rules(path_beneath_rules(&confinement.reads, AccessFs::from_read(RIGHTS)))?
            .add_rules(path_beneath_rules(&confinement.writes, AccessFs::from_all(RIGHTS)))?
            .restrict_self()
    };
    let status = restrict().map_err(|error: landlock::RulesetError| format!("landlock: {error}"))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(format!("the kernel has no {}", missing().unwrap_or("landlock"))),
    }
}
