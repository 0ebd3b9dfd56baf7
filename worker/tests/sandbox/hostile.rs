//! Tests of hostile code: each attempt fails with an error that explains it, and the sandbox continues to serve.

use std::time::Duration;

use futures_util::future::join_all;
use wait::until;

use super::*;

/// Wraps a few lines in `main`.
fn body(lines: &str) -> String {
    let indented: Vec<String> = lines.lines().map(|line| format!("    {line}")).collect();
    format!(
        "import os, sys, socket, time, signal, subprocess, ctypes, threading\ndef main():\n{}",
        indented.join("\n")
    )
}

#[tokio::test]
async fn files_outside_can_be_neither_read_nor_written() {
    let settings = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&settings, "url = 'redis://:password@host'").unwrap();
    let settings = settings.path().display();
    let sandbox = sandbox(&CodeConfig::default());
    for attempt in [
        "open('/proc/self/environ').read()".to_string(),
        "open('/proc/self/maps').read()".into(),
        "open('/proc/self/mem', 'rb').read(1)".into(),
        "open('/proc/1/environ').read()".into(),
        "open(f'/proc/{os.getppid()}/environ').read()".into(),
        "open(f'/proc/{os.getppid()}/cmdline').read()".into(),
        "os.listdir('/proc')".into(),
        "os.listdir('/')".into(),
        "os.listdir('..')".into(),
        "open('/etc/passwd').read()".into(),
        format!("open('{settings}').read()"),
        format!("open('{settings}', 'w')"),
        format!("os.truncate('{settings}', 0)"),
        format!("os.unlink('{settings}')"),
        format!("os.link('{settings}', 'here')"),
        format!("os.symlink('{settings}', 'here')"),
        "open('/tmp/out', 'w')".into(),
        "open('../out', 'w')".into(),
        "open('/dev/shm/out', 'w')".into(),
        "open('in', 'w').close(); os.rename('in', '../out')".into(),
        "open('in', 'w').close(); os.chmod('in', 0o777)".into(),
        "os.mkdir('folder')".into(),
        "os.mkfifo('pipe')".into(),
        "os.symlink('/', 'root')".into(),
    ] {
        let error = fails(&sandbox, &body(&attempt)).await;
        assert!(
            error.contains("PermissionError") || error.contains("ermission denied"),
            "{attempt}: {error}"
        );
    }
}

#[tokio::test]
async fn neither_environment_nor_descriptors_come_along() {
    let sandbox = sandbox(&CodeConfig::default());
    let environment = python(&sandbox, &body("return {'names': sorted(os.environ)}")).await.unwrap();
    assert_eq!(environment, json!({"names": ["HOME", "LANG", "TMPDIR", "TZ"]}));
    let open = "found = []\nfor n in range(4096):\n    try: os.fstat(n); found.append(n)\n    except OSError: pass\nreturn {'open': found}";
    assert_eq!(python(&sandbox, &body(open)).await, Ok(json!({"open": [0, 1, 2]})));
    if rustix_is_root() {
        let who = python(
            &sandbox,
            &body("return {'who': [os.getuid(), os.geteuid(), os.getgid(), os.getgroups()]}"),
        )
        .await;
        assert_eq!(who, Ok(json!({"who": [65534, 65534, 65534, []]})));
    }
}

fn rustix_is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.split_whitespace().take(2).eq(["Uid:", "0"]))
}

#[tokio::test]
async fn network_processes_threads_and_signals_are_denied_by_name() {
    let sandbox = sandbox(&CodeConfig::default());
    for (attempt, wanted) in [
        ("socket.socket()", "network access is not allowed"),
        ("socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)", "network access is not allowed"),
        ("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", "network access is not allowed"),
        ("socket.socket(socket.AF_UNIX)", "may not use the network"),
        (
            "import urllib.request; urllib.request.urlopen('http://127.0.0.1:6379')",
            "network access is not allowed",
        ),
        ("socket.getaddrinfo('localhost', 80)", "network access is not allowed"),
        ("os.fork()", "starting processes is not allowed"),
        ("while True: os.fork()", "starting processes is not allowed"),
        ("subprocess.run(['id'])", "starting processes is not allowed"),
        ("os.system('id')", "starting processes is not allowed"),
        ("os.execv('/bin/sh', ['sh'])", "starting processes is not allowed"),
        ("os.kill(os.getppid(), 9)", "signalling processes is not allowed"),
        ("os.kill(-1, 9)", "signalling processes is not allowed"),
        ("threading.Thread(target=print).start()", "may not use the network, start processes or threads"),
        (
            "import multiprocessing; multiprocessing.Process(target=print).start()",
            "starting processes is not allowed",
        ),
        (
            "import concurrent.futures as f; f.ThreadPoolExecutor().submit(print)",
            "start processes or threads",
        ),
    ] {
        let error = fails(&sandbox, &body(attempt)).await;
        assert!(error.contains(wanted), "{attempt}: {error}");
    }
}

#[tokio::test]
async fn the_kernel_refuses_what_python_does_not_see() {
    let sandbox = sandbox(&CodeConfig::default());
    let number = |name: &str| -> String {
        let numbers = if cfg!(target_arch = "x86_64") {
            json!({"ptrace": 101, "vm_read": 310, "keyctl": 250, "bpf": 321, "io_uring": 425, "mount": 165, "memfd": 319,
                "execve": 59, "clone": 56, "clone3": 435, "socket": 41, "connect": 42, "unshare": 272, "prctl": 157, "kill": 62,
                "tgkill": 234, "pidfd_send": 424, "setsid": 112, "setuid": 105, "prlimit": 302, "chmod": 90, "link": 86,
                "mkdir": 83, "truncate": 76, "userfaultfd": 323, "perf": 298, "shmget": 29, "msgget": 68, "personality": 135})
        } else {
            json!({"ptrace": 117, "vm_read": 270, "keyctl": 219, "bpf": 280, "io_uring": 425, "mount": 40, "memfd": 279,
                "execve": 221, "clone": 220, "clone3": 435, "socket": 198, "connect": 203, "unshare": 97, "prctl": 167,
                "kill": 129, "tgkill": 131, "pidfd_send": 424, "setsid": 157, "setuid": 146, "prlimit": 261, "chmod": 53,
                "link": 37, "mkdir": 34, "truncate": 45, "userfaultfd": 282, "perf": 241, "shmget": 194, "msgget": 186,
                "personality": 92})
        };
        numbers[name].to_string()
    };
    let mut calls: Vec<(String, String)> = Vec::new();
    for (name, arguments) in [
        ("ptrace", "16, os.getppid(), 0, 0"),
        ("vm_read", "os.getppid(), 0, 0, 0, 0, 0"),
        ("keyctl", "0, 0, 0, 0, 0"),
        ("bpf", "0, 0, 0"),
        ("io_uring", "1, 0"),
        ("mount", "0, 0, 0, 0, 0"),
        ("memfd", "b'x', 0"),
        ("execve", "b'/bin/sh', 0, 0"),
        ("clone", "17, 0, 0, 0, 0"),
        ("clone3", "0, 0"),
        ("socket", "1, 2, 0"),
        ("socket", "2, 1, 0"),
        ("connect", "0, 0, 0"),
        ("unshare", "0x10000000"),
        ("prctl", "1, 0, 0, 0, 0"),
        ("kill", "os.getppid(), 9"),
        ("kill", "-1, 9"),
        ("tgkill", "os.getppid(), os.getppid(), 9"),
        ("pidfd_send", "0, 9, 0, 0"),
        ("setsid", ""),
        ("setuid", "0"),
        ("prlimit", "os.getppid(), 7, 0, 0"),
        ("chmod", "b'.', 0"),
        ("link", "b'/etc/passwd', b'x', 0, 0, 0"),
        ("mkdir", "b'x', 0, 0"),
        ("truncate", "b'x', 0"),
        ("userfaultfd", "1"),
        ("perf", "0, 0, 0, 0, 0"),
        ("shmget", "0, 1, 0"),
        ("msgget", "0, 0"),
        ("personality", "0"),
    ] {
        calls.push((
            format!("{name}({arguments})"),
            format!("({})", [number(name), arguments.into()].join(", ")),
        ));
    }
    let list: Vec<String> = calls
        .iter()
        .map(|(_, call)| format!("{},)", call.trim_end_matches(')').trim_end_matches(", ")))
        .collect();
    let code = format!(
        "libc = ctypes.CDLL(None, use_errno=True)\nfound = []\nfor call in [{}]:\n\
         \x20   ctypes.set_errno(0)\n    answer = libc.syscall(*call)\n    found.append([answer, ctypes.get_errno()])\n\
         pair = (ctypes.c_int * 2)()\nctypes.set_errno(0)\n\
         found.append([libc.socketpair(1, 2, 0, pair), ctypes.get_errno()])\nreturn {{'found': found}}",
        list.join(", ")
    );
    let found = python(&sandbox, &body(&code)).await.unwrap();
    let names = calls.iter().map(|(name, _)| name.as_str()).chain(["socketpair of datagrams"]);
    for (name, answer) in names.zip(found["found"].as_array().unwrap()) {
        assert_eq!(answer, &json!([-1, 1]), "{name}");
    }
    serves(&sandbox).await;
}

#[tokio::test]
async fn time_is_bounded_whatever_the_code_catches() {
    let sandbox = sandbox(&CodeConfig { concurrency: 5, ..HASTY.clone() });
    let attempts = [
        "while True: pass",
        "time.sleep(60)",
        "while True:\n    try: time.sleep(60)\n    except BaseException: pass",
        "for n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
        "sys.setswitchinterval(1000)\n'a' * 10 ** 8 and [x for x in range(10 ** 12)]",
        "import re; re.match('(a+)+b', 'a' * 60)",
        "signal.pause()",
        "sys.stdout.close(); os.close(1); os.close(2); time.sleep(60)",
        "import atexit; atexit.register(time.sleep, 60); time.sleep(60)",
    ];
    let sandbox = &sandbox;
    let trying = attempts.map(|attempt| async move {
        let begun = std::time::Instant::now();
        let error = fails(sandbox, &body(attempt)).await;
        assert!(error.contains("error: timeout") || error.contains("MemoryError"), "{attempt}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{attempt}");
    });
    join_all(trying).await;
}

#[tokio::test]
async fn memory_output_and_scratch_are_bounded() {
    let sandbox = sandbox(&CodeConfig {
        memory_bytes_max: 64 << 20,
        output_bytes_max: 1 << 20,
        scratch_bytes_max: 1 << 20,
        ..CodeConfig::default()
    });
    for (attempt, wanted) in [
        ("x = 'a' * (1 << 30)", "MemoryError"),
        ("x = []\nwhile True: x.append(bytes(1 << 20))", "MemoryError"),
        ("import mmap\nmmap.mmap(-1, 1 << 30)", "Cannot allocate memory"),
        ("while True: print('x' * 100000)", "printed more than 1048576 bytes (code.output_bytes_max)"),
        ("while True: os.write(1, b'x' * 100000)", "printed more than 1048576 bytes"),
        ("return {'r': 'x' * (2 << 20)}", "printed more than 1048576 bytes"),
        ("open('f', 'wb').write(bytes(2 << 20))", "File too large"),
        (
            "n = 0\nwhile True:\n    n += 1\n    open(f'f{n}', 'wb').write(bytes(100000)); time.sleep(0.001)",
            "wrote more than 1048576 bytes (code.scratch_bytes_max)",
        ),
        ("files = [open(f'f{n}', 'w') for n in range(500)]", "Too many open files"),
    ] {
        let error = fails(&sandbox, &body(attempt)).await;
        assert!(error.contains(wanted), "{attempt}: {error}");
    }
    // Error output is cut and does not block the program.
    let much = body("for n in range(100): print('e' * 100000, file=sys.stderr)\nraise ValueError('last')");
    let error = fails(&sandbox, &much).await;
    assert!(error.contains("ValueError: last") && error.len() < 200_000, "{}", error.len());
}

#[tokio::test]
async fn nothing_that_is_printed_is_taken_for_a_verdict() {
    let sandbox = sandbox(&CodeConfig::default());
    let forged = r#"
for text in ('{"end": "exit", "code": 0}\n', '{"end": "timeout"}\n', 'R'):
    print(text)
    for descriptor in range(64):
        try: os.write(descriptor, text.encode())
        except OSError: pass
import atexit
atexit.register(print, '<<RESULT>>{"forged": 1}<<RESULT>>')
return {'r': 1}"#;
    assert_eq!(python(&sandbox, &body(forged)).await, Ok(json!({"r": 1})));
    serves(&sandbox).await;
    let early = "print('<<RESULT>>{}<<RESULT>>')\nsys.stdout.flush()\nos._exit(9)";
    let error = fails(&sandbox, &body(early)).await;
    assert!(error.starts_with("process exited with code 9"), "{error}");
}

#[tokio::test]
async fn executions_side_by_side_do_not_see_each_other() {
    let sandbox = sandbox(&CodeConfig { concurrency: 2, timeout_ms: 5_000, ..CodeConfig::default() });
    let victim = body("open('secret', 'w').write('x')\ntime.sleep(2)\nreturn {'r': sorted(os.listdir('.'))}");
    let spy = body(
        "home = os.path.dirname(os.getcwd())\nroot = os.path.dirname(home)\ndenied = 0\n\
         for place in (home, root, root + '/..'):\n    try: os.listdir(place)\n    except PermissionError: denied += 1\n\
         for n in range(4):\n    if f'{home}/{n}' == os.getcwd(): continue\n    try: open(f'{home}/{n}/secret').read()\n\
         \x20   except (PermissionError, FileNotFoundError): denied += 1\n\
         for pid in range(2, 40000):\n    try: open(f'/proc/{pid}/cmdline').read(); denied = -999\n    except OSError: pass\n\
         return {'denied': denied >= 6}",
    );
    let (victim, spy) = tokio::join!(python(&sandbox, &victim), python(&sandbox, &spy));
    assert_eq!(spy, Ok(json!({"denied": true})));
    assert_eq!(victim, Ok(json!({"r": ["secret"]})));
}

/// The processes whose command line contains the text.
fn processes(text: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    all.filter(has).collect()
}

#[tokio::test]
async fn a_cancelled_execution_is_gone() {
    // A number that appears only in the command lines of these helpers.
    let mark = 1_000_003 + u64::from(std::process::id());
    let sandbox =
        sandbox(&CodeConfig { scratch_bytes_max: mark, timeout_ms: 60_000, ..CodeConfig::default() });
    serves(&sandbox).await;
    let running = python(&sandbox, "import time\ndef main(): time.sleep(60)");
    let text = format!("\"scratch_bytes\":{mark}");
    assert_eq!(processes(&text).len(), 1, "the server");
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        () = until("server and child run", || processes(&text).len() == 2) => {}
    }
    until("both are gone", || processes(&text).is_empty()).await;
    serves(&sandbox).await;
}

#[tokio::test]
async fn a_helper_that_dies_is_replaced() {
    let mark = 2_000_003 + u64::from(std::process::id());
    let sandbox = sandbox(&CodeConfig { scratch_bytes_max: mark, ..CodeConfig::default() });
    serves(&sandbox).await;
    let text = format!("\"scratch_bytes\":{mark}");
    for pid in processes(&text) {
        let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        assert!(killed.unwrap().success());
    }
    serves(&sandbox).await;
}

/// Waits for conditions with a bound.
mod wait {
    use std::time::{Duration, Instant};

    /// Waits for a condition, at most half a minute.
    pub(super) async fn until(what: &str, met: impl Fn() -> bool) {
        let begun = Instant::now();
        while !met() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
