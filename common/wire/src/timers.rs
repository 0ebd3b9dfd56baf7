//! Members of the timers set, as text.

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{FramePath, RunId};
use tidemill_engine::fact::Timer;
use tidemill_engine::order::changes::TimerChange;
use tidemill_engine::state::run::RunState;
use tidemill_workflow::graph::NodeIx;

/// Timers to set and members to clear. Of several changes of one timer in a commit the last counts.
pub(super) fn timers(run: &RunState, changes: &[TimerChange]) -> (Vec<(Timestamp, String)>, Vec<String>) {
    let (mut set, mut cleared) = (Vec::new(), Vec::new());
    for change in changes {
        let (due, timer) = match change {
            TimerChange::Set(due, timer) => (Some(*due), timer),
            TimerChange::Clear(timer) => (None, timer),
        };
        let member = timer_member(run, timer);
        set.retain(|(_, known)| *known != member);
        cleared.retain(|known| *known != member);
        match due {
            Some(due) => set.push((due, member)),
            None => cleared.push(member),
        }
    }
    (set, cleared)
}

/// The member of the timers set: `<run> deadline`, `<run> form <pause>`, `<run> form_limit <pause>`, or, for a node,
/// `<run> retry|queue|execution <attempt> <frame>/<node>`.
pub fn timer_member(run: &RunState, timer: &Timer) -> String {
    let of_node = |what: &str, frame: &FramePath, node: NodeIx, attempt: u32| {
        format!("{} {what} {attempt} {frame}/{}", run.id, run.graph.node(node).id)
    };
    match timer {
        Timer::RunDeadline => format!("{} deadline", run.id),
        Timer::PauseExpires { pause } => format!("{} form {pause}", run.id),
        Timer::PauseLimit { pause } => format!("{} form_limit {pause}", run.id),
        Timer::Retry { frame, node, attempt } => of_node("retry", frame, *node, *attempt),
        Timer::Queue { frame, node, attempt } => of_node("queue", frame, *node, *attempt),
        Timer::Execution { frame, node, attempt } => of_node("execution", frame, *node, *attempt),
    }
}

/// The run of a timer member.
pub fn timer_run(member: &str) -> Option<RunId> {
    member.split(' ').next()?.parse().ok()
}

/// True for the member of a run's time limit.
pub fn is_run_deadline(member: &str) -> bool {
    member.split(' ').nth(1) == Some("deadline")
}

/// A timer member, as a run reads it.
#[derive(Debug, Clone, PartialEq)]
pub enum TimerRead {
    Timer(Timer),
    /// Its frame is closed; nothing to do.
    Stale,
    /// Not a known timer.
    Unknown,
}

/// Reads a member of the timers set as a timer of this run.
pub fn timer_from_member(run: &RunState, member: &str) -> TimerRead {
    let mut words = member.splitn(4, ' ');
    words.next();
    let what = words.next().unwrap_or("");
    let third = words.next();
    match (what, third) {
        ("deadline", _) => TimerRead::Timer(Timer::RunDeadline),
        ("form", Some(pause)) => TimerRead::Timer(Timer::PauseExpires { pause: pause.into() }),
        ("form_limit", Some(pause)) => TimerRead::Timer(Timer::PauseLimit { pause: pause.into() }),
        ("retry" | "queue" | "execution", Some(attempt)) => {
            let (Ok(attempt), Some(place)) = (attempt.parse(), words.next()) else {
                return TimerRead::Unknown;
            };
            // A node's id may contain a slash; the root's frame path is empty.
            let found = run.frames.keys().find_map(|path| {
                let node = place.strip_prefix(path.as_str())?.strip_prefix('/')?;
                Some((path.clone(), run.graph.find(node)?))
            });
            let Some((frame, node)) = found else { return TimerRead::Stale };
            TimerRead::Timer(match what {
                "retry" => Timer::Retry { frame, node, attempt },
                "queue" => Timer::Queue { frame, node, attempt },
                _ => Timer::Execution { frame, node, attempt },
            })
        }
        _ => TimerRead::Unknown,
    }
}
