//! Waits for the engine on a thread of Python without the interpreter's lock. All waits go through here, so that none
//! forgets to release it.

use std::time::Duration;

use pyo3::prelude::*;

use crate::runtime::runtime;

/// Waits for this work to end.
///
/// # Errors
/// In a forked process.
pub(crate) fn wait<T: Send>(py: Python<'_>, work: impl Future<Output = T> + Send) -> PyResult<T> {
    let runtime = runtime()?;
    Ok(py.detach(|| runtime.block_on(work)))
}

/// Waits for this work, at most so long; `None` when it has not ended then. The work is dropped.
///
/// # Errors
/// In a forked process.
pub(crate) fn wait_up_to<T: Send>(
    py: Python<'_>,
    time: Duration,
    work: impl Future<Output = T> + Send,
) -> PyResult<Option<T>> {
    wait(py, async { tokio::time::timeout(time, work).await.ok() })
}
