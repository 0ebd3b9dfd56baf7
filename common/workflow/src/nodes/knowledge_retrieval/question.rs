//! Reads the question from the run's variables.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::{ErrorType, KnowledgeRetrievalData};
use crate::nodes::llm::record::{Inputs, Secrets};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::{Segment, SegmentType, Variables};

/// The question and its record.
#[derive(Debug, Clone, PartialEq)]
pub struct RetrievalQuestion {
    /// The question; empty: nothing is searched.
    pub query: String,
    /// The inputs in the record.
    pub inputs: Inputs,
}

/// Reads the question. `None` when the node has no question at all, which is no failure (as on Dify).
///
/// # Errors
/// A variable is missing or has the wrong type: Dify's text, without a class.
pub fn read(
    data: &KnowledgeRetrievalData,
    variables: &dyn Variables,
) -> Result<Option<RetrievalQuestion>, NodeFailure> {
    if data.query.is_none() && data.attachments.is_none() {
        return Ok(None);
    }
    let mut question = RetrievalQuestion { query: String::new(), inputs: Inputs::new() };
    if let Some(selector) = &data.query {
        match variables.found(selector).map(Cow::into_owned) {
            Some(Segment { ty: SegmentType::String | SegmentType::Secret, value: Json::String(text) }) => {
                question.query.clone_from(&text);
                question.inputs.push(("query".into(), Segment::string(text)));
            }
            Some(_) | None => {
                return Err(ErrorType::Unnamed.failure("Query variable is not string type."));
            }
        }
    }
    if let Some(selector) = &data.attachments {
        match variables.found(selector).map(Cow::into_owned) {
            Some(Segment { ty: SegmentType::File, value }) => {
                let files = Segment::new(SegmentType::ArrayFile, Json::Array(vec![value]));
                question.inputs.push(("attachments".into(), files));
            }
            Some(files @ Segment { ty: SegmentType::ArrayFile, .. }) => {
                question.inputs.push(("attachments".into(), files));
            }
            Some(_) | None => {
                let message = "Attachments variable is not array file or file type.";
                return Err(ErrorType::Unnamed.failure(message));
            }
        }
    }
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    Secrets::among(mentions, variables).mask(&mut question.inputs);
    Ok(Some(question))
}
