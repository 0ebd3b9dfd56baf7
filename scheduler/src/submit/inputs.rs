//! Checks the values that a caller gives: for the start form, and for conversation variables.

use serde_json::Value as Json;
use tidemill_common::graph::{Graph, Node, NodeIx};
use tidemill_common::nodes::start::{FormError, InputField, InputKind, validate_form};
use tidemill_common::value::{JsonMap, Segment, SegmentType, infer_type};

use super::{Submission, SubmitError, SystemValues, files};

impl From<FormError> for SubmitError {
    fn from(error: FormError) -> Self {
        Self::Inputs { invalid_param: error.is_invalid_param(), message: error.message().to_string() }
    }
}

/// The inputs of a run: checked by the start node's form, or unchanged when the caller gives all system variables.
pub(super) fn of_run(
    graph: &Graph,
    root: NodeIx,
    submission: &Submission,
) -> Result<Vec<(String, Segment)>, SubmitError> {
    let values = match &submission.sys {
        SystemValues::Standard => of_form(graph.node(root), &submission.inputs)?,
        SystemValues::Exactly(_) => submission.inputs.clone(),
    };
    Ok(values.into_iter().map(|(name, value)| (name, Segment::restore_files(value))).collect())
}

/// Checks inputs by the form, adds defaults, and creates file objects for file fields.
fn of_form(root: &Node, inputs: &JsonMap) -> Result<JsonMap, SubmitError> {
    // A trigger has no form: its caller decides on the inputs.
    if root.kind.is_trigger() {
        return Ok(inputs.clone());
    }
    let fields = root.data.form_fields();
    let mut checked = validate_form(fields, inputs)?;
    for field in fields {
        if let Some(value) = checked.get_mut(&field.variable) {
            make_files(field, value)?;
        }
    }
    Ok(checked)
}

fn make_files(field: &InputField, value: &mut Json) -> Result<(), SubmitError> {
    match (field.kind, value) {
        (InputKind::File, Json::Object(mapping)) => *mapping = files::of_field(field, mapping)?,
        (InputKind::FileList, Json::Array(items)) => {
            for item in items {
                if let Json::Object(mapping) = item {
                    *mapping = files::of_field(field, mapping)?;
                }
            }
        }
        // The other kinds hold no files.
        _ => {}
    }
    Ok(())
}

/// Initial values that the request gives for conversation variables, with the types that the workflow declares.
pub(super) fn of_conversation(graph: &Graph, given: &JsonMap) -> Result<Vec<(String, Segment)>, SubmitError> {
    given
        .iter()
        .map(|(name, value)| {
            let defined = graph.conversation.iter().find(|variable| *variable.name == **name);
            let segment = match defined {
                Some(variable) => typed(name, variable.value.ty, value)?,
                None => Segment::restore_files(value.clone()),
            };
            Ok((name.clone(), segment))
        })
        .collect()
}

/// A value with the declared type. An empty list fits any list type; whole numbers and fractions are one type.
pub(super) fn typed(name: &str, ty: SegmentType, value: &Json) -> Result<Segment, SubmitError> {
    let restored = Segment::restore_files(value.clone());
    let is_number = |ty| matches!(ty, SegmentType::Integer | SegmentType::Float);
    let is_empty_list = value.as_array().is_some_and(Vec::is_empty);
    if restored.ty == ty
        || (is_empty_list && ty.is_array())
        || (ty == SegmentType::ArrayAny && value.is_array())
    {
        return Ok(Segment::new(ty, restored.value));
    }
    if is_number(restored.ty) && is_number(ty) {
        return Ok(Segment::new(infer_type(value), restored.value));
    }
    Err(SubmitError::Conversation { name: name.into(), expected: ty.exposed_name() })
}
