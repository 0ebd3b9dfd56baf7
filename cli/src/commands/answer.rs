//! `tidemill answer`: answers a form that a run waits for, by arguments or by asking at the terminal.

use clap::Args;
use serde_json::{Value as Json, json};

use super::command::Common;
use super::pairs::{json_or_text, pair};
use crate::client::view::{PauseView, RunView};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::form;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// The pause's id; needed when the run waits for several
    pause: Option<String>,
    /// The action to take, by its id; without it, the terminal is asked
    #[arg(long, value_name = "ID")]
    action: Option<String>,
    /// A field of the form, as often as there are fields; files as JSON
    #[arg(short, long = "input", value_name = "NAME=VALUE", value_parser = pair, requires = "action")]
    input: Vec<(String, String)>,
    /// Who answers, for the record
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let (client, run) = (arguments.common.client()?, &arguments.common.run);
    let view = RunView::read(&client.run(run).await?);
    let pause = chosen(&view, arguments.pause.as_deref())?;
    let mut body = match &arguments.action {
        Some(action) => json!({"action": action, "inputs": inputs(pause, &arguments.input)}),
        None if console.can_ask() => match form::ask(pause, console).await? {
            Some(answer) => answer,
            None => return Err(Error::Failed("nothing was answered".into())),
        },
        None => return Err(Error::Usage(format!("say how: {}", form::how_to_answer(run, pause)))),
    };
    if let Some(by) = &arguments.by {
        body["answered_by"] = by.as_str().into();
    }
    client.answer(run, &pause.pause_id, &arguments.common.keyed(body)).await?;
    console.note(format_args!("run {run} has its answer to {}", pause.name()));
    Ok(Exit::Succeeded)
}

/// The pause that is meant: the named one, else the only one that waits.
fn chosen<'a>(run: &'a RunView, named: Option<&str>) -> Result<&'a PauseView, Error> {
    let waiting: Vec<&PauseView> = run.pauses.iter().filter(|pause| pause.is_pending()).collect();
    match (named, waiting.as_slice()) {
        // Whether it can still be answered is for the scheduler to say.
        (Some(id), _) => run
            .pauses
            .iter()
            .find(|pause| pause.pause_id == id)
            .ok_or_else(|| Error::Failed(format!("run {} has no pause {id}", run.id))),
        (None, [only]) => Ok(*only),
        (None, []) => Err(Error::Failed(format!("run {} waits for no answer; it is {}", run.id, run.status))),
        (None, several) => {
            let names: Vec<String> =
                several.iter().map(|pause| format!("{} ({})", pause.pause_id, pause.name())).collect();
            Err(Error::Usage(format!(
                "run {} waits for several answers, name one: {}",
                run.id,
                names.join(", ")
            )))
        }
    }
}

/// The values of fields: text, but JSON for files.
fn inputs(pause: &PauseView, given: &[(String, String)]) -> Json {
    let fields = pause.fields();
    let value = |name: &str, text: &str| {
        let kind = fields.iter().find(|field| field.name == name).map(|field| field.kind.as_str());
        if kind.is_some_and(|kind| kind.starts_with("file")) { json_or_text(text) } else { text.into() }
    };
    Json::Object(given.iter().map(|(name, text)| (name.clone(), value(name, text))).collect())
}
