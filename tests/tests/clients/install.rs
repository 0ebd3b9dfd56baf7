//! Installs clients from their registries, at pinned versions, into the target folder. An environment that is there is
//! used again as long as its pins are the same.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The kind of a client's script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From PyPI.
    Python,
    /// From npm.
    Node,
    /// A browser, driven by a library from npm.
    Browser,
}

/// The folder of this program's sources.
pub(crate) fn sources() -> PathBuf {
    tidemill_tests::workspace().join("tests/tests/clients")
}

/// Returns the Python of the client's own environment.
///
/// # Panics
/// When it cannot be made.
pub(crate) fn python(name: &str) -> PathBuf {
    let pins = sources().join(format!("requirements/{name}.txt"));
    let folder = target().join(name);
    let program = folder.join("bin/python");
    if is_current(&folder, &pins) {
        return program;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
    // dify-sdk asks for a newer Python than some systems have; it runs on 3.11.
    let pip =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--ignore-requires-python", "-r"];
    run(Command::new(&program).args(pip).arg(&pins));
    note(&folder, &pins);
    program
}

/// Returns a folder with the scripts of Node and the packages that they import.
///
/// # Panics
/// When it cannot be made.
pub(crate) fn node() -> PathBuf {
    let from = sources().join("node");
    let folder = target().join("node");
    let pins = from.join("package-lock.json");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    for entry in std::fs::read_dir(&from).expect("the folder of the scripts exists").flatten() {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).expect("a script can be copied");
        }
    }
    if !is_current(&folder, &pins) {
        run(Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(&folder));
        note(&folder, &pins);
    }
    folder
}

/// Returns the path of an installed Chromium.
///
/// # Panics
/// When there is none.
pub(crate) fn chromium() -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file());
    found.expect("Chromium is not installed; `make setup-clients` installs it")
}

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| tidemill_tests::workspace().join("target")).join("clients")
}

/// True when the folder was made with these pins.
fn is_current(folder: &Path, pins: &Path) -> bool {
    std::fs::read(folder.join("pins")).ok() == std::fs::read(pins).ok()
}

fn note(folder: &Path, pins: &Path) {
    std::fs::copy(pins, folder.join("pins")).expect("an installed client can be noted");
}

fn run(command: &mut Command) {
    let output =
        command.output().unwrap_or_else(|e| panic!("{command:?} does not start: {e}; is it installed?"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
