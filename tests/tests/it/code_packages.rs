//! Packages of code nodes: `tidemill code install` makes their environment from a folder of wheels, a worker uses it,
//! and `check` and failures name what is missing.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::{Cluster, Worker};
use tidemill_tests::wait::{LONG, until};

use super::called::file;
use super::doctor::doctor;

/// Makes a wheel with one module, as a build of the package would.
const WHEEL: &str = r#"
import sys, zipfile
name, version, code, *needs = sys.argv[2:]
needs = "".join(f"Requires-Dist: {need}\n" for need in needs)
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(f"{sys.argv[1]}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    wheel.writestr(f"{name}.py", code)
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
"#;

/// Makes a source archive whose build leaves a file.
const SOURCES: &str = r#"
import io, sys, tarfile
archive, mark = sys.argv[1:]
files = {"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'built'\nbackend-path = ['.']\n",
    "built.py": f"open({mark!r}, 'w').close()\n", "PKG-INFO": "Metadata-Version: 2.1\nName: built\nVersion: 1.0\n"}
with tarfile.open(archive, "w:gz") as tar:
    for name, text in files.items():
        info = tarfile.TarInfo(f"built-1.0/{name}")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
"#;

/// A folder with wheels and settings that declare packages of them.
struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("room for a folder");
        // The sandbox's user must be able to read the environments.
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), all).expect("its mode can be set");
        std::fs::create_dir(folder.path().join("wheels")).expect("a folder");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn wheel(&self, name: &str, version: &str, code: &str, needs: &[&str]) {
        let made = std::process::Command::new("python3")
            .args(["-c", WHEEL])
            .arg(self.path("wheels"))
            .args([name, version, code])
            .args(needs)
            .status();
        assert!(made.expect("python3 starts").success());
    }

    /// Writes the settings, with these packages.
    fn declare(&self, packages: &[&str]) {
        self.write_settings("own.toml", packages, "environments");
    }

    fn write_settings(&self, file: &str, packages: &[&str], environments: &str) {
        let text = format!(
            "[code.python]\npackages = {packages:?}\nwheels = \"wheels\"\nenvironments = {environments:?}\n"
        );
        std::fs::write(self.path(file), text).expect("it can be written");
    }

    async fn worker(&self, cluster: &Cluster, settings: &str) -> Worker {
        let mut command = cluster.command("tidemill-worker");
        command.env("TIDEMILL_CONFIG", self.path(settings));
        cluster.worker_of(command).await
    }

    fn install(&self, cluster: &Cluster, words: &[&str]) -> (bool, String) {
        let output = self.tidemill(cluster, &[&["code", "install"], words].concat());
        (output.status.success(), text(&output))
    }

    fn tidemill(&self, cluster: &Cluster, words: &[&str]) -> Output {
        let mut command = cluster.command("tidemill");
        command.args(words).arg("--config").arg(self.path("own.toml"));
        command.output().expect("it starts")
    }

    /// The environments that are complete.
    fn environments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("environments")).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        let mut folders: Vec<PathBuf> = folders.collect();
        folders.sort();
        folders
    }
}

fn text(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    both.concat()
}

fn coded(code: &str) -> String {
    let data = json!({"type": "code", "title": "C", "code_language": "python3", "variables": [], "code": code,
        "outputs": {"x": {"type": "string", "children": null}}});
    file("Coded", &[], &[("c", data)], &[("x", ["c", "x"])])
}

const GREETING: &str = "def greet(name):\n    return 'good tide, ' + name\n";

#[tokio::test(flavor = "multi_thread")]
async fn packages_are_installed_once_and_code_imports_them() {
    let (host, cluster) = (Host::new(), Cluster::start(&[], None).await);
    host.wheel("tide_greeting", "1.0", GREETING, &[]);
    host.declare(&["tide-greeting"]);
    // Two hosts' installs on one folder wait for each other.
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| host.tidemill(&cluster, &["code", "install"]));
        (host.tidemill(&cluster, &["code", "install"]), other.join().expect("no panic"))
    });
    let said = text(&one) + &text(&other);
    assert!(one.status.success() && other.status.success(), "{said}");
    assert!(said.contains("is ready: Python") && said.contains("is there already"), "{said}");
    assert_eq!(host.environments().len(), 1, "{said}");
    let lock = std::fs::read_to_string(host.path("tidemill-code.lock")).expect("a lock");
    assert!(lock.contains("\ntide_greeting==1.0 --hash=sha256:"), "{lock}");
    is_read_only(&host.environments()[0]);
    let listed: Json =
        serde_json::from_slice(&host.tidemill(&cluster, &["code", "ls", "--json"]).stdout).expect("JSON");
    assert_eq!(listed["environment"]["modules"], json!(["tide_greeting"]), "{listed}");

    let scheduler = cluster.scheduler().await;
    let _worker = host.worker(&cluster, "own.toml").await;
    let client = scheduler.client();
    let ended = async |code: &str| {
        let run = client.submit(&json!({"workflow": coded(code), "inputs": {}, "user": "u"})).await;
        client.ended(&run).await
    };
    let greeted =
        ended("import tide_greeting\ndef main():\n    return {'x': tide_greeting.greet('miller')}").await;
    assert_eq!(greeted["outputs"], json!({"x": "good tide, miller"}), "{greeted:#}");
    let missing = ended("import tide_absent\ndef main():\n    return {'x': ''}").await;
    let error = missing["error"].as_str().unwrap_or_default();
    assert!(error.contains("add \"tide-absent\" to code.python.packages"), "{error}");
    let written = ended("import tide_greeting\ndef main():\n    open(tide_greeting.__file__, 'a')").await;
    assert!(written["error"].as_str().unwrap_or_default().contains("Permission denied"), "{written:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_install_runs_no_code_of_packages_and_leaves_the_environment_of_before() {
    let (host, cluster) = (Host::new(), Cluster::start(&[], None).await);
    host.wheel("tide_greeting", "1.0", GREETING, &[]);
    host.declare(&["tide-greeting"]);
    let first = host.tidemill(&cluster, &["code", "install"]);
    assert!(first.status.success(), "{}", text(&first));
    let lock = std::fs::read_to_string(host.path("tidemill-code.lock")).expect("a lock");

    let (archive, mark) = (host.path("built-1.0.tar.gz"), host.path("was-built"));
    let made = std::process::Command::new("python3").args(["-c", SOURCES]).arg(&archive).arg(&mark).status();
    assert!(made.expect("python3 starts").success());
    host.wheel("tide_greeting", "2.0", GREETING, &[&format!("built @ file://{}", archive.display())]);
    let update = host.tidemill(&cluster, &["code", "install", "--update"]);
    assert!(!update.status.success(), "{}", text(&update));
    assert!(!mark.exists(), "a package was built: {}", text(&update));
    assert_eq!(std::fs::read_to_string(host.path("tidemill-code.lock")).expect("a lock"), lock);
    let listed = host.tidemill(&cluster, &["code", "ls"]);
    assert!(listed.status.success(), "{}", text(&listed));

    // Without its manifest an environment is damaged.
    let folder = &host.environments()[0];
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("its mode can be set");
    std::fs::remove_file(folder.join("tidemill-environment.json")).expect("it is there");
    let repaired = host.tidemill(&cluster, &["code", "install"]);
    assert!(repaired.status.success(), "{}", text(&repaired));
    is_read_only(&host.environments()[0]);
}

/// No file or folder of an environment can be written.
fn is_read_only(path: &Path) {
    let found = std::fs::symlink_metadata(path).expect("it is there");
    if found.is_symlink() {
        return;
    }
    assert_eq!(found.permissions().mode() & 0o222, 0, "{}", path.display());
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        is_read_only(&entry.path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_decides_what_is_installed() {
    let (host, cluster) = (Host::new(), Cluster::start(&[], None).await);
    let install = |words: &[&str]| host.install(&cluster, words);
    host.declare(&[]);
    let (_, said) = install(&[]);
    assert!(said.contains("code.python.packages"), "{said}");
    host.declare(&["tide-greeting"]);
    let (done, said) = install(&["--locked"]);
    assert!(!done && said.contains("there is no lock file yet"), "{said}");
    let (done, said) = install(&[]);
    assert!(!done && said.contains("choosing versions failed") && host.environments().is_empty(), "{said}");

    host.wheel("tide_greeting", "1.0", GREETING, &[]);
    assert!(install(&[]).0);
    host.wheel("tide_greeting", "2.0", GREETING, &[]);
    let (done, said) = install(&["--locked"]);
    assert!(done && said.contains("is there already"), "{said}");
    // Another package keeps the versions of those that were there.
    host.wheel("tide_table", "0.1", "high = 12\n", &[]);
    host.declare(&["tide-greeting", "tide-table"]);
    let (done, said) = install(&["--locked"]);
    assert!(!done && said.contains("code.python.packages have changed"), "{said}");
    assert!(install(&[]).0);
    let lock = || std::fs::read_to_string(host.path("tidemill-code.lock")).expect("a lock");
    assert!(lock().contains("tide_greeting==1.0 ") && lock().contains("tide_table==0.1 "), "{}", lock());
    let (done, said) = install(&["--update"]);
    assert!(done && !said.contains("up to date"), "{said}");
    assert!(lock().contains("tide_greeting==2.0 "), "{}", lock());
    let (done, said) = install(&["--update"]);
    assert!(done && said.contains("the lock file is up to date") && !said.contains("wrote"), "{said}");
    assert_eq!(host.environments().len(), 3);

    // A wheel that is not that of the lock is refused, and nothing is left of the attempt.
    host.wheel("tide_greeting", "2.0", "def greet(name):\n    return 'something else'\n", &[]);
    for environment in host.environments() {
        let removing = ["-c", "chmod -R u+w \"$0\" && rm -rf \"$0\""];
        let removed = std::process::Command::new("sh").args(removing).arg(environment).status();
        assert!(removed.expect("it starts").success());
    }
    let (done, said) = install(&["--locked"]);
    assert!(!done && said.to_lowercase().contains("hash"), "{said}");
    assert!(host.environments().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_modules_that_the_settings_do_not_provide() {
    let (host, cluster) = (Host::new(), Cluster::start(&[], None).await);
    let flow = host.path("flow.json");
    let code = "import json\nfrom tide_greeting import greet\nimport requests\ndef main():\n    return {'x': greet('y')}";
    std::fs::write(&flow, coded(code)).expect("it can be written");
    let check = || {
        let output = host.tidemill(&cluster, &["check", &flow.display().to_string()]);
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    };
    std::fs::write(host.path("own.toml"), "").expect("it can be written");
    let said = check();
    assert!(said.contains("with 2 warnings") && said.contains("no module tide_greeting"), "{said}");
    assert!(said.contains("add \"requests\" to code.python.packages"), "{said}");
    host.declare(&["requests", "tide-greeting"]);
    let said = check();
    assert!(said.contains("with 1 warning") && said.contains("code.no_network"), "{said}");
    let network = std::fs::read_to_string(host.path("own.toml")).expect("settings");
    std::fs::write(host.path("own.toml"), format!("[code]\nnetwork = true\n{network}"))
        .expect("it can be written");
    assert!(check().contains("ok (3 nodes)"), "{}", check());
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_in_the_settings_and_the_lock_are_named_by_install() {
    let (host, cluster) = (Host::new(), Cluster::start(&[], None).await);
    host.wheel("tide_greeting", "1.0", GREETING, &[]);
    host.declare(&["tide-greeting"]);
    let ls = text(&host.tidemill(&cluster, &["code", "ls"]));
    assert!(ls.contains("tidemill: code.python declares packages"), "{ls}");
    std::fs::write(host.path("tidemill-code.lock"), "<<<<<<< ours\n").expect("it can be written");
    for words in [&["--locked"][..], &[]] {
        let (done, said) = host.install(&cluster, words);
        assert!(!done && said.contains("is no lock file") && said.contains("--update"), "{said}");
    }
    let preload = "preload = [\"tide_greeting\", \"json\", \"tide_absent.deep\"]\n";
    let settings = std::fs::read_to_string(host.path("own.toml")).expect("settings") + preload;
    std::fs::write(host.path("own.toml"), settings).expect("it can be written");
    let (done, said) = host.install(&cluster, &["--update"]);
    assert!(done && said.contains("wrote"), "{said}");
    assert!(said.matches("preload").count() == 1 && said.contains("names tide_absent.deep"), "{said}");
    std::fs::rename(host.path("wheels"), host.path("away")).expect("it can be renamed");
    host.declare(&["tide-table"]);
    let (done, said) = host.install(&cluster, &[]);
    assert!(!done && said.contains("code.python.wheels: no such folder: "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_is_only_ready_where_code_can_read_it() {
    let (host, cluster) = (Host::new(), Cluster::start(&[], None).await);
    host.wheel("tide_greeting", "1.0", GREETING, &[]);
    host.declare(&["tide-greeting"]);
    let mut careful = std::process::Command::new("sh");
    careful.args(["-c", "umask 077; exec \"$@\"", "sh"]);
    let command = cluster.command("tidemill");
    careful.arg(command.get_program()).args(["code", "install", "--config"]).arg(host.path("own.toml"));
    let said = text(&careful.output().expect("it starts"));
    assert!(said.contains("is ready: Python"), "{said}");
    let mode = std::fs::metadata(host.path("environments")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    // Only root has a sandbox user that differs from its own.
    if std::fs::metadata("/proc/self").expect("it is there").uid() != 0 {
        return;
    }
    let closed = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(host.folder.path(), closed).expect("its mode can be set");
    let (done, said) = host.install(&cluster, &[]);
    assert!(
        !done && said.contains("code.sandbox_uid cannot read") && said.contains("Permission denied"),
        "{said}"
    );
    assert!(said.contains("every user must be able to read code.python.environments"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_its_code_back_when_the_packages_are_there() {
    let (host, cluster) = (Host::new(), Cluster::start(&[], None).await);
    host.wheel("tide_greeting", "1.0", GREETING, &[]);
    host.declare(&["tide-greeting"]);
    host.write_settings("never.toml", &["tide-greeting"], "elsewhere");
    let scheduler = cluster.scheduler().await;
    let (mended, never) =
        (host.worker(&cluster, "own.toml").await, host.worker(&cluster, "never.toml").await);
    let client = scheduler.client();
    let workflow =
        coded("import tide_greeting\ndef main():\n    return {'x': tide_greeting.greet('miller')}");
    let job = json!({"workflow": workflow, "inputs": {}, "user": "u"});
    // Both workers note that a job has asked for what they lack.
    let lacking = async |asked: bool| {
        let workers = client.get("/api/v1/workers").await.body;
        let lacks = |worker: &Json| {
            let all = worker["missing"].as_array().into_iter().flatten();
            all.into_iter().any(|one| one["need"]["what"] == "code" && (!asked || !one["asked_at"].is_null()))
        };
        let found: Vec<Json> = workers["data"].as_array().into_iter().flatten().cloned().collect();
        let names = found.iter().filter(|worker| lacks(worker)).map(|worker| worker["name"].clone());
        names.collect::<Vec<Json>>()
    };
    until("both workers to fail", LONG, async || {
        let run = client.submit(&job).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["status"], "failed", "{ended:#}");
        let found = lacking(true).await;
        if found.len() == 2 { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    let (is_well, found) = doctor(&cluster, &[]).await;
    let warned = format!("the worker {} lacks ", mended.consumer);
    assert!(!is_well && found["warnings"].to_string().contains(&warned), "{found}");
    assert!(mended.process.log_text().contains("this worker lacks "), "{}", mended.process.log_text());

    let (done, said) = host.install(&cluster, &[]);
    assert!(done, "{said}");
    until("one worker to be able", LONG, async || {
        let found = lacking(false).await;
        if found == [json!(never.consumer)] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    for _ in 0..20 {
        let run = client.submit(&job).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["outputs"], json!({"x": "good tide, miller"}), "{ended:#}");
    }
}
