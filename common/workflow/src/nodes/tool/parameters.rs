//! Builds the arguments of a call, and their masked record, from the node's configuration and the run's variables.

use serde_json::Value as Json;

use super::cast::cast;
use super::{Declaration, Form, Input, KnownParameters, Parameter, ParameterType, ToolData};
use crate::nodes::fields::set;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::pyrepr::{repr_texts, str_of};
use tidemill_base::value::{JsonMap, Segment, Variables};

/// Parameters filled in by the workflow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filled {
    /// By name, not yet converted to the declared types.
    pub values: JsonMap,
    /// The same for the record, with secrets masked.
    pub shown: Vec<(String, Segment)>,
}

/// Fills in the parameters. As on Dify an unknown parameter becomes null. For a tool without a declaration all given
/// values are parameters.
///
/// # Errors
/// The variable of a required parameter is missing; on Dify this is an exception that leaves the node.
pub fn filled(
    data: &ToolData,
    declared: KnownParameters<'_>,
    variables: &dyn Variables,
) -> Result<Filled, NodeFailure> {
    let mut filled = Filled::default();
    for (name, input) in &data.parameters {
        let known = declared.find(name);
        if known.is_none() && !declared.takes_more {
            filled.values.insert(name.clone(), Json::Null);
            set(&mut filled.shown, name, Segment::none());
            continue;
        }
        let (value, shown) = match input {
            Input::Variable(selector) => match variables.found(selector) {
                Some(value) => (value.value.clone(), value.into_owned()),
                None if known.is_some_and(|one| one.required) => {
                    return Err(NodeFailure::escaped(missing(selector)));
                }
                None => continue,
            },
            Input::Mixed(template) | Input::Constant(_, template) => (
                Json::String(template.render_text(variables)),
                Segment::string(template.render_log(variables)),
            ),
        };
        filled.values.insert(name.clone(), value);
        set(&mut filled.shown, name, shown);
    }
    Ok(filled)
}

/// The given parameters before missing ones are filled in, converted to the declared types where possible. Absent
/// values, nulls and empty texts are left out.
pub fn known(data: &ToolData, declared: KnownParameters<'_>, variables: &dyn Variables) -> JsonMap {
    let value = |input: &Input| match input {
        Input::Variable(selector) => variables.found(selector).map(|segment| segment.value.clone()),
        Input::Mixed(template) | Input::Constant(_, template) => {
            Some(Json::String(template.render_text(variables)))
        }
    };
    let mut known = JsonMap::new();
    for (name, input) in &data.parameters {
        let Some(value) = value(input) else { continue };
        if value.is_null() || value.as_str().is_some_and(str::is_empty) {
            continue;
        }
        let ty = declared.find(name).map(|parameter| parameter.ty);
        let value = ty.and_then(|ty| cast(ty, &value).ok()).unwrap_or(value);
        known.insert(name.clone(), value);
    }
    known
}

/// The JSON schema of a tool's known parameters.
pub fn schema(declared: KnownParameters<'_>) -> Json {
    let parameters = declared.parameters.to_vec();
    Declaration { parameters, ..Declaration::default() }.schema()
}

fn missing(selector: &[String]) -> String {
    format!("Variable {} does not exist", repr_texts(selector))
}

/// The author's fixed values, converted to the declared types.
///
/// # Errors
/// Dify's message when the tool cannot be used with these values.
pub fn configured(
    data: &ToolData,
    declared: KnownParameters<'_>,
    variables: &dyn Variables,
) -> Result<JsonMap, String> {
    let mut values =
        if declared.takes_more { undeclared(data, declared, variables)? } else { JsonMap::new() };
    for parameter in declared.parameters.iter().filter(|one| one.form == Form::Form) {
        let value = if data.is_typed {
            // A value from the workflow overrides a configured one of the same name.
            let given = data.parameters.iter().find(|(name, _)| *name == parameter.name);
            let given = given.map(|(_, input)| input).or_else(|| {
                let own = data.configurations.iter().find(|(name, _)| *name == parameter.name);
                own.and_then(|(_, value)| value.input.as_ref())
            });
            match given {
                Some(input) => Some(resolved(input, variables)?),
                None => None,
            }
        } else {
            plain(data, parameter)?
        };
        if let Some(value) = value {
            values.insert(parameter.name.clone(), cast(parameter.ty, &value)?);
        }
    }
    Ok(values)
}

/// Values without a declaration, for a tool that accepts further parameters.
fn undeclared(
    data: &ToolData,
    declared: KnownParameters<'_>,
    variables: &dyn Variables,
) -> Result<JsonMap, String> {
    let mut values = JsonMap::new();
    for (name, configured) in data.configurations.iter().filter(|(name, _)| declared.find(name).is_none()) {
        let value = match &configured.input {
            Some(input) if data.is_typed => resolved(input, variables)?,
            // An input left empty.
            None if data.is_typed && configured.raw.get("value") == Some(&Json::Null) => continue,
            Some(_) | None => configured.raw.clone(),
        };
        values.insert(name.clone(), value);
    }
    Ok(values)
}

fn resolved(input: &Input, variables: &dyn Variables) -> Result<Json, String> {
    match input {
        Input::Constant(value, _) => Ok(value.clone()),
        Input::Mixed(template) => Ok(Json::String(template.render_text(variables))),
        Input::Variable(selector) => {
            variables.found(selector).map(|value| value.value.clone()).ok_or_else(|| missing(selector))
        }
    }
}

/// The older form: plain values.
fn plain(data: &ToolData, parameter: &Parameter) -> Result<Option<Json>, String> {
    let name = &parameter.name;
    let given = data.configurations.iter().find(|(known, _)| known == name).map(|(_, value)| &value.raw);
    if given.is_none() && data.parameters.iter().any(|(known, _)| known == name) {
        // The workflow fills it in; a default here would override that.
        return Ok(None);
    }
    let Some(value) = given.or(parameter.default.as_ref()) else {
        if parameter.required {
            return Err(format!("tool parameter {name} not found in tool config"));
        }
        return Ok(None);
    };
    let is_choice = parameter.ty == ParameterType::Select && !parameter.options.is_empty();
    if is_choice && !parameter.options.contains(&str_of(value).into_owned()) {
        return Err(format!(
            "tool parameter {name} value {} not in options {}",
            str_of(value),
            repr_texts(&parameter.options)
        ));
    }
    Ok(Some(value.clone()))
}

/// The arguments of the call: configured values override filled-in ones, and each is converted to its declared type.
///
/// # Errors
/// Dify's message for a value that cannot be converted.
pub fn arguments(
    mut values: JsonMap,
    configured: JsonMap,
    declared: KnownParameters<'_>,
) -> Result<JsonMap, String> {
    for (name, value) in &mut values {
        if let Some(parameter) = declared.find(name) {
            *value = cast(parameter.ty, value)?;
        }
    }
    values.extend(configured);
    Ok(values)
}
