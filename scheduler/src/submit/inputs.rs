//! Checks the values that a caller gives: for the start form, and for conversation variables.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use tidemill_common::files::UploadId;
use tidemill_common::graph::{Graph, Node, NodeIx};
use tidemill_common::ids::RunId;
use tidemill_common::nodes::start::{FormError, InputField, InputKind, validate_form};
use tidemill_common::value::{JsonMap, Segment, SegmentType, infer_type};

use super::remote_files::Answers;
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
    answers: &Answers,
) -> Result<Vec<(String, Segment)>, SubmitError> {
    let values = match &submission.sys {
        SystemValues::Standard => of_form(graph.node(root), &submission.inputs, answers)?,
        SystemValues::Exactly(_) => submission.inputs.clone(),
    };
    Ok(values.into_iter().map(|(name, value)| (name, Segment::restore_files(value))).collect())
}

/// The URLs of the files in a submission whose servers must be asked what they are.
pub(super) fn remote_files(graph: &Graph, root: NodeIx, submission: &Submission) -> BTreeSet<String> {
    given_files(graph, root, submission).filter_map(files::to_ask).map(str::to_owned).collect()
}

/// The ids of the uploads that a submission names.
pub(super) fn uploads(graph: &Graph, root: NodeIx, submission: &Submission) -> BTreeSet<UploadId> {
    given_files(graph, root, submission).filter_map(files::upload_id).collect()
}

/// The runs whose files the values of a submission refer to.
pub(super) fn runs_of_files(submission: &Submission) -> BTreeSet<RunId> {
    let values = submission.inputs.values().chain(&submission.files).chain(submission.conversation.values());
    let given = match &submission.sys {
        SystemValues::Exactly(values) => Some(values.values()),
        SystemValues::Standard => None,
    };
    files::runs_of(values.chain(&submission.memory).chain(given.into_iter().flatten()))
}

/// The files in a submission, as it names them.
fn given_files<'a>(
    graph: &'a Graph,
    root: NodeIx,
    submission: &'a Submission,
) -> impl Iterator<Item = &'a JsonMap> {
    let fields = match (&submission.sys, graph.node(root)) {
        (SystemValues::Standard, root) if !root.kind.is_trigger() => root.data.form_fields(),
        (SystemValues::Standard | SystemValues::Exactly(_), _) => &[],
    };
    let fields = fields.iter().filter(|field| matches!(field.kind, InputKind::File | InputKind::FileList));
    let inputs = fields.filter_map(|field| submission.inputs.get(&*field.variable));
    let files = submission.files.iter().filter(|_| files::are_enabled(&graph.features));
    let variables = submission.conversation.iter().filter(move |(name, _)| holds_files(graph, name));
    let values = inputs.chain(files).chain(variables.map(|(_, value)| value));
    values.flat_map(mappings)
}

/// The objects of a value that is one or a list of them.
fn mappings(value: &Json) -> impl Iterator<Item = &JsonMap> {
    let items = match value {
        Json::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    items.iter().filter_map(Json::as_object)
}

/// Returns true for a conversation variable that the workflow declares as a file or a list of files.
fn holds_files(graph: &Graph, name: &str) -> bool {
    let defined = graph.conversation.iter().find(|variable| *variable.name == *name);
    defined.is_some_and(|variable| matches!(variable.value.ty, SegmentType::File | SegmentType::ArrayFile))
}

/// Checks inputs by the form, adds defaults, and creates file objects for file fields.
fn of_form(root: &Node, inputs: &JsonMap, answers: &Answers) -> Result<JsonMap, SubmitError> {
    // A trigger has no form: its caller decides on the inputs.
    if root.kind.is_trigger() {
        return Ok(inputs.clone());
    }
    let fields = root.data.form_fields();
    let mut checked = validate_form(fields, inputs)?;
    for field in fields {
        if let Some(value) = checked.get_mut(&field.variable) {
            make_files(field, value, answers)?;
        }
    }
    Ok(checked)
}

fn make_files(field: &InputField, value: &mut Json, answers: &Answers) -> Result<(), SubmitError> {
    match (field.kind, value) {
        (InputKind::File, Json::Object(mapping)) => *mapping = files::of_field(field, mapping, answers)?,
        (InputKind::FileList, Json::Array(items)) => {
            for item in items {
                if let Json::Object(mapping) = item {
                    *mapping = files::of_field(field, mapping, answers)?;
                }
            }
        }
        // The other kinds hold no files.
        _ => {}
    }
    Ok(())
}

/// Initial values that the request gives for conversation variables, with the types that the workflow declares.
pub(super) fn of_conversation(
    graph: &Graph,
    given: &JsonMap,
    answers: &Answers,
) -> Result<Vec<(String, Segment)>, SubmitError> {
    given
        .iter()
        .map(|(name, value)| {
            let mut made = value.clone();
            if holds_files(graph, name) {
                let items = match &mut made {
                    Json::Array(items) => items.as_mut_slice(),
                    one => std::slice::from_mut(one),
                };
                for mapping in items.iter_mut().filter_map(Json::as_object_mut) {
                    *mapping = files::of_answer(mapping, answers)?;
                }
            }
            let value = &made;
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
