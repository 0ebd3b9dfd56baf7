//! `tidemill plugins`: installs Dify plugins for all workers ([`installed`]), stores their credentials ([`config`]), and
//! tests them on a worker ([`test`]), where plugins also list options of parameters ([`options`]). It also shows whether and
//! how a plugin would run here, and tries one of its tools on this machine; nothing is stored then besides the environment,
//! and no scheduler or worker takes part.

#[cfg(target_os = "linux")]
mod clean;
mod config;
mod installed;
mod options;
mod show;
mod test;
#[cfg(target_os = "linux")]
mod trial;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::builder::ArgPredicate;
use clap::{Args, Subcommand};
use tidemill_common::value::JsonMap;
use tidemill_plugins::limits::PackageLimits;
use tidemill_plugins::package::{Package, PublicKey};

use super::common::{Common, SchedulerArgs};
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
    /// Install a plugin for all workers
    Add(Add),
    /// List the installed plugins, and on how many workers each is ready
    Ls(Listing),
    /// Remove an installed plugin
    Rm(Remove),
    /// Store the credentials of a provider of tools, datasources or models, and let the plugin check them on a worker
    Config(Config),
    /// Call a tool of an installed plugin on a worker, or let the plugin check its credentials
    Test(Test),
    /// List the options of a parameter of a tool, as the plugin lists them now on a worker
    Options(Options),
    /// Remove packages and environments from the cache folder of this machine that no process uses
    Clean(Clean),
    /// Read a plugin and show what it offers, what it needs, what it asks to be allowed, and all its problems
    Show(ShowAny),
    /// Make the plugin's environment, invoke one of its tools in a confined process, and print the tool's messages
    Try(Try),
}

#[derive(Debug, Args)]
struct Add {
    /// A .difypkg file, or a folder with manifest.yaml
    #[arg(value_name = "FILE|FOLDER")]
    plugin: PathBuf,
    /// Install it without a question
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Listing {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Remove {
    /// The plugin: AUTHOR/NAME:VERSION
    id: String,
    #[command(flatten)]
    common: Common,
}

/// Whose credentials are meant, if not those of the provider for all apps.
#[derive(Debug, Args)]
struct Whose {
    /// Only for this model, which the provider serves by its name
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The type of that model: llm, text-embedding, rerank, moderation, speech2text or tts
    #[arg(
        long,
        value_name = "TYPE",
        requires = "model",
        default_value_if("model", ArgPredicate::IsPresent, "llm")
    )]
    model_type: Option<String>,
    /// Only for the runs of this app; it gets no others then
    #[arg(long, value_name = "ID")]
    app: Option<String>,
}

impl Whose {
    /// The parameters of the check of these credentials.
    fn params(&self) -> JsonMap {
        let given = [("app", &self.app), ("model", &self.model), ("model_type", &self.model_type)];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        given.map(|(name, value)| (name.to_owned(), value.into())).collect()
    }
}

#[derive(Debug, Args)]
struct Config {
    /// AUTHOR/PLUGIN/PROVIDER
    provider: String,
    #[command(flatten)]
    whose: Whose,
    /// A field: env:VARIABLE for a variable of the workers' environment, or the value of a field that is no secret; may be given several times
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = super::pairs::pair)]
    set: Vec<(String, String)>,
    /// Read the value of this field from standard input, at a terminal ask for it; may be given several times, with a line for each
    #[arg(long, value_name = "FIELD")]
    secret_stdin: Vec<String>,
    /// Do not let the plugin check them
    #[arg(long)]
    no_test: bool,
    /// Longest wait for this check, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait: u64,
    /// Remove the credentials
    #[arg(long, conflicts_with_all = ["set", "secret_stdin"])]
    remove: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Test {
    /// AUTHOR/PLUGIN/PROVIDER
    provider: String,
    /// The tool; without one, the plugin checks its credentials
    #[arg(conflicts_with_all = ["model", "app"])]
    tool: Option<String>,
    #[command(flatten)]
    whose: Whose,
    /// Only this version of the plugin, if it is installed
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// A parameter, as text: the worker converts it to the type that the tool declares; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE", requires = "tool", value_parser = super::pairs::pair)]
    params: Vec<(String, String)>,
    /// Longest wait for the answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Options {
    /// AUTHOR/PLUGIN/PROVIDER
    provider: String,
    tool: String,
    /// A parameter of the type dynamic-select
    parameter: String,
    /// With the credentials of this app
    #[arg(long, value_name = "ID")]
    app: Option<String>,
    /// Only this version of the plugin, if it is installed
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Longest wait for the answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Clean {
    /// The cache folder [default: that of `try`, and of workers without `plugins.cache`]
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Only what no process has used for this time; 0 removes all that no process uses now
    #[arg(long, value_name = "SECONDS", default_value_t = 7 * 24 * 3600)]
    unused: u64,
    /// Show the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ShowAny {
    #[command(flatten)]
    show: Show,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

#[derive(Debug, Args)]
struct Show {
    /// A .difypkg file, a folder with manifest.yaml, or an installed plugin: AUTHOR/NAME:VERSION
    #[arg(value_name = "FILE|FOLDER|ID")]
    plugin: PathBuf,
    /// Check the signature with this public key (PEM)
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
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
        Verb::Add(arguments) => installed::add(arguments, console).await,
        Verb::Ls(arguments) => installed::list(arguments, console).await,
        Verb::Rm(arguments) => installed::remove(arguments, console).await,
        Verb::Config(arguments) => config::perform(arguments, console).await,
        Verb::Test(arguments) => test::perform(arguments, console).await,
        Verb::Options(arguments) => options::perform(arguments, console).await,
        Verb::Show(arguments) => match arguments.show.plugin.to_str() {
            // A path of this machine comes first.
            Some(id) if id.contains(':') && !arguments.show.plugin.exists() => {
                installed::show(id, arguments, console).await
            }
            Some(_) | None => show::perform(&arguments.show, console).await,
        },
        #[cfg(target_os = "linux")]
        Verb::Clean(arguments) => clean::perform(arguments, console).await,
        #[cfg(not(target_os = "linux"))]
        Verb::Clean(_) => {
            Err(Error::Failed("plugins run only on Linux, so there is nothing to remove".into()))
        }
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
