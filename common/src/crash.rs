//! Named places where a process can be made to die, for tests: between any two writes that outlive it.
//!
//! `TIDEMILL_CRASH_AT=<name>[:<n>]` makes the process abort when it passes the place for the n-th time (the first, when
//! no number is given). Without the variable a place costs one relaxed load. `tests/tests/faults/crash_points.rs` fires
//! each of them on a real workflow; whoever adds a durable write adds a place on each side of it, here and there.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable that arms a place. For tests alone.
pub const VARIABLE: &str = "TIDEMILL_CRASH_AT";

/// The program that passes a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `tidemill-scheduler`
    Scheduler,
    /// `tidemill-worker`
    Worker,
}

macro_rules! places {
    ($($place:ident $name:literal $program:ident $what:literal,)*) => {
        /// A place where a process can be made to die.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Place { $(#[doc = $what] $place,)* }
        /// Every place: itself, its name, who passes it, what has happened when it is passed.
        pub const PLACES: &[(Place, &str, Program, &str)] = &[$((Place::$place, $name, Program::$program, $what),)*];
    };
}

places! {
    ShardClaimed "scheduler.shard_claimed" Scheduler "the shard is taken, its state is not read",
    FactsRead "scheduler.facts_read" Scheduler "facts have come, nothing is computed",
    TimersRead "scheduler.timers_read" Scheduler "timers are due, nothing is computed",
    CommitComputed "scheduler.commit_computed" Scheduler "a commit is computed and not sent",
    CommitSent "scheduler.commit_sent" Scheduler "the commit is about to go out",
    CommitAnswered "scheduler.commit_answered" Scheduler "the commit is written, memory does not know it",
    TrimBegun "scheduler.trim_begun" Scheduler "the inbox is about to be trimmed",
    TrimDone "scheduler.trim_done" Scheduler "the inbox is trimmed",
    SweepBegun "scheduler.sweep_begun" Scheduler "a run is about to be removed",
    SweepDone "scheduler.sweep_done" Scheduler "a run is removed",
    FilesRemoved "scheduler.files_removed" Scheduler "the files of a removed run are gone, that is not noted",
    ReleaseBegun "scheduler.release_begun" Scheduler "at a stop: loops have ended, the shard is still held",
    KeyReserved "scheduler.key_reserved" Scheduler "an idempotency key is reserved, its run does not exist",
    ConversationEntered "scheduler.conversation_entered" Scheduler "a run is the newest of its conversation, it does not exist",
    RunCreated "scheduler.run_created" Scheduler "a run exists, who asked for it was not told",
    TurnMade "scheduler.turn_made" Scheduler "what was said in a run is put together, it is not kept",
    TurnKept "scheduler.turn_kept" Scheduler "what was said in a run is kept, who waits for it was not told",
    AnswerKept "scheduler.answer_kept" Scheduler "the answer to a pause is kept, who gave it was not told",
    CommandKept "scheduler.command_kept" Scheduler "a command is kept, who gave it was not told",
    JobTaken "worker.job_taken" Worker "a job is held and not begun",
    JobTakenOver "worker.job_taken_over" Worker "a job of another worker is held and not begun",
    ReportBegun "worker.report_begun" Worker "that a node has started, or a piece of its text, is about to be told",
    ReportDone "worker.report_done" Worker "that a node has started, or a piece of its text, is told",
    BlobsBegun "worker.blobs_begun" Worker "large values of a result are about to be stored",
    BlobsDone "worker.blobs_done" Worker "large values of a result are stored, the result is not handed in",
    FilesNoted "worker.files_noted" Worker "it is noted that a run has files, the file is not written",
    FileKept "worker.file_kept" Worker "a file is written, the result that names it is not handed in",
    StepBegun "worker.step_begun" Worker "a try of a step is marked, nothing was called",
    StepMade "worker.step_made" Worker "a step is made, its result is not recorded",
    StepKept "worker.step_kept" Worker "a step is recorded and told",
    HandInBegun "worker.hand_in_begun" Worker "a result is about to be handed in",
    HandInDone "worker.hand_in_done" Worker "a result is handed in, the worker has not read the answer",
    BeatDone "worker.beat_done" Worker "what is held was renewed",
    HandBackBegun "worker.hand_back_begun" Worker "at a stop: what is unfinished is about to be handed back",
    FarewellBegun "worker.farewell_begun" Worker "at a stop: all is handed back, the worker is still on the list",
}

/// The armed place, counted from 1; 0 for none. Set before any thread starts, so relaxed loads see it.
static ARMED: AtomicUsize = AtomicUsize::new(0);
/// How often the armed place is still to be passed.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Arms the place that the environment names, if it names one. Called once, at the beginning of a program.
///
/// # Errors
/// The variable does not say `<name>` or `<name>:<n>` with a name of [`PLACES`].
pub fn arm_by_environment() -> Result<(), UnknownPlace> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(()) };
    let (at, times) = read(&text).ok_or(UnknownPlace(text))?;
    LEFT.store(times, Ordering::Relaxed);
    ARMED.store(at + 1, Ordering::Relaxed);
    Ok(())
}

/// The variable names no place.
#[derive(Debug, thiserror::Error)]
#[error(
    "{VARIABLE}={0} names no place to die at; it is <name> or <name>:<times>, for tests alone, see common/src/crash.rs"
)]
pub struct UnknownPlace(String);

/// The process passes a place, and dies there if it is the armed one.
#[inline]
pub fn pass(place: Place) {
    if ARMED.load(Ordering::Relaxed) == place as usize + 1 {
        count_down(place);
    }
}

#[cold]
fn count_down(place: Place) {
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        tracing::error!(?place, "dying here, as the environment asks");
        std::process::abort();
    }
}

/// The index of a place, and how often it is to be passed.
fn read(text: &str) -> Option<(usize, usize)> {
    let (name, times) = text.split_once(':').unwrap_or((text, "1"));
    let at = PLACES.iter().position(|(_, known, ..)| *known == name)?;
    let times = times.parse().ok().filter(|times| *times > 0)?;
    Some((at, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_with_or_without_a_number() {
        assert_eq!(read("worker.job_taken").map(|(at, n)| (PLACES[at].0, n)), Some((Place::JobTaken, 1)));
        assert_eq!(
            read("scheduler.facts_read:3").map(|(at, n)| (PLACES[at].0, n)),
            Some((Place::FactsRead, 3))
        );
        for wrong in ["", "worker", "worker.job_taken:0", "worker.job_taken:x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn places_are_in_order_and_named_after_their_program() {
        for (at, (place, name, program, _)) in PLACES.iter().enumerate() {
            assert_eq!(*place as usize, at, "{name}");
            let prefix = match program {
                Program::Scheduler => "scheduler.",
                Program::Worker => "worker.",
            };
            assert!(name.starts_with(prefix), "{name}");
        }
    }

    #[test]
    fn nothing_is_armed_by_itself() {
        PLACES.iter().for_each(|(place, ..)| pass(*place));
    }
}
