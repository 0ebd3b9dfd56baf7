//! `tidemill apps`: publishes workflow files as apps, lists apps, sets their limits, switches them off and on, and removes
//! them.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::common::Common;
use super::{app_life, limits, webhook};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};
use crate::workflow_file::WorkflowFile;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Publish a workflow file as an app; its key is shown only now
    Add {
        /// The workflow file
        file: PathBuf,
        /// Publish the file as the next version of the app with this id
        #[arg(long, value_name = "APP")]
        id: Option<String>,
        /// Publish the file under this id (a UUID), as a new app if no app has it; so a workflow that others call as a
        /// tool keeps the id that it has on Dify
        #[arg(long, value_name = "UUID", conflicts_with = "id")]
        new_id: Option<String>,
        /// Refuse the workflow if it names a profile that does not exist
        #[arg(long)]
        strict: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Show or set how many requests a second and runs at the same time an app may have
    Limits {
        /// Id of the app
        app: String,
        #[command(flatten)]
        change: limits::Change,
        #[command(flatten)]
        common: Common,
    },
    /// List apps
    Ls {
        #[command(flatten)]
        common: Common,
    },
    /// Show an app: its version, and whether it accepts runs
    Show {
        /// Id of the app
        app: String,
        #[command(flatten)]
        common: Common,
    },
    /// Switch an app off: it accepts no new runs; those under way continue
    Disable {
        /// Id of the app
        app: String,
        #[command(flatten)]
        common: Common,
    },
    /// Switch an app on again
    Enable {
        /// Id of the app
        app: String,
        #[command(flatten)]
        common: Common,
    },
    /// Make an earlier version of an app the current one
    Rollback {
        /// Id of the app
        app: String,
        /// The version, as `add` printed it
        version: String,
        #[command(flatten)]
        common: Common,
    },
    /// Remove an app with its keys, triggers, conversations, users and uploads
    Rm {
        /// Id of the app
        app: String,
        /// What becomes of its runs: they continue and are kept, they are stopped and kept, or they are removed. Without
        /// it, an app with runs under way is not removed
        #[arg(long, value_parser = ["keep", "stop", "remove"])]
        runs: Option<String>,
        /// Wait until all is removed
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Remove a user of an app with all runs, conversations and uploads
    RmUser {
        /// Id of the app
        app: String,
        /// The user, as clients name it
        user: String,
        /// Wait until all is removed
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        common: Common,
    },
    /// List the removals of apps and users that are under way
    Removals {
        #[command(flatten)]
        common: Common,
    },
    /// Set, show, test and remove the server that is notified about the runs of an app
    Webhook {
        #[command(subcommand)]
        verb: webhook::Verb,
    },
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Add { file, id, new_id, strict, common } => {
            let read = WorkflowFile::read(file)?.for_scheduler();
            let shown: Vec<String> = read.diagnostics().iter().map(|found| found.message.clone()).collect();
            let workflow = read.usable(console)?;
            let client = common.client()?;
            let app = match new_id {
                Some(new_id) => client.publish_under(&workflow.text, new_id, *strict).await?,
                None => client.publish(&workflow.text, id.as_deref(), *strict).await?,
            };
            for warning in warnings(&app, &shown) {
                console.note(format_args!("warning: {warning}"));
            }
            if common.json { json::whole(&app, console)? } else { console.text(render_added(&app))? }
        }
        Verb::Ls { common } => {
            let apps = common.client()?.apps().await?;
            if common.json { json::whole(&apps, console)? } else { console.text(render_list(&apps))? }
        }
        Verb::Limits { app, change, common } => {
            return limits::perform(limits::Whose::App(app), change, common, console).await;
        }
        Verb::Show { app, common } => {
            let app = common.client()?.app(app).await?;
            if common.json { json::whole(&app, console)? } else { console.text(app_life::render(&app))? }
        }
        Verb::Disable { app, common } => app_life::switch(app, "disable", common, console).await?,
        Verb::Enable { app, common } => app_life::switch(app, "enable", common, console).await?,
        Verb::Rollback { app, version, common } => {
            let app = common.client()?.roll_back(app, version).await?;
            for warning in warnings(&app, &[]) {
                console.note(format_args!("warning: {warning}"));
            }
            if common.json { json::whole(&app, console)? } else { console.text(app_life::render(&app))? }
        }
        Verb::Rm { app, runs, wait, common } => {
            let removal = common.client()?.remove_app(app, runs.as_deref()).await?;
            app_life::removed(removal, *wait, common, console).await?;
        }
        Verb::RmUser { app, user, wait, common } => {
            let removal = common.client()?.remove_user(app, user).await?;
            app_life::removed(removal, *wait, common, console).await?;
        }
        Verb::Removals { common } => app_life::list(common, console).await?,
        Verb::Webhook { verb } => return webhook::perform(verb, console).await,
    }
    Ok(Exit::Succeeded)
}

/// Warnings of the scheduler that checking the file alone did not show, such as unknown profiles or triggers that never
/// fire.
pub(super) fn warnings(app: &Json, shown: &[String]) -> Vec<String> {
    let all = app["warnings"].as_array().into_iter().flatten();
    let messages = all.filter_map(|warning| warning["message"].as_str());
    messages.filter(|message| !shown.iter().any(|known| known == message)).map(text::one_line).collect()
}

fn render_added(app: &Json) -> String {
    table::pairs(&["id", "name", "mode", "version", "key"].map(|name| (name, shown(&app[name]))))
}

fn render_list(apps: &Json) -> String {
    let row = |app: &Json| {
        let created = app["created_at"].as_f64().map(text::moment).unwrap_or_default();
        let [id, name, mode, version, state] =
            ["id", "name", "mode", "version", "state"].map(|name| shown(&app[name]));
        vec![id, name, mode, version, state, created]
    };
    let rows: Vec<_> = apps["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["APP", "NAME", "MODE", "VERSION", "STATE", "CREATED"], &rows)
}

pub(super) fn shown(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn warnings_that_only_the_scheduler_can_give_are_shown() {
        let app = json!({"warnings": [
            {"severity": "warning", "message": "unknown field", "line": 3},
            {"severity": "warning", "message": "nobody has added the profile fast"},
        ]});
        assert_eq!(warnings(&app, &["unknown field".into()]), ["nobody has added the profile fast"]);
        assert!(warnings(&json!({}), &[]).is_empty());
    }

    #[test]
    fn apps_are_rows_and_a_new_one_shows_its_key() {
        let app = json!({"id": "a1", "name": "Hello", "mode": "workflow", "version": "v1", "state": "off", "created_at": 0});
        let list = render_list(&json!({"data": [app]}));
        let expected = "APP  NAME   MODE      VERSION  STATE  CREATED\na1   Hello  workflow  v1       off    1970-01-01 00:00:00 UTC\n";
        assert_eq!(list, expected);
        let mut added = app;
        added["key"] = "app-1".into();
        assert_eq!(
            render_added(&added),
            "id       a1\nname     Hello\nmode     workflow\nversion  v1\nkey      app-1\n"
        );
    }
}
