//! The Python package's binding to the engine and to the worker. It is thin: how a function of the user runs is decided
//! in Python (`tidemill/_executors.py`); here values are converted, and the interpreter's lock is released while Python
//! waits for the engine.
//!
//! No thread of the engine ever takes the interpreter's lock, so no Python code can block it. Python's threads fetch what
//! there is to do instead: calls of functions from a [`queue`](calls::queue), everything else from the
//! [`mailbox`].

mod calls;
mod convert;
mod engine;
mod errors;
mod events;
mod logs;
mod mailbox;
mod outcome;
mod run;
mod runtime;
mod settings;
mod waiting;
mod worker;

/// `tidemill._native`
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::calls::native::NativeCall;
    #[pymodule_export]
    use crate::calls::queue::NativeQueue;
    #[pymodule_export]
    use crate::calls::registry::check_node_type;
    #[pymodule_export]
    use crate::engine::NativeEngine;
    #[pymodule_export]
    use crate::events::{NativeEvent, NativeEvents};
    #[pymodule_export]
    use crate::logs::log;
    #[pymodule_export]
    use crate::mailbox::{close_mailbox, letters};
    #[pymodule_export]
    use crate::outcome::NativeOutcome;
    #[pymodule_export]
    use crate::run::NativeRun;
    #[pymodule_export]
    use crate::runtime::version;
    #[pymodule_export]
    use crate::worker::NativeWorker;
}
