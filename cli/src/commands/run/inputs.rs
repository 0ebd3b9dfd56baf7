//! The inputs of a run: by name, all together as JSON, or the question for a chatflow.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value as Json, json};
use tidemill_common::nodes::start::InputKind;

use crate::commands::pairs::{json_or_text, pair};
use crate::error::Error;
use crate::workflow_file::Workflow;

#[derive(Debug, Clone, Default, Args)]
pub(super) struct InputArgs {
    /// An input; may be given several times
    #[arg(short, long = "input", value_name = "NAME=VALUE", value_parser = pair)]
    input: Vec<(String, String)>,
    /// All inputs as a JSON object, or @FILE for a file with one; inputs given by name win
    #[arg(long, value_name = "JSON|@FILE")]
    inputs: Option<String>,
    /// The question, for a chatflow
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// An option of the run, as JSON or text, such as deadline_ms=60000, max_steps=100, interactive=false
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = pair)]
    option: Vec<(String, String)>,
    /// Name of the user for whom the workflow runs
    #[arg(long, default_value = "tidemill")]
    user: String,
}

impl InputArgs {
    /// Builds the request that starts a run.
    ///
    /// # Errors
    /// Inputs cannot be read, or do not fit the kind of workflow. The scheduler checks the values.
    pub(super) fn request(&self, workflow: &Workflow) -> Result<Json, Error> {
        let mut inputs = self.all_at_once()?;
        for (name, text) in &self.input {
            inputs.insert(name.clone(), value(workflow, name, text)?);
        }
        let mut request = json!({"workflow": workflow.text, "inputs": inputs, "user": self.user});
        if !self.option.is_empty() {
            let option = |(name, text): &(String, String)| (name.clone(), json_or_text(text));
            request["options"] = Json::Object(self.option.iter().map(option).collect());
        }
        match (&self.query, workflow.is_chat()) {
            (Some(query), true) => {
                request["sys"] = json!({
                    "query": query,
                    "files": [],
                    "conversation_id": uuid::Uuid::new_v4().to_string(),
                    "dialogue_count": 1,
                    "user_id": self.user,
                });
            }
            (None, false) => {}
            (None, true) => {
                return Err(Error::Usage(format!(
                    "{} is a chatflow: give the question with --query TEXT",
                    workflow.path.display()
                )));
            }
            (Some(_), false) => {
                return Err(Error::Usage(format!(
                    "{} is not a chatflow: give inputs with -i NAME=VALUE instead of --query",
                    workflow.path.display()
                )));
            }
        }
        Ok(request)
    }

    fn all_at_once(&self) -> Result<Map<String, Json>, Error> {
        let Some(given) = &self.inputs else { return Ok(Map::new()) };
        let (text, origin) = match given.strip_prefix('@') {
            Some(path) => {
                let path = PathBuf::from(path);
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| Error::Usage(format!("cannot read {}: {error}", path.display())))?;
                (text, path.display().to_string())
            }
            None => (given.clone(), "--inputs".into()),
        };
        match serde_json::from_str(&text) {
            Ok(Json::Object(map)) => Ok(map),
            Ok(_) => Err(Error::Usage(format!("{origin} must be a JSON object"))),
            Err(error) => Err(Error::Usage(format!("{origin} is not JSON: {error}"))),
        }
    }
}

/// Converts an input for the request. The scheduler converts text to numbers and booleans, but mappings and files must
/// be sent as JSON.
fn value(workflow: &Workflow, name: &str, text: &str) -> Result<Json, Error> {
    let kind = workflow.form().iter().find(|field| &*field.variable == name).map(|field| field.kind);
    match kind {
        Some(InputKind::JsonObject | InputKind::File | InputKind::FileList) => serde_json::from_str(text)
            .map_err(|error| Error::Usage(format!("the input {name} must be JSON: {error}"))),
        Some(
            InputKind::TextInput
            | InputKind::Select
            | InputKind::Paragraph
            | InputKind::Number
            | InputKind::ExternalDataTool
            | InputKind::Checkbox,
        )
        | None => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::graph::import;

    fn workflow(mode: &str) -> Workflow {
        let text = json!({
            "app": {"mode": mode, "name": "T"}, "kind": "app", "version": "0.3.0",
            "workflow": {"graph": {"edges": [
                {"id": "e", "source": "s", "target": "e", "sourceHandle": "source", "targetHandle": "target"},
            ], "nodes": [
                {"id": "s", "data": {"type": "start", "title": "S", "variables": [
                    {"variable": "name", "label": "name", "type": "text-input"},
                    {"variable": "n", "label": "n", "type": "number"},
                    {"variable": "o", "label": "o", "type": "json_object"},
                ]}},
                if mode == "workflow" {
                    json!({"id": "e", "data": {"type": "end", "title": "E", "outputs": []}})
                } else {
                    json!({"id": "e", "data": {"type": "answer", "title": "E", "answer": "x"}})
                },
            ]}},
        })
        .to_string();
        let imported = import(text.as_bytes());
        let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
        Workflow { path: "t.yml".into(), text, graph }
    }

    fn args(input: &[&str], inputs: Option<&str>, query: Option<&str>) -> InputArgs {
        let input = input.iter().map(|text| pair(text).expect("a pair")).collect();
        let (inputs, query) = (inputs.map(Into::into), query.map(Into::into));
        InputArgs { input, inputs, query, option: Vec::new(), user: "u".into() }
    }

    #[test]
    fn inputs_are_text_except_mappings() {
        let args = args(&["name=a=b", "n=3", "o={\"k\":1}", "more=x"], Some("{\"n\":2,\"z\":null}"), None);
        let request = args.request(&workflow("workflow")).expect("fits");
        let expected = json!({"n": "3", "z": null, "name": "a=b", "o": {"k": 1}, "more": "x"});
        assert_eq!(request["inputs"], expected);
        assert_eq!(request["user"], "u");
        assert_eq!(request.get("sys"), None);
    }

    #[test]
    fn options_are_parsed_as_json_or_else_sent_as_text() {
        let option = ["deadline_ms=1500", "language=en"].map(|text| pair(text).expect("a pair")).to_vec();
        let request = InputArgs { option, ..args(&[], None, None) }.request(&workflow("workflow"));
        let request = request.expect("fits");
        assert_eq!(request["options"], json!({"deadline_ms": 1500, "language": "en"}));
        let plain = args(&[], None, None).request(&workflow("workflow")).expect("fits");
        assert_eq!(plain.get("options"), None);
    }

    #[test]
    fn only_chatflows_accept_a_question() {
        let request = args(&[], None, Some("why?")).request(&workflow("advanced-chat")).expect("fits");
        assert_eq!(request["sys"]["query"], "why?");
        assert_eq!(request["sys"]["dialogue_count"], 1);
        let refused =
            |args: InputArgs, mode: &str| args.request(&workflow(mode)).expect_err("wrong").to_string();
        assert!(refused(args(&[], None, None), "advanced-chat").contains("--query"));
        assert!(refused(args(&[], None, Some("x")), "workflow").contains("not a chatflow"));
        assert!(refused(args(&["o=x"], None, None), "workflow").contains("the input o must be JSON"));
        assert!(refused(args(&[], Some("[]"), None), "workflow").contains("must be a JSON object"));
        assert!(refused(args(&[], Some("{"), None), "workflow").contains("not JSON"));
        assert!(refused(args(&[], Some("@/nowhere"), None), "workflow").contains("cannot read /nowhere"));
        assert!(pair("=x").is_err() && pair("x").is_err());
    }
}
