//! Calls pip: to choose versions without installing anything, and to install exactly the files of a lock.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tidemill_common::nodes::code::PythonTable;
use tokio::process::Command;

use super::{InstallError, file};
use crate::python::discover;

/// Files of pip that an environment has only while it is made.
pub(super) const PASSING: [&str; 2] = [REPORT, CONSTRAINTS];
const REPORT: &str = "report.json";
const CONSTRAINTS: &str = "constraints.txt";
/// A folder that is never there.
pub(crate) const NO_HOME: &str = "/nonexistent";
/// Most characters of a program's complaint that are shown: its end.
const COMPLAINT_CHARS_MAX: usize = 2_000;

/// The pip of a Python of this machine.
pub(crate) struct Pip {
    /// The program that pip starts with the Python of another environment.
    runner: PathBuf,
}

impl Pip {
    /// The pip of this interpreter, or another one of this machine.
    pub(crate) async fn find(interpreter: &Path) -> Result<Self, InstallError> {
        let others = discover::candidates("python3");
        let mut tried = Vec::new();
        for python in std::iter::once(interpreter.to_path_buf()).chain(others) {
            let arguments = ["-I", "-m", "pip", "--version"].map(OsString::from);
            let told = output("asking for pip", &python, arguments, &[]).await;
            if told.is_ok_and(|told| is_new(&told))
                && let Ok(runner) = runner(&python).await
            {
                return Ok(Self { runner });
            }
            tried.push(python.display().to_string());
        }
        Err(InstallError::NoPip(tried.join(", ")))
    }

    /// The program that runs pip with the Python of another environment.
    pub(crate) fn runner(&self) -> &Path {
        &self.runner
    }

    /// Pip's report of what it would install. Nothing is installed.
    pub(super) async fn resolve(
        &self,
        python: &PythonTable,
        environment: &Path,
        kept: Option<&str>,
    ) -> Result<String, InstallError> {
        const DOING: &str = "choosing versions";
        let report = environment.join(REPORT);
        let mut arguments =
            ["install", "--dry-run", "--ignore-installed", "--report"].map(OsString::from).to_vec();
        arguments.push(report.clone().into_os_string());
        let mut with_kept = arguments.clone();
        let packages = python.packages.iter().map(OsString::from);
        arguments.extend(packages.clone());
        if let Some(kept) = kept {
            let constraints = environment.join(CONSTRAINTS);
            std::fs::write(&constraints, kept).map_err(|error| file("writing", &constraints, error))?;
            with_kept.extend(["--constraint".into(), constraints.into_os_string()]);
            with_kept.extend(packages);
        }
        let mut done = match kept {
            Some(_) => self.run(DOING, python, environment, with_kept).await,
            None => self.run(DOING, python, environment, arguments.clone()).await,
        };
        if done.is_err() && kept.is_some() {
            // The versions of before do not fit to the new packages.
            done = self.run(DOING, python, environment, arguments).await;
        }
        done?;
        std::fs::read_to_string(&report).map_err(|error| file("reading", &report, error))
    }

    /// Installs the files of a lock, each of which must have its hash.
    pub(super) async fn install(
        &self,
        python: &PythonTable,
        environment: &Path,
        lock: &Path,
    ) -> Result<(), InstallError> {
        let arguments = ["install", "--no-deps", "--require-hashes", "--requirement"].map(OsString::from);
        let arguments = arguments.into_iter().chain([lock.as_os_str().to_owned()]).collect();
        self.run("installing", python, environment, arguments).await
    }

    async fn run(
        &self,
        doing: &'static str,
        python: &PythonTable,
        environment: &Path,
        arguments: Vec<OsString>,
    ) -> Result<(), InstallError> {
        let mut all: Vec<OsString> = vec!["-I".into(), self.runner.clone().into_os_string()];
        all.extend(arguments);
        all.extend(["--quiet", "--no-input", "--disable-pip-version-check"].map(OsString::from));
        if !python.allow_builds {
            all.extend(["--only-binary", ":all:"].map(OsString::from));
        }
        if !python.wheels.is_empty() {
            all.extend(["--no-index".into(), "--find-links".into()]);
            all.push(python.path(&python.wheels).into_os_string());
        }
        // In the environment, because other users can read command lines, and an address may have a password.
        let index = python.index_url.as_str();
        let mut variables = Vec::new();
        if !index.is_empty() {
            variables.push(("PIP_INDEX_URL", index));
        }
        if !python.allow_builds {
            // `--only-binary` does not count for packages that others name by an address: pip would run their code.
            // With this home no Python starts, except this one, which ignores it (`-I`).
            variables.push(("PYTHONHOME", NO_HOME));
        }
        output(doing, &environment.join("bin/python"), all, &variables).await.map(drop)
    }
}

/// The path of pip's runner.
async fn runner(python: &Path) -> Result<PathBuf, InstallError> {
    const ASK: &str = "import os, pip; print(os.path.join(os.path.dirname(os.path.abspath(pip.__file__)), '__pip-runner__.py'))";
    let told = output("looking for pip", python, ["-I", "-c", ASK].map(OsString::from), &[]).await?;
    Ok(PathBuf::from(told.trim()))
}

/// Whether `pip 23.0.1 from …` can install into other environments.
fn is_new(told: &str) -> bool {
    let version = told.split_whitespace().nth(1).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (22, 3)
}

/// Runs a program and returns what it printed.
pub(super) async fn output(
    doing: &'static str,
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
    variables: &[(&str, &str)],
) -> Result<String, InstallError> {
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied());
    output_of(doing, command).await
}

/// Runs a command and returns what it printed.
pub(crate) async fn output_of(doing: &'static str, mut command: Command) -> Result<String, InstallError> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let failed = |reason: String| InstallError::Program { doing, reason };
    let program = command.as_std().get_program().display().to_string();
    let output = command.output().await.map_err(|error| failed(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let told = told.trim();
    let from = told.char_indices().rev().nth(COMPLAINT_CHARS_MAX).map_or(0, |(at, _)| at);
    Err(failed(format!("{}\n{}", output.status, &told[from..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_pip_is_not_used() {
        for (told, is) in [
            ("pip 23.0.1 from /usr/lib/python3/dist-packages/pip (python 3.11)", true),
            ("pip 22.3 from x", true),
            ("pip 22.2.2 from x", false),
            ("pip 9.0 from x", false),
            ("", false),
        ] {
            assert_eq!(is_new(told), is, "{told}");
        }
    }
}
