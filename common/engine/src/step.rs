//! A step in progress. It is what every handler of a fact gets: the run, the time, and the changes so far.

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{ExecutionId, FramePath};
use tidemill_base::limits;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::EvaluationLimits;

use crate::order::changes::Changes;
use crate::order::events::{About, Event, EventKind};
use crate::state::clock::Clock;
use crate::state::options::RunOptions;
use crate::state::run;
use crate::state::run::RunState;
use crate::state::run::RunStatus;
use crate::state::totals::Sums;
use crate::state::transitions::{self, FactKind};

/// The time of a step, and its place in a commit.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub now: Timestamp,
    /// The number of the commit that will write the step.
    pub commit: u64,
    /// The number of jobs that the commit holds already: the entry of the next one is `<commit>-<jobs>`.
    pub jobs: u64,
}

/// Limits for a pure node that is evaluated in a step. A node that exceeds them gets a job instead.
pub const fn step_limits(options: &RunOptions) -> EvaluationLimits {
    EvaluationLimits {
        undefined: options.template_undefined,
        missing_file_is_all: options.dify_ways.webhook_missing_file_is_all,
        template_chars_max: options.template_chars_max,
        fuel: Some(limits::PURE_FUEL),
        output_bytes: Some(limits::PURE_OUTPUT_BYTES_MAX),
    }
}

/// A step in progress: the state, the moment, and the changes so far.
pub(crate) struct Step<'a> {
    pub(crate) run: &'a mut RunState,
    pub(crate) at: Moment,
    /// The kind of fact that this step applies.
    pub(crate) cause: FactKind,
    pub(crate) out: &'a mut Changes,
}

impl Step<'_> {
    /// Changes the status of the run. It will be written.
    pub(crate) fn set_run_status(&mut self, to: RunStatus) {
        let from = self.run.status;
        transitions::check_run(from, self.cause, to);
        self.out.status_from.get_or_insert(from);
        self.run.status = to;
    }

    /// Returns the clock of the run for a change. It will be written.
    pub(crate) fn clock(&mut self) -> &mut Clock {
        self.out.clock = true;
        &mut self.run.clock
    }

    /// Emits an event.
    pub(crate) fn emit(&mut self, kind: EventKind) {
        self.run.seq += 1;
        self.out.entries.push(Event { seq: self.run.seq, at: self.at.now, kind });
    }

    /// Makes one entry from the events since the last call.
    pub(crate) fn close_entry(&mut self) {
        self.out.entries.close();
    }

    pub(crate) fn about(&mut self, frame: &FramePath, node: NodeIx) -> About {
        About { execution: self.execution(frame, node), frame: frame.clone(), node }
    }

    /// The id of a node's execution.
    pub(crate) fn execution(&mut self, frame: &FramePath, node: NodeIx) -> ExecutionId {
        if let Some(known) = self.run.recent.find(frame, node) {
            return known;
        }
        let execution = self.run.execution(frame, node);
        self.run.recent.keep(frame, node, execution);
        execution
    }

    /// Changes the state of a node, notes that it has to be written, and adjusts the counters.
    pub(crate) fn update(
        &mut self,
        frame: &FramePath,
        node: NodeIx,
        change: impl FnOnce(&mut run::NodeState),
    ) {
        let mut change = Some(change);
        self.update_by(frame, node, &mut |state| change.take().into_iter().for_each(|change| change(state)));
    }

    /// The part of [`Self::update`] that is not generic, so that it is compiled only once.
    pub(crate) fn update_by(
        &mut self,
        frame: &FramePath,
        node: NodeIx,
        change: &mut dyn FnMut(&mut run::NodeState),
    ) {
        let counts = self.run.failures_count(frame);
        let Some(open) = self.run.frames.get_mut(frame) else { return };
        let Some(state) = open.nodes.get_mut(node.at()) else { return };
        let (was_open, before) = (state.status.is_open(), Sums::of_node(state, counts));
        let from = state.status;
        change(state);
        transitions::check_node(from, self.cause, state.status);
        open.open = open.open + usize::from(state.status.is_open()) - usize::from(was_open);
        self.run.sums = self.run.sums.plus(Sums::of_node(state, counts)).minus(before);
        let order = |known: &(FramePath, NodeIx)| (&known.0, known.1).cmp(&(frame, node));
        self.out.nodes.insert_with(order, || (frame.clone(), node));
    }

    /// Takes the clock of the begin of an attempt from its node, if a worker holds its job. The node is not noted as to be
    /// written: that is left to the caller, who changes its status next.
    pub(crate) fn take_clock(&mut self, frame: &FramePath, node: NodeIx) -> Option<Clock> {
        let state = self.run.frames.get_mut(frame)?.nodes.get_mut(node.at())?;
        if !state.is_held() {
            return None;
        }
        let begun = self.run.clock.at_begin_of(state, self.at.now);
        state.clock = Clock::default();
        Some(begun)
    }

    /// Returns an open frame for a change. A frame below the root is noted as to be written.
    pub(crate) fn frame_mut(&mut self, path: &FramePath) -> Option<&mut run::Frame> {
        let frame = self.run.frames.get_mut(path)?;
        if !path.is_root() {
            self.out.frames.insert_with(|known| known.cmp(path), || path.clone());
        }
        Some(frame)
    }
}
