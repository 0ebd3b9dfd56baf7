//! The fields of a form, in the file and in the format for callers.
//!
//! Both use the same reader, since a pause carries its fields in the file's format.

use serde_json::{Value as Json, json};

use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, SegmentType, Selector, Variables};

const FILE_TYPES: [&str; 5] = ["image", "document", "audio", "video", "custom"];
/// Transfer methods that a form accepts; Dify has more for run inputs.
const UPLOAD_METHODS: [&str; 2] = ["local_file", "remote_url"];

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct FormField {
    /// The name of the output with the field's value (`output_variable_name`).
    pub name: String,
    pub kind: FieldKind,
}

/// The kind of value that a field asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// Text (`paragraph`, in older files `text_input`).
    Paragraph {
        /// The initial text.
        default: Option<Source<String>>,
    },
    /// One of several options (`select`).
    Select {
        /// The options.
        options: Source<Vec<String>>,
    },
    /// One file (`file`).
    File(FileRules),
    /// Several files (`file-list`).
    FileList {
        /// The rules for each file.
        rules: FileRules,
        /// Most files; 0 for no limit.
        files_max: u64,
    },
}

/// A value from the file or from a variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Source<T> {
    /// True: the variable is used (`type: variable`). False: the value is used (`type: constant`).
    pub variable: bool,
    /// The variable; at least two parts when it is used.
    pub selector: Selector,
    /// The value in the file.
    pub value: T,
}

/// The files that a field accepts. An empty list allows everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileRules {
    /// Kinds of files; `custom` means any kind with one of the extensions.
    pub types: Vec<String>,
    /// Extensions, with or without a dot, in any case.
    pub extensions: Vec<String>,
    /// Transfer methods.
    pub upload_methods: Vec<String>,
}

impl FormField {
    /// Reads one of a form's `inputs` and reports all its problems.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let fields = Fields::new(data, BUILD_FAILED);
        let name = fields.text("output_variable_name", problems);
        let kind = FieldKind::parse(&fields, problems);
        Some(Self { name: name?.to_owned(), kind: kind? })
    }

    /// The field in Dify's format.
    pub fn to_json(&self) -> Json {
        let (kind, name) = (self.kind.name(), &self.name);
        match &self.kind {
            FieldKind::Paragraph { default } => {
                let default = default.as_ref().map(|source| source.to_json());
                json!({"type": kind, "output_variable_name": name, "default": default})
            }
            FieldKind::Select { options } => {
                json!({"type": kind, "output_variable_name": name, "option_source": options.to_json()})
            }
            FieldKind::File(rules) => rules.to_json(kind, name),
            FieldKind::FileList { rules, files_max } => {
                let mut field = rules.to_json(kind, name);
                field["number_limits"] = (*files_max).into();
                field
            }
        }
    }

    /// The field with its options from the variable; from the file when the variable is missing.
    ///
    /// # Errors
    /// The variable is not a list of texts. An empty list from a node has no element type (`array[any]`) and is refused
    /// too, as on Dify.
    pub fn resolved(&self, variables: &dyn Variables) -> Result<Self, String> {
        let mut field = self.clone();
        if let FieldKind::Select { options } = &mut field.kind
            && options.variable
            && let Some(segment) = variables.found(&options.selector)
        {
            options.value = texts(&segment.value)
                .filter(|_| segment.ty == SegmentType::ArrayString)
                .ok_or_else(|| {
                    let (path, ty) = (options.selector.join("."), segment.ty);
                    format!(
                        "the options of select input '{}' must be array[string], but {path} is {ty}",
                        self.name
                    )
                })?;
        }
        Ok(field)
    }

    /// The initial value from a variable; null when the variable is null. As on Dify a constant default is part of the
    /// field instead.
    pub fn default_of(&self, variables: &dyn Variables) -> Option<Json> {
        match &self.kind {
            FieldKind::Paragraph { default: Some(source) } if source.variable => {
                variables.found(&source.selector).map(|segment| segment.value.clone())
            }
            FieldKind::Paragraph { .. }
            | FieldKind::Select { .. }
            | FieldKind::File(_)
            | FieldKind::FileList { .. } => None,
        }
    }

    /// Adds the variable that the field reads, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        match &self.kind {
            FieldKind::Paragraph { default: Some(source) } if source.variable => {
                mention(&source.selector, into)
            }
            FieldKind::Select { options } if options.variable => mention(&options.selector, into),
            FieldKind::Paragraph { .. }
            | FieldKind::Select { .. }
            | FieldKind::File(_)
            | FieldKind::FileList { .. } => {}
        }
    }
}

impl FieldKind {
    /// Dify's name of the kind.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Paragraph { .. } => "paragraph",
            Self::Select { .. } => "select",
            Self::File(_) => "file",
            Self::FileList { .. } => "file-list",
        }
    }

    /// A field without a kind asks for text: the first forms had no other kind.
    fn parse(fields: &Fields<'_>, problems: &mut Problems) -> Option<Self> {
        const KINDS: [&str; 5] = ["paragraph", "select", "file", "file-list", "text_input"];
        let kind = match fields.given("type") {
            Some(_) => fields.one_of("type", &KINDS, problems)?,
            None => "paragraph",
        };
        match kind {
            "select" => {
                let options = Source::parse(fields, "option_source", "a list of texts", texts, problems)?;
                Some(Self::Select { options })
            }
            "file" => FileRules::parse(fields, problems).map(Self::File),
            "file-list" => {
                let files_max = fields.integer("number_limits", 0, 0, problems);
                let rules = FileRules::parse(fields, problems);
                Some(Self::FileList { rules: rules?, files_max: files_max?.unsigned_abs() })
            }
            _ => {
                // `placeholder` is the older name.
                let Some(key) =
                    ["default", "placeholder"].into_iter().find(|key| fields.given(key).is_some())
                else {
                    return Some(Self::Paragraph { default: None });
                };
                let read = |value: &Json| value.as_str().map(str::to_owned);
                let default = Source::parse(fields, key, "a text", read, problems)?;
                Some(Self::Paragraph { default: Some(default) })
            }
        }
    }
}

impl<T: Default> Source<T> {
    /// Reads a required source.
    fn parse(
        fields: &Fields<'_>,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&Json) -> Option<T>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let Some(data) = fields.given(key).and_then(Json::as_object) else {
            fields.wrong(key, "a mapping", problems);
            return None;
        };
        problems.within(key, |problems| {
            let fields = Fields::new(data, BUILD_FAILED);
            let variable = fields.one_of("type", &["constant", "variable"], problems)? == "variable";
            let selector = match fields.given("selector") {
                Some(_) => fields.selector("selector", problems)?,
                None => Selector::new(),
            };
            let value = match fields.given("value") {
                Some(value) => read(value).or_else(|| {
                    fields.wrong("value", wanted, problems);
                    None
                })?,
                None => T::default(),
            };
            if variable && selector.len() < 2 {
                let selector = Json::from(selector);
                let message = format!("the length of selector should be at least 2, selector={selector}");
                problems.error(BUILD_FAILED, message);
                return None;
            }
            Some(Self { variable, selector, value })
        })
    }
}

impl<T: serde::Serialize> Source<T> {
    fn to_json(&self) -> Json {
        let kind = if self.variable { "variable" } else { "constant" };
        json!({"type": kind, "selector": self.selector, "value": self.value})
    }
}

impl FileRules {
    fn parse(fields: &Fields<'_>, problems: &mut Problems) -> Option<Self> {
        let types = list("allowed_file_types", &FILE_TYPES, fields, problems);
        let extensions = list("allowed_file_extensions", &[], fields, problems);
        let upload_methods = list("allowed_file_upload_methods", &UPLOAD_METHODS, fields, problems);
        let rules = Self { types: types?, extensions: extensions?, upload_methods: upload_methods? };
        if rules.types.iter().any(|kind| kind == "custom") && rules.extensions.is_empty() {
            let message = "allowed_file_extensions must be set when allowed_file_types is custom";
            problems.within("allowed_file_extensions", |problems| problems.error(BUILD_FAILED, message));
            return None;
        }
        Some(rules)
    }

    fn to_json(&self, kind: &str, name: &str) -> Json {
        json!({
            "type": kind,
            "output_variable_name": name,
            "allowed_file_types": self.types,
            "allowed_file_extensions": self.extensions,
            "allowed_file_upload_methods": self.upload_methods,
        })
    }
}

/// An optional list of texts. With `among` only those words are allowed.
fn list(key: &str, among: &[&str], fields: &Fields<'_>, problems: &mut Problems) -> Option<Vec<String>> {
    let Some(value) = fields.given(key) else { return Some(Vec::new()) };
    let known =
        |words: &Vec<String>| among.is_empty() || words.iter().all(|word| among.contains(&word.as_str()));
    let words = texts(value).filter(known);
    if words.is_none() {
        let wanted = match among {
            [] => "a list of texts".to_owned(),
            among => format!("a list of {}", among.join(", ")),
        };
        fields.wrong(key, &wanted, problems);
    }
    words
}

fn texts(value: &Json) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}
