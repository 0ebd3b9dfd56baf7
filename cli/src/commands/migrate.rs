//! `tidemill migrate`: what the workflows of a folder need, compared with an installation; and publishes those that can
//! run.

use std::path::{Component, Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use tidemill_common::config::{Config, Sources};
use tidemill_common::dsl;

use crate::client::Client;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::migrate::apply::{self, Applied, Outcome};
use crate::migrate::installation::Installation;
use crate::migrate::publish::{self, Publication, Published};
use crate::migrate::remedy::word;
use crate::migrate::report::{Read, Report, report};
use crate::migrate::{convert, html, look, skeleton, terminal};
use crate::output::json;
use crate::target::{FolderArgs, TargetArgs};
use crate::workflow_file::count;
use crate::workflow_folder::{self, Candidate, Candidates};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Folders with workflow files, and single files
    #[arg(value_name = "FOLDER", required = true)]
    paths: Vec<PathBuf>,
    /// Compare with the settings in this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    folder: FolderArgs,
    /// Show the report as JSON
    #[arg(long)]
    json: bool,
    /// Show all rows, and each file with its needs
    #[arg(long)]
    all: bool,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write settings to fill in; the file must not exist
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Write apps of mode chat, agent-chat and completion as chatflows and workflows into this folder
    #[arg(long, value_name = "DIR")]
    convert: Option<PathBuf>,
    /// Publish what can run: to --url, or to the `tidemill dev` of this folder. A repetition makes no second app or key
    #[arg(long)]
    apply: bool,
    /// With --apply: a name for these files [default: the path of the folder]. The same name and the same paths in the
    /// folder are the same apps, wherever the folder is
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// With --apply: give the app of this id the content of the file that others call by it (repeatable)
    #[arg(long, value_name = "ID")]
    replace: Vec<String>,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    workflow_folder::require(&arguments.paths)?;
    let found = workflow_folder::read(&arguments.paths);
    let client = client(arguments)?;
    let (installation, compared_with) = installation(arguments, client.as_ref()).await?;
    let read: Vec<Read<'_>> = found.files.iter().map(|file| read_of(file, &arguments.paths)).collect();
    let of = arguments.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let report = report((of, compared_with), &read, found.others, &installation);
    drop(read);
    let all_written = write_files(arguments, &report, &found, console)?;
    if !arguments.json {
        console.text(terminal::render(&report, arguments.all))?;
    }
    let published = match (&client, arguments.apply) {
        (Some(client), true) => Some(publish_all(arguments, client, &report, &found, console).await?),
        _ => None,
    };
    if arguments.json {
        let applied = published.as_ref().map(|published| &published.applied[..]);
        json::whole(&as_json(&report, applied)?, console)?;
    } else {
        match &published {
            Some(published) => console.text(publish::totals(&published.applied))?,
            None => console.text(next_steps(arguments, &report))?,
        }
    }
    let Some(Published { applied, ended }) = published else {
        return Ok(if all_written { Exit::Succeeded } else { Exit::Failed });
    };
    ended?;
    let refused = applied.iter().any(|one| one.outcome == Outcome::Refused);
    Ok(if refused || !all_written { Exit::Failed } else { Exit::Succeeded })
}

/// The client of the installation. `None` when no address is named and nothing is to be published: a key alone, which
/// the environment often has, names none.
fn client(arguments: &Arguments) -> Result<Option<Client>, Error> {
    let is_wanted = named_url(arguments).is_some() || arguments.apply;
    let target = is_wanted.then(|| arguments.target.resolve(&arguments.folder));
    Ok(target.map(|target| Client::new(&target)).transpose()?)
}

fn named_url(arguments: &Arguments) -> Option<&str> {
    arguments.target.url.as_deref().filter(|url| !url.is_empty())
}

/// The settings in a file. Those that `--settings` has written are refused until they are filled in: else everything
/// would seem to be there.
fn settings(path: &Path) -> Result<Config, Error> {
    let sources = Sources { file: Some(path.to_path_buf()), ..Sources::default() };
    let config = Config::load(&sources).map_err(|error| Error::Usage(error.to_string()))?;
    let text = std::fs::read_to_string(path).unwrap_or_default();
    match skeleton::not_filled_in(&text) {
        Some(name) => {
            let reason = format!("{name} in {} is not filled in: write its value there", path.display());
            Err(Error::Usage(reason))
        }
        None => Ok(config),
    }
}

/// The installation to compare with, and its name.
async fn installation(
    arguments: &Arguments,
    client: Option<&Client>,
) -> Result<(Installation, String), Error> {
    let settings = match &arguments.config {
        None => None,
        Some(path) => {
            let config = settings(path)?;
            Some((Installation::of_settings(&config), format!("the settings in {}", path.display())))
        }
    };
    let living = match client {
        None => None,
        Some(client) => {
            let installation = look::look(client).await?;
            let workers = count(installation.workers.len(), "living worker");
            let url = arguments.target.resolve(&arguments.folder).url;
            Some((installation, format!("{} ({workers})", tidemill_common::config::masked_url(&url))))
        }
    };
    Ok(match (living, settings) {
        (Some((living, url)), Some((settings, file))) => (living.and(settings), format!("{url} and {file}")),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => (
            Installation::of_settings(&Config::default()),
            "an installation without any settings; --url or --config compares with yours".into(),
        ),
    })
}

fn read_of<'a>(file: &'a Candidate, paths: &[PathBuf]) -> Read<'a> {
    let imported = file.read.as_ref().map(|file| &file.imported).map_err(String::as_str);
    let is_converted = file.read.as_ref().is_ok_and(|file| dsl::converted(&file.source).is_some());
    Read { path: shown_path(&file.path, paths), imported, is_converted }
}

/// The path below the folder if the user named just one, else the whole path.
fn shown_path(path: &Path, paths: &[PathBuf]) -> String {
    match paths {
        [folder] => {
            let below = path.strip_prefix(folder).ok().filter(|below| !below.as_os_str().is_empty());
            below.unwrap_or(path).display().to_string()
        }
        _ => path.display().to_string(),
    }
}

/// Writes the page, the settings and the converted apps. Returns false when an app could not be written.
fn write_files(
    arguments: &Arguments,
    report: &Report,
    found: &Candidates,
    console: &mut Console,
) -> Result<bool, Error> {
    let failed =
        |path: &Path, reason: String| Error::Failed(format!("cannot write {}: {reason}", path.display()));
    if let Some(path) = &arguments.html {
        std::fs::write(path, html::render(report)).map_err(|error| failed(path, error.to_string()))?;
        console.note(format_args!("the report is in {}", path.display()));
    }
    if let Some(path) = &arguments.settings {
        if path.exists() {
            return Err(failed(path, "it exists already; name another file".into()));
        }
        std::fs::write(path, skeleton::render(report)).map_err(|error| failed(path, error.to_string()))?;
        console.note(format_args!("settings to fill in are in {}", path.display()));
    }
    match &arguments.convert {
        Some(folder) => Ok(write_converted(folder, &arguments.paths, found, console)),
        None => Ok(true),
    }
}

/// Writes the converted apps. Goes on after one that cannot be written, and returns false then.
fn write_converted(folder: &Path, paths: &[PathBuf], found: &Candidates, console: &mut Console) -> bool {
    let (mut written, mut failed) = (0, 0);
    for file in &found.files {
        let Ok(read) = &file.read else { continue };
        let path = shown_path(&file.path, paths);
        // Without `..`, so that nothing is written outside the folder.
        let parts = Path::new(&path).components().filter(|part| matches!(part, Component::Normal(_)));
        let relative: PathBuf = parts.collect();
        let Some(converted) = convert::converted(&relative.display().to_string(), &read.source) else {
            continue;
        };
        match convert::write(folder, &converted) {
            Ok(_) => written += 1,
            Err(error) => {
                failed += 1;
                console.note(error);
            }
        }
    }
    console.note(format_args!("{} written into {}", count(written, "converted app"), folder.display()));
    failed == 0
}

/// Publishes every file that can run.
async fn publish_all(
    arguments: &Arguments,
    client: &Client,
    report: &Report,
    found: &Candidates,
    console: &mut Console,
) -> Result<Published, Error> {
    let collection = collection(arguments);
    let ids = apply::ids(report, &collection);
    let mut files = Vec::new();
    for file in &found.files {
        let (path, Ok(read)) = (shown_path(&file.path, &arguments.paths), &file.read) else { continue };
        let Some(id) = ids.get(&path) else { continue };
        let is_named = *id != apply::id_of(&collection, &path);
        let version = || read.imported.graph.as_ref().map(|graph| graph.hash.to_string()).unwrap_or_default();
        files.push(Publication {
            path,
            text: String::from_utf8_lossy(&read.source).into_owned(),
            id,
            named_version: is_named.then(version),
            may_replace: arguments.replace.contains(id),
        });
    }
    if !arguments.json {
        console.text(publish::HEAD)?;
    }
    publish::all(client, &files, !arguments.json, console).await
}

/// The name of these files, from which the ids of their apps are derived.
fn collection(arguments: &Arguments) -> String {
    let path = || match &arguments.paths[..] {
        [one] => one.canonicalize().unwrap_or_else(|_| one.clone()).display().to_string(),
        _ => std::env::current_dir().unwrap_or_default().display().to_string(),
    };
    arguments.collection.clone().unwrap_or_else(path)
}

fn as_json(report: &Report, applied: Option<&[Applied]>) -> Result<Json, Error> {
    let failed = |error: serde_json::Error| Error::Failed(format!("cannot make the report: {error}"));
    let mut all = serde_json::to_value(report).map_err(failed)?;
    if let Some(applied) = applied {
        all["applied"] = json!(applied);
    }
    Ok(all)
}

/// The commands that come next, without those that the user has given already.
fn next_steps(arguments: &Arguments, report: &Report) -> String {
    if report.files.is_empty() {
        return String::new();
    }
    // An address with a part that must not be shown is left to the user.
    let is_shown = |url: &&str| tidemill_common::config::masked_url(url) == **url;
    let url = named_url(arguments).filter(is_shown).map(word);
    let mut command = vec!["tidemill migrate".to_owned()];
    command.extend(arguments.paths.iter().map(|path| word(&path.display().to_string())));
    if let Some(config) = &arguments.config {
        command.push(format!("--config {}", word(&config.display().to_string())));
    }
    let command = command.join(" ");
    let compared = match (named_url(arguments), &url) {
        (None, _) => String::new(),
        (Some(_), url) => format!("--url {} ", url.as_deref().unwrap_or("URL")),
    };
    let apply = format!("--apply --url {}", url.as_deref().unwrap_or("URL"));
    let steps = [
        (
            arguments.settings.is_none(),
            format!("{compared}--settings FILE"),
            "write these settings to fill in",
        ),
        (
            arguments.html.is_none(),
            format!("{compared}--html FILE"),
            "write a page with each file and what it needs",
        ),
        (!arguments.all, format!("{compared}--all"), "show all of it here"),
        (true, apply, "publish what can run; safe to repeat"),
    ];
    let steps: Vec<_> = steps.iter().filter(|(is_open, ..)| *is_open).collect();
    let width = steps.iter().map(|(_, flags, _)| flags.chars().count()).max().unwrap_or(0);
    let lines: Vec<String> =
        steps.iter().map(|(_, flags, what)| format!("  {command} {flags:<width$}  {what}\n")).collect();
    format!("\n{}\n\nNEXT\n{}", terminal::numbers(&report.summary), lines.concat())
}
