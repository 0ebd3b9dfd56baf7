//! Embedded engines, as a host program uses them: no Redis, no port.

mod chats;
mod engine;
mod executors;
mod files;
mod lacks;
mod many;
#[path = "../shared/mod.rs"]
mod shared;

use tidemill_embed::{Engine, EngineConfig, Run};

pub(crate) use self::shared::{ASK, GREET, threads};

async fn engine() -> Engine {
    Engine::create(EngineConfig::default()).await.expect("an engine starts")
}

/// Follows a run to an event of this type, and returns the types so far.
async fn until(run: &Run, kind: &str) -> Vec<String> {
    let mut events = run.events().await.expect("the run has events");
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await.expect("events can be read") {
        kinds.push(event.kind);
        if kinds.last().is_some_and(|last| last == kind) {
            return kinds;
        }
    }
    panic!("the stream ended before {kind}: {kinds:?}")
}
