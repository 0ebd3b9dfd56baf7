//! Makes the worker's table of executors of what Python has registered, and checks node types at registration, where the
//! mistake is.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidemill_common::value::JsonMap;
use tidemill_worker::host::{Hosts, NodeExecutor};

use super::executor::{Lane, PythonExecutor};
use super::queue::NativeQueue;

/// One registration: what it is for, the name of that, the number of the function, whether it runs on a thread, and for a
/// Call its manifest, as JSON.
#[derive(FromPyObject)]
pub(crate) struct Registration(String, String, usize, bool, Option<String>);

/// Where the functions of one engine or worker run.
pub(crate) struct Lanes<'py> {
    pub(crate) threads: &'py NativeQueue,
    /// Called on Python's side with each call for an event loop.
    pub(crate) on_loop: Py<PyAny>,
}

/// The table.
///
/// # Errors
/// `ValueError` for a node type that does not exist, or that only the engine executes, and for a manifest that is no object.
pub(crate) fn hosts(registrations: Vec<Registration>, lanes: Lanes<'_>) -> PyResult<Hosts> {
    let on_loop = Arc::new(lanes.on_loop);
    let mut hosts = Hosts::default();
    for Registration(kind, name, function, on_thread, manifest) in registrations {
        let lane =
            if on_thread { Lane::Threads(lanes.threads.0.clone()) } else { Lane::Loop(on_loop.clone()) };
        let executor: Arc<dyn NodeExecutor> = Arc::new(PythonExecutor { function, lane });
        hosts = match kind.as_str() {
            "id" => hosts.node(&name, executor),
            "provider" => hosts.tool(&name, executor),
            "queue" => hosts.queue(&name, executor),
            "call" => hosts.call(&name, manifest_of(&name, manifest.as_deref())?, executor),
            _ => hosts.node_type(&name, executor).map_err(wrong)?,
        };
    }
    Ok(hosts)
}

fn manifest_of(call: &str, text: Option<&str>) -> PyResult<JsonMap> {
    let read = text.and_then(|text| serde_json::from_str(text).ok());
    read.ok_or_else(|| {
        PyValueError::new_err(format!("the manifest of the Call {call} must be a JSON object"))
    })
}

/// Checks that a function may be registered for nodes of this type.
///
/// # Errors
/// `ValueError` for a node type that does not exist, or that only the engine executes.
#[pyfunction]
pub(crate) fn check_node_type(name: &str) -> PyResult<()> {
    struct Nothing;
    impl NodeExecutor for Nothing {
        fn execute(
            &self,
            _call: tidemill_worker::host::NodeCall,
        ) -> futures_util::stream::BoxStream<'static, tidemill_worker::host::NodeEvent> {
            Box::pin(futures_util::stream::empty())
        }
    }
    Hosts::default().node_type(name, Arc::new(Nothing)).map(drop).map_err(wrong)
}

fn wrong(error: tidemill_worker::host::HostsError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
