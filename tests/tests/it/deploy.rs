//! The programs can read what `deploy/` ships, and its values fit together.

use tidemill_common::config::{Config, Sources};
use tidemill_tests::workspace;

#[test]
fn the_programs_can_read_the_settings_of_the_images() {
    let file = workspace().join("deploy/tidemill.toml");
    let config = Config::load(&Sources { file: Some(file), ..Sources::default() });
    let config = config.expect("every line of it is a setting");
    // deploy/Dockerfile makes this folder, and deploy/compose.yaml mounts a volume there.
    assert_eq!(config.files.url, "/var/lib/tidemill/files".into());
    for file in ["Dockerfile", "compose.yaml"] {
        let text = std::fs::read_to_string(workspace().join("deploy").join(file)).unwrap();
        assert!(text.contains("/var/lib/tidemill/files"), "deploy/{file} names the folder");
    }
}

#[test]
fn containers_have_more_time_to_stop_than_the_programs_need() {
    let config = Config::default();
    let compose = std::fs::read_to_string(workspace().join("deploy/compose.yaml")).unwrap();
    for (service, grace) in
        [("scheduler", config.scheduler.grace_seconds), ("worker", config.worker.grace_seconds)]
    {
        let section = compose.split(&format!("\n  {service}:\n")).nth(1).expect("a service of that name");
        let given = section.split("stop_grace_period: ").nth(1).and_then(|rest| rest.split('s').next());
        let given: u64 = given.and_then(|seconds| seconds.parse().ok()).expect("a number of seconds");
        assert!(given > grace, "{service}: {given} s for a grace of {grace} s");
    }
}

/// Otherwise a client could choose the address for which its wrong keys are counted.
#[test]
fn schedulers_trust_only_the_network_of_the_balancer_which_removes_the_header_of_clients() {
    let text = |file: &str| std::fs::read_to_string(workspace().join("deploy").join(file)).unwrap();
    let compose = text("compose.yaml");
    let network = "\"${SUBNET:-172.30.87.0/24}\"";
    assert!(compose.contains(&format!("- subnet: {network}")), "the network is fixed");
    assert!(compose.contains(&format!("TIDEMILL_SCHEDULER_TRUSTED_PROXIES: {network}")), "and trusted");
    let file = workspace().join("deploy/tidemill.toml");
    let config = Config::load(&Sources { file: Some(file), ..Sources::default() }).unwrap();
    // The images contain this file, and there may be no balancer where they run.
    assert!(config.scheduler.trusted_proxies.is_empty(), "{:?}", config.scheduler.trusted_proxies);
    let balancer = text("haproxy.cfg");
    let line = |wanted: &str| balancer.lines().position(|line| line.trim() == wanted);
    let removed = line("http-request del-header X-Forwarded-For").expect("the header of clients is removed");
    assert!(removed < line("option forwardfor").expect("the balancer names the address"));
}

/// Kubernetes counts the `preStop` hook as part of this time.
#[test]
fn pods_of_the_example_have_more_time_to_stop_than_the_programs_need() {
    let page = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let number = |before: &str, after: &str| -> u64 {
        let rest = page.split(before).nth(1).unwrap_or_else(|| panic!("{before} is missing"));
        rest.split(after).next().and_then(|number| number.trim().parse().ok()).expect("a number")
    };
    let config = Config::default();
    let slept = number("{preStop: {exec: {command: [sleep, \"", "\"");
    assert!(number("beside the others, ", " seconds") > slept + config.scheduler.grace_seconds);
    assert!(number("\nterminationGracePeriodSeconds: ", "\n") > config.worker.grace_seconds);
}
