//! A case as stored in its folder, and the parts of it that depend on the address of its mock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

/// Keys of `case.json` that only the recorder or people use.
const IGNORED: [&str; 4] = ["description", "area", "oracle", "record"];
const KNOWN: [&str; 10] =
    ["inputs", "sys", "conversation", "memory", "mocks", "limits", "commands", "expect", "resume", "notes"];

pub(crate) struct Case {
    /// The path of `case.json`, for the mock.
    pub(crate) file: PathBuf,
    workflow: String,
    content: Map<String, Json>,
}

impl Case {
    /// Reads the folder of a case.
    ///
    /// # Errors
    /// A file that cannot be read, or a key that this program does not know and would otherwise ignore.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let read = |name: &str| {
            std::fs::read_to_string(folder.join(name)).map_err(|e| format!("{name} cannot be read: {e}"))
        };
        let content: Map<String, Json> =
            serde_json::from_str(&read("case.json")?).map_err(|e| format!("case.json: {e}"))?;
        let known = |key: &&String| KNOWN.contains(&key.as_str()) || IGNORED.contains(&key.as_str());
        if let Some(unknown) = content.keys().find(|key| !known(key)) {
            return Err(format!("case.json has a key that this program does not know: {unknown}"));
        }
        Ok(Self { file: folder.join("case.json"), workflow: read("workflow.yml")?, content })
    }

    /// The workflow, for a mock at this address.
    pub(crate) fn workflow(&self, base_url: &str) -> String {
        self.workflow.replace("${MOCK_BASE_URL}", base_url)
    }

    /// All commands. Those of a resume step are for nodes that first end after that resume, so they can be submitted with
    /// the run, too.
    fn commands(&self) -> impl Iterator<Item = &Json> {
        let steps = self.content.get("resume").and_then(Json::as_array).into_iter().flatten();
        let later = steps.filter_map(|step| step.get("commands"));
        self.content.get("commands").into_iter().chain(later).filter_map(Json::as_array).flatten()
    }

    /// The request that submits it, with its values and nothing else.
    pub(crate) fn submission(&self, base_url: &str) -> Json {
        let mut body = json!({"workflow": self.workflow(base_url)});
        let commands: Vec<Json> = self.commands().map(|it| filled(command_of(it), base_url)).collect();
        if !commands.is_empty() {
            body["commands"] = commands.into();
        }
        // A run that writes a conversation variable needs a conversation.
        if let Some(id) = self.conversation() {
            body["conversation_id"] = json!(id);
        }
        for key in ["inputs", "sys", "conversation", "memory"] {
            if let Some(value) = self.content.get(key) {
                body[key] = expanded(filled(value.clone(), base_url));
            }
        }
        if let Some(limits) = self.content.get("limits").and_then(Json::as_object) {
            for (limit, option) in [("max_steps", "max_steps"), ("max_time_s", "max_execution_time_s")] {
                if let Some(value) = limits.get(limit) {
                    body["options"][option] = value.clone();
                }
            }
        }
        body
    }

    /// The features of each model that it names: those of its mock, or the default of all cases.
    pub(crate) fn models(&self) -> BTreeMap<String, Vec<String>> {
        const USUAL: [&str; 2] = ["tool-call", "structured-output"];
        let mut models = BTreeMap::new();
        // In a workflow file, the name of a model is next to its mode and its provider.
        for block in self.workflow.split("completion_params:").skip(1) {
            let lines = block.lines().take_while(|line| !line.trim_start().starts_with("provider:"));
            for name in lines.filter_map(|line| line.trim_start().strip_prefix("name:")) {
                let name = name.trim().trim_matches(['\'', '"']);
                models.insert(name.to_owned(), USUAL.map(str::to_owned).to_vec());
            }
        }
        let mocked = self.content.get("mocks").and_then(|mocks| mocks.get("models")?.as_object());
        for (name, model) in mocked.into_iter().flatten() {
            let features = model["features"].as_array().into_iter().flatten();
            models.insert(name.clone(), features.filter_map(Json::as_str).map(str::to_owned).collect());
        }
        models
    }

    /// The conversation that it belongs to, if there is one.
    pub(crate) fn conversation(&self) -> Option<&str> {
        self.content.get("sys")?.get("conversation_id")?.as_str()
    }

    /// The expected result at the first stop.
    pub(crate) fn expected(&self, base_url: &str) -> Json {
        filled(self.content.get("expect").cloned().unwrap_or_default(), base_url)
    }

    /// The action after each stop, with the expected result of that action.
    pub(crate) fn resumptions(&self, base_url: &str) -> Vec<Json> {
        let steps = self.content.get("resume").and_then(Json::as_array).cloned().unwrap_or_default();
        steps.into_iter().map(|step| filled(step, base_url)).collect()
    }
}

/// A command as the API expects it; cases use `type` and `abort`.
fn command_of(command: &Json) -> Json {
    let mut said = command.clone();
    if let Some(map) = said.as_object_mut() {
        let kind = map.remove("type").unwrap_or_default();
        map.insert("command".into(), if kind == "abort" { json!("stop") } else { kind });
    }
    said
}

/// Inserts the address of the mock.
fn filled(value: Json, base_url: &str) -> Json {
    let host = base_url.trim_start_matches("http://");
    match value {
        Json::String(text) => {
            Json::String(text.replace("${MOCK_BASE_URL}", base_url).replace("${MOCK_HOST}", host))
        }
        Json::Array(items) => items.into_iter().map(|item| filled(item, base_url)).collect(),
        Json::Object(map) => map.into_iter().map(|(key, item)| (key, filled(item, base_url))).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) => value,
    }
}

/// Expands `{"$repeat": {"text", "count"}}`.
fn expanded(value: Json) -> Json {
    match value {
        Json::Object(map) => match map.get("$repeat") {
            Some(repeat) => {
                let count = repeat["count"].as_u64().and_then(|count| usize::try_from(count).ok());
                Json::String(repeat["text"].as_str().unwrap_or_default().repeat(count.unwrap_or_default()))
            }
            None => map.into_iter().map(|(key, item)| (key, expanded(item))).collect(),
        },
        Json::Array(items) => items.into_iter().map(expanded).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value,
    }
}
