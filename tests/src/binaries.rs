//! Paths of the programs under test. They belong to other packages, so cargo sets no variable with their paths. Each
//! test program therefore builds them once, into its own target folder. Cargo locks that folder against other builds
//! and does nothing when they are up to date.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names a folder with programs that are built already; tests then build nothing.
pub const READY: &str = "TEST_BINARIES";
/// Variables that cargo sets for a test. A build that inherits them believes that settings have changed, and builds
/// everything again.
const OF_THIS_TEST: [&str; 6] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_", "CARGO_TARGET_TMPDIR"];
const PACKAGES: [&str; 3] = ["tidemill-scheduler", "tidemill-worker", "tidemill"];

/// Returns the path of a program, such as `tidemill-worker`.
///
/// # Panics
/// When the programs do not build.
pub fn binary(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER
        .get_or_init(|| match std::env::var_os(READY) {
            Some(folder) => folder.into(),
            None => build(),
        })
        .join(name)
}

fn build() -> PathBuf {
    let folder = profile_folder();
    let target = folder.parent().expect("a profile's folder is in the target folder");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(crate::workspace()).args(["build", "--quiet", "--bins"]);
    for (name, _) in std::env::vars().filter(|(name, _)| OF_THIS_TEST.iter().any(|of| name.starts_with(of))) {
        command.env_remove(name);
    }
    command.env_remove("LD_LIBRARY_PATH").env_remove("CARGO");
    command.arg("--target-dir").arg(target);
    for package in PACKAGES {
        command.args(["-p", package]);
    }
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let built = command.output().expect("cargo runs where it runs tests");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the programs under test do not build:\n{said}");
    folder
}

/// `target/debug`, seen from `target/debug/deps/it-0123`.
fn profile_folder() -> PathBuf {
    let program = std::env::current_exe().expect("a test knows where it is");
    let folder = program.parent().and_then(Path::parent);
    folder.expect("tests are two folders below the target folder").to_path_buf()
}
