//! Applies facts: one file per kind of fact, and this table. A fact whose effect is a single act of `flow/` has no file.

pub(crate) mod after_end;
mod answer;
mod child;
mod chunk;
mod import;
mod job_called;
mod job_failed;
mod job_lost;
mod job_parked;
mod job_started;
mod job_stepped;
mod job_succeeded;
mod pause;
mod resume;
mod start;
mod stop;
mod timer_fired;
mod update;

use crate::Fact;
use crate::flow::subruns::parent;
use crate::flow::{budget, end_of_run, ready, subruns};
use crate::step::Step;

/// Applies a fact to a run that has not ended. Facts of attempts that are no longer current change nothing.
pub(crate) fn apply(cx: &mut Step<'_>, fact: Fact) {
    match fact {
        Fact::Start(head) => start::step(cx, Some(*head)),
        Fact::Begin => start::step(cx, None),
        Fact::JobStarted(it) => job_started::step(cx, &it),
        Fact::JobChunk(it) => chunk::step(cx, it),
        Fact::JobStepped(it) => job_stepped::step(cx, it),
        Fact::Child(it) => child::step(cx, *it),
        Fact::JobParked(it) => job_parked::step(cx, it),
        Fact::JobCalled(it) => job_called::step(cx, it),
        Fact::JobSucceeded(it) => job_succeeded::step(cx, it),
        Fact::JobFailed(it) => job_failed::step(cx, it),
        Fact::JobLost(it) => job_lost::step(cx, &it),
        Fact::Defect(reason) => end_of_run::defect(cx, &reason),
        Fact::TimerFired(timer) => timer_fired::step(cx, timer),
        Fact::RunDeadline(signs) => timer_fired::run_deadline(cx, &signs),
        Fact::Continue => ready::advance(cx),
        Fact::Stop(it) => stop::step(cx, &it),
        Fact::Pause(it) => pause::step(cx, it),
        Fact::Resume => resume::step(cx),
        Fact::Update(it) => update::step(cx, it),
        Fact::Answer(it) => answer::step(cx, &it),
        Fact::OverBudget(reason) => budget::exceeded(cx, &reason),
        Fact::CallEnded(it) => subruns::ended(cx, &it),
        Fact::ParentAsked(it) => parent::on_asked(cx, &it),
        Fact::ParentAnswered(it) => parent::answered(cx, *it),
        Fact::Import(it) => import::step(cx, *it),
    }
}
