//! `tidemill plugins`: shows whether and how a Dify plugin would run here, and tries one of its tools. Nothing is kept
//! besides the environment, and no scheduler or worker takes part.

mod show;
#[cfg(target_os = "linux")]
mod trial;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use tidemill_plugins::limits::PackageLimits;
use tidemill_plugins::package::{Package, PublicKey};

use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::text::safe;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Read a plugin and show what it offers, what it needs, what it asks to be allowed, and all its problems
    Show(Show),
    /// Make the plugin's environment, invoke one of its tools in a confined process, and print the tool's messages
    Try(Try),
}

#[derive(Debug, Args)]
struct Show {
    /// A .difypkg file, or a folder with manifest.yaml
    #[arg(value_name = "FILE|FOLDER")]
    plugin: PathBuf,
    /// Check the signature with this public key (PEM)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// An interpreter, by name or path, before those that are looked for; may be given several times
    #[arg(long = "python", value_name = "PYTHON")]
    pythons: Vec<String>,
    /// Show the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Try {
    /// A .difypkg file, or a folder with manifest.yaml
    #[arg(value_name = "FILE|FOLDER")]
    plugin: PathBuf,
    /// The tool: TOOL, or PROVIDER/TOOL
    tool: String,
    /// A parameter: NAME=VALUE; JSON is read as JSON unless the parameter is a text, and NAME=@FILE gives a file; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = super::pairs::pair)]
    params: Vec<(String, String)>,
    /// A field of the credentials, from a variable of the environment: NAME=env:VARIABLE; may be given several times
    #[arg(long = "credential", value_name = "NAME=env:VARIABLE", value_parser = super::pairs::pair)]
    credentials: Vec<(String, String)>,
    /// Let the plugin check the credentials first
    #[arg(long)]
    validate: bool,
    /// Write blobs of the tool into this folder
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// An interpreter, by name or path, before those that are looked for; may be given several times
    #[arg(long = "python", value_name = "PYTHON")]
    pythons: Vec<String>,
    /// The index to install from, instead of pip's own settings
    #[arg(long, value_name = "URL")]
    index_url: Option<String>,
    /// A folder with wheels to install from, instead of an index
    #[arg(long, value_name = "FOLDER")]
    wheels: Option<PathBuf>,
    /// The folder of environments [default: $XDG_CACHE_HOME/tidemill/plugins, for root /var/cache/tidemill/plugins]
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Longest time of the invocation, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// Settings file: its [http] decides which addresses the plugin may call [default: tidemill.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print each message as a line of JSON
    #[arg(long)]
    json: bool,
    /// Log what the plugin logs and prints, and the servers that it calls
    #[arg(long, short)]
    verbose: bool,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Show(arguments) => show::perform(arguments, console).await,
        #[cfg(target_os = "linux")]
        Verb::Try(arguments) => trial::perform(arguments, console).await,
        #[cfg(not(target_os = "linux"))]
        Verb::Try(_) => {
            Err(Error::Failed("plugins run only on Linux, because only there they are confined".into()))
        }
    }
}

/// Reads a package.
async fn open(path: &Path, key: Option<&Path>) -> Result<Package, Error> {
    let key = key.map(public_key).transpose()?;
    let opened = Package::open(path, &PackageLimits::default(), key.as_ref()).await;
    opened.map_err(|error| failed(format!("{}: {error}", path.display())))
}

/// The failure of something foreign, whose text cannot control the terminal.
fn failed<E: Display>(error: E) -> Error {
    Error::Failed(safe(&error.to_string()))
}

fn public_key(path: &Path) -> Result<PublicKey, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let key = text.and_then(|text| PublicKey::from_pem(&text));
    key.map_err(|reason| Error::Usage(format!("{}: {reason}", path.display())))
}
