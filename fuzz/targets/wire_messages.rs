//! Decodes damaged data from Redis: facts, jobs, events, states and snapshots. None may crash a process.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tidemill_common::graph::{Graph, import};
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::wire::{event, fact, job, snapshot, state};

static GRAPH: LazyLock<Graph> = LazyLock::new(|| {
    let text = include_bytes!("../../examples/hello.yml");
    import(text).graph.expect("the example is right")
});

fuzz_target!(|body: &str| {
    for kind in fact::kind::ALL {
        let _ = fact::parse(kind, body, &GRAPH);
    }
    let _ = job::parse(RunId::new(0, 0, ShardId(0)), body);
    let _ = event::decode(EntryId::ZERO, [("node_run_started".to_owned(), body.to_owned())]);
    let _ = state::node_from_json(body);
    let _ = snapshot::read(body);
});
