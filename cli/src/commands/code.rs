//! `tidemill code`: makes the Python environment that the settings declare for code nodes, and shows what is there.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use tidemill_common::config::{Config, Sources};
use tidemill_common::nodes::code::PythonTable;
use tidemill_sandbox::environment::{self, Environment};

use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Install the packages of code.python on this host; does nothing if they are there
    Install(Install),
    /// Show the environment of the settings with its packages, and the other ones of this host
    Ls(Ls),
}

#[derive(Debug, Args)]
struct Install {
    #[command(flatten)]
    settings: Settings,
    /// Choose the newest versions, instead of those in the lock file
    #[arg(long, conflicts_with = "locked")]
    update: bool,
    /// Fail if the lock file would have to change
    #[arg(long)]
    locked: bool,
}

#[derive(Debug, Args)]
struct Ls {
    #[command(flatten)]
    settings: Settings,
    /// Show the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Settings {
    /// Settings file of the worker [default: tidemill.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Settings {
    fn load(&self) -> Result<Config, Error> {
        let config = Config::load(&Sources::of_process(self.config.clone(), Vec::new()));
        config.map_err(|error| Error::Usage(error.to_string()))
    }
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Install(arguments) => install(arguments, console).await,
        Verb::Ls(arguments) => ls(arguments, console),
    }
}

#[cfg(target_os = "linux")]
async fn install(arguments: &Install, console: &mut Console) -> Result<Exit, Error> {
    use tidemill_sandbox::environment::install::{How, InstallError, install};

    let config = arguments.settings.load()?;
    let how = How { update: arguments.update, locked: arguments.locked };
    let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    let say = move |text: String| {
        // The receiver lives as long as the install.
        let _ = say.send(text);
    };
    let working = async {
        let done = install(&config.code, how, &say).await;
        drop(say);
        done
    };
    let saying = async {
        while let Some(text) = said.recv().await {
            console.note(text);
        }
    };
    let (done, ()) = tokio::join!(working, saying);
    let done = done.map_err(|error| match error {
        InstallError::NoPackages => Error::Usage(error.to_string()),
        _ => Error::Failed(error.to_string()),
    })?;
    if done.lock_written {
        console.line(format_args!("wrote {}", config.code.python.lock_file().display()))?;
    } else if how.update {
        let lock = config.code.python.lock_file();
        console.line(format_args!("the lock file is up to date: {}", lock.display()))?;
    }
    let Environment { folder, manifest } = &done.environment;
    let made_with = done.environment.made_with();
    let state = if done.was_there { "is there already" } else { "is ready" };
    let packages = crate::workflow_file::count(manifest.packages.len(), "package");
    let python = format!("Python {} ({})", manifest.python, made_with.display());
    console.line(format_args!("{} {state}: {python}, {packages}", folder.display()))?;
    Ok(Exit::Succeeded)
}

#[cfg(not(target_os = "linux"))]
async fn install(_: &Install, _: &mut Console) -> Result<Exit, Error> {
    Err(Error::Failed("code nodes run in a worker's own sandbox only on Linux; set code.endpoint".into()))
}

fn ls(arguments: &Ls, console: &mut Console) -> Result<Exit, Error> {
    let config = arguments.settings.load()?;
    let python: &PythonTable = &config.code.python;
    let (own, missing) = match environment::find(python) {
        Ok(found) => (Some(found), None),
        Err(_) if !python.has_environment() => (None, None),
        Err(missing) => (None, Some(missing.to_string())),
    };
    let others: Vec<Environment> = environment::all(python)
        .into_iter()
        .filter(|other| own.as_ref().is_none_or(|own| own.folder != other.folder))
        .collect();
    if arguments.json {
        json::whole(&as_json(python, own.as_ref(), missing.as_deref(), &others), console)?;
    } else {
        console.text(in_words(python, own.as_ref(), &others))?;
        if let Some(missing) = &missing {
            console.note(format_args!("tidemill: {missing}"));
        }
    }
    Ok(if missing.is_some() { Exit::Failed } else { Exit::Succeeded })
}

fn as_json(
    python: &PythonTable,
    own: Option<&Environment>,
    missing: Option<&str>,
    others: &[Environment],
) -> Json {
    let one = |found: &Environment| {
        json!({"folder": found.folder.display().to_string(), "python": found.manifest.python,
            "interpreter": found.made_with().display().to_string(), "packages": found.manifest.packages, "modules": found.manifest.modules})
    };
    json!({"declared": python.packages, "lock": python.lock_file().display().to_string(), "missing": missing,
        "environment": own.map(one), "others": others.iter().map(one).collect::<Vec<_>>()})
}

fn in_words(python: &PythonTable, own: Option<&Environment>, others: &[Environment]) -> String {
    if !python.has_environment() && others.is_empty() {
        return "code.python declares no packages: code nodes have those of their interpreter\n".into();
    }
    let mut text = String::new();
    if let Some(own @ Environment { folder, manifest }) = own {
        text.push_str(&table::pairs(&[
            ("environment", folder.display().to_string()),
            ("python", format!("{} ({})", manifest.python, own.made_with().display())),
            ("lock", python.lock_file().display().to_string()),
            ("declared", python.packages.join(", ")),
        ]));
        let rows: Vec<Vec<String>> = manifest
            .packages
            .iter()
            .map(|package| vec![package.name.clone(), package.version.clone()])
            .collect();
        text.push_str(&table::render(&["PACKAGE", "VERSION"], &rows));
    }
    for other in others {
        let declared = other.manifest.declared.join(", ");
        text.push_str(&format!("not used by these settings: {} ({declared})\n", other.folder.display()));
    }
    text
}
