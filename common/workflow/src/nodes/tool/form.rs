//! A workflow as a tool: its start form declares the tool's parameters (Dify's rules).

use serde_json::Value as Json;

use super::{Declaration, Form, Parameter, ParameterType};
use crate::dsl::{Document, Problems};
use crate::nodes::start::StartData;
use crate::nodes::start::field::{InputField, InputKind};

/// The parameter for the files of a run, if the workflow accepts any.
const FILES: &str = "files";

/// The declaration of a workflow as a tool. `None` when it has no start form, for example when a trigger starts it.
pub fn declared(document: &Document) -> Option<Declaration> {
    let is_start =
        |data: &&tidemill_base::value::JsonMap| data.get("type").and_then(Json::as_str) == Some("start");
    let start =
        document.nodes.iter().filter(|node| node.parent.is_none()).map(|node| &node.data).find(is_start)?;
    let form = StartData::parse(start, &mut Problems::new())?;
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
    use serde_json::json;

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
    fn files_of_the_run_are_a_parameter_only_where_they_are_taken() {
        let declared = of(json!([]), json!({})).unwrap();
        assert!(declared.parameters.is_empty());
    }
}
