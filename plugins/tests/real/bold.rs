//! The plugin `bold`: what the kernel refuses to a plugin.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tidemill_plugins::tool::message::Message;
use tidemill_sandbox::guest;

use crate::lab::{Lab, texts};

#[allow(clippy::print_stdout, reason = "the results of tests")]
pub(crate) async fn all(lab: &Lab) {
    a_plugin_can_do_its_work_and_nothing_else(lab).await;
    children_are_bounded_and_end_with_the_plugin(lab).await;
    println!("bold: passed");
}

async fn a_plugin_can_do_its_work_and_nothing_else(lab: &Lab) {
    // Something listens, so only the kernel's refusal makes a connection fail.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _abstract =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name("tidemill-test").unwrap()).unwrap();
    let listener6 = TcpListener::bind("[::1]:0");
    let port6 = listener6.as_ref().map_or(1, |listener| listener.local_addr().unwrap().port());
    // All users may read it, so only the kernel's limits keep the plugin from it.
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::set_permissions(secret.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    // The user of the plugin owns these.
    let (user, group) = lab.settings.user;
    let own = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(own.path(), "content").unwrap();
    let mut other = Command::new("sleep");
    other.arg("600");
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        std::os::unix::fs::chown(own.path(), Some(user), Some(group)).unwrap();
        other.uid(user).gid(group);
    }
    let before = std::fs::metadata(own.path()).unwrap();
    let mut other = other.spawn().unwrap();
    let paths = ["/etc/passwd", "/proc/self/environ", "/home", "/tmp", "/", secret.path().to_str().unwrap()];
    let parameters =
        json!({"paths": paths, "port": port, "port6": port6, "pid": other.id(), "own": own.path()});
    let bench = lab.bench(&lab.bold, |_| {});
    let messages = bench.invoke("attempt", parameters).await;
    bench.plugins.stop().await;
    other.kill().unwrap();
    other.wait().unwrap();
    let messages = messages.unwrap();
    let after = std::fs::metadata(own.path()).unwrap();
    assert_eq!(
        (after.mode(), after.mtime(), after.len()),
        (before.mode(), before.mtime(), before.len()),
        "a plugin changed a foreign file"
    );
    let [Message::Json(Json::Object(outcome))] = &messages[..] else { panic!("{messages:?}") };
    let may = ["own file", "thread", "child", "own processors", "signal mask", "handler", "chmod", "utime"];
    let about = ["environment", "user"];
    assert!(may.iter().all(|attempt| outcome.contains_key(*attempt)), "{outcome:?}");
    // Older kernels limit less, and say so.
    let knows_ports = !guest::not_enforced().iter().any(|gap| gap.starts_with("ports"));
    for (attempt, how) in outcome.iter().filter(|(name, _)| !about.contains(&name.as_str())) {
        if attempt == "another port" && !knows_ports {
            continue;
        }
        let expected: &[&str] = match attempt.as_str() {
            known if may.contains(&known) => &["done"],
            "large file" => &["EFBIG"],
            _ => &["EPERM", "EACCES", "ENOSYS"],
        };
        let how = how.as_str().unwrap_or_default();
        assert!(expected.contains(&how), "{attempt}: {how}; all: {outcome:?}");
    }
    assert_ne!(outcome["user"], 0);
    let variables: Vec<&str> =
        outcome["environment"].as_array().unwrap().iter().filter_map(Json::as_str).collect();
    for known in ["HOME", "INSTALL_METHOD", "HTTPS_PROXY"] {
        assert!(variables.contains(&known), "{variables:?}");
    }
    for foreign in ["PLUGINS_CACHE", "CARGO_MANIFEST_DIR", "USER"] {
        assert!(!variables.contains(&foreign), "{variables:?}");
    }
}

async fn children_are_bounded_and_end_with_the_plugin(lab: &Lab) {
    let bench = lab.bench(&lab.bold, |settings| {
        settings.process.threads_max = 40;
        settings.process.session_timeout = Duration::from_secs(30);
    });
    let mut results = bench.begin("spread", json!({})).await.unwrap();
    let first = results.next().await.unwrap().into_iter().collect::<Vec<_>>();
    let count: usize = texts(&first)[0].parse().unwrap();
    assert!((1..=40).contains(&count), "{count}");
    assert!(processes_in(&bench.installed.folder) > 1);
    bench.plugins.stop().await;
    let until = Instant::now() + Duration::from_secs(10);
    while processes_in(&bench.installed.folder) > 0 {
        assert!(Instant::now() < until, "children of the plugin outlive it");
        tokio::task::yield_now().await;
    }
}

fn processes_in(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
        .count()
}
