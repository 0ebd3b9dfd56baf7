//! The `datasource` node: starts a run of a knowledge pipeline with what the caller found at a source.
//!
//! As on Dify, the caller sets `sys.datasource_type` and `sys.datasource_info`. The info contains crawled pages in
//! full. It names a file by the reference of a file under `files.url`, since there are no uploads here. A page of an online
//! document and a file of an online drive are read by the plugin that the node names ([`DatasourceData::reading`]), on a worker.

use serde_json::{Value as Json, json};

use super::NodeResult;
use super::fields::{INVALID_NODE_DATA, mapping, required, selector, text};
use super::tool::outputs::RESERVED;
use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::{Template, mention};
use tidemill_base::value::{
    FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap, Segment, SegmentType, Selector, Variables, mime,
};

/// The type of its failures, as on Dify.
pub const ERROR: &str = "DatasourceNodeError";
/// The variable with the kind of source.
const TYPE: [&str; 2] = ["sys", "datasource_type"];
/// The variable with the caller's choice at the source.
const INFO: [&str; 2] = ["sys", "datasource_info"];

/// The question to a plugin for a page of an online document: `datasource`, `workspace_id`, `page_id`, `type`.
pub const PAGE: &str = "tidemill:page";
/// The question to a plugin for a file of an online drive: `datasource`, `id`, `bucket`.
pub const DOWNLOAD: &str = "tidemill:download";

/// The kinds of sources that a plugin reads.
const BY_PLUGIN: [(&str, &str); 2] = [("online_document", PAGE), ("online_drive", DOWNLOAD)];

/// Configuration of `datasource`.
#[derive(Debug, Clone)]
pub struct DatasourceData {
    /// The id of the provider: `author/plugin/provider`.
    pub provider: String,
    /// The datasource of the provider.
    pub datasource: String,
    /// The plugin as the file names it, with its version.
    pub plugin: Option<String>,
    /// Parameters for Dify's plugin, as (name, value). Only recorded.
    pub parameters: Vec<(String, Parameter)>,
}

/// What a plugin is to read.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// [`PAGE`] or [`DOWNLOAD`].
    pub question: &'static str,
    pub arguments: JsonMap,
}

/// A parameter for Dify's plugin.
#[derive(Debug, Clone)]
pub enum Parameter {
    /// A template.
    Mixed(Template),
    Variable(Selector),
    Constant(Json),
}

impl DatasourceData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let named: Vec<_> = ["plugin_id", "provider_name", "provider_type"]
            .into_iter()
            .map(|key| required(data, key, problems, text))
            .collect();
        let name = optional(data, "datasource_name", problems, text);
        let plugin = optional(data, "plugin_unique_identifier", problems, text);
        let configurations = optional(data, "datasource_configurations", problems, |value, problems| {
            mapping(value, problems).map(drop)
        });
        let parameters = optional(data, "datasource_parameters", problems, |value, problems| {
            let read: Vec<Option<_>> = mapping(value, problems)?
                .iter()
                .map(|(name, value)| {
                    let read = problems.within(name, |problems| Parameter::parse(value, problems));
                    read.map(|read| (name.clone(), read))
                })
                .collect();
            read.into_iter().collect::<Option<Vec<_>>>()
        });
        let named = named.into_iter().collect::<Option<Vec<String>>>()?;
        configurations?;
        let provider = format!("{}/{}", named[0], named[1]);
        let (datasource, plugin) = (name?.unwrap_or_default(), plugin?.filter(|text| !text.is_empty()));
        Some(Self { provider, datasource, plugin, parameters: parameters?.unwrap_or_default() })
    }

    /// What the plugin of the node is to read for this run; `None` if it needs no plugin, or the input is not as it must be.
    pub fn reading(&self, variables: &dyn Variables) -> Option<Reading> {
        let given = |selector: [&str; 2]| variables.found(&selector.map(str::to_owned));
        let kind = given(TYPE)?;
        let (_, question) = BY_PLUGIN.iter().find(|(known, _)| *known == kind.text())?;
        let info = given(INFO)?;
        let info = info.value.as_object()?;
        let mut arguments = JsonMap::from_iter([("datasource".to_owned(), self.datasource.as_str().into())]);
        let page = info.get("page").and_then(Json::as_object);
        let fields = match *question {
            PAGE => [("workspace_id", Some(info)), ("page_id", page), ("type", page)],
            _ => [("id", Some(info)), ("bucket", Some(info)), ("", None)],
        };
        for (name, from) in fields {
            if let Some(text) = from.and_then(|from| from.get(name)).and_then(Json::as_str) {
                arguments.insert(name.into(), text.into());
            }
        }
        Some(Reading { question, arguments })
    }

    /// The result with what a plugin has read: its variables, or the file.
    pub fn read(
        &self,
        reading: &Reading,
        found: Vec<(String, Segment)>,
        variables: &dyn Variables,
    ) -> NodeResult {
        let result = self.recorded(variables);
        let outputs = if reading.question == PAGE {
            found.into_iter().filter(|(name, _)| !RESERVED.contains(&name.as_str())).collect()
        } else {
            let files = found.into_iter().find(|(name, _)| name == "files").map(|(_, files)| files.value);
            let file = files.and_then(|files| files.as_array()?.last().cloned());
            let file = file.map_or_else(Segment::none, |file| Segment::new(SegmentType::File, file));
            let kind = variables.found(&TYPE.map(str::to_owned)).map(|kind| kind.text().into_owned());
            let kind = Segment::string(kind.unwrap_or_default());
            vec![("file".into(), file), ("datasource_type".into(), kind)]
        };
        NodeResult { outputs, ..result }
    }

    /// The result with a failure of a plugin.
    pub fn failed(&self, failure: NodeFailure, variables: &dyn Variables) -> NodeResult {
        NodeResult { failure: Some(failure), ..self.recorded(variables) }
    }

    /// The result without outputs: what is recorded in any case.
    fn recorded(&self, variables: &dyn Variables) -> NodeResult {
        let info = variables.found(&INFO.map(str::to_owned)).map(|info| info.value.clone());
        NodeResult {
            inputs: self.parameters.iter().map(|(name, it)| (name.clone(), it.shown(variables))).collect(),
            metadata: JsonMap::from_iter([("datasource_info".into(), info.unwrap_or_default())]),
            ..NodeResult::default()
        }
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for [node, name] in [TYPE, INFO] {
            into.push((node.into(), name.into()));
        }
        for (_, parameter) in &self.parameters {
            match parameter {
                Parameter::Mixed(template) => template.mentions(into),
                Parameter::Variable(selector) => mention(selector, into),
                Parameter::Constant(_) => {}
            }
        }
    }

    /// Runs the node.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let given = |selector: [&str; 2]| variables.found(&selector.map(str::to_owned));
        let escaped = |message: &str| NodeResult::failed(NodeFailure::escaped(message));
        let Some(kind) = given(TYPE).filter(|kind| !kind.is_falsy()) else {
            return escaped("Datasource type is not set");
        };
        let Some(info) = given(INFO).filter(|info| !info.is_falsy()) else {
            return escaped("Datasource info is not set");
        };
        let Json::Object(info) = &info.value else { return escaped("Invalid datasource info format") };
        let kind = kind.text().into_owned();
        let result = self.recorded(variables);
        match self.outputs(&kind, info) {
            Ok(mut outputs) => {
                outputs.retain(|(name, _)| name != "datasource_type");
                outputs.push(("datasource_type".into(), Segment::string(kind)));
                NodeResult { outputs, ..result }
            }
            Err(failure) => NodeResult { failure: Some(failure), ..result },
        }
    }
}

impl DatasourceData {
    /// The outputs for a source that needs no plugin, without its type.
    fn outputs(&self, kind: &str, info: &JsonMap) -> Result<Vec<(String, Segment)>, NodeFailure> {
        match kind {
            "website_crawl" => Ok(info
                .iter()
                .map(|(name, value)| (name.clone(), Segment::restore_files(value.clone())))
                .collect()),
            "local_file" => file(info)
                .map(|file| vec![("file".into(), Segment::new(SegmentType::File, file))])
                .ok_or_else(|| NodeFailure::escaped("File is not exist")),
            _ if BY_PLUGIN.iter().any(|(known, _)| *known == kind) => {
                let provider = &self.provider;
                let message = format!(
                    "Failed to invoke datasource: {kind} is read by the plugin of {provider}, which is not installed \
                     (`tidemill plugins add`)"
                );
                Err(NodeFailure::new(ERROR, message))
            }
            other => Err(NodeFailure::new(ERROR, format!("Unsupported datasource provider: {other}"))),
        }
    }
}

/// The file that the caller chose: a file object from a run, or a file's reference. Returns `None` without a reference
/// of ours, since an id of a file uploaded to Dify means nothing here.
fn file(info: &JsonMap) -> Option<Json> {
    if info.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY) {
        return Some(Json::Object(info.clone()));
    }
    let text = |key: &str| info.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    let reference = text("related_id").filter(|id| id.starts_with("runs/"))?;
    let name = text("name");
    let extension = name.and_then(|name| name.rsplit_once('.')).map(|(_, end)| end.to_lowercase());
    let media_type = text("mime_type").or_else(|| mime::of_name(name?)).unwrap_or("application/octet-stream");
    let main = media_type.split('/').next().unwrap_or_default();
    Some(json!({
        FILE_IDENTITY_KEY: FILE_IDENTITY,
        "id": null,
        "type": if matches!(main, "image" | "audio" | "video") { main } else { "document" },
        "transfer_method": "local_file",
        "remote_url": null,
        "reference": reference,
        "related_id": reference,
        "filename": name,
        "extension": extension.map_or_else(|| ".bin".to_owned(), |end| format!(".{end}")),
        "mime_type": media_type,
        "size": info.get("size").and_then(Json::as_i64).unwrap_or(-1),
        "url": null,
    }))
}

impl Parameter {
    fn parse(value: &Json, problems: &mut Problems) -> Option<Self> {
        let map = mapping(value, problems)?;
        let kind = required(map, "type", problems, text)?;
        required(map, "value", problems, |value, problems| match kind.as_str() {
            "mixed" => text(value, problems).map(|text| Self::Mixed(Template::parse(&text))),
            "variable" => selector(value, problems).map(Self::Variable),
            "constant" => Some(Self::Constant(value.clone())),
            other => {
                let message = format!(
                    "a parameter of type {other:?} is unknown; known are mixed, variable and constant"
                );
                problems.error(INVALID_NODE_DATA, message);
                None
            }
        })
    }

    /// The value with secrets masked.
    fn shown(&self, variables: &dyn Variables) -> Segment {
        match self {
            Self::Mixed(template) => Segment::string(template.render_log(variables)),
            Self::Variable(selector) => match variables.found(selector) {
                Some(value) if value.ty == SegmentType::Secret => Segment::string(value.log()),
                Some(value) => value.into_owned(),
                None => Segment::none(),
            },
            Self::Constant(value) => Segment::infer(value.clone()),
        }
    }
}

/// Reads a field that can be absent or null. The outer option is `None` when it is invalid.
fn optional<T>(
    data: &JsonMap,
    key: &str,
    problems: &mut Problems,
    read: impl FnOnce(&Json, &mut Problems) -> Option<T>,
) -> Option<Option<T>> {
    match data.get(key) {
        None | Some(Json::Null) => Some(None),
        Some(_) => required(data, key, problems, read).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::value::pool::Pool;

    fn data(extra: Json) -> JsonMap {
        let mut data = json!({"plugin_id": "p", "provider_name": "file", "provider_type": "local_file"});
        let map = data.as_object_mut().expect("a mapping");
        map.extend(extra.as_object().expect("a mapping").clone());
        map.clone()
    }

    fn run(sys: Json, parameters: Json) -> NodeResult {
        let pool = Pool::new(json!({"sys": sys, "a": {"b": "x"}})).with(
            "env",
            "key",
            Segment::new(SegmentType::Secret, "sk-long-secret".into()),
        );
        let mut problems = Problems::new();
        let data = data(json!({"datasource_parameters": parameters}));
        DatasourceData::parse(&data, &mut problems).expect("usable").evaluate(&pool)
    }

    #[test]
    fn crawled_pages_are_put_out_as_they_are() {
        let info = json!({"source_url": "u", "content": "text", "datasource_type": "?"});
        let result = run(json!({"datasource_type": "website_crawl", "datasource_info": info}), json!(null));
        let put_out: JsonMap = result.outputs.into_iter().map(|(name, value)| (name, value.value)).collect();
        let expected = json!({"source_url": "u", "content": "text", "datasource_type": "website_crawl"});
        assert_eq!((Json::Object(put_out), result.failure), (expected, None));
        assert_eq!(result.metadata["datasource_info"], info);
    }

    #[test]
    fn a_file_stored_here_becomes_a_file_object() {
        let info = json!({"related_id": "runs/r/f", "name": "A.PDF", "size": 3});
        let result = run(json!({"datasource_type": "local_file", "datasource_info": info}), json!({}));
        let (name, file) = &result.outputs[0];
        assert_eq!((name.as_str(), file.ty), ("file", SegmentType::File));
        for (key, value) in [
            ("type", json!("document")),
            ("extension", json!(".pdf")),
            ("mime_type", json!("application/pdf")),
            ("reference", json!("runs/r/f")),
            ("size", json!(3)),
        ] {
            assert_eq!(file.value[key], value, "{key}");
        }
    }

    #[test]
    fn a_plugin_reads_pages_and_files_of_drives() {
        let data = data(json!({"datasource_name": "pages", "plugin_unique_identifier": "a/p:1@x"}));
        let data = DatasourceData::parse(&data, &mut Problems::new()).expect("usable");
        let run = |kind: &str, info: Json| {
            Pool::new(json!({"sys": {"datasource_type": kind, "datasource_info": info}}))
        };
        let page = json!({"workspace_id": "w", "page": {"page_id": "p1", "type": "page"}});
        let pool = run("online_document", page.clone());
        let reading = data.reading(&pool).expect("a plugin reads it");
        let expected = json!({"datasource": "pages", "workspace_id": "w", "page_id": "p1", "type": "page"});
        assert_eq!((reading.question, Json::Object(reading.arguments.clone())), (PAGE, expected));
        let found = vec![("text".into(), Segment::string("t")), ("content".into(), Segment::string("all"))];
        let result = data.read(&reading, found, &pool);
        assert_eq!(result.outputs.len(), 1);
        assert_eq!((result.outputs[0].0.as_str(), &result.metadata["datasource_info"]), ("content", &page));

        let pool = run("online_drive", json!({"id": "f", "bucket": null}));
        let reading = data.reading(&pool).expect("a plugin reads it");
        assert_eq!(Json::Object(reading.arguments.clone()), json!({"datasource": "pages", "id": "f"}));
        let result = data.read(&reading, Vec::new(), &pool);
        let names: Vec<&str> = result.outputs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["file", "datasource_type"]);
        assert_eq!(data.reading(&run("website_crawl", json!({"x": 1}))), None);
    }

    #[test]
    fn a_missing_file_or_one_in_dify_fails_with_difys_message() {
        let info = json!({"related_id": "6f1c"});
        for (sys, error_type, message) in [
            (json!({}), "WorkflowNodeError", "Datasource type is not set"),
            (
                json!({"datasource_type": "", "datasource_info": info}),
                "WorkflowNodeError",
                "Datasource type is not set",
            ),
            (json!({"datasource_type": "local_file"}), "WorkflowNodeError", "Datasource info is not set"),
            (
                json!({"datasource_type": "local_file", "datasource_info": [1]}),
                "WorkflowNodeError",
                "Invalid datasource info format",
            ),
            (
                json!({"datasource_type": "local_file", "datasource_info": info}),
                "WorkflowNodeError",
                "File is not exist",
            ),
            (
                json!({"datasource_type": "online_drive", "datasource_info": info}),
                "DatasourceNodeError",
                "Failed to invoke datasource: online_drive is read by the plugin of p/file, which is not installed (`tidemill plugins add`)",
            ),
            (
                json!({"datasource_type": "tape", "datasource_info": info}),
                "DatasourceNodeError",
                "Unsupported datasource provider: tape",
            ),
        ] {
            let failure = run(sys, json!({})).failure.expect("a failure");
            assert_eq!((failure.error_type.as_str(), failure.message.as_str()), (error_type, message));
        }
    }

    #[test]
    fn parameters_are_resolved_for_the_record_and_secrets_masked() {
        let parameters = json!({
            "m": {"type": "mixed", "value": "<{{#a.b#}}>"},
            "v": {"type": "variable", "value": ["env", "key"]},
            "c": {"type": "constant", "value": 3},
        });
        let sys = json!({"datasource_type": "website_crawl", "datasource_info": {"x": 1}});
        let inputs: Vec<Json> =
            run(sys, parameters).inputs.into_iter().map(|(_, value)| value.value).collect();
        assert_eq!((&inputs[0], &inputs[2]), (&json!("<x>"), &json!(3)));
        assert!(!inputs[1].to_string().contains("long-secret"), "{inputs:?}");
    }

    #[test]
    fn every_wrong_field_is_reported_at_its_place() {
        let data = data(json!({
            "plugin_id": 1, "datasource_configurations": [], "datasource_name": null,
            "datasource_parameters": {"a": {"type": "spell", "value": 1}, "b": {"type": "variable", "value": "x"}},
        }));
        let mut problems = Problems::new();
        assert!(DatasourceData::parse(&data, &mut problems).is_none());
        let paths: Vec<String> = problems.into_vec().into_iter().map(|problem| problem.path).collect();
        let parameters = ["datasource_parameters.a.value", "datasource_parameters.b.value"];
        assert_eq!(paths, ["plugin_id", "datasource_configurations", parameters[0], parameters[1]]);
    }
}
