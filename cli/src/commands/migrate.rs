//! `tidemill migrate`: what the workflows of a folder need, compared with an installation; and publishes those that can
//! run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use tidemill_common::config::{Config, Sources};
use tidemill_common::dsl;

use crate::client::Client;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::migrate::apply::{self, Applied, Outcome};
use crate::migrate::installation::Installation;
use crate::migrate::report::{Read, Report, report};
use crate::migrate::{convert, html, look, skeleton, terminal};
use crate::output::{json, table, text};
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
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let found = workflow_folder::read(&arguments.paths);
    let client = client(arguments)?;
    let (installation, compared_with) = installation(arguments, client.as_ref()).await?;
    let read: Vec<Read<'_>> = found.files.iter().map(|file| read_of(file, &arguments.paths)).collect();
    let of = arguments.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let report = report((of, compared_with), &read, found.others, &installation);
    drop(read);
    write_files(arguments, &report, &found, console)?;
    let applied = match (&client, arguments.apply) {
        (Some(client), true) => Some(publish_all(arguments, client, &report, &found, console).await?),
        _ => None,
    };
    if arguments.json {
        json::whole(&as_json(&report, applied.as_deref())?, console)?;
    } else {
        console.text(terminal::render(&report, arguments.all))?;
        match &applied {
            Some(applied) => console.text(render_applied(applied))?,
            None => console.text(next_steps(arguments, &report))?,
        }
    }
    let refused = applied.iter().flatten().any(|one| one.outcome == Outcome::Refused);
    Ok(if refused { Exit::Failed } else { Exit::Succeeded })
}

/// The client of the installation. `None` when none is named and nothing is to be published.
fn client(arguments: &Arguments) -> Result<Option<Client>, Error> {
    let target = match arguments.target.named() {
        Some(_) => Some(arguments.target.resolve(&arguments.folder)),
        None if arguments.apply => Some(arguments.target.resolve(&arguments.folder)),
        None => None,
    };
    Ok(target.map(|target| Client::new(&target)).transpose()?)
}

/// The installation to compare with, and its name.
async fn installation(
    arguments: &Arguments,
    client: Option<&Client>,
) -> Result<(Installation, String), Error> {
    let settings = match &arguments.config {
        None => None,
        Some(path) => {
            let sources = Sources { file: Some(path.clone()), ..Sources::default() };
            let config = Config::load(&sources).map_err(|error| Error::Usage(error.to_string()))?;
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

/// Writes the page, the settings and the converted apps.
fn write_files(
    arguments: &Arguments,
    report: &Report,
    found: &Candidates,
    console: &mut Console,
) -> Result<(), Error> {
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
    if let Some(folder) = &arguments.convert {
        let mut written = 0;
        for file in found.files.iter() {
            let Ok(read) = &file.read else { continue };
            let path = shown_path(&file.path, &arguments.paths);
            let relative = path.trim_start_matches(['/', '.']);
            if let Some(converted) = convert::converted(relative, &read.source) {
                convert::write(folder, &converted)?;
                written += 1;
            }
        }
        console.note(format_args!("{} written into {}", count(written, "converted app"), folder.display()));
    }
    Ok(())
}

/// Publishes every file that can run. Goes on after a refusal.
async fn publish_all(
    arguments: &Arguments,
    client: &Client,
    report: &Report,
    found: &Candidates,
    console: &mut Console,
) -> Result<Vec<Applied>, Error> {
    let apps = client.apps().await?;
    let versions: HashMap<&str, &str> = apps["data"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|app| Some((app["id"].as_str()?, app["version"].as_str()?)))
        .collect();
    let ids = apply::ids(report, &collection(arguments));
    let mut all = Vec::new();
    for file in &found.files {
        let (path, Ok(read)) = (shown_path(&file.path, &arguments.paths), &file.read) else { continue };
        let Some(id) = ids.get(&path) else { continue };
        let source = String::from_utf8_lossy(&read.source);
        match apply::publish(client, (&path, &source, id), versions.get(id.as_str()).copied()).await {
            Ok(applied) => all.push(applied),
            Err(error) => {
                // The keys that were sent already are shown nowhere else.
                console.text(render_applied(&all))?;
                return Err(error);
            }
        }
    }
    Ok(all)
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

fn render_applied(applied: &[Applied]) -> String {
    let row = |one: &Applied| {
        let outcome = match one.outcome {
            Outcome::Created => "created",
            Outcome::Updated => "new version",
            Outcome::Unchanged => "unchanged",
            Outcome::Refused => "refused",
        };
        let rest = one.error.clone().unwrap_or_else(|| one.webhooks.join(" "));
        vec![one.path.clone(), outcome.into(), one.id.clone(), one.key.clone().unwrap_or_default(), rest]
    };
    let rows: Vec<_> = applied.iter().map(row).collect();
    let count_of = |outcome| applied.iter().filter(|one| one.outcome == outcome).count();
    format!(
        "\nPUBLISHED: {} created, {} with a new version, {} unchanged, {} refused\n\n{}\n\
         Keys are shown only now; `tidemill keys add APP` makes another one.\n",
        count_of(Outcome::Created),
        count_of(Outcome::Updated),
        count_of(Outcome::Unchanged),
        count_of(Outcome::Refused),
        table::render(&["FILE", "OUTCOME", "APP", "KEY", "WEBHOOKS, REASON"], &rows),
    )
}

/// The commands that come next, without those that the user has given already.
fn next_steps(arguments: &Arguments, report: &Report) -> String {
    let of = text::one_line(&report.summary.of);
    let steps = [
        (arguments.settings.is_none(), "--settings FILE", "write these settings to fill in"),
        (arguments.html.is_none(), "--html FILE", "write a page with each file and what it needs"),
        (!arguments.all, "--all", "show all of it here"),
        (true, "--apply --url URL", "publish what can run; safe to repeat"),
    ];
    let steps = steps.iter().filter(|(is_open, ..)| *is_open);
    let lines: Vec<String> =
        steps.map(|(_, flag, what)| format!("  tidemill migrate {of} {flag:<18} {what}\n")).collect();
    format!("\nNEXT\n{}", lines.concat())
}
