//! The programs under test: built as they are released, found where cargo puts them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// Where the programs are.
pub(crate) struct Programs {
    /// This one, for the bare loop's processes.
    pub(crate) own: PathBuf,
    /// `tidemill-scheduler`
    pub(crate) scheduler: PathBuf,
    /// `tidemill-worker`
    pub(crate) worker: PathBuf,
}

impl Programs {
    /// Builds scheduler and worker in release mode, unless told to take what is there, and finds them beside ourselves.
    pub(crate) fn find(is_built: bool) -> Result<Self, Error> {
        let own = std::env::current_exe().map_err(Error::io("finding this program"))?;
        let folder = own.parent().map(Path::to_path_buf).unwrap_or_default();
        if !is_built {
            build()?;
        }
        if folder.file_name().is_none_or(|name| name != "release") {
            return Err(Error::Wrong("a debug build says nothing about speed: run with --release".into()));
        }
        let find = |name: &str| {
            let path = folder.join(name);
            match path.is_file() {
                true => Ok(path),
                false => Err(Error::Wrong(format!("{} is not there; leave --no-build out", path.display()))),
            }
        };
        Ok(Self { scheduler: find("tidemill-scheduler")?, worker: find("tidemill-worker")?, own })
    }
}

fn build() -> Result<(), Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let packages = ["-p", "tidemill-scheduler", "-p", "tidemill-worker"];
    let built = Command::new(&cargo).args(["build", "--release", "--bins"]).args(packages).status();
    match built {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Wrong(format!("building the scheduler and the worker failed: {status}"))),
        Err(source) => Err(Error::Start { program: cargo.display().to_string(), source }),
    }
}
