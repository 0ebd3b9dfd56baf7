//! The output of commands that show runs: [`progress`] on a terminal, [`plain`] lines elsewhere, [`json`] for programs,
//! [`table`] for lists. Events of a run go to standard error, results to standard output.

mod container_titles;
mod errors;
pub(crate) mod json;
pub(crate) mod plain;
mod progress;
pub(crate) mod table;
pub(crate) mod text;

use serde_json::Value as Json;

use crate::client::Event;
use crate::client::view::{self, RunView};
use crate::console::Console;
use crate::error::{Error, Exit};
use container_titles::ContainerTitles;
use progress::Progress;

/// The way in which the progress of a run is shown.
pub(crate) enum Report {
    /// A live line per running node, with streamed text.
    Live(Progress),
    /// A line per node that started or ended, on standard error.
    Plain(ContainerTitles),
    /// A line per event, on standard output.
    Events,
    /// A JSON object per event and then the run, on standard output.
    Json,
}

impl Report {
    /// Returns the requested form, or else the one that fits the output.
    pub(crate) fn new(json: bool, events: bool, console: &Console) -> Self {
        match (json, events) {
            (true, _) => Self::Json,
            (false, true) => Self::Events,
            (false, false) if console.is_terminal => Self::Live(Progress::new()),
            (false, false) => Self::Plain(ContainerTitles::default()),
        }
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &Event, console: &mut Console) -> Result<(), Error> {
        match self {
            Self::Live(progress) => progress.event(event),
            Self::Plain(container_titles) => {
                if let Some(line) = plain::node_line(&container_titles.named(event)) {
                    console.note(line);
                }
            }
            Self::Events => console.line(plain::event_line(event))?,
            Self::Json => console.line(&event.raw)?,
        }
        Ok(())
    }

    /// Removes the live lines from the screen, to make room for questions.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Live(progress) => progress.clear(),
            Self::Plain(_) | Self::Events | Self::Json => {}
        }
    }

    /// Returns true if the output is for programs.
    pub(crate) fn is_for_programs(&self) -> bool {
        match self {
            Self::Json => true,
            Self::Live(_) | Self::Plain(_) | Self::Events => false,
        }
    }

    /// Shows a remark between events.
    pub(crate) fn note(&mut self, text: &str, console: &mut Console) {
        match self {
            Self::Live(progress) => progress.note(text),
            Self::Plain(_) | Self::Events | Self::Json => console.note(text),
        }
    }

    /// Shows how the run ended, or that it is waiting.
    pub(crate) fn result(&mut self, run: &Json, console: &mut Console) -> Result<Exit, Error> {
        let view = RunView::read(run);
        let exit = match view.status.as_str() {
            status if view::has_succeeded(status) => Exit::Succeeded,
            "paused" => Exit::Waiting,
            _ => Exit::Failed,
        };
        match self {
            Self::Json => console.line(run)?,
            Self::Live(_) | Self::Plain(_) | Self::Events => {
                if let Self::Live(progress) = self {
                    progress.clear();
                }
                console.note(plain::end_line(&view));
                if let Some(error) = errors::below_the_end(view.error.as_deref()) {
                    console.note(error);
                }
                for warning in &view.warnings {
                    console.note(plain::warning_line(warning).trim_end());
                }
                console.text(plain::outputs(view.outputs.as_ref()))?;
            }
        }
        Ok(exit)
    }
}
