//! `tidemill mock-llm`: runs the mock model as a separate server, for tests and first steps.

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
    /// File with rules for the answers (JSON); without it, the mock repeats messages, picks first classes, fills in schemas and calls one tool
    rules: Option<PathBuf>,
    /// Address to listen on; port 0 chooses a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8720")]
    listen: SocketAddr,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let rules = load_rules(arguments.rules.as_deref())?;
    let mut interrupts = Interrupts::new();
    let mock = MockLlm::start(rules, arguments.listen).await.map_err(|error| {
        Error::Failed(format!(
            "cannot listen on {}: {error}; choose another address with --listen",
            arguments.listen
        ))
    })?;
    console.line(mock.base_url())?;
    console.note("Ctrl-C stops it");
    interrupts.next().await;
    mock.stop().await;
    Ok(Exit::Succeeded)
}
