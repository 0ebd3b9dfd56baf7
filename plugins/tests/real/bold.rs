//! The plugin `bold`: what the kernel refuses to a plugin.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
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
    let secret = tempfile::NamedTempFile::new().unwrap();
    let paths = ["/etc/passwd", "/proc/self/environ", "/home", "/tmp", "/", secret.path().to_str().unwrap()];
    let parameters = json!({"paths": paths, "port": port, "pid": std::process::id()});
    let bench = lab.bench(&lab.bold, |_| {});
    let messages = bench.invoke("attempt", parameters).await.unwrap();
    bench.plugins.stop().await;
    let [Message::Json(Json::Object(outcome))] = &messages[..] else { panic!("{messages:?}") };
    let may = ["own file", "thread", "child"];
    let about = ["environment", "user"];
    // Older kernels limit less, and say so.
    let knows_ports = !guest::not_enforced().iter().any(|gap| gap.starts_with("ports"));
    for (attempt, how) in outcome.iter().filter(|(name, _)| !about.contains(&name.as_str())) {
        if attempt == "another port" && !knows_ports {
            continue;
        }
        assert_eq!(how == "done", may.contains(&attempt.as_str()), "{attempt}: {how}; all: {outcome:?}");
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
