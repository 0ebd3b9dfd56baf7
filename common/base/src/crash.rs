//! Crash points: named places at which a test can make a process die, one on each side of every durable
//! write.
//!
//! `TIDEMILL_CRASH_AT=<name>[:<n>]` makes the process abort when it passes the place for the n-th time
//! (default 1). Without the variable a place costs one relaxed load. `tests/tests/faults/crash_points.rs`
//! triggers each place in a real workflow. If you add a durable write, add a place before and after it, here
//! and in that test.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable that arms a place. For tests only.
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
        /// A place at which a test can make the process die.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum CrashPoint { $(#[doc = $what] $place,)* }
        /// Every place: the place, its name, the program that passes it, the state of affairs when it is
        /// passed.
        pub const CRASH_POINTS: &[(CrashPoint, &str, Program, &str)] = &[$((CrashPoint::$place, $name, Program::$program, $what),)*];
    };
}

places! {
    ShardClaimed "scheduler.shard_claimed" Scheduler "the shard is claimed, its state is not read yet",
    FactsRead "scheduler.facts_read" Scheduler "facts were received, nothing is computed yet",
    TimersRead "scheduler.timers_read" Scheduler "timers are due, nothing is computed yet",
    CommitComputed "scheduler.commit_computed" Scheduler "a commit is computed, but not sent",
    CommitSent "scheduler.commit_sent" Scheduler "the commit is about to be sent",
    CommitAnswered "scheduler.commit_answered" Scheduler "the commit is written, memory is not updated yet",
    TrimBegun "scheduler.trim_begun" Scheduler "the inbox is about to be trimmed",
    TrimDone "scheduler.trim_done" Scheduler "the inbox is trimmed",
    SweepBegun "scheduler.sweep_begun" Scheduler "a run is about to be removed",
    SweepDone "scheduler.sweep_done" Scheduler "a run is removed",
    FilesRemoved "scheduler.files_removed" Scheduler "the files of a removed run are deleted, which is not recorded yet",
    EarlyFilesNoted "scheduler.early_files_noted" Scheduler "it is recorded that a request brings files, they are not stored yet",
    EarlyFilesKept "scheduler.early_files_kept" Scheduler "the files of a request are stored, their run does not exist yet",
    ReleaseBegun "scheduler.release_begun" Scheduler "at shutdown: the loops have ended, the shard is still owned",
    KeyReserved "scheduler.key_reserved" Scheduler "an idempotency key is reserved, its run does not exist yet",
    ConversationEntered "scheduler.conversation_entered" Scheduler "a run is registered as the newest of its conversation, but does not exist yet",
    PlaceTaken "scheduler.place_taken" Scheduler "a place among the runs of an app with a limit is taken, its run does not exist yet",
    PlaceLeft "scheduler.place_left" Scheduler "the end or the pause of a run of an app with a limit is written, its place is not given back yet",
    RunCreated "scheduler.run_created" Scheduler "a run exists, the client has no answer yet",
    TurnMade "scheduler.turn_made" Scheduler "a conversation turn is assembled, but not stored",
    TurnKept "scheduler.turn_kept" Scheduler "a conversation turn is stored, the waiting client is not notified yet",
    AnswerKept "scheduler.answer_kept" Scheduler "the answer to a pause is stored, the client that gave it has no answer yet",
    CommandKept "scheduler.command_kept" Scheduler "a command is stored, the client that gave it has no answer yet",
    JobTaken "worker.job_taken" Worker "a job is claimed, but not started",
    JobTakenOver "worker.job_taken_over" Worker "a job of another worker is taken over, but not started",
    ReportBegun "worker.report_begun" Worker "the start of a node, or a chunk of its text, is about to be reported",
    ReportDone "worker.report_done" Worker "the start of a node, or a chunk of its text, is reported",
    BlobsBegun "worker.blobs_begun" Worker "large values of a result are about to be stored as blobs",
    BlobsDone "worker.blobs_done" Worker "large values of a result are stored, the result is not reported yet",
    FilesNoted "worker.files_noted" Worker "it is recorded that a run has files, the file is not written yet",
    FileKept "worker.file_kept" Worker "a file is written, the result that names it is not reported yet",
    StepBegun "worker.step_begun" Worker "an attempt of a journal entry is recorded, nothing was called yet",
    StepMade "worker.step_made" Worker "the call of a journal entry is done, its result is not recorded yet",
    StepKept "worker.step_kept" Worker "a journal entry is recorded and reported",
    HandInBegun "worker.hand_in_begun" Worker "a result is about to be reported",
    HandInDone "worker.hand_in_done" Worker "a result is reported, the worker has not read the answer yet",
    BeatDone "worker.beat_done" Worker "the leases of the jobs in flight are renewed",
    HandBackBegun "worker.hand_back_begun" Worker "at shutdown: unfinished jobs are about to be handed back",
    FarewellBegun "worker.farewell_begun" Worker "at shutdown: all jobs are handed back, the worker is still registered",
}

/// The index of the armed place plus 1; 0 for none. Set before any thread starts, so relaxed loads see it.
static ARMED: AtomicUsize = AtomicUsize::new(0);
/// The number of passes left until the armed place aborts.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Arms the place that the environment names, if any. A program calls this once, at its start.
///
/// # Errors
/// The variable is not `<name>` or `<name>:<n>` with a name from [`CRASH_POINTS`].
pub fn arm_by_environment() -> Result<(), UnknownPlace> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(()) };
    let (at, times) = read(&text).ok_or(UnknownPlace(text))?;
    LEFT.store(times, Ordering::Relaxed);
    ARMED.store(at + 1, Ordering::Relaxed);
    Ok(())
}

/// The error for a variable that names no crash point.
#[derive(Debug, thiserror::Error)]
#[error(
    "{VARIABLE}={0} names no crash point; write <name> or <name>:<times>, for tests only (names: common/base/src/crash.rs)"
)]
pub struct UnknownPlace(String);

/// Marks that the process passes a place. Aborts if it is the armed one.
#[inline]
pub fn pass(place: CrashPoint) {
    if ARMED.load(Ordering::Relaxed) == place as usize + 1 {
        count_down(place);
    }
}

#[cold]
fn count_down(place: CrashPoint) {
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        tracing::error!(?place, "aborting at the crash point that the environment names");
        std::process::abort();
    }
}

/// Reads the index of a place and the pass at which it aborts.
fn read(text: &str) -> Option<(usize, usize)> {
    let (name, times) = text.split_once(':').unwrap_or((text, "1"));
    let at = CRASH_POINTS.iter().position(|(_, known, ..)| *known == name)?;
    let times = times.parse().ok().filter(|times| *times > 0)?;
    Some((at, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_with_or_without_a_number() {
        assert_eq!(
            read("worker.job_taken").map(|(at, n)| (CRASH_POINTS[at].0, n)),
            Some((CrashPoint::JobTaken, 1))
        );
        assert_eq!(
            read("scheduler.facts_read:3").map(|(at, n)| (CRASH_POINTS[at].0, n)),
            Some((CrashPoint::FactsRead, 3))
        );
        for wrong in ["", "worker", "worker.job_taken:0", "worker.job_taken:x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn places_are_in_order_and_named_after_their_program() {
        for (at, (place, name, program, _)) in CRASH_POINTS.iter().enumerate() {
            assert_eq!(*place as usize, at, "{name}");
            let prefix = match program {
                Program::Scheduler => "scheduler.",
                Program::Worker => "worker.",
            };
            assert!(name.starts_with(prefix), "{name}");
        }
    }

    #[test]
    fn nothing_is_armed_by_default() {
        CRASH_POINTS.iter().for_each(|(place, ..)| pass(*place));
    }
}
