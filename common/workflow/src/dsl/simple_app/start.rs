//! The form of an app, as the variables of a start node, and its references in texts.

use serde_json::{Value as Json, json};

use super::{START, text};
use tidemill_base::value::JsonMap;

/// The fields of the form.
pub(super) struct Form {
    variables: Vec<JsonMap>,
}

impl Form {
    /// Reads `user_input_form`: a list of mappings from a type to a field.
    ///
    /// # Errors
    /// The app fills a variable from an API that its export does not name.
    pub(super) fn read(config: &JsonMap) -> Result<Self, String> {
        let list = |key: &str| config.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let outside = list("external_data_tools").iter().filter_map(Json::as_object);
        let mut outside = outside.filter(|tool| tool.get("enabled").and_then(Json::as_bool) != Some(false));
        if let Some(tool) = outside.next() {
            return Err(from_outside(text(tool, "variable")));
        }
        let mut variables = Vec::new();
        for item in list("user_input_form").iter().filter_map(Json::as_object) {
            for (kind, field) in item {
                let Some(field) = field.as_object() else { continue };
                if kind == "external_data_tool" {
                    return Err(from_outside(text(field, "variable")));
                }
                variables.push(variable(kind, field));
            }
        }
        Ok(Self { variables })
    }

    /// The `data` of the start node.
    pub(super) fn node(&self) -> Json {
        json!({"type": "start", "title": "Start", "variables": self.variables})
    }

    /// The text with references to the fields as workflows write them. All other text stays.
    pub(super) fn referring(&self, template: &str) -> String {
        let mut text = template.to_owned();
        for variable in &self.variables {
            let name = super::text(variable, "variable");
            if !name.is_empty() {
                text = text.replace(&format!("{{{{{name}}}}}"), &format!("{{{{#{START}.{name}#}}}}"));
            }
        }
        text.replace("{{#query#}}", "{{#sys.query#}}")
    }
}

fn from_outside(variable: &str) -> String {
    format!("the variable {variable:?} comes from an API extension, whose address is not in the export")
}

fn variable(kind: &str, field: &JsonMap) -> JsonMap {
    let mut variable = field.clone();
    variable.retain(|_, value| !value.is_null());
    variable.insert("type".into(), kind.into());
    if !variable.contains_key("label") {
        let label = variable.get("variable").cloned().unwrap_or_default();
        variable.insert("label".into(), label);
    }
    variable
}
