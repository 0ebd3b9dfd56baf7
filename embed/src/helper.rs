//! Finds the `tidemill` program. Code nodes and documents need it: they run in confined processes, which are that program,
//! started again. The host's own program is never started again.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tidemill_sandbox::helper::Host;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::error::EmbedError;

/// The name of the program.
const NAME: &str = "tidemill";
/// The longest wait for a program to tell its version. Another program of this name may wait for something else.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The most bytes of its answer that are read.
const ANSWER_BYTES_MAX: u64 = 256;

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
pub(crate) async fn find(named: Option<&Path>) -> Result<Helper, EmbedError> {
    if let Some(path) = named {
        let is_there = path.is_file();
        return is_there.then(|| Helper::At(path.into())).ok_or_else(|| EmbedError::NoHelper(path.into()));
    }
    if Host::this_program().is_some() {
        return Ok(Helper::Running);
    }
    let places = places(env::current_exe().ok().as_deref(), env::var_os("PATH").as_deref());
    let version = async |program: &Path| version(program, ANSWER_WITHIN).await;
    Ok(first_of_version(places, env!("CARGO_PKG_VERSION"), version).await)
}

/// The places to look at, in order.
fn places(running: Option<&Path>, path: Option<&OsStr>) -> Vec<PathBuf> {
    let beside = running.and_then(Path::parent).map(Path::to_path_buf);
    let on_path = path.map(|path| env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    beside.into_iter().chain(on_path).filter(|folder| folder.is_absolute()).map(|f| f.join(NAME)).collect()
}

/// The first of these programs that has the wanted version. Another version may speak otherwise with its helpers.
async fn first_of_version(
    places: Vec<PathBuf>,
    wanted: &str,
    version: impl AsyncFn(&Path) -> Option<String>,
) -> Helper {
    let mut others = Vec::new();
    for place in places {
        match version(&place).await {
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

/// The version that a program gives as its own; `None` if it is not there, is another program, or does not answer.
async fn version(program: &Path, within: Duration) -> Option<String> {
    if !program.is_file() {
        return None;
    }
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut asked = command.kill_on_drop(true).spawn().ok()?;
    let mut text = String::new();
    let mut answer = asked.stdout.take()?.take(ANSWER_BYTES_MAX);
    tokio::time::timeout(within, answer.read_to_string(&mut text)).await.ok()?.ok()?;
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

    #[tokio::test]
    async fn only_a_program_of_the_same_version_is_taken() {
        let at = async |path: &Path| match path.to_str() {
            Some("/old/tidemill") => Some("0.0.9".to_owned()),
            Some("/new/tidemill") => Some("0.1.0".to_owned()),
            _ => None,
        };
        let among = async |places: &[&str]| {
            first_of_version(places.iter().map(PathBuf::from).collect(), "0.1.0", at).await
        };
        assert_eq!(
            among(&["/none/tidemill", "/old/tidemill", "/new/tidemill"]).await,
            Helper::At("/new/tidemill".into())
        );
        let Helper::None(reason) = among(&["/none/tidemill", "/old/tidemill"]).await else {
            panic!("one was taken")
        };
        assert!(reason.contains("/old/tidemill has the version 0.0.9"), "{reason}");
        let Helper::None(reason) = among(&[]).await else { panic!("one was taken") };
        assert!(reason.contains("code.helper"), "{reason}");
    }

    #[tokio::test]
    async fn another_program_of_the_name_is_left_out_even_if_it_does_not_end() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let told = async |lines: &str, within: Duration| {
            let program = folder.path().join(NAME);
            std::fs::write(&program, format!("#!/bin/sh\n{lines}\n")).expect("it is written");
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).expect("it can be run");
            version(&program, within).await
        };
        let long = Duration::from_secs(60);
        assert_eq!(told("echo tidemill 1.2.3", long).await.as_deref(), Some("1.2.3"));
        assert_eq!(told("echo other 1.2.3", long).await, None);
        assert_eq!(told("exec sleep 1000", Duration::from_millis(50)).await, None);
        let spoken = told("while :; do echo tidemill; done", long).await;
        assert!(spoken.is_some_and(|text| text.len() < 300), "it reads without an end");
        assert_eq!(version(&folder.path().join("none"), long).await, None);
    }

    #[tokio::test]
    async fn a_named_program_that_is_not_there_is_an_error() {
        let refused = find(Some(Path::new("/nowhere/tidemill"))).await.expect_err("nothing is there");
        assert!(refused.to_string().contains("/nowhere/tidemill"), "{refused}");
    }
}
