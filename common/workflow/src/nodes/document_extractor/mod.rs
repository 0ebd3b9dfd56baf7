//! The `document-extractor` node: reads the text of files. This part holds the configuration, the list of files, and
//! the format of each ([`format`](mod@format)). The worker fetches and reads the files.

pub mod config;
pub mod format;

use serde_json::{Value as Json, json};

use super::NodeResult;
use super::fields::{required, selector};
use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::pyrepr::repr_texts;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Selector, Variables};

pub use config::DocumentsConfig;
pub use format::Format;

/// Configuration of `document-extractor`.
#[derive(Debug, Clone)]
pub struct DocumentExtractorData {
    /// The file, or the list of files. Dify's `is_array_file` adds nothing to the value's type, so it is ignored.
    pub variable: Selector,
}

/// The files to read.
#[derive(Debug, Clone, PartialEq)]
pub struct Documents {
    /// File objects.
    pub files: Vec<Json>,
    /// True when the variable is one file; then the output is one text.
    pub single: bool,
}

impl DocumentExtractorData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let variable = required(data, "variable_selector", problems, selector)?;
        Some(Self { variable })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.variable, into);
    }

    /// The files to read, and the result so far: only the record.
    ///
    /// # Errors
    /// The final result when no file is read: there are no files, or the value is not a file.
    pub fn documents(&self, variables: &dyn Variables) -> Result<(Documents, NodeResult), Box<NodeResult>> {
        let named = || repr_texts(&self.variable);
        let failed = |message| Err(Box::new(NodeResult::failed(NodeFailure::new("", message))));
        let Some(value) = variables.found(&self.variable) else {
            return failed(format!("File variable not found for selector: {}", named()));
        };
        let is_files = matches!(value.ty, SegmentType::File | SegmentType::ArrayFile);
        if !value.is_falsy() && !is_files {
            return failed(format!("Variable {} is not an ArrayFileSegment", named()));
        }
        let (files, single) = match &value.value {
            Json::Array(items) => (items.iter().filter(|item| !item.is_null()).cloned().collect(), false),
            other @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_)) => {
                (vec![other.clone()], true)
            }
        };
        let result = NodeResult {
            inputs: vec![("variable_selector".into(), Segment::infer(json!(self.variable)))],
            process_data: JsonMap::from_iter([("documents".into(), Json::Array(files.clone()))]),
            ..NodeResult::default()
        };
        if value.is_falsy() || files.is_empty() {
            return Err(Box::new(NodeResult { outputs: vec![output(Vec::new(), false)], ..result }));
        }
        Ok((Documents { files, single }, result))
    }
}

/// The output of the node: one text, or a list.
pub fn output(mut texts: Vec<String>, single: bool) -> (String, Segment) {
    let text = match (single, texts.len()) {
        (true, 1) => Segment::string(texts.remove(0)),
        (true, _) | (false, _) => Segment::new(SegmentType::ArrayString, json!(texts)),
    };
    ("text".into(), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::value::pool::Pool;

    fn documents(selector: &[&str]) -> Result<(Documents, NodeResult), Box<NodeResult>> {
        let file = json!({"dify_model_identity": "__dify__file__", "filename": "a.txt"});
        let pool = Pool::new(json!({"start": {
            "one": file, "many": [file, file], "null": null, "none": [], "text": "x", "words": ["x"], "empty": "",
        }}))
        .with("start", "gaps", Segment::new(SegmentType::ArrayFile, json!([null, file])))
        .with("start", "holes", Segment::new(SegmentType::ArrayFile, json!([null])));
        let mut problems = Problems::new();
        let data = json!({"variable_selector": selector, "is_array_file": "ignored"});
        let read = DocumentExtractorData::parse(data.as_object().expect("a mapping"), &mut problems);
        read.expect("usable").documents(&pool)
    }

    #[test]
    fn files_are_read_one_or_many() {
        for (name, count, single) in [("one", 1, true), ("many", 2, false), ("gaps", 1, false)] {
            let (found, record) = documents(&["start", name]).expect("files");
            assert_eq!((found.files.len(), found.single), (count, single), "{name}");
            assert_eq!(record.process_data["documents"], json!(found.files));
            assert_eq!(record.inputs[0].1.value, json!(["start", name]));
        }
    }

    #[test]
    fn nothing_to_read_is_an_empty_list() {
        for name in ["null", "none", "empty", "holes"] {
            let result = documents(&["start", name]).expect_err("a result");
            assert_eq!(result.outputs, [output(Vec::new(), false)], "{name}");
            assert_eq!(result.outputs[0].1.ty, SegmentType::ArrayString);
            assert_eq!(result.failure, None);
        }
    }

    #[test]
    fn a_value_that_is_not_a_file_is_refused() {
        for (selector, message) in [
            (&["start", "text"][..], "Variable ['start', 'text'] is not an ArrayFileSegment"),
            (&["start", "words"], "Variable ['start', 'words'] is not an ArrayFileSegment"),
            (&["start", "ghost"], "File variable not found for selector: ['start', 'ghost']"),
            (&["start"], "File variable not found for selector: ['start']"),
        ] {
            let failure = documents(selector).expect_err("a result").failure.expect("a failure");
            assert_eq!((failure.error_type.as_str(), failure.message.as_str()), ("", message));
        }
    }

    #[test]
    fn the_variable_must_be_named() {
        let mut problems = Problems::new();
        assert!(DocumentExtractorData::parse(&JsonMap::new(), &mut problems).is_none());
        assert_eq!(problems.into_vec()[0].path, "variable_selector");
    }
}
