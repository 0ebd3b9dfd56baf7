//! One attempt of a node, as Python sees it: what the function gets, and the methods by which it returns pieces and a
//! result. Values become Python objects only when they are asked for.

use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;
use tidemill_worker::host::{NodeCall, NodeEvent, NodeMessage, NodeOutcome};

use super::executor::Outlet;
use crate::convert::{from_python, map_from_python, map_to_python, to_python};

/// One attempt of a node.
#[pyclass(frozen, module = "tidemill._native")]
pub(crate) struct NativeCall {
    call: NodeCall,
    function: usize,
    outlet: Outlet,
}

impl NativeCall {
    pub(crate) fn new(call: NodeCall, function: usize, outlet: Outlet) -> Self {
        Self { call, function, outlet }
    }

    /// Drops the call, because its engine or worker closes.
    pub(crate) fn give_up(self) {
        self.outlet.attempt.give_up();
    }

    /// True once the attempt has been cancelled.
    pub(crate) fn is_over(&self) -> bool {
        self.outlet.attempt.is_cancelled()
    }
}

/// Reads what may be absent.
fn optional_map(value: Option<&Bound<'_, PyAny>>, what: &str) -> PyResult<JsonMap> {
    value.map_or_else(|| Ok(JsonMap::new()), |value| map_from_python(value, what))
}

#[pymethods]
impl NativeCall {
    /// The number of its function.
    #[getter]
    fn function(&self) -> usize {
        self.function
    }
    #[getter]
    fn run_id(&self) -> &str {
        &self.call.run
    }
    #[getter]
    fn execution_id(&self) -> &str {
        &self.call.execution
    }
    #[getter]
    fn attempt(&self) -> u32 {
        self.call.attempt
    }
    #[getter]
    fn app(&self) -> Option<&str> {
        self.call.app.as_deref()
    }
    #[getter]
    fn node_id(&self) -> &str {
        &self.call.node
    }
    #[getter]
    fn node_type(&self) -> &str {
        &self.call.node_type
    }
    #[getter]
    fn title(&self) -> &str {
        &self.call.title
    }
    #[getter]
    fn cancelled(&self) -> bool {
        self.is_over()
    }

    /// The node's data. A new object at each call.
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(map_to_python(py, &self.call.config)?.into_any())
    }

    /// The values that the node reads. A new object at each call.
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(map_to_python(py, &self.call.inputs)?.into_any())
    }

    /// The prompt of an `llm` node, as dictionaries. A new object at each call.
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let message = |message: &NodeMessage| json!({"role": message.role, "text": message.text, "files": message.files});
        to_python(py, &self.call.messages.iter().map(message).collect())
    }

    /// Replaces the references in a text by their values.
    fn render(&self, text: &str) -> String {
        self.call.render(text)
    }

    /// The value of a selector; `None` for what the node's configuration does not mention.
    fn get<'py>(&self, py: Python<'py>, selector: Vec<String>) -> PyResult<Bound<'py, PyAny>> {
        let selector: Vec<&str> = selector.iter().map(String::as_str).collect();
        to_python(py, &self.call.get(&selector).unwrap_or_default())
    }

    /// The answers to all pauses of earlier executions. A new object at each call.
    fn answers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &Json::Array(self.call.answers.clone()))
    }

    /// The answer to the pause of an earlier execution.
    fn answer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.call.answer.as_ref().unwrap_or(&Json::Null))
    }

    /// Sends a piece of text. With `wait` it waits, without the interpreter's lock, while too much text is under way.
    fn emit(&self, py: Python<'_>, output: String, text: String, is_final: bool, wait: bool) {
        self.outlet.send(NodeEvent::Chunk { output, text, is_final });
        let attempt = &self.outlet.attempt;
        if wait && attempt.is_full() {
            py.detach(|| attempt.wait_for_room());
        }
    }

    /// True while so much text is under way that the function should wait.
    fn is_full(&self) -> bool {
        self.outlet.attempt.is_full()
    }

    /// Ends the attempt with a result.
    #[pyo3(signature = (outputs, process_data=None, metadata=None, tokens=None, handle=None))]
    fn succeed(
        &self,
        outputs: &Bound<'_, PyAny>,
        process_data: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        tokens: Option<(u64, u64)>,
        handle: Option<String>,
    ) -> PyResult<()> {
        let outcome = NodeOutcome {
            outputs: map_from_python(outputs, "outputs")?,
            process_data: optional_map(process_data, "process_data")?,
            metadata: optional_map(metadata, "metadata")?,
            tokens,
            handle,
        };
        self.end(NodeEvent::Succeeded(outcome));
        Ok(())
    }

    /// Ends the attempt with a failure. Texts of exceptions may hold what is no Unicode, such as names of files; it is
    /// replaced, because an attempt that could not tell its end would never end.
    #[pyo3(signature = (class, message, /))]
    fn fail(&self, class: &Bound<'_, PyString>, message: &Bound<'_, PyString>) {
        let text = |text: &Bound<'_, PyString>| text.to_string_lossy().into_owned();
        self.end(NodeEvent::Failed { class: text(class), message: text(message) });
    }

    /// Ends the attempt; the run pauses until a person answers.
    #[pyo3(signature = (message, schema=None))]
    fn pause(&self, message: String, schema: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let schema = schema.map(|schema| from_python(schema, "schema")).transpose()?;
        self.end(NodeEvent::PauseRequested { message, schema });
        Ok(())
    }

    /// Has a function called when the attempt is cancelled; soon if that has happened.
    fn watch(&self, function: Py<PyAny>) {
        self.outlet.attempt.watch(function);
    }
}

impl NativeCall {
    fn end(&self, event: NodeEvent) {
        self.outlet.attempt.end();
        self.outlet.send(event);
    }
}
