//! Finds the `tidemill` program. Code nodes and documents need it: they run in confined processes, which are that program,
//! started again. The host's own program is never started again.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tidemill_sandbox::helper::Host;

use crate::error::EmbedError;

/// The name of the program.
const NAME: &str = "tidemill";

/// The result of the search.
#[derive(Debug, PartialEq)]
pub(crate) enum Helper {
    /// The running program is `tidemill` itself.
    Running,
    /// This program.
    At(PathBuf),
    /// No program, for this reason.
    None(String),
}

/// Finds the helper: the named program, else the running one, else one of this version beside it or on `PATH`.
///
/// # Errors
/// [`EmbedError::NoHelper`] if no file is at the named place.
pub(crate) fn find(named: Option<&Path>) -> Result<Helper, EmbedError> {
    if let Some(path) = named {
        let is_there = path.is_file();
        return is_there.then(|| Helper::At(path.into())).ok_or_else(|| EmbedError::NoHelper(path.into()));
    }
    if Host::this_program().is_some() {
        return Ok(Helper::Running);
    }
    let places = places(env::current_exe().ok().as_deref(), env::var_os("PATH").as_deref());
    Ok(first_of_version(places, env!("CARGO_PKG_VERSION"), version))
}

/// The places to look at, in order.
fn places(running: Option<&Path>, path: Option<&OsStr>) -> Vec<PathBuf> {
    let beside = running.and_then(Path::parent).map(Path::to_path_buf);
    let on_path = path.map(|path| env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    beside.into_iter().chain(on_path).filter(|folder| folder.is_absolute()).map(|f| f.join(NAME)).collect()
}

/// The first of these programs that has the wanted version. Another version may speak otherwise with its helpers.
fn first_of_version(places: Vec<PathBuf>, wanted: &str, version: impl Fn(&Path) -> Option<String>) -> Helper {
    let mut others = Vec::new();
    for place in places {
        match version(&place) {
            Some(found) if found == wanted => return Helper::At(place),
            Some(found) => others.push(format!("{} has the version {found}", place.display())),
            None => {}
        }
    }
    let place = "name it in the setting code.helper, or put it beside this program or on PATH";
    Helper::None(match others.as_slice() {
        [] => format!("the tidemill program was not found: {place}"),
        [first, ..] => {
            format!("no tidemill program of the version {wanted} was found ({first}): {place}")
        }
    })
}

/// The version that a program gives as its own; `None` if it is not there or is another program.
fn version(program: &Path) -> Option<String> {
    if !program.is_file() {
        return None;
    }
    let given = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = String::from_utf8(given.ok()?.stdout).ok()?;
    Some(text.trim().strip_prefix(NAME)?.trim().to_owned()).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_beside_the_host_comes_before_those_on_path() {
        let found = places(Some(Path::new("/opt/host/bin/app")), Some(OsStr::new("/usr/bin:relative:/bin")));
        let expected = ["/opt/host/bin/tidemill", "/usr/bin/tidemill", "/bin/tidemill"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(places(None, None), Vec::<PathBuf>::new());
    }

    #[test]
    fn only_a_program_of_the_same_version_is_taken() {
        let at = |path: &Path| match path.to_str() {
            Some("/old/tidemill") => Some("0.0.9".to_owned()),
            Some("/new/tidemill") => Some("0.1.0".to_owned()),
            _ => None,
        };
        let among =
            |places: &[&str]| first_of_version(places.iter().map(PathBuf::from).collect(), "0.1.0", at);
        assert_eq!(
            among(&["/none/tidemill", "/old/tidemill", "/new/tidemill"]),
            Helper::At("/new/tidemill".into())
        );
        let Helper::None(reason) = among(&["/none/tidemill", "/old/tidemill"]) else {
            panic!("one was taken")
        };
        assert!(reason.contains("/old/tidemill has the version 0.0.9"), "{reason}");
        let Helper::None(reason) = among(&[]) else { panic!("one was taken") };
        assert!(reason.contains("code.helper"), "{reason}");
    }

    #[test]
    fn a_named_program_that_is_not_there_is_an_error() {
        let refused = find(Some(Path::new("/nowhere/tidemill"))).expect_err("nothing is there");
        assert!(refused.to_string().contains("/nowhere/tidemill"), "{refused}");
    }
}
