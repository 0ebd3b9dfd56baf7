//! The system calls of a guest: those of Python in code nodes, and what a program with threads, child processes and
//! connections needs besides. All others fail with ENOSYS, as on an old kernel, so that libraries use older ways: so
//! `clone3` becomes `clone`, whose flags can be compared. Calls that are attempts to get out fail with EPERM. Calls that
//! change modes and times of files do nothing, because landlock does not limit them to the guest's own files.

use libc::c_long;
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp as Compare, SeccompRule};

use crate::confine::filter::{self, COMMON, Error, PYTHON, PYTHON_OLD, Rules, condition, denied};

/// All flags of `clone` that make namespaces.
const NAMESPACES: u64 = 0x7e02_0000;
/// Opens a connection while sending, which landlock does not see.
const MSG_FASTOPEN: u64 = 0x2000_0000;
/// The operations of `prctl` that are harmless: names of threads, signals at the death of the parent, filters.
const PRCTL: [i32; 5] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_PDEATHSIG,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_NO_NEW_PRIVS,
];

/// Calls besides those of Python in code nodes.
const GUEST: &[c_long] = &[
    libc::SYS_connect,
    libc::SYS_execve,
    libc::SYS_fallocate,
    libc::SYS_fchdir,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_getcpu,
    libc::SYS_getpriority,
    libc::SYS_getxattr,
    libc::SYS_get_robust_list,
    libc::SYS_lgetxattr,
    libc::SYS_linkat,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_mincore,
    libc::SYS_mkdirat,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_readahead,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_seccomp,
    libc::SYS_setsockopt,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_symlinkat,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// Older forms of these calls, which only one architecture still has.
#[cfg(target_arch = "x86_64")]
const GUEST_OLD: &[c_long] = &[
    libc::SYS_arch_prctl,
    libc::SYS_fork,
    libc::SYS_link,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_symlink,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const GUEST_OLD: &[c_long] = &[];

/// Calls that succeed without doing anything: libraries that unpack or copy files make them and take a failure seriously.
const WITHOUT_EFFECT: &[c_long] =
    &[libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchmodat2, libc::SYS_utimensat];

/// Older forms of these calls.
#[cfg(target_arch = "x86_64")]
const WITHOUT_EFFECT_OLD: &[c_long] =
    &[libc::SYS_chmod, libc::SYS_futimesat, libc::SYS_utime, libc::SYS_utimes];
#[cfg(not(target_arch = "x86_64"))]
const WITHOUT_EFFECT_OLD: &[c_long] = &[];

/// Calls that fail with EPERM.
const NEVER: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_listen,
    libc::SYS_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setns,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// The filter of the calls that fail with EPERM. It must be applied after the other one.
pub(super) fn never() -> Result<BpfProgram, Error> {
    let mut rules = filter::always(NEVER);
    // Memory that is shared with children, which the limit of data does not count.
    let shared = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
    let shared = condition(3, Compare::MaskedEq(shared), shared)?;
    rules.insert(libc::SYS_mmap, vec![SeccompRule::new(vec![shared])?]);
    filter::compile(rules, SeccompAction::Allow, denied())
}

/// The filter of the calls that succeed without doing anything. It must be applied last: of several filters that answer with
/// an error, the kernel takes the answer of the newest.
pub(super) fn without_effect() -> Result<BpfProgram, Error> {
    let rules = [WITHOUT_EFFECT, WITHOUT_EFFECT_OLD].concat();
    filter::compile(filter::always(&rules), SeccompAction::Allow, SeccompAction::Errno(0))
}

/// The filter of a guest whose first process has this id. `with_signals`: the kernel limits signals to the guest; without it
/// they may only go to the own group, and from the first process to itself.
pub(super) fn guest(with_signals: bool, id: u32) -> Result<BpfProgram, Error> {
    let mut rules = filter::always(COMMON);
    for calls in [PYTHON, PYTHON_OLD, GUEST, GUEST_OLD] {
        rules.extend(filter::always(calls));
    }
    rules.extend(filter::conditional()?);
    rules.extend(conditional()?);
    rules.extend(signals(with_signals, id)?);
    filter::compile(rules, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow)
}

fn conditional() -> Result<Rules, Error> {
    let is = |argument, value: i32| condition(argument, Compare::Eq, u64::from(value as u32));
    let masked = |argument, mask: u64, value: u64| condition(argument, Compare::MaskedEq(mask), value);
    let mut rules = Rules::new();
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![masked(0, NAMESPACES, 0)?])?]);
    let prctl = PRCTL.map(|operation| SeccompRule::new(vec![is(0, operation)?]));
    rules.insert(libc::SYS_prctl, prctl.into_iter().collect::<Result<_, _>>()?);
    // Only its own thread: other processes of its user have processors, too.
    rules.insert(libc::SYS_sched_setaffinity, vec![SeccompRule::new(vec![is(0, 0)?])?]);
    // Only TCP over IPv4, which is how the proxy is reached: no datagrams, no raw sockets, no sockets of other programs on
    // this machine, and no MPTCP, whose connections older kernels do not limit.
    let tcp = |protocol| {
        SeccompRule::new(vec![
            is(0, libc::AF_INET)?,
            masked(1, 0xf, libc::SOCK_STREAM as u64)?,
            is(2, protocol)?,
        ])
    };
    rules.insert(libc::SYS_socket, vec![tcp(0)?, tcp(libc::IPPROTO_TCP)?]);
    rules.insert(libc::SYS_sendmsg, vec![SeccompRule::new(vec![masked(2, MSG_FASTOPEN, 0)?])?]);
    rules.insert(libc::SYS_sendmmsg, vec![SeccompRule::new(vec![masked(3, MSG_FASTOPEN, 0)?])?]);
    Ok(rules)
}

/// Signals. A filter compares only with known numbers, so without the kernel's own limit a child cannot send a signal to
/// itself or to another process of the guest by its id.
fn signals(with_signals: bool, id: u32) -> Result<Rules, Error> {
    let calls = [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_tkill];
    let to = |id: u32| SeccompRule::new(vec![condition(0, Compare::Eq, u64::from(id))?]);
    let mut rules = Rules::new();
    for call in calls {
        let allowed = match call {
            _ if with_signals => Vec::new(),
            libc::SYS_kill => vec![to(0)?, to(id)?],
            _ => vec![to(id)?],
        };
        rules.insert(call, allowed);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_can_be_built() {
        for program in
            [never().unwrap(), without_effect().unwrap(), guest(true, 7).unwrap(), guest(false, 7).unwrap()]
        {
            assert!(program.len() < 1500, "{}", program.len());
        }
    }

    #[test]
    fn nothing_is_allowed_that_must_fail() {
        for call in NEVER {
            for calls in [COMMON, PYTHON, PYTHON_OLD, GUEST, GUEST_OLD] {
                assert!(!calls.contains(call), "{call}");
            }
        }
        let others = [
            libc::SYS_clone3,
            libc::SYS_memfd_create,
            libc::SYS_shmget,
            libc::SYS_prlimit64,
            libc::SYS_sched_setaffinity,
            libc::SYS_truncate,
            libc::SYS_fchownat,
            libc::SYS_setxattr,
        ];
        for call in others.iter().chain(WITHOUT_EFFECT).chain(WITHOUT_EFFECT_OLD) {
            assert!(
                ![COMMON, PYTHON, PYTHON_OLD, GUEST, GUEST_OLD].iter().any(|calls| calls.contains(call)),
                "{call}"
            );
        }
    }
}
