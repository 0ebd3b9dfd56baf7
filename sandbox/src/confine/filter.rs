//! The lists of system calls for the kernel's filter (seccomp). Code gets an allow-list; every other call fails with
//! EPERM. The trusted helper that forks Python's children gets a deny-list.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare, SeccompCondition,
    SeccompFilter, SeccompRule,
};

pub(crate) type Rules = BTreeMap<i64, Vec<SeccompRule>>;
pub(crate) type Error = seccompiler::BackendError;

// `libc` defines these only for some systems; the numbers are the same on all supported architectures.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;

/// Calls every program needs: memory, time, its own descriptors, its exit.
pub(crate) const COMMON: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Additional calls of Python: files (landlock limits them), waiting, pipes, queries about itself.
pub(crate) const PYTHON: &[c_long] = &[
    libc::SYS_chdir,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getitimer,
    libc::SYS_getpeername,
    libc::SYS_getpgid,
    libc::SYS_getppid,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_getuid,
    libc::SYS_membarrier,
    libc::SYS_msync,
    libc::SYS_newfstatat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_readlinkat,
    libc::SYS_recvfrom,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sendfile,
    libc::SYS_setitimer,
    libc::SYS_shutdown,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlinkat,
];

/// Older forms of these calls, which only one architecture still has.
#[cfg(target_arch = "x86_64")]
pub(crate) const PYTHON_OLD: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const PYTHON_OLD: &[c_long] = &[];

/// Calls forbidden to the helper and to all its children.
const NEVER: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_add_key,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_connect,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_listen,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_socket,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// The filter of the process that forks Python's children.
pub(crate) fn server() -> Result<BpfProgram, Error> {
    compile(always(NEVER), SeccompAction::Allow, denied())
}

/// The filter of a child that runs Python. With `network` it may also take the connections that the worker gives it;
/// it still can make no socket of its own, nor pass one on.
pub(crate) fn python(network: bool) -> Result<BpfProgram, Error> {
    let mut rules = always(COMMON);
    if network {
        rules.extend(always(&[libc::SYS_recvmsg]));
    }
    rules.extend(always(PYTHON));
    rules.extend(always(PYTHON_OLD));
    rules.extend(conditional()?);
    compile(rules, denied(), SeccompAction::Allow)
}

/// The filter of a helper that only computes: JavaScript, documents.
pub(crate) fn computing() -> Result<BpfProgram, Error> {
    compile(always(COMMON), denied(), SeccompAction::Allow)
}

/// A filter in the kernel's format, to be installed by another process.
pub(crate) fn bytes(program: &BpfProgram) -> Vec<u8> {
    let one = |step: &seccompiler::sock_filter| {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&step.code.to_ne_bytes());
        (bytes[2], bytes[3]) = (step.jt, step.jf);
        bytes[4..].copy_from_slice(&step.k.to_ne_bytes());
        bytes
    };
    program.iter().flat_map(one).collect()
}

/// Calls that are harmless only with some arguments.
pub(crate) fn conditional() -> Result<Rules, Error> {
    let is = |argument, value: i32| condition(argument, Compare::Eq, value as u64);
    let is_not = |argument, value: i32| condition(argument, Compare::Ne, value as u64);
    let masked =
        |argument, mask: i32, value: i32| condition(argument, Compare::MaskedEq(mask as u64), value as u64);
    let mut rules = Rules::new();
    // An old landlock does not prevent truncating a file that was opened for reading.
    let opening = |flags: u8| -> Result<Vec<SeccompRule>, Error> {
        Ok(vec![
            SeccompRule::new(vec![masked(flags, libc::O_TRUNC, 0)?])?,
            SeccompRule::new(vec![masked(flags, libc::O_ACCMODE, libc::O_WRONLY)?])?,
            SeccompRule::new(vec![masked(flags, libc::O_ACCMODE, libc::O_RDWR)?])?,
        ])
    };
    rules.insert(libc::SYS_openat, opening(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, opening(1)?);
    // Forbid descriptors that send signals to a process.
    let not_owner = [libc::F_SETOWN, F_SETOWN_EX, F_SETSIG].map(|command| is_not(1, command));
    rules.insert(libc::SYS_fcntl, vec![SeccompRule::new(not_owner.into_iter().collect::<Result<_, _>>()?)?]);
    // The requests Python makes for an opened file; none writes to a terminal.
    let harmless =
        [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD, libc::FIOCLEX, libc::FIONCLEX, libc::FIONBIO];
    let allowed =
        harmless.map(|request| SeccompRule::new(vec![condition(1, Compare::Eq, u64::from(request as u32))?]));
    rules.insert(libc::SYS_ioctl, allowed.into_iter().collect::<Result<_, _>>()?);
    // A process may only read its own limits.
    let own_limits = SeccompRule::new(vec![is(0, 0)?, wide(2, 0)?])?;
    rules.insert(libc::SYS_prlimit64, vec![own_limits]);
    // Event loops wake themselves through a socket pair that leads nowhere else.
    let stream_pair = SeccompRule::new(vec![is(0, libc::AF_UNIX)?, masked(1, 0xf, libc::SOCK_STREAM)?])?;
    rules.insert(libc::SYS_socketpair, vec![stream_pair]);
    rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![wide(4, 0)?])?]);
    Ok(rules)
}

pub(crate) fn condition(argument: u8, compare: Compare, value: u64) -> Result<SeccompCondition, Error> {
    SeccompCondition::new(argument, Length::Dword, compare, value & u64::from(u32::MAX))
}

/// Compares all 64 bits: a pointer.
fn wide(argument: u8, value: u64) -> Result<SeccompCondition, Error> {
    SeccompCondition::new(argument, Length::Qword, Compare::Eq, value)
}

pub(crate) fn always(calls: &[c_long]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

pub(crate) fn denied() -> SeccompAction {
    SeccompAction::Errno(libc::EPERM as u32)
}

pub(crate) fn compile(
    rules: Rules,
    others: SeccompAction,
    these: SeccompAction,
) -> Result<BpfProgram, Error> {
    SeccompFilter::new(rules, others, these, std::env::consts::ARCH.try_into()?)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_can_be_built_and_are_short() {
        for program in
            [server().unwrap(), python(true).unwrap(), python(false).unwrap(), computing().unwrap()]
        {
            assert!(program.len() < 1000, "{}", program.len());
            assert_eq!(bytes(&program).len(), program.len() * 8);
        }
    }
}
