//! Apps of this namespace as tools: the published workflow runs as a sub-workflow run, and its outputs are the tool's
//! answer. No worker waits for it: see [`crate::attempt::journal::Journal::call`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tidemill_common::dsl::Document;
use tidemill_common::nodes::tool::outputs::RESERVED;
use tidemill_common::nodes::tool::{
    APP_NOT_FOUND, APP_NOT_PUBLISHED, Declaration, KnownParameters, Message, ParameterType, form,
};
use tidemill_common::store::Jobs;
use tidemill_common::value::pyrepr::json_line;
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap};
use tidemill_common::warning::{TOOL_APP_UNKNOWN, Warning};

use crate::attempt::journal::CallEnd;
use crate::jobs::backoff::Backoff;
use crate::outside::tools::called_run::{clean, error, opened, take_over_files, usage};
use crate::outside::tools::{MessageSink, Stage, ToolCall, ToolError, ToolName, ToolRuntime};

/// Most cached declarations; beyond that the cache is emptied.
const REMEMBERED_MAX: usize = 1000;

/// The declarations of apps, and when each was read.
type Described = HashMap<String, (Instant, Option<Declaration>)>;

/// The warning about a call that failed because its app is not published here. `None` for any other failure, also for
/// one of this kind inside the called workflow.
pub fn unknown_app(app: &str, error: &str) -> Option<Warning> {
    let is_unknown = error.starts_with(APP_NOT_FOUND) && error.contains(app);
    if !is_unknown && error != APP_NOT_PUBLISHED {
        return None;
    }
    let hint = if is_unknown {
        format!("publish the workflow under this id: tidemill apps add FILE --new-id {app}")
    } else {
        "publish a version of the workflow".to_owned()
    };
    let message = format!("a tool is a workflow that is not published, {app}: its calls fail");
    Some(Warning::new(TOOL_APP_UNKNOWN, message).about("app", app).hint(hint))
}

/// Workflows as tools; see the module.
pub struct Workflows {
    /// The store with the apps; without it apps are called but have no declaration.
    jobs: Option<Arc<dyn Jobs>>,
    /// Lifetime of a cached declaration.
    believed: Duration,
    described: Mutex<Described>,
}

impl Workflows {
    pub(super) fn new(believed: Duration) -> Self {
        Self { jobs: None, believed, described: Mutex::default() }
    }

    pub(super) fn kept_in(self, jobs: Arc<dyn Jobs>) -> Self {
        Self { jobs: Some(jobs), ..self }
    }

    fn described(&self) -> MutexGuard<'_, Described> {
        self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the declaration of an app's published version; `None` if the app does not exist, which its call will
    /// report.
    async fn ask(jobs: &dyn Jobs, app: &str) -> Result<Option<Declaration>, ToolError> {
        let mut backoff = Backoff::default();
        let found = loop {
            match jobs.app_called(app).await {
                Ok(found) => break found,
                Err(error) if error.is_passing() => backoff.wait().await,
                Err(error) => {
                    return Err(ToolError::unavailable(format!(
                        "workflow {app} cannot be looked up: {error}"
                    )));
                }
            }
        };
        let Some(found) = found.filter(|found| !found.document.is_empty()) else { return Ok(None) };
        match Document::from_stored(&found.document) {
            Ok(document) => Ok(form::declared(&document)),
            Err(error) => {
                tracing::warn!(app = found.id, %error, "the start form of a workflow cannot be read");
                Ok(None)
            }
        }
    }
}

#[async_trait::async_trait]
impl ToolRuntime for Workflows {
    async fn parameters(&self, tool: &ToolName<'_>) -> Result<Option<Declaration>, ToolError> {
        let Some(jobs) = &self.jobs else { return Ok(None) };
        let known = self.described().get(tool.provider_id).cloned();
        if let Some((_, declared)) = known.filter(|(at, _)| at.elapsed() < self.believed) {
            return Ok(declared);
        }
        let declared = Self::ask(&**jobs, tool.provider_id).await?;
        let mut described = self.described();
        if described.len() >= REMEMBERED_MAX {
            described.clear();
        }
        // An app that does not exist yet is looked up again next time.
        if declared.is_some() {
            described.insert(tool.provider_id.to_owned(), (Instant::now(), declared.clone()));
        }
        Ok(declared)
    }

    async fn list(&self, _: &str) -> Result<Vec<Declaration>, ToolError> {
        Ok(Vec::new())
    }

    async fn invoke(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError> {
        let Some((journal, step, number)) = call.step else {
            return Err(ToolError::unavailable("a workflow can be called by a job with a journal only"));
        };
        let called = journal.call(step, number, tool.provider_id, given(call.arguments, call.known)).await;
        let (run, end) = called.map_err(|reason| ToolError::new(Stage::Invoke, reason))?;
        let fields = match end {
            CallEnd::Refused(reason) => return Err(ToolError::new(Stage::Read, reason)),
            CallEnd::Ended(fields) => fields,
        };
        sink(Message::Spent { run: Some(run), usage: Box::new(usage(&fields)) });
        if let Some(error) = error(&fields) {
            return Err(ToolError::new(Stage::Tool, error));
        }
        let mut outputs = opened(&fields, journal).await?;
        clean(&fields, &mut outputs)?;
        take_over_files(&mut outputs, (call.run, call.http, call.files)).await?;
        answer(outputs, sink);
        Ok(())
    }
}

/// Builds the inputs of the run. Arguments of type `system-files` become its files. So do files under a name outside of
/// its form, if it accepts files (Dify).
fn given(arguments: &JsonMap, known: KnownParameters<'_>) -> Json {
    let (mut inputs, mut files) = (JsonMap::new(), Vec::new());
    let takes_files = known.parameters.iter().any(|one| one.ty == ParameterType::SystemFiles);
    for (name, value) in arguments {
        let is_files = match known.find(name) {
            Some(one) => one.ty == ParameterType::SystemFiles,
            None => takes_files && are_files(value),
        };
        match value {
            Json::Array(items) if is_files => files.extend(items.iter().cloned()),
            Json::Null if is_files => {}
            other if is_files => files.push(other.clone()),
            other => {
                inputs.insert(name.clone(), other.clone());
            }
        }
    }
    json!({"inputs": inputs, "files": files})
}

fn are_files(value: &Json) -> bool {
    match value {
        Json::Array(items) => !items.is_empty() && items.iter().all(is_file),
        other => is_file(other),
    }
}

fn is_file(value: &Json) -> bool {
    value.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY)
}

/// Sends the messages in Dify's order.
fn answer(outputs: JsonMap, sink: MessageSink<'_>) {
    for value in outputs.values() {
        let several = value.as_array().map(Vec::as_slice).unwrap_or_default();
        for file in several.iter().chain([value]).filter(|value| is_file(value)) {
            sink(Message::File(Some(json!({"file": file}))));
        }
    }
    for (name, value) in outputs.iter().filter(|(name, _)| !RESERVED.contains(&name.as_str())) {
        sink(Message::Variable { name: name.clone(), value: value.clone(), stream: false });
    }
    let outputs = Json::Object(outputs);
    sink(Message::Text(json_line(&outputs)));
    sink(Message::Json(outputs));
}

#[cfg(test)]
mod tests {
    use tidemill_common::nodes::tool::Parameter;

    use super::*;

    fn said(outputs: Json) -> Vec<Message> {
        let mut said = Vec::new();
        answer(outputs.as_object().cloned().unwrap(), &mut |message| said.push(message));
        said
    }

    #[test]
    fn outputs_are_told_as_files_variables_a_text_and_an_object() {
        let file = json!({FILE_IDENTITY_KEY: FILE_IDENTITY, "filename": "a.txt"});
        let outputs = json!({"name": "Ünal", "text": "hidden", "docs": [file, 1], "n": 2});
        let variable =
            |name: &str, value: Json| Message::Variable { name: name.into(), value, stream: false };
        assert_eq!(
            said(outputs.clone()),
            [
                Message::File(Some(json!({"file": file}))),
                variable("name", json!("Ünal")),
                variable("docs", json!([file, 1])),
                variable("n", json!(2)),
                Message::Text(json_line(&outputs)),
                Message::Json(outputs.clone()),
            ]
        );
        assert!(json_line(&outputs).starts_with(r#"{"name": "Ünal", "text": "hidden", "#));
    }

    #[test]
    fn files_go_with_a_run_whatever_they_are_called() {
        let file = json!({FILE_IDENTITY_KEY: FILE_IDENTITY, "filename": "a.txt"});
        let arguments = json!({"q": "x", "doc": file, "more": [file, file], "none": []});
        let arguments = arguments.as_object().unwrap();
        let parameter = |name: &str, ty| Parameter { name: name.into(), ty, ..Parameter::default() };
        let doc = parameter("doc", ParameterType::File);
        let form = [doc.clone(), parameter("files", ParameterType::SystemFiles)];
        assert_eq!(
            given(arguments, KnownParameters { parameters: &form, takes_more: true }),
            json!({"inputs": {"q": "x", "doc": file, "none": []}, "files": [file, file]})
        );
        assert_eq!(
            given(arguments, KnownParameters { parameters: &[doc], takes_more: true }),
            json!({"inputs": arguments, "files": []})
        );
        let own = json!({"files": file, "x": null});
        let known = KnownParameters { parameters: &form, takes_more: true };
        assert_eq!(given(own.as_object().unwrap(), known), json!({"inputs": {"x": null}, "files": [file]}));
    }

    #[test]
    fn only_a_call_of_an_app_that_is_not_here_is_warned_about() {
        let hint = |error: &str| unknown_app("a-1", error).map(|warning| warning.hint);
        let new_id = "publish the workflow under this id: tidemill apps add FILE --new-id a-1";
        assert_eq!(hint("app not found: no app has the id or the name a-1; …"), Some(new_id.into()));
        assert_eq!(hint(APP_NOT_PUBLISHED), Some("publish a version of the workflow".into()));
        // Of another call, inside the called workflow.
        assert_eq!(hint("app not found: no app has the id or the name b-2; …"), None);
        assert_eq!(hint("the sub-workflow run ended as stopped"), None);
    }
}
