//! Handles a run that waits for a person: asks at the terminal, or prints how to continue and ends the command.

use serde_json::json;

use crate::client::view::{PauseView, RunView};
use crate::client::{Client, ClientError};
use crate::console::Console;
use crate::error::Error;
use crate::form;
use crate::output::Report;

use super::kept::Keep;

/// The next action of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Follow the run; it continues.
    Follow,
    /// End the command; the run waits for another person.
    Leave,
}

/// The place of a run. It decides how the run continues when the person at this terminal does not answer.
#[derive(Debug)]
pub(super) enum Home {
    /// In the Redis of a fleet, where other commands reach it.
    Fleet,
    /// In this process alone; it may be kept in a file.
    Here(Option<Keep>),
}

/// Handles a run that reported that it waits.
///
/// # Errors
/// The scheduler cannot be reached or refuses, the terminal cannot be read.
pub(super) async fn perform(
    client: &Client,
    run: &str,
    home: &Home,
    report: &mut Report,
    console: &mut Console,
) -> Result<Then, Error> {
    let view = RunView::read(&client.run(run).await?);
    // The event may be old: another client may have answered since.
    if view.status != "paused" {
        return Ok(Then::Follow);
    }
    let pending: Vec<&PauseView> = view.pauses.iter().filter(|pause| pause.is_pending()).collect();
    report.clear();
    if !console.can_ask() || report.is_for_programs() {
        return leave(client, run, &pending, home, console).await;
    }
    if pending.is_empty() {
        return resume(client, run, home, console).await;
    }
    for pause in pending {
        if !answer(client, run, pause, console).await? {
            return leave(client, run, &[pause], home, console).await;
        }
    }
    Ok(Then::Follow)
}

/// Asks until the scheduler accepts the answer. Returns false when the user gives none.
async fn answer(client: &Client, run: &str, pause: &PauseView, console: &mut Console) -> Result<bool, Error> {
    loop {
        let Some(body) = form::ask(pause, console).await? else { return Ok(false) };
        match client.answer(run, &pause.pause_id, &body).await {
            Ok(()) => return Ok(true),
            Err(error @ ClientError::Refused { status: 400, .. }) => console.note(error),
            // Another client answered first, or the pause has expired: the run has continued.
            Err(error @ ClientError::Refused { status: 404 | 409 | 410, .. }) => {
                console.note(error);
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn resume(client: &Client, run: &str, home: &Home, console: &mut Console) -> Result<Then, Error> {
    if console.ask("the run is paused; press Enter to resume it: ").await?.is_none() {
        return leave(client, run, &[], home, console).await;
    }
    client.command(run, &json!({"command": "resume"})).await?;
    Ok(Then::Follow)
}

/// Ends the command while the run waits. Says how it goes on, and keeps it if that is wanted.
async fn leave(
    client: &Client,
    run: &str,
    pending: &[&PauseView],
    home: &Home,
    console: &mut Console,
) -> Result<Then, Error> {
    match home {
        Home::Here(Some(keep)) => {
            if !keep.write(client, run, console).await? {
                return Ok(Then::Follow);
            }
        }
        Home::Here(None) => console.note(
            "the run waits for an answer and ends with this command, in whose memory it is: keep it with --keep FILE, or use --redis or `tidemill dev` for runs that `tidemill ps`, `show`, `watch` and `answer` reach",
        ),
        Home::Fleet => {
            for pause in pending {
                console.note(format_args!("waits for {}: {}", pause.name(), form::how_to_answer(run, pause)));
            }
            if pending.is_empty() {
                console.note(format_args!("the run is paused; resume it with: tidemill resume {run}"));
            }
        }
    }
    Ok(Then::Leave)
}
