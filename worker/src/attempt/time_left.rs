//! Ends an attempt when the working time of its run is over (`max_execution_time_s`). The job says how much time was left
//! when it was queued. The report of this end stops the run: no retry and no error strategy follows.

use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::wire::job::Job;

use crate::attempt::execute;
use crate::attempt::execute::{failed, note_end};
use crate::jobs::handle::JobHandle;

/// Runs one attempt within the time that its run has left.
pub(super) async fn attempt(handle: JobHandle, job: Job) {
    let left = job.time_left();
    // Boxed, because the future of an attempt is large.
    if tokio::time::timeout(left, Box::pin(execute::attempt(handle.clone(), job))).await.is_ok() {
        return;
    }
    note_end(&handle, "unknown", true);
    let (node, left) = (&handle.name.node, left.as_millis());
    tracing::info!(run = %handle.run, %node, left, "the time of the run is over");
    let message = format!("the run had {left} ms left to work (max_execution_time_s)");
    handle.report_result(failed(NodeFailure::new(EngineErrorType::RunTimeOver.name(), message)), Vec::new());
}
