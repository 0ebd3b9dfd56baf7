//! `tidemill answer`: answers a pause of any kind, with arguments or by asking at the terminal.

use clap::Args;
use serde_json::{Value as Json, json};

use super::command::Common;
use super::pairs::{json_or_text, pair};
use crate::client::view::{PauseView, RunView};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::form;
use crate::question;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Id of the pause; needed when the run waits for several answers
    pause: Option<String>,
    /// Id of the action to take, for a form
    #[arg(long, value_name = "ID", group = "way")]
    action: Option<String>,
    /// A field of the form or a missing value; may be given several times; files as JSON
    #[arg(short, long = "input", value_name = "NAME=VALUE", value_parser = pair)]
    input: Vec<(String, String)>,
    /// Approve
    #[arg(long, group = "way")]
    approve: bool,
    /// Reject
    #[arg(long, group = "way")]
    reject: bool,
    /// A comment on the approval or rejection
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["action", "choose", "text", "json", "cancel"])]
    comment: Option<String>,
    /// Id of the option to choose
    #[arg(long, value_name = "ID", group = "way")]
    choose: Option<String>,
    /// Answer with text
    #[arg(long, value_name = "TEXT", group = "way")]
    text: Option<String>,
    /// Answer with any JSON value
    #[arg(long, value_name = "JSON", group = "way")]
    json: Option<String>,
    /// Cancel the question: the run stops, or the node continues by its edge for rejections
    #[arg(long, group = "way")]
    cancel: bool,
    /// Name of the person who answers, for the record
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let (client, run) = (arguments.common.client()?, &arguments.common.run);
    let view = RunView::read(&client.run(run).await?);
    let pause = chosen(&view, arguments.pause.as_deref())?;
    let mut body = match arguments.body(pause)? {
        Some(body) => body,
        None if console.can_ask() => match form::ask(pause, console).await? {
            Some(answer) => answer,
            None => return Err(Error::Failed("no answer was given".into())),
        },
        None => return Err(Error::Usage(format!("say how to answer: {}", form::how_to_answer(run, pause)))),
    };
    if let Some(by) = &arguments.by {
        body["answered_by"] = by.as_str().into();
    }
    client.answer(run, &pause.pause_id, &arguments.common.keyed(body)).await?;
    console.note(format_args!("run {run} has received its answer to {}", pause.name()));
    Ok(Exit::Succeeded)
}

impl Arguments {
    /// Builds the answer from the arguments; `None` when they contain no answer.
    fn body(&self, pause: &PauseView) -> Result<Option<Json>, Error> {
        let approval = |approved: bool| {
            let mut input = json!({ "approved": approved });
            if let Some(comment) = &self.comment {
                input["comment"] = comment.as_str().into();
            }
            input
        };
        let input = match self {
            Self { cancel: true, .. } => return Ok(Some(json!({"cancel": true}))),
            Self { action: Some(action), .. } => {
                return Ok(Some(json!({"action": action, "inputs": inputs(pause, &self.input)})));
            }
            Self { approve: true, .. } => approval(true),
            Self { reject: true, .. } => approval(false),
            Self { choose: Some(id), .. } => id.as_str().into(),
            Self { text: Some(text), .. } => text.as_str().into(),
            Self { json: Some(text), .. } => serde_json::from_str(text)
                .map_err(|error| Error::Usage(format!("--json is not JSON: {error}")))?,
            _ if self.input.is_empty() => return Ok(None),
            _ => match pause.question() {
                Some(asked) => question::named(&asked, &self.input),
                None => {
                    return Err(Error::Usage(format!(
                        "name an action: {}",
                        form::how_to_answer(&self.common.run, pause)
                    )));
                }
            },
        };
        Ok(Some(json!({ "input": input })))
    }
}

/// Returns the pause with the given id, or else the only one that waits.
fn chosen<'a>(run: &'a RunView, named: Option<&str>) -> Result<&'a PauseView, Error> {
    let waiting: Vec<&PauseView> = run.pauses.iter().filter(|pause| pause.is_pending()).collect();
    match (named, waiting.as_slice()) {
        // The scheduler decides whether it can still be answered.
        (Some(id), _) => run
            .pauses
            .iter()
            .find(|pause| pause.pause_id == id)
            .ok_or_else(|| Error::Failed(format!("run {} has no pause {id}", run.id))),
        (None, [only]) => Ok(*only),
        (None, []) => {
            Err(Error::Failed(format!("run {} is not waiting for an answer; it is {}", run.id, run.status)))
        }
        (None, several) => {
            let names: Vec<String> =
                several.iter().map(|pause| format!("{} ({})", pause.pause_id, pause.name())).collect();
            Err(Error::Usage(format!(
                "run {} waits for several answers, name one of them: {}",
                run.id,
                names.join(", ")
            )))
        }
    }
}

/// Converts the values of fields: text stays text, files are read as JSON.
fn inputs(pause: &PauseView, given: &[(String, String)]) -> Json {
    let fields = pause.fields();
    let value = |name: &str, text: &str| {
        let kind = fields.iter().find(|field| field.name == name).map(|field| field.kind.as_str());
        if kind.is_some_and(|kind| kind.starts_with("file")) { json_or_text(text) } else { text.into() }
    };
    Json::Object(given.iter().map(|(name, text)| (name.clone(), value(name, text))).collect())
}
