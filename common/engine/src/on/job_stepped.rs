//! Applies a recorded journal entry of a job: emits its events and counts its cost. The worker writes fact and entry in
//! one write, so each recorded entry is emitted and charged exactly once.

use crate::cost::charges;
use crate::fact::{JobRef, JobStepped};
use crate::flow::budget;
use crate::flow::response;
use crate::on::job_started;
use crate::order::events::EventKind;
use crate::state::step_event::StepEvent;
use crate::step::Step;
use tidemill_base::value::JsonMap;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: JobStepped) {
    if let Some(charge) = &it.charge {
        charges::count(cx, &it.job, charge);
    }
    let is_charged = it.charge.is_some();
    emit_events(cx, it);
    if is_charged {
        budget::check(cx);
    }
}

fn emit_events(cx: &mut Step<'_>, it: JobStepped) {
    if !job_started::is_current(cx, &it.job) {
        return;
    }
    job_started::emit_started(cx, &it.job, it.started_at);
    for (what, data) in it.events {
        if what == StepEvent::ReasoningChunk {
            if !response::is_reached_for(cx, &it.job.frame, it.job.node) {
                continue;
            }
            response::streams::thinks(cx, &it.job);
        }
        let about = cx.about(&it.job.frame, it.job.node);
        let data = numbered(data, &it.job);
        cx.emit(EventKind::NodeStep { about, what, data });
    }
}

/// Adds the delivery to event data that has an attempt. Clients drop what came with an older pair of attempt and
/// delivery.
pub(crate) fn numbered(mut data: JsonMap, job: &JobRef) -> JsonMap {
    if data.contains_key("attempt") {
        data.insert("delivery".into(), job.delivery.into());
    }
    data
}
