//! The table of verbs; each has its file. Exit codes: 0 it went well, 1 it or the run did not, 2 wrong use,
//! 3 something it needs cannot be reached, 4 the run waits for somebody.

mod answer;
mod apps;
mod catalog;
mod check;
mod command;
mod common;
mod dead;
mod dev;
mod doctor;
mod export;
mod import;
mod kept;
mod keys;
mod knowledge;
mod mock_llm;
mod pairs;
mod profiles;
mod providers;
mod ps;
mod run;
mod set;
mod show;
mod show_kept;
mod trial;
mod triggers;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::console::Console;
use crate::error::{Error, Exit};

/// What the exit codes mean, below the help.
const EXIT_CODES: &str = "\
Exit codes: 0 it went well, 1 it or the run did not, 2 wrong use, 3 something it needs cannot be reached,
4 the run waits for somebody and nobody is there to ask";

/// Runs Dify-format LLM workflows durably on Redis.
#[derive(Debug, Parser)]
#[command(name = "tidemill", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check workflow files and show everything that is wrong with them
    Check(check::Arguments),
    /// Run everything on this machine: Redis, scheduler and workers, with the apps of these files
    Dev(dev::Arguments),
    /// Run a workflow file once and show how it goes
    Run(run::Arguments),
    /// List runs, newest first
    Ps(ps::Arguments),
    /// Show a run and its nodes
    Show(show::Arguments),
    /// Follow the events of a run
    Watch(watch::Arguments),
    /// Stop a run
    Stop(command::WithReason),
    /// Pause a run: what runs ends, nothing begins until it is resumed
    Pause(command::WithReason),
    /// Go on with a run that was paused
    Resume(command::Plain),
    /// Write variables of a run that is under way
    Set(set::Arguments),
    /// Answer a form that a run waits for
    Answer(answer::Arguments),
    /// Show, retry and forget what was given up on
    Dead(dead::Arguments),
    /// Look whether Redis is set up such that no run is lost
    Doctor(doctor::Arguments),
    /// Write a run that is not over as one document (a snapshot)
    Export(export::Arguments),
    /// Go on from a snapshot, as a new run; prints its id
    Import(import::Arguments),
    /// Publish and list apps
    Apps(apps::Arguments),
    /// Make, list and revoke API keys of apps
    Keys(keys::Arguments),
    /// List what begins runs: webhooks and schedules
    Triggers(triggers::Arguments),
    /// Keep, list and test providers: where models are, and with which key
    Providers(providers::Arguments),
    /// Keep, list and test profiles: models with parameters, known by an id
    Profiles(profiles::Arguments),
    /// Keep and list nodes of the library: Calls with known parameters
    Library(kept::Arguments),
    /// Keep and list Calls of your own
    Calls(kept::Arguments),
    /// Keep and list services: servers that `api` nodes call, and the credentials for them
    Services(kept::Arguments),
    /// Keep and list datasources: databases that `sql` nodes ask
    Datasources(kept::Arguments),
    /// Keep documents that workflows search: add, list, show, search and remove them
    Knowledge(knowledge::Arguments),
    /// Serve a mock model with an OpenAI-compatible API
    MockLlm(mock_llm::Arguments),
}

/// The whole command: reads the process's arguments, does what they say, gives the exit code.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help that nobody reads is no failure.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    // The only provider in the build; a second call would find it set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut console = Console::of_process();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            console.note(format_args!("tidemill: cannot start: {error}"));
            return Exit::Failed.into();
        }
    };
    let outcome = runtime.block_on(Box::pin(perform(arguments.verb, &mut console)));
    // What still runs in the background has been told to end, or is of no use any more.
    runtime.shutdown_background();
    conclude(outcome, &mut console).into()
}

async fn perform(verb: Verb, console: &mut Console) -> Result<Exit, Error> {
    match verb {
        Verb::Check(arguments) => check::perform(&arguments, console),
        Verb::Dev(arguments) => dev::perform(&arguments, console).await,
        Verb::Run(arguments) => run::perform(&arguments, console).await,
        Verb::Ps(arguments) => ps::perform(&arguments, console).await,
        Verb::Show(arguments) => show::perform(&arguments, console).await,
        Verb::Watch(arguments) => watch::perform(&arguments, console).await,
        Verb::Stop(arguments) => command::stop(&arguments, console).await,
        Verb::Pause(arguments) => command::pause(&arguments, console).await,
        Verb::Resume(arguments) => command::resume(&arguments, console).await,
        Verb::Set(arguments) => set::perform(&arguments, console).await,
        Verb::Answer(arguments) => answer::perform(&arguments, console).await,
        Verb::Dead(arguments) => dead::perform(&arguments, console).await,
        Verb::Doctor(arguments) => doctor::perform(&arguments, console).await,
        Verb::Export(arguments) => export::perform(&arguments, console).await,
        Verb::Import(arguments) => import::perform(&arguments, console).await,
        Verb::Apps(arguments) => apps::perform(&arguments, console).await,
        Verb::Keys(arguments) => keys::perform(&arguments, console).await,
        Verb::Triggers(arguments) => triggers::perform(&arguments, console).await,
        Verb::Providers(arguments) => providers::perform(&arguments, console).await,
        Verb::Profiles(arguments) => profiles::perform(&arguments, console).await,
        Verb::Library(arguments) => kept::perform(catalog::LIBRARY, &arguments, console).await,
        Verb::Calls(arguments) => kept::perform(catalog::CALL, &arguments, console).await,
        Verb::Services(arguments) => kept::perform(catalog::SERVICE, &arguments, console).await,
        Verb::Datasources(arguments) => kept::perform(catalog::DATASOURCE, &arguments, console).await,
        Verb::Knowledge(arguments) => knowledge::perform(&arguments, console).await,
        Verb::MockLlm(arguments) => mock_llm::perform(&arguments, console).await,
    }
}

fn conclude(outcome: Result<Exit, Error>, console: &mut Console) -> Exit {
    match outcome {
        Ok(exit) => exit,
        Err(error) => {
            for line in error.details() {
                console.note(line);
            }
            if !matches!(error, Error::OutputClosed) {
                console.note(format_args!("tidemill: {error}"));
            }
            error.exit()
        }
    }
}

/// Ctrl-C, or whoever else wants this process to end; as often as it is wanted.
struct Interrupts {
    terminate: Option<tokio::signal::unix::Signal>,
}

impl Interrupts {
    fn new() -> Self {
        // Without it only Ctrl-C is heard.
        Self { terminate: signal(SignalKind::terminate()).ok() }
    }
    async fn next(&mut self) {
        let terminated = async {
            match &mut self.terminate {
                Some(terminate) => terminate.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated => {}
        }
    }
}

#[cfg(test)]
mod tests;
