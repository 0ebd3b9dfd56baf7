//! The engine: one pure machine. A fact goes in, the state moves, and out comes what must be written, told and done.
//!
//! [`step`] reads no clock, draws no randomness and waits for nothing; the same state, fact and moment always give
//! the same result. Whoever calls it commits the result, or throws the state away and loads it again.

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

/// When and as part of which commit a step happens.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The time.
    pub now: Timestamp,
    /// The number of the commit that will write the step.
    pub commit: u64,
    /// How many jobs that commit holds already: the next one's entry is `<commit>-<jobs>`.
    pub jobs: u64,
}

/// Feeds one fact to a run. A fact that means nothing any more changes nothing; of a run that is over that is each, but for what
/// model calls have cost.
///
/// The state moves in place: if the changes cannot be committed it must be thrown away.
pub fn step(run: &mut RunState, fact: Fact, at: Moment) -> Changes {
    let mut changes = Changes::default();
    step_into(run, fact, at, &mut changes);
    changes
}

/// The same for whoever makes many steps: the changes go where there is room from others, which must have been
/// [cleared](Changes::clear).
pub fn step_into(run: &mut RunState, fact: Fact, at: Moment, changes: &mut Changes) {
    debug_assert!(changes.is_cleared(), "other changes are still there");
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
    // What a bound has left over waits in the graph's order: the one that a run has after it was loaded. So what
    // happens next does not depend on who owns the run.
    cx.run.ready.make_contiguous().sort_unstable();
    debug_assert_eq!(invariants::broken(cx.run), Vec::<&str>::new());
}

/// What a pure node may do within a step; above it, it goes to a worker.
pub const fn step_limits(options: &run::RunOptions) -> EvaluationLimits {
    EvaluationLimits {
        undefined: options.template_undefined,
        template_chars_max: options.template_chars_max,
        fuel: Some(limits::PURE_FUEL),
        output_bytes: Some(limits::PURE_OUTPUT_BYTES_MAX),
    }
}

/// A step under way: the state, the moment, and what has been ordered so far.
struct Step<'a> {
    run: &'a mut RunState,
    at: Moment,
    out: &'a mut Changes,
}

impl Step<'_> {
    /// Tells something.
    fn tell(&mut self, kind: EventKind) {
        self.run.seq += 1;
        self.out.entries.tell(Event { seq: self.run.seq, at: self.at.now, kind });
    }

    /// What was told since the last call becomes one entry.
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

    /// Changes the state of a node. It will be written, and the counters follow.
    fn update(&mut self, frame: &FramePath, node: NodeIx, change: impl FnOnce(&mut run::NodeState)) {
        let mut change = Some(change);
        self.update_by(frame, node, &mut |state| change.take().into_iter().for_each(|change| change(state)));
    }

    /// The same. Of each kind of change [`Self::update`] is made anew; all that they have in common is this one.
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

    /// Changes what is known of an open frame below the root; it will be written.
    fn frame_mut(&mut self, path: &FramePath) -> Option<&mut run::Frame> {
        let frame = self.run.frames.get_mut(path)?;
        if !path.is_root() {
            self.out.frames.insert_with(|known| known.cmp(path), || path.clone());
        }
        Some(frame)
    }
}
