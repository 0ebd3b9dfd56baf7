//! The engine: a pure state machine. [`step`] applies one fact to the state of a run, and returns what has to be
//! written, emitted and done next.
//!
//! A step reads no clock, draws no randomness and waits for nothing: the same state, fact and moment always give the
//! same result. The caller commits the changes. If it cannot, it drops the state and loads it again.

//! In the order of a step:
//! - [`fact`] is what happened; `on/` applies it, one file per kind of fact.
//! - [`state`] is the run, as data; [`state::transitions`] lists the legal changes of a status.
//! - `flow/` is what follows: nodes become ready, start, end, wait, retry; `cost/` counts what models cost.
//! - [`order`] is the result: the changes to commit, and the events in them.

pub mod fact;
pub mod order;
pub mod state;

mod cost;
mod flow;
mod on;
mod step;

use order::changes::Changes;
use state::invariants;
use step::Step;

pub use fact::Fact;
pub use flow::end_of_run::outputs;
pub use flow::{backoff, rewind};
pub use state::run::{RunState, RunStatus};
pub use step::{Moment, step_limits};

/// Applies one fact to a run. Stale facts change nothing. After a run has ended, only the cost of model calls is still
/// recorded.
///
/// The state is changed in place. If the changes cannot be committed, the caller must drop it.
pub fn step(run: &mut RunState, fact: Fact, at: Moment) -> Changes {
    let mut changes = Changes::default();
    step_into(run, fact, at, &mut changes);
    changes
}

/// Applies one fact like [`step`], but reuses the buffers in `changes`, which must be [cleared](Changes::clear).
pub fn step_into(run: &mut RunState, fact: Fact, at: Moment, changes: &mut Changes) {
    debug_assert!(changes.is_cleared(), "the changes are not cleared");
    let mut cx = Step { run, at, cause: fact.kind(), out: changes };
    if cx.run.status.is_over() {
        return on::after_end::step(&mut cx, fact);
    }
    on::apply(&mut cx, fact);
    cx.close_entry();
    // Nodes that a limit left in the queue are sorted into the graph's order, which is also the order after loading. So
    // the next step does not depend on whether another owner has loaded the run in between.
    cx.run.ready.make_contiguous().sort_unstable();
    debug_assert_eq!(invariants::broken(cx.run), Vec::<&str>::new());
}
