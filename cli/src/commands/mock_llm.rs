//! `tidemill mock-llm`: the mock model as a server of its own, for tests and first steps.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::Interrupts;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::stack::load_rules;
use tidemill_mock_llm::MockLlm;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// What it says to what (JSON); without it, it repeats what it is told
    rules: Option<PathBuf>,
    /// Where it listens; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8720")]
    listen: SocketAddr,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let rules = load_rules(arguments.rules.as_deref())?;
    let mut interrupts = Interrupts::new();
    let mock = MockLlm::start(rules, arguments.listen).await.map_err(|error| {
        Error::Failed(format!(
            "cannot listen on {}: {error}; name another address with --listen",
            arguments.listen
        ))
    })?;
    console.line(mock.base_url())?;
    console.note("Ctrl-C stops it");
    interrupts.next().await;
    mock.stop().await;
    Ok(Exit::Succeeded)
}
