//! Confines a helper before it touches anything untrusted. This needs no user namespaces and no privileges; a root
//! process gives up root first.
//!
//! These limits apply to the whole helper. A child that runs Python adds more (`python/serve.py`), and a JavaScript
//! helper adds its own list of system calls; both lists are in [`filter`].

pub(crate) mod filter;

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid};
use serde::{Deserialize, Serialize};

/// The newest landlock rights requested; an older kernel applies those it knows.
const RIGHTS: ABI = ABI::V6;
/// Most open descriptors of a helper.
const DESCRIPTORS_MAX: u64 = 256;

/// The limits of a helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// User and group to become when started as root.
    pub(crate) user: (u32, u32),
    /// Paths it may read and execute.
    pub(crate) reads: Vec<PathBuf>,
    /// Paths it may write.
    pub(crate) writes: Vec<PathBuf>,
    /// Continue when a part of the confinement fails.
    pub(crate) allow_weaker: bool,
}

/// The kernel feature that is missing for confinement, if any.
pub(crate) fn missing() -> Option<&'static str> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let created = ruleset.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create);
    created.err().map(|_| "landlock (Linux 5.13 or newer, switched on by lsm=landlock)")
}

/// Whether the kernel limits the ports to which a process connects (Linux 6.7).
pub(crate) fn limits_ports() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessNet::ConnectTcp).and_then(Ruleset::create).is_ok()
}

/// Whether the kernel keeps signals and abstract sockets inside (Linux 6.12).
pub(crate) fn limits_signals() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.scope(Scope::from_all(ABI::V6)).and_then(Ruleset::create).is_ok()
}

/// Applies the common limits: no inherited descriptors, no terminal, no root, no new privileges, no other files.
///
/// # Errors
/// The step that fails, unless weaker confinement is allowed.
pub(crate) fn enter(confinement: &Confinement) -> Result<(), String> {
    close_descriptors();
    // This fails for a group leader, which does not need it.
    let _ = nix::unistd::setsid();
    let or_weaker = |done: Result<(), String>| match done {
        Err(reason) if !confinement.allow_weaker => {
            Err(format!("{reason}; code.allow_weaker_sandbox runs code without it"))
        }
        Ok(()) | Err(_) => Ok(()),
    };
    or_weaker(give_up_root(confinement.user))?;
    limit(Resource::RLIMIT_CORE, 0)?;
    limit(Resource::RLIMIT_NOFILE, DESCRIPTORS_MAX)?;
    nix::sys::prctl::set_no_new_privs().map_err(|error| format!("cannot give up new privileges: {error}"))?;
    or_weaker(restrict(&confinement.reads, &confinement.writes, &[]))
}

/// Sets a limit that cannot be raised again.
pub(crate) fn limit(resource: Resource, value: u64) -> Result<(), String> {
    setrlimit(resource, value, value).map_err(|error| format!("cannot limit {resource:?}: {error}"))
}

/// Closes all inherited descriptors except standard input, output and error.
pub(crate) fn close_descriptors() {
    // Collect the list first, because reading it opens a descriptor.
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The descriptor of the list is already closed.
        let _ = nix::unistd::close(descriptor);
    }
}

pub(crate) fn give_up_root((user, group): (u32, u32)) -> Result<(), String> {
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

/// Limits this process to these paths and to connections to these ports.
pub(crate) fn restrict(reads: &[PathBuf], writes: &[PathBuf], ports: &[u16]) -> Result<(), String> {
    let connections =
        |port: &u16| Ok::<_, landlock::RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp));
    let restrict = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(RIGHTS))?
            .handle_access(AccessNet::from_all(RIGHTS))?
            .scope(Scope::from_all(RIGHTS))?
            .create()?
            // Paths that do not exist, or are not readable for this user, are left out.
            .add_rules(path_beneath_rules(reads, AccessFs::from_read(RIGHTS)))?
            .add_rules(path_beneath_rules(writes, AccessFs::from_all(RIGHTS)))?
            .add_rules(ports.iter().map(connections))?
            .restrict_self()
    };
    let status = restrict().map_err(|error: landlock::RulesetError| format!("landlock: {error}"))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(format!("the kernel has no {}", missing().unwrap_or("landlock"))),
    }
}
