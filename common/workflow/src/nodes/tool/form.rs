//! A workflow as a tool: its start form declares the tool's parameters (Dify's rules); and the form as clients show it.

use serde_json::{Value as Json, json};

use super::{Declaration, Form, Parameter, ParameterType};
use crate::dsl::{Document, Problems};
use crate::nodes::start::StartData;
use crate::nodes::start::field::{InputField, InputKind};
use tidemill_base::value::JsonMap;

/// The parameter for the files of a run, if the workflow accepts any.
const FILES: &str = "files";

/// The declaration of a workflow as a tool. `None` when it has no start form, for example when a trigger starts it.
pub fn declared(document: &Document) -> Option<Declaration> {
    let form = StartData::parse(start_of(document)?, &mut Problems::new())?;
    let mut parameters: Vec<Parameter> = form.variables.iter().map(parameter).collect();
    let uploads = document.features.get("file_upload").and_then(|uploads| uploads.get("enabled"));
    if uploads == Some(&Json::Bool(true)) && parameters.iter().all(|one| one.name != FILES) {
        let ty = ParameterType::SystemFiles;
        parameters.push(Parameter { name: FILES.into(), ty, ..Parameter::default() });
    }
    Some(Declaration {
        name: document.name.clone(),
        description: document.description.clone(),
        parameters,
        takes_more: true,
        has_output_schema: false,
    })
}

/// The start node of a workflow's form. `None` when it has no such node, for example when a trigger starts it.
pub fn start_of(document: &Document) -> Option<&JsonMap> {
    let is_start = |data: &&JsonMap| data.get("type").and_then(Json::as_str) == Some("start");
    document.nodes.iter().filter(|node| node.parent.is_none()).map(|node| &node.data).find(is_start)
}

/// The fields of a start node as clients show them: each is as the file has it, under the name of its kind. The forms of
/// apps without a workflow (`is_simple`) name the kind only there.
pub fn shown(start: &JsonMap, is_simple: bool) -> Vec<Json> {
    let Some(form) = StartData::parse(start, &mut Problems::new()) else { return Vec::new() };
    let fields = start.get("variables").and_then(Json::as_array).into_iter().flatten();
    let fields = fields.filter_map(Json::as_object).cloned();
    let shown = |(known, mut field): (&InputField, JsonMap)| {
        if is_simple {
            field.shift_remove("type");
        }
        json!({known.kind.name(): field})
    };
    form.variables.iter().zip(fields).map(shown).collect()
}

fn parameter(field: &InputField) -> Parameter {
    let ty = match field.kind {
        InputKind::TextInput | InputKind::Paragraph | InputKind::ExternalDataTool => ParameterType::String,
        InputKind::Select => ParameterType::Select,
        InputKind::Number => ParameterType::Number,
        InputKind::Checkbox => ParameterType::Boolean,
        InputKind::File => ParameterType::File,
        InputKind::FileList => ParameterType::Files,
        InputKind::JsonObject => ParameterType::Object,
    };
    let description = if field.description.is_empty() { &field.label } else { &field.description };
    Parameter {
        name: field.variable.clone(),
        ty,
        // A hidden field is not offered to callers of the tool.
        form: if field.hide { Form::Form } else { Form::Llm },
        required: field.required && field.default.is_null(),
        default: Some(field.default.clone()).filter(|default| !default.is_null()),
        options: field.options.clone(),
        description: description.clone(),
        schema: Some(field.json_schema.clone()).filter(Json::is_object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::builder::import;

    fn of(variables: Json, features: Json) -> Option<Declaration> {
        let document = json!({
            "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Greeter", "description": "Greets"},
            "workflow": {"features": features, "graph": {
                "nodes": [{"id": "s", "data": {"type": "start", "title": "S", "variables": variables}}], "edges": [],
            }},
        });
        declared(&import(document.to_string().as_bytes()).document.expect("a document"))
    }

    #[test]
    fn a_model_gets_the_start_form_as_parameters() {
        let field = |name: &str, kind: &str, required: bool| json!({"variable": name, "label": name.to_uppercase(), "type": kind, "required": required});
        let mut select = field("tone", "select", true);
        select["options"] = json!(["kind", "rude"]);
        let mut hidden = field("hidden", "text-input", false);
        hidden["hide"] = json!(true);
        let mut kept = field("kept", "text-input", true);
        kept["default"] = json!("x");
        let fields = json!([
            field("name", "text-input", true),
            select,
            field("n", "number", false),
            field("yes", "checkbox", false),
            field("doc", "file", true),
            hidden,
            kept,
        ]);
        let declared = of(fields, json!({"file_upload": {"enabled": true}})).unwrap();
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "NAME"},
                "tone": {"type": "string", "description": "TONE", "enum": ["kind", "rude"]},
                "n": {"type": "number", "description": "N"},
                "yes": {"type": "boolean", "description": "YES"},
                "kept": {"type": "string", "description": "KEPT"},
            },
            "required": ["name", "tone"],
        });
        assert_eq!(declared.schema(), schema);
        assert_eq!((declared.description.as_str(), declared.takes_more), ("Greets", true));
        let ty = |name: &str| declared.known().find(name).map(|one| one.ty);
        assert_eq!((ty("doc"), ty("files")), (Some(ParameterType::File), Some(ParameterType::SystemFiles)));
    }

    #[test]
    fn clients_get_each_field_of_the_form_under_its_kind() {
        let start = json!({"type": "start", "title": "S", "variables": [
            {"variable": "q", "label": "Q", "type": "text-input", "required": true, "more": 1},
            {"variable": "n", "label": "N", "type": "number", "required": false},
        ]});
        let start = start.as_object().unwrap();
        let both = shown(start, false);
        assert_eq!(both[0], json!({"text-input": start["variables"][0]}));
        assert_eq!(both[1]["number"]["variable"], "n");
        assert_eq!(
            shown(start, true)[1],
            json!({"number": {"variable": "n", "label": "N", "required": false}})
        );
    }

    #[test]
    fn files_of_the_run_are_a_parameter_only_where_they_are_taken() {
        let declared = of(json!([]), json!({})).unwrap();
        assert!(declared.parameters.is_empty());
    }
}
