//! The state machine on one page: each row is a change of a status, with the facts whose step may make it.
//!
//! A step changes a status only through `Step`, which looks the change up here; in debug builds a change
//! without a row panics. docs/lifecycle.md holds the same rows, and a test compares them. Two states do not come about
//! by steps: the one that `rewind` builds, and the one that an `import` takes over.

use crate::state::node::NodeStatus;
use crate::state::run::RunStatus;

macro_rules! fact_kinds {
    ($($kind:ident $name:literal,)*) => {
        /// The kinds of facts, with the names that docs/lifecycle.md uses.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FactKind { $($kind,)* }

        impl FactKind {
            /// The name of the kind in docs/lifecycle.md.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }
    };
}

fact_kinds! {
    Start "start",
    Import "import",
    JobStarted "started",
    JobChunk "chunk",
    JobStepped "step",
    Child "child",
    JobParked "parked",
    JobCalled "called",
    CallEnded "call_ended",
    ParentAsked "parent_asked",
    ParentAnswered "parent_answered",
    JobSucceeded "done",
    JobFailed "failed",
    JobLost "lost",
    Continue "continue",
    RetryDue "retry",
    QueueTimeout "queue",
    ExecutionTimeout "execution",
    PauseExpires "form",
    PauseLimit "form_limit",
    RunDeadline "deadline",
    Answer "answer",
    Pause "pause",
    Resume "resume",
    Update "update",
    OverBudget "over_budget",
    Stop "stop",
    Defect "defect",
}

use FactKind as F;
use NodeStatus as N;
use RunStatus as R;

/// Some facts, with the name that docs/lifecycle.md has for them if it has one.
#[derive(Debug)]
pub struct Facts {
    /// The name of the group; empty for facts that are listed one by one.
    pub group: &'static str,
    pub kinds: &'static [FactKind],
    /// The kinds of the larger group that this one contains.
    pub and: &'static [FactKind],
}

impl Facts {
    fn contain(&self, kind: FactKind) -> bool {
        self.kinds.contains(&kind) || self.and.contains(&kind)
    }
}

const fn by(kinds: &'static [FactKind]) -> Facts {
    Facts { group: "", kinds, and: &[] }
}

/// The reports of a worker about a job.
pub const REPORTS: Facts = Facts {
    group: "a report of its worker, or `queue`",
    kinds: &[
        F::JobStarted,
        F::JobChunk,
        F::JobStepped,
        F::Child,
        F::JobParked,
        F::JobCalled,
        F::JobSucceeded,
        F::JobFailed,
        // A job that no worker took in time counts as begun, and fails.
        F::QueueTimeout,
    ],
    and: &[],
};
/// The facts after which a run goes on: nodes become ready, begin, and pure nodes end in the same step.
pub const ADVANCES: Facts = Facts { group: "a fact that lets the run go on", kinds: ADVANCING, and: &[] };
const ADVANCING: &[FactKind] = &[
    F::Start,
    F::Import,
    F::JobParked,
    F::CallEnded,
    F::ParentAnswered,
    F::JobSucceeded,
    F::JobFailed,
    F::JobLost,
    F::Continue,
    F::RetryDue,
    F::QueueTimeout,
    F::ExecutionTimeout,
    F::PauseExpires,
    F::Answer,
    F::Resume,
];
/// The facts whose step may end the run before all of its nodes have ended: by a failure, a budget, a limit or a stop.
pub const ENDS: Facts = Facts {
    group: "a fact that ends the run",
    kinds: &[F::JobStepped, F::Child, F::PauseLimit, F::RunDeadline, F::OverBudget, F::Stop, F::Defect],
    and: ADVANCING,
};
/// The facts after which a run may be paused.
const PAUSES: Facts =
    Facts { group: "a fact that lets the run go on, or `pause`", kinds: &[F::Pause], and: ADVANCING };
/// The facts whose step may end a node that runs.
const ENDS_NODE: Facts =
    Facts { group: "a fact that lets the run go on, or `child`", kinds: &[F::Child], and: ADVANCING };
/// The facts whose step may take back a queued job without ending the run. A breakpoint pauses in the step that ends its
/// node, whatever fact that is: also a time that has run out.
const TAKES_BACK: Facts = Facts { group: "`pause`, or a breakpoint", kinds: &[F::Pause], and: ADVANCING };

/// A change of a status.
#[derive(Debug)]
pub struct Transition<S: 'static> {
    pub from: S,
    pub to: S,
    /// The facts in whose step it may happen.
    pub facts: Facts,
    /// When it happens.
    pub when: &'static str,
}

const fn row<S>(from: S, to: S, facts: Facts, when: &'static str) -> Transition<S> {
    Transition { from, to, facts, when }
}

/// Every change of a run's status.
pub const RUNS: &[Transition<RunStatus>] = &[
    row(R::Scheduled, R::Running, by(&[F::Start, F::Import]), "it begins"),
    row(
        R::Scheduled,
        R::Failed,
        by(&[F::OverBudget, F::Defect]),
        "its key has spent its budget, or its first step panics",
    ),
    row(R::Scheduled, R::Stopped, by(&[F::Stop]), "it is stopped before it begins"),
    row(R::Running, R::Paused, PAUSES, "no job is out, and an answer or a resume command is awaited"),
    row(
        R::Paused,
        R::Running,
        by(&[F::Answer, F::PauseExpires, F::Resume]),
        "the wait has ended, and no pause command holds it",
    ),
    row(R::Running, R::Succeeded, ADVANCES, "nothing is left to do"),
    row(R::Running, R::PartialSucceeded, ADVANCES, "nothing is left to do, and failures were handled"),
    row(R::Running, R::Failed, ENDS, "a failure that nothing handles, or a budget"),
    row(R::Running, R::Stopped, ENDS, "a stop command, a breakpoint, or a limit on steps or time"),
    row(R::Paused, R::Failed, ENDS, "a budget, or an answer that cannot be used"),
    row(R::Paused, R::Stopped, ENDS, "a stop command, or a limit on time or waiting"),
];

/// Every change of a node's status.
pub const NODES: &[Transition<NodeStatus>] = &[
    // It becomes ready.
    row(N::Unknown, N::Ready, ADVANCES, "all edges to it are decided, and one is taken"),
    row(N::Unknown, N::Skipped, ADVANCES, "all edges to it are decided, and none is taken"),
    // It begins.
    row(N::Ready, N::Running, ADVANCES, "it is evaluated in this step, or its container opens"),
    row(N::Ready, N::Queued, ADVANCES, "its job is ordered"),
    row(N::Ready, N::Succeeded, ADVANCES, "the start node of an item or round"),
    row(N::Running, N::Body, ADVANCES, "a container opens its first items or round"),
    row(N::Running, N::Waiting, ADVANCES, "it asks a person"),
    // Its job.
    row(N::Queued, N::Running, REPORTS, "a worker has begun it"),
    row(N::Queued, N::Ready, TAKES_BACK, "its job is taken back"),
    row(N::Running, N::Queued, by(&[F::JobLost]), "its job has vanished, and is ordered again"),
    row(N::Running, N::Retrying, ADVANCES, "its job is parked, or it waits for the run that called this one"),
    row(
        N::Retrying,
        N::Ready,
        by(&[F::RetryDue, F::CallEnded, F::JobParked]),
        "its timer is due, or the run that it called has ended",
    ),
    row(N::Retrying, N::Waiting, by(&[F::JobParked]), "its job asks a person"),
    row(
        N::Retrying,
        N::Failed,
        by(&[F::ParentAnswered, F::JobParked]),
        "the run that called this one refuses, or the question cannot be asked",
    ),
    row(N::Retrying, N::Succeeded, by(&[F::ParentAnswered]), "the run that called this one has answered"),
    // It ends, or its attempt does.
    row(N::Running, N::Succeeded, ENDS_NODE, "it succeeds"),
    row(N::Running, N::Exception, ENDS_NODE, "it fails, and its error strategy goes on"),
    row(N::Running, N::Failed, ENDS_NODE, "it fails"),
    row(N::Failed, N::Retrying, ADVANCES, "it has tries left (in the step in which it failed)"),
    row(N::Running, N::Ready, ADVANCES, "it has ended without a worker, and its hooks have to run first"),
    row(
        N::Queued,
        N::Succeeded,
        by(&[F::QueueTimeout]),
        "no worker took the job of its hooks in time, and its end counts without them",
    ),
    row(
        N::Queued,
        N::Exception,
        by(&[F::QueueTimeout]),
        "no worker took its job in time, and its error strategy goes on",
    ),
    row(
        N::Queued,
        N::Failed,
        by(&[F::QueueTimeout]),
        "no worker took the job of its second try or a later one in time",
    ),
    row(
        N::Queued,
        N::Body,
        by(&[F::QueueTimeout]),
        "no worker took a part of a container in time, and the container fails",
    ),
    // A container goes on, or ends.
    row(N::Body, N::Queued, ADVANCES, "a worker has to evaluate a part of it"),
    row(N::Body, N::Ready, ADVANCES, "the run has as many jobs as it may, so that part waits"),
    row(N::Body, N::Succeeded, ADVANCES, "its last item or round has ended"),
    row(N::Body, N::Exception, ADVANCES, "it fails, and its error strategy goes on"),
    row(N::Body, N::Failed, ADVANCES, "it fails"),
    // An answer.
    row(
        N::Waiting,
        N::Succeeded,
        by(&[F::Answer, F::PauseExpires, F::Resume]),
        "it was answered, or its time is over",
    ),
    row(
        N::Waiting,
        N::Exception,
        by(&[F::Answer, F::PauseExpires, F::Resume]),
        "no answer came, and its error strategy goes on",
    ),
    row(
        N::Waiting,
        N::Failed,
        by(&[F::Answer, F::PauseExpires, F::Resume]),
        "the answer cannot be used, or none came",
    ),
    row(
        N::Waiting,
        N::Ready,
        by(&[F::Answer, F::PauseExpires, F::Resume, F::Import]),
        "its job, or its hooks, continue with the answer; in an imported run they ask again",
    ),
    // A node inside a job.
    row(N::Unknown, N::Running, by(&[F::Child]), "a node inside a job begins"),
    row(N::Unknown, N::Stopped, by(&[F::Child]), "the first report about it comes after the run has ended"),
    // The run ends first.
    row(N::Ready, N::Stopped, ENDS, "the run ends first"),
    row(N::Queued, N::Stopped, ENDS, "the run ends first"),
    row(N::Running, N::Stopped, ENDS, "the run ends first"),
    row(N::Retrying, N::Stopped, ENDS, "the run ends first"),
    row(N::Body, N::Stopped, ENDS, "the run ends first"),
    row(N::Waiting, N::Stopped, ENDS, "the run ends first"),
];

/// Panics in debug builds when the table has no row for a change of a node's status.
#[inline]
pub(crate) fn check_node(from: NodeStatus, cause: FactKind, to: NodeStatus) {
    if cfg!(debug_assertions) && from != to {
        check(NODES, "node", from, cause, to, (from.name(), to.name()));
    }
}

/// Panics in debug builds when the table has no row for a change of a run's status.
#[inline]
pub(crate) fn check_run(from: RunStatus, cause: FactKind, to: RunStatus) {
    if cfg!(debug_assertions) {
        check(RUNS, "run", from, cause, to, (from.name(), to.name()));
    }
}

fn check<S: PartialEq>(
    table: &[Transition<S>],
    of: &'static str,
    from: S,
    cause: FactKind,
    to: S,
    names: (&'static str, &'static str),
) {
    let is_it = |row: &&Transition<S>| row.from == from && row.to == to && row.facts.contain(cause);
    let (was, is) = names;
    debug_assert!(
        table.iter().any(|row| is_it(&row)),
        "{of}: {was} → {is} by `{}`: state/transitions.rs has no such row",
        cause.name()
    );
    #[cfg(debug_assertions)]
    taken::note(of, was, is);
}

/// The rows that were taken on this thread, for tests. Nothing in the engine reads them.
#[cfg(debug_assertions)]
pub mod taken {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// A row: `node` or `run`, and the names of the two statuses.
    pub type Taken = (&'static str, &'static str, &'static str);

    thread_local! {
        static TAKEN: RefCell<BTreeSet<Taken>> = const { RefCell::new(BTreeSet::new()) };
    }

    pub(super) fn note(of: &'static str, from: &'static str, to: &'static str) {
        TAKEN.with_borrow_mut(|taken| taken.insert((of, from, to)));
    }

    /// Returns the rows that this thread has taken since the last call.
    pub fn drain() -> BTreeSet<Taken> {
        TAKEN.take()
    }
}
