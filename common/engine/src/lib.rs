//! The engine: a pure state machine. [`step`] applies one fact to the state of a run, and returns what has to be
//! written, emitted and done next.
//!
//! A step reads no clock, draws no randomness and waits for nothing: the same state, fact and moment always give the
//! same result. The caller commits the changes. If it cannot, it drops the state and loads it again.

pub mod backoff;
pub mod body;
pub mod breakpoint;
pub mod budget;
pub mod changes;
pub mod choices;
pub mod compat;
pub mod control;
pub mod entries;
pub mod events;
pub mod fact;
pub mod invariants;
pub mod pause;
pub mod records;
pub mod response;
pub mod rewind;
pub mod run;
pub mod touched;

mod breakpoints;
mod calls;
mod charges;
mod children;
mod containers;
mod drive;
mod edges;
mod end_of_run;
mod frame;
mod interaction;
mod late_hooks;
mod ledger;
mod node_state;
mod objects;
mod on_answer;
mod on_child;
mod on_chunk;
mod on_import;
mod on_job_failed;
mod on_job_lost;
mod on_job_parked;
mod on_job_started;
mod on_job_stepped;
mod on_job_succeeded;
mod on_pause;
mod on_resume;
mod on_start;
mod on_stop;
mod on_timer_fired;
mod on_update;
mod parent;
mod pool;
mod recent;
mod retry;
mod settle;
mod timeouts;
mod variables;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{ExecutionId, FramePath};
use tidemill_base::limits;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::EvaluationLimits;

use body::Sums;
use changes::Changes;
pub use end_of_run::outputs;
use events::{About, Event, EventKind};
pub use fact::Fact;
pub use run::{RunState, RunStatus};

/// The time of a step, and its place in a commit.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub now: Timestamp,
    /// The number of the commit that will write the step.
    pub commit: u64,
    /// The number of jobs that the commit holds already: the entry of the next one is `<commit>-<jobs>`.
    pub jobs: u64,
}

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
    let mut cx = Step { run, at, out: changes };
    if cx.run.status.is_over() {
        return charges::behind_the_end(&mut cx, fact);
    }
    match fact {
        Fact::Start(head) => on_start::step(&mut cx, Some(*head)),
        Fact::Begin => on_start::step(&mut cx, None),
        Fact::JobStarted(it) => on_job_started::step(&mut cx, &it),
        Fact::JobChunk(it) => on_chunk::step(&mut cx, it),
        Fact::JobStepped(it) => on_job_stepped::step(&mut cx, it),
        Fact::Child(it) => on_child::step(&mut cx, *it),
        Fact::JobParked(it) => on_job_parked::step(&mut cx, it),
        Fact::JobSucceeded(it) => on_job_succeeded::step(&mut cx, it),
        Fact::JobFailed(it) => on_job_failed::step(&mut cx, it),
        Fact::JobLost(it) => on_job_lost::step(&mut cx, &it),
        Fact::Defect(reason) => end_of_run::defect(&mut cx, &reason),
        Fact::TimerFired(timer) => on_timer_fired::step(&mut cx, timer),
        Fact::Continue => drive::drive(&mut cx),
        Fact::Stop(it) => on_stop::step(&mut cx, &it),
        Fact::Pause(it) => on_pause::step(&mut cx, it),
        Fact::Resume => on_resume::step(&mut cx),
        Fact::Update(it) => on_update::step(&mut cx, it),
        Fact::Answer(it) => on_answer::step(&mut cx, &it),
        Fact::OverBudget(reason) => budget::exceeded(&mut cx, &reason),
        Fact::CallEnded(it) => calls::ended(&mut cx, &it),
        Fact::ParentAsked(it) => parent::asked(&mut cx, &it),
        Fact::ParentAnswered(it) => parent::answered(&mut cx, *it),
        Fact::Import(it) => on_import::step(&mut cx, *it),
    }
    cx.close_entry();
    // Nodes that a limit left in the queue are sorted into the graph's order, which is also the order after loading. So
    // the next step does not depend on whether another owner has loaded the run in between.
    cx.run.ready.make_contiguous().sort_unstable();
    debug_assert_eq!(invariants::broken(cx.run), Vec::<&str>::new());
}

/// Limits for a pure node that is evaluated in a step. A node that exceeds them gets a job instead.
pub const fn step_limits(options: &run::RunOptions) -> EvaluationLimits {
    EvaluationLimits {
        undefined: options.template_undefined,
        template_chars_max: options.template_chars_max,
        fuel: Some(limits::PURE_FUEL),
        output_bytes: Some(limits::PURE_OUTPUT_BYTES_MAX),
    }
}

/// A step in progress: the state, the moment, and the changes so far.
struct Step<'a> {
    run: &'a mut RunState,
    at: Moment,
    out: &'a mut Changes,
}

impl Step<'_> {
    /// Emits an event.
    fn tell(&mut self, kind: EventKind) {
        self.run.seq += 1;
        self.out.entries.tell(Event { seq: self.run.seq, at: self.at.now, kind });
    }

    /// Makes one entry from the events since the last call.
    fn close_entry(&mut self) {
        self.out.entries.close();
    }

    fn about(&mut self, frame: &FramePath, node: NodeIx) -> About {
        About { execution: self.execution(frame, node), frame: frame.clone(), node }
    }

    /// The id of a node's execution.
    fn execution(&mut self, frame: &FramePath, node: NodeIx) -> ExecutionId {
        if let Some(known) = self.run.recent.find(frame, node) {
            return known;
        }
        let execution = self.run.execution(frame, node);
        self.run.recent.keep(frame, node, execution);
        execution
    }

    /// Changes the state of a node, notes that it has to be written, and adjusts the counters.
    fn update(&mut self, frame: &FramePath, node: NodeIx, change: impl FnOnce(&mut run::NodeState)) {
        let mut change = Some(change);
        self.update_by(frame, node, &mut |state| change.take().into_iter().for_each(|change| change(state)));
    }

    /// The part of [`Self::update`] that is not generic, so that it is compiled only once.
    fn update_by(&mut self, frame: &FramePath, node: NodeIx, change: &mut dyn FnMut(&mut run::NodeState)) {
        let counts = self.run.failures_count(frame);
        let Some(open) = self.run.frames.get_mut(frame) else { return };
        let Some(state) = open.nodes.get_mut(node.at()) else { return };
        let (was_open, before) = (state.status.is_open(), Sums::of_node(state, counts));
        change(state);
        open.open = open.open + usize::from(state.status.is_open()) - usize::from(was_open);
        self.run.sums = self.run.sums.plus(Sums::of_node(state, counts)).minus(before);
        let order = |known: &(FramePath, NodeIx)| (&known.0, known.1).cmp(&(frame, node));
        self.out.nodes.insert_with(order, || (frame.clone(), node));
    }

    /// Returns an open frame for a change. A frame below the root is noted as to be written.
    fn frame_mut(&mut self, path: &FramePath) -> Option<&mut run::Frame> {
        let frame = self.run.frames.get_mut(path)?;
        if !path.is_root() {
            self.out.frames.insert_with(|known| known.cmp(path), || path.clone());
        }
        Some(frame)
    }
}
