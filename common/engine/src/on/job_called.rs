//! Applies the order of a job for a sub-workflow run beside which its worker continues. The run belongs to the delivery that
//! has ordered it: when this delivery ends in any way, the run is stopped.

use crate::fact::JobCalled;
use crate::flow::subruns;
use crate::on::job_started;
use crate::step::Step;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: JobCalled) {
    if !job_started::is_current(cx, &it.job) {
        return;
    }
    if it.is_childs {
        job_started::note_holder(cx, &it.job, it.started_at);
    } else {
        job_started::emit_started(cx, &it.job, it.started_at);
    }
    subruns::call_beside(cx, &it.job.frame, it.job.node, *it.call);
}
