//! The workflows of a campaign: the files of a folder, each with inputs built from its start form and the tag of a
//! run.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use tidemill_common::dsl::DocumentNode;
use tidemill_common::graph::AppMode;
use tidemill_common::graph::builder::import;

/// The number of items in a generated list.
const ITEMS: usize = 6;

/// A workflow file.
#[derive(Debug, Clone)]
pub(crate) struct Workflow {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The variables of its start form, as in the file.
    variables: Vec<Json>,
    is_chat: bool,
    has_conversation: bool,
    /// True when its runs wait for people.
    pub(crate) asks_people: bool,
}

/// Reads all workflows of these folders, and puts the address of the server that they call in the place of
/// `${OUTSIDE}`. Also returns a reason for each file that cannot be used.
pub(crate) fn of_folders(folders: &[PathBuf], outside: &str) -> (Vec<Workflow>, Vec<String>) {
    let (mut workflows, mut skipped) = (Vec::new(), Vec::new());
    for folder in folders {
        let files = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        paths.sort();
        let is_workflow = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "yml" || ext == "yaml");
        for path in paths.into_iter().filter(is_workflow) {
            match read(&path, outside) {
                Ok(workflow) => workflows.push(workflow),
                Err(reason) => skipped.push(format!("{}: {reason}", path.display())),
            }
        }
    }
    (workflows, skipped)
}

fn read(path: &Path, outside: &str) -> Result<Workflow, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?.replace("${OUTSIDE}", outside);
    let imported = import(text.as_bytes());
    let (Some(document), true) = (imported.document, imported.graph.is_some()) else {
        return Err(format!("{:?}", imported.diagnostics));
    };
    let of_type = |kind: &str| document.nodes.iter().find(|node| node.type_name() == kind);
    let variables = of_type("start").and_then(|start| start.data.get("variables")?.as_array().cloned());
    let variables = variables.unwrap_or_default();
    if let Some(file) = variables.iter().find(|v| v["type"].as_str().is_some_and(|t| t.starts_with("file"))) {
        return Err(format!("it needs a file ({})", file["variable"]));
    }
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let has_conversation = !document.conversation.is_empty();
    let asks_people = document.nodes.iter().any(asks);
    let is_chat = document.mode == AppMode::Chat;
    Ok(Workflow { name, text, variables, is_chat, has_conversation, asks_people })
}

/// Returns true when a node may wait for a person.
fn asks(node: &DocumentNode) -> bool {
    let is = |name: &str| {
        node.data.get(name).is_some_and(|value| !matches!(value, Json::Null | Json::Bool(false)))
    };
    matches!(node.type_name(), "human-input" | "user-interaction")
        || ["require_confirm", "enable_filling", "on_missing"].into_iter().any(is)
}

impl Workflow {
    /// The request that submits a run with this tag. Every text in it contains the tag.
    pub(crate) fn submission(&self, tag: &str) -> Json {
        let inputs: Map<String, Json> = self
            .variables
            .iter()
            .filter_map(|variable| Some((variable["variable"].as_str()?.to_string(), input(variable, tag))))
            .collect();
        let mut body = json!({"workflow": self.text, "inputs": inputs, "user": "campaign"});
        if self.is_chat {
            body["sys"] = json!({"query": tag});
        }
        if self.has_conversation {
            body["conversation_id"] = json!(format!("talk-{tag}"));
        }
        body
    }
}

fn input(variable: &Json, tag: &str) -> Json {
    match variable["type"].as_str().unwrap_or_default() {
        "number" => json!(7),
        "checkbox" => json!(true),
        "select" => variable["options"][0].clone(),
        "json_object" => {
            let items: Vec<String> = (0..ITEMS).map(|n| format!("{tag} {n}")).collect();
            json!({"list": items, "text": tag})
        }
        _ => json!(tag),
    }
}
