//! The programs to measure: built in release mode, found in cargo's folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// Paths of the programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// This program, for the processes of the bare loop.
    pub(crate) own: PathBuf,
    pub(crate) scheduler: PathBuf,
    pub(crate) worker: PathBuf,
    /// The command line.
    pub(crate) tidemill: PathBuf,
    /// The command line of an earlier build, to compare with.
    pub(crate) earlier: Option<PathBuf>,
}

impl Programs {
    /// Finds the others in the folder of this program.
    pub(crate) fn find() -> Result<Self, Error> {
        let own = std::env::current_exe().map_err(Error::io("finding this program"))?;
        let folder = own.parent().map(Path::to_path_buf).unwrap_or_default();
        if folder.file_name().is_none_or(|name| name != "release") {
            return Err(Error::Wrong("a debug build cannot be measured: run with --release".into()));
        }
        let [scheduler, worker, tidemill] =
            ["tidemill-scheduler", "tidemill-worker", "tidemill"].map(|name| folder.join(name));
        Ok(Self { own, scheduler, worker, tidemill, earlier: None })
    }
}

/// Builds scheduler, worker and command line in release mode.
pub(crate) fn build() -> Result<(), Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let packages = ["-p", "tidemill-scheduler", "-p", "tidemill-worker", "-p", "tidemill"];
    let built = Command::new(&cargo).args(["build", "--release", "--bins"]).args(packages).status();
    match built {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Wrong(format!("building the programs failed: {status}"))),
        Err(source) => Err(Error::Start { program: cargo.display().to_string(), source }),
    }
}
