//! The engine inside your process. It runs workflow files with the same decisions, node types and events as a fleet, over
//! a store in memory: no Redis, no port.
//!
//! An engine is a scheduler and a worker in one process. It promises less than a fleet: its runs end with the process,
//! unless you keep a [snapshot](Run::snapshot) and [resume](Engine::resume) it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tidemill_embed::EmbedError> {
//! use tidemill_embed::{Engine, EngineConfig, Inputs};
//!
//! let engine = Engine::create(EngineConfig::default()).await?;
//! let file = "
//! app: {mode: workflow, name: Greet}
//! kind: app
//! version: 0.6.0
//! workflow:
//!   graph:
//!     nodes:
//!     - {id: start, data: {type: start, title: Start, variables: [{variable: name, label: Name, type: text-input}]}}
//!     - {id: end, data: {type: end, title: End, outputs: [{variable: name, value_selector: [start, name]}]}}
//!     edges: [{source: start, target: end}]
//! ";
//! let run = engine.run(file, Inputs::new().input("name", "Ada")).await?;
//! let mut events = run.events().await?;
//! while let Some(event) = events.next().await? {
//!     println!("{} {}", event.kind, event.data);
//! }
//! assert_eq!(run.show().await?["outputs"]["name"], "Ada");
//! engine.stop().await;
//! # Ok(())
//! # }
//! ```

/// The examples of the guide are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embed.md")]
pub struct Guide;

mod api;
mod command;
mod config;
mod document;
mod engine;
mod error;
mod events;
mod forgetting;
mod helper;
mod inputs;
mod lack;
mod run;
mod snapshot;

pub use command::Command;
pub use config::{CONVERSATIONS_MAX, ENDED_RUNS_MAX, EngineConfig};
pub use document::Times;
pub use engine::Engine;
pub use error::EmbedError;
pub use events::{Event, EventStream};
pub use inputs::Inputs;
pub use lack::Lack;
pub use run::{Outcome, Run};
pub use snapshot::check_snapshot;
/// Node executors of the host.
pub use tidemill_worker::host;
