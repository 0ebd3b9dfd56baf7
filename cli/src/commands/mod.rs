//! The table of commands; each has its own file. Exit codes: 0 success, 1 the command or the run failed, 2 wrong usage,
//! 3 a scheduler or Redis cannot be reached, 4 the run waits for a person.

mod admin_keys;
mod answer;
mod app_life;
mod apps;
mod audit;
mod call_check;
mod catalog;
mod check;
mod check_code;
mod code;
mod command;
mod common;
mod dead;
mod dead_all;
mod dev;
mod doctor;
mod export;
mod fleet;
mod import;
mod key_verbs;
mod keys;
mod knowledge;
mod limits;
mod migrate;
mod mock_llm;
mod namespace;
mod pairs;
mod plugins;
mod profiles;
mod providers;
mod ps;
mod registry;
mod run;
mod set;
mod shards;
mod show;
mod show_records;
mod show_waits;
mod trial;
mod triggers;
mod watch;
mod webhook;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::console::Console;
use crate::error::{Error, Exit};

/// The meaning of the exit codes, printed below the help.
const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 the command or the run failed, 2 wrong usage, 3 a scheduler or Redis cannot be reached,
4 the run waits for a person and there is no terminal to ask at";

/// Runs Dify-format LLM workflows durably on Redis.
#[derive(Debug, Parser)]
#[command(name = "tidemill", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check workflow files and show all problems in them
    Check(check::Arguments),
    /// Report what the workflows of a folder need, compare it with an installation, and publish what can run
    Migrate(migrate::Arguments),
    /// Run everything on this machine: Redis, scheduler and workers, with an app per workflow file
    Dev(dev::Arguments),
    /// Run a workflow file once and show its progress
    Run(run::Arguments),
    /// List runs, newest first
    Ps(ps::Arguments),
    /// Show a run and its nodes
    Show(show::Arguments),
    /// Follow the events of a run
    Watch(watch::Arguments),
    /// Stop a run
    Stop(command::WithReason),
    /// Pause a run: running nodes finish, and no more nodes start until it is resumed
    Pause(command::WithReason),
    /// Resume a paused run
    Resume(command::Plain),
    /// Change variables of a run that has not ended
    Set(set::Arguments),
    /// Answer a form or question that a run waits for
    Answer(answer::Arguments),
    /// List, retry and remove dead letters (jobs and facts that were given up)
    Dead(dead::Arguments),
    /// List the living workers: their queues and jobs, and what each of them lacks
    Workers(common::Common),
    /// List the queues: the jobs that wait and that are held, the oldest wait, and the workers that serve it
    Queues(common::Common),
    /// List the shards with their owners and runs, and raise their number
    Shards(shards::Arguments),
    /// Find what could lose runs or keeps them from moving: Redis, schedulers, workers, queues
    Doctor(doctor::Arguments),
    /// Copy everything to another Redis or to a cluster, while no process runs
    Namespace(namespace::Arguments),
    /// Write a run that has not ended as one document (a snapshot)
    Export(export::Arguments),
    /// Continue from a snapshot as a new run; prints its id
    Import(import::Arguments),
    /// Publish, list, switch off and remove apps
    Apps(apps::Arguments),
    /// Create, list and revoke API keys of apps
    Keys(keys::Arguments),
    /// Create, list and revoke admin keys: keys of the native API with a role
    AdminKeys(admin_keys::Arguments),
    /// List who changed what through the native API
    Audit(audit::Arguments),
    /// List triggers: the webhooks and schedules that start runs
    Triggers(triggers::Arguments),
    /// Store, list and test providers: the addresses and keys of models
    Providers(providers::Arguments),
    /// Store, list and test profiles: models with parameters, under an id
    Profiles(profiles::Arguments),
    /// Store and list library nodes: Calls with fixed parameters
    Library(registry::Arguments),
    /// Store and list your own Calls
    Calls(registry::Arguments),
    /// Store and list services: servers that `api` nodes call, with their credentials
    Services(registry::Arguments),
    /// Store and list datasources: databases that `sql` nodes query
    Datasources(registry::Arguments),
    /// Add, list, show, search and remove documents that workflows search
    Knowledge(knowledge::Arguments),
    /// Install the Python packages of code nodes on this host, and show what is installed
    Code(code::Arguments),
    /// Install Dify plugins for all workers, give them credentials, and try their tools
    Plugins(plugins::Arguments),
    /// Serve a mock model with an OpenAI-compatible API
    MockLlm(mock_llm::Arguments),
}

/// Runs the command of this process's arguments and returns the exit code.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // If the output is closed, the help cannot be printed; that is no failure.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    // The build has only this TLS provider. A second call would fail and can be ignored.
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
    // Tasks that still run were asked to end, or are not needed any more.
    runtime.shutdown_background();
    conclude(outcome, &mut console).into()
}

async fn perform(verb: Verb, console: &mut Console) -> Result<Exit, Error> {
    match verb {
        Verb::Check(arguments) => check::perform(&arguments, console),
        Verb::Migrate(arguments) => migrate::perform(&arguments, console).await,
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
        Verb::Workers(common) => fleet::workers(&common, console).await,
        Verb::Queues(common) => fleet::queues(&common, console).await,
        Verb::Shards(arguments) => shards::perform(&arguments, console).await,
        Verb::Doctor(arguments) => doctor::perform(&arguments, console).await,
        Verb::Namespace(arguments) => namespace::perform(&arguments, console).await,
        Verb::Export(arguments) => export::perform(&arguments, console).await,
        Verb::Import(arguments) => import::perform(&arguments, console).await,
        Verb::Apps(arguments) => apps::perform(&arguments, console).await,
        Verb::Keys(arguments) => keys::perform(&arguments, console).await,
        Verb::AdminKeys(arguments) => admin_keys::perform(&arguments, console).await,
        Verb::Audit(arguments) => audit::perform(&arguments, console).await,
        Verb::Triggers(arguments) => triggers::perform(&arguments, console).await,
        Verb::Providers(arguments) => providers::perform(&arguments, console).await,
        Verb::Profiles(arguments) => profiles::perform(&arguments, console).await,
        Verb::Library(arguments) => registry::perform(catalog::LIBRARY, &arguments, console).await,
        Verb::Calls(arguments) => registry::perform(catalog::CALL, &arguments, console).await,
        Verb::Services(arguments) => registry::perform(catalog::SERVICE, &arguments, console).await,
        Verb::Datasources(arguments) => registry::perform(catalog::DATASOURCE, &arguments, console).await,
        Verb::Knowledge(arguments) => knowledge::perform(&arguments, console).await,
        Verb::Code(arguments) => code::perform(&arguments, console).await,
        Verb::Plugins(arguments) => plugins::perform(&arguments, console).await,
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

/// Ctrl-C and the termination signal. Can be awaited several times; a signal that comes between two waits is kept for
/// the next one, so both are watched from the beginning.
struct Interrupts {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Interrupts {
    /// A signal that cannot be watched ends the command at once, as it does by default.
    fn new() -> Self {
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
        }
    }

    async fn next(&mut self) {
        tokio::select! {
            () = received(self.interrupt.as_mut()) => {}
            () = received(self.terminate.as_mut()) => {}
        }
    }
}

async fn received(signal: Option<&mut Signal>) {
    // The stream of a watched signal has no end.
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests;
