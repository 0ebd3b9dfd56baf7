//! What an `llm` node can be told and cannot do yet: it fails with a clear error, never silently.

use super::{LlmData, ReasoningFormat, TextTemplate, Vision};
use crate::failure::NodeFailure;
use crate::value::{SegmentType, Selector, Variables};

/// Files cannot be sent yet, neither those of the vision switch nor those that a text refers to.
pub(super) fn refuse_files(data: &LlmData, variables: &dyn Variables) -> Result<(), NodeFailure> {
    if let Some(Vision { selector, .. }) = &data.vision
        && let Some(segment) = variables.found(selector)
    {
        match segment.ty {
            SegmentType::None | SegmentType::ArrayAny => {}
            SegmentType::ArrayFile if segment.is_falsy() => {}
            SegmentType::File | SegmentType::ArrayFile => return Err(not_yet("vision with files")),
            ty @ (SegmentType::String
            | SegmentType::Secret
            | SegmentType::Integer
            | SegmentType::Float
            | SegmentType::Boolean
            | SegmentType::Object
            | SegmentType::ArrayString
            | SegmentType::ArrayNumber
            | SegmentType::ArrayObject
            | SegmentType::ArrayBoolean) => {
                return Err(NodeFailure::new(
                    "InvalidVariableTypeError",
                    format!("Invalid variable type: {ty}"),
                ));
            }
        }
    }
    let is_file = |selector: &Selector| {
        let segment = variables.found(selector);
        segment
            .is_some_and(|s| s.ty == SegmentType::File || (s.ty == SegmentType::ArrayFile && !s.is_falsy()))
    };
    let basic = data.texts().into_iter().filter(|text| matches!(text, TextTemplate::Basic(_)));
    if basic.flat_map(|text| super::references(text.source())).any(|selector| is_file(&selector)) {
        return Err(not_yet("a file in a message"));
    }
    Ok(())
}

/// What is switched on and cannot be done yet.
pub(super) fn refuse_switches(data: &LlmData, variables: &dyn Variables) -> Result<(), NodeFailure> {
    if data.structured_output.is_some() {
        return Err(not_yet("structured output"));
    }
    if data.reasoning == ReasoningFormat::Separated {
        return Err(not_yet("reasoning_format separated"));
    }
    // The first turn has no history, and memory is only the final question; a later one must not be told without it.
    let turn = variables.found(&["sys".into(), "dialogue_count".into()]);
    if data.memory.is_some() && turn.is_some_and(|turn| turn.value.as_i64().is_some_and(|n| n > 1)) {
        return Err(not_yet("memory after the first turn of a conversation"));
    }
    Ok(())
}

fn not_yet(what: &str) -> NodeFailure {
    NodeFailure::new("LLMNodeError", format!("{what} is not supported yet"))
}
