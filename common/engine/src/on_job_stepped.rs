//! Applies a recorded journal entry of a job: emits its events and counts its cost. The worker writes fact and entry in
//! one write, so each recorded entry is emitted and charged exactly once.

use super::events::{EventKind, StepEvent};
use super::fact::{JobRef, JobStepped};
use super::{Step, budget, charges, on_job_started, response};
use tidemill_base::value::JsonMap;

#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, it: JobStepped) {
    if let Some(charge) = &it.charge {
        charges::count(cx, &it.job, charge);
    }
    let is_charged = it.charge.is_some();
    tell(cx, it);
    if is_charged {
        budget::check(cx);
    }
}

fn tell(cx: &mut Step<'_>, it: JobStepped) {
    if !on_job_started::is_current(cx, &it.job) {
        return;
    }
    on_job_started::tell_started(cx, &it.job, it.started_at);
    for (what, data) in it.events {
        if what == StepEvent::ReasoningChunk {
            if !response::is_reached_for(cx, &it.job.frame, it.job.node) {
                continue;
            }
            response::streams::thinks(cx, &it.job);
        }
        let about = cx.about(&it.job.frame, it.job.node);
        let data = numbered(data, &it.job);
        cx.tell(EventKind::NodeStep { about, what, data });
    }
}

/// Adds the delivery to event data that has an attempt. Clients drop what came with an older pair of attempt and
/// delivery.
pub(super) fn numbered(mut data: JsonMap, job: &JobRef) -> JsonMap {
    if data.contains_key("attempt") {
        data.insert("delivery".into(), job.delivery.into());
    }
    data
}
