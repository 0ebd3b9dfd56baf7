//! `tidemill plugins add`, `ls`, `show` and `rm`: plugins that are installed for all workers.

use std::path::Path;

use serde_json::Value as Json;
use tidemill_plugins::package::{Package, Severity};

use super::{Add, Listing, Remove, ShowAny};
use crate::commands::catalog::{self, PLUGIN};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::text::{one_line, safe, size};
use crate::output::{json, table};

/// `tidemill plugins add`.
pub(super) async fn add(arguments: &Add, console: &mut Console) -> Result<Exit, Error> {
    let package = super::open(&arguments.plugin, None).await?;
    let id = package.id();
    if let Some(problem) = package.problems.iter().find(|problem| problem.severity == Severity::Error) {
        let message = format!("{id} cannot run: {problem}; `tidemill plugins show` lists all problems");
        return Err(Error::Failed(safe(&message)));
    }
    if !is_wanted(&package, arguments.yes, console).await? {
        console.note("nothing is installed");
        return Ok(Exit::Succeeded);
    }
    let bytes = bytes(&arguments.plugin, &package)?;
    let shown = arguments.common.client()?.install(bytes).await?;
    if arguments.common.json {
        json::whole(&shown, console)?;
        return Ok(Exit::Succeeded);
    }
    console.note(format_args!("{} is installed; its signature: {}", safe(&id), word(&shown["signature"])));
    let workers = shown["workers"].as_array().map_or(0, Vec::len);
    console.note(match workers {
        0 => "no worker is living; each prepares it when it starts".to_owned(),
        _ => format!(
            "it is prepared on {} now: `tidemill plugins ls` shows the state",
            crate::workflow_file::count(workers, "worker")
        ),
    });
    for command in to_configure(&shown) {
        console.note(format_args!("its credentials: {command}"));
    }
    Ok(Exit::Succeeded)
}

/// The commands that store the credentials of the providers.
fn to_configure(shown: &Json) -> Vec<String> {
    let (author, name) = (word(&shown["author"]), word(&shown["name"]));
    let all = |key: &str| shown[key].as_array().cloned().unwrap_or_default();
    let has = |provider: &Json, form: &str| provider[form].as_array().is_some_and(|form| !form.is_empty());
    let command = |provider: &Json, more: &str| {
        format!("tidemill plugins config {author}/{name}/{}{more}", word(&provider["name"]))
    };
    let mut commands = Vec::new();
    for provider in [all("providers"), all("models")].concat() {
        if has(&provider, "credentials") {
            commands.push(command(&provider, ""));
        }
        if has(&provider, "model_credentials") && provider["customizable"] == true {
            commands.push(command(&provider, " --model NAME --model-type TYPE"));
        }
    }
    commands
}

/// Names what the plugin asks to be allowed, and asks for approval.
async fn is_wanted(package: &Package, yes: bool, console: &mut Console) -> Result<bool, Error> {
    let permissions = package.manifest.permissions.in_words();
    let asks = if permissions.is_empty() { "nothing".into() } else { permissions.join("; ") };
    console.note(format_args!("{} (sha256 {})", safe(&package.id()), package.hash));
    console.note(format_args!("asks to be allowed: {}", safe(&asks)));
    for sentence in package.parts_that_do_not_run() {
        console.note(safe(&sentence));
    }
    console.note("its code runs on the workers, confined, and calls servers through the guard of [http]");
    if yes {
        return Ok(true);
    }
    if !console.can_ask() {
        return Err(Error::Usage("add --yes to install it without a question".into()));
    }
    let answer = console.ask("Install it for all workers? [y/N] ").await?.unwrap_or_default();
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// The package as it is sent: a file unchanged, so that its signature stays; a folder packed.
fn bytes(path: &Path, package: &Package) -> Result<Vec<u8>, Error> {
    let read = if path.is_dir() { package.files.packed() } else { std::fs::read(path) };
    read.map_err(|error| Error::Failed(format!("{}: {error}", path.display())))
}

/// `tidemill plugins ls`.
pub(super) async fn list(arguments: &Listing, console: &mut Console) -> Result<Exit, Error> {
    let common = &arguments.common;
    let entries = common.client()?.entries(PLUGIN.many).await?;
    if common.json {
        json::whole(&entries, console)?;
    } else if entries["data"].as_array().is_none_or(Vec::is_empty) {
        console.note("no plugin is installed; `tidemill plugins add FILE` installs one");
    } else {
        console.text(render(&entries))?;
    }
    Ok(Exit::Succeeded)
}

/// Shows an installed plugin.
pub(super) async fn show(id: &str, arguments: &ShowAny, console: &mut Console) -> Result<Exit, Error> {
    let entry = arguments.scheduler.client()?.entry(PLUGIN.many, id).await?;
    if arguments.show.json {
        json::whole(&entry, console)?;
        return Ok(Exit::Succeeded);
    }
    let fields = entry.as_object().into_iter().flatten();
    let pairs: Vec<(&str, String)> = fields.map(|(name, value)| (name.as_str(), word(value))).collect();
    console.text(table::pairs(&pairs))?;
    Ok(Exit::Succeeded)
}

/// `tidemill plugins rm`.
pub(super) async fn remove(arguments: &Remove, console: &mut Console) -> Result<Exit, Error> {
    arguments.common.client()?.forget(PLUGIN.many, &arguments.id, false).await?;
    console.note(format_args!("{} is removed; workers run it no longer", safe(&arguments.id)));
    Ok(Exit::Succeeded)
}

fn render(entries: &Json) -> String {
    let row = |entry: &Json| {
        let of = |key: &str| entry[key].as_array().cloned().unwrap_or_default();
        let tools: usize = of("providers").iter().map(|it| it["tools"].as_array().map_or(0, Vec::len)).sum();
        let described = of("models").iter().map(described).sum::<usize>();
        let workers = of("workers");
        let ready = workers.iter().filter(|worker| worker["state"] == "ready").count();
        let note = workers.iter().find_map(|worker| {
            let note = worker["note"].as_str().filter(|note| !note.is_empty())?;
            Some(format!("{}: {note}", word(&worker["state"])))
        });
        vec![
            word(&entry["id"]),
            tools.to_string(),
            described.to_string(),
            size(entry["bytes"].as_u64().unwrap_or(0)),
            format!("{ready}/{}", workers.len()),
            note.map(|note| one_line(&note)).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = entries["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["PLUGIN", "TOOLS", "MODELS", "SIZE", "READY", "NOTE"], &rows)
}

/// The number of models that a provider describes; others it serves by their names.
fn described(provider: &Json) -> usize {
    let kinds = provider["described"].as_object().into_iter().flatten();
    kinds.map(|(_, names)| names.as_array().map_or(0, Vec::len)).sum()
}

fn word(value: &Json) -> String {
    safe(&catalog::text(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::tests::{captured, captured_with};
    use serde_json::json;

    #[test]
    fn a_list_shows_on_how_many_workers_a_plugin_is_ready() {
        let workers = json!([{"worker": "a", "state": "ready", "note": ""},
            {"worker": "b", "state": "preparing", "note": "reading its package"}]);
        let text = render(&json!({"data": [{"id": "a/b:1", "bytes": 2048, "workers": workers,
            "providers": [{"name": "b", "tools": ["x", "y"]}]}]}));
        assert!(text.contains("a/b:1") && text.contains("1/2"), "{text}");
        assert!(text.contains("preparing: reading its package"), "{text}");
    }

    #[test]
    fn the_commands_for_credentials_are_named() {
        let form = json!([{"name": "key"}]);
        let shown = json!({"author": "a", "name": "b", "providers": [{"name": "t", "credentials": []}], "models": [
            {"name": "m", "customizable": true, "credentials": form, "model_credentials": form},
        ]});
        let expected =
            ["tidemill plugins config a/b/m", "tidemill plugins config a/b/m --model NAME --model-type TYPE"];
        assert_eq!(to_configure(&shown), expected);
    }

    #[tokio::test]
    async fn a_person_is_asked_before_a_plugin_is_installed() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/tests/plugins/many"));
        let package = super::super::open(folder, None).await.unwrap();
        let (mut console, _, said) = captured_with(&["y"]);
        assert!(is_wanted(&package, false, &mut console).await.unwrap());
        assert!(said.text().contains("asks to be allowed: may store 1024 bytes"), "{}", said.text());
        let (mut console, _, _) = captured_with(&["no"]);
        assert!(!is_wanted(&package, false, &mut console).await.unwrap());
        let (mut console, _, _) = captured();
        assert!(is_wanted(&package, false, &mut console).await.unwrap_err().to_string().contains("--yes"));
        assert!(is_wanted(&package, true, &mut console).await.unwrap());
    }
}
