//! What `deploy/` ships is what the programs read.

use tidemill_common::config::{Config, Sources};
use tidemill_tests::workspace;

#[test]
fn the_settings_of_the_images_are_read() {
    let file = workspace().join("deploy/tidemill.toml");
    let config = Config::load(&Sources { file: Some(file), ..Sources::default() });
    let config = config.expect("every line of it is a setting");
    // The folder that deploy/Dockerfile makes and deploy/compose.yaml puts a volume on.
    assert_eq!(config.files.url, "/var/lib/tidemill/files".into());
    for file in ["Dockerfile", "compose.yaml"] {
        let text = std::fs::read_to_string(workspace().join("deploy").join(file)).unwrap();
        assert!(text.contains("/var/lib/tidemill/files"), "deploy/{file} names the folder");
    }
}

#[test]
fn the_containers_have_longer_to_stop_than_the_programs_take() {
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
