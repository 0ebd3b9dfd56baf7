//! The rules of a form's field for its files: types, extensions and ways to give them. They are Dify's.

use super::InputField;

/// The rules of a place that takes files. An empty list allows all.
#[derive(Debug, Clone, Copy)]
pub struct FileRules<'a> {
    /// The place, for words about it.
    pub name: &'a str,
    /// Kinds of files.
    pub types: &'a [String],
    /// Extensions of files of the type `custom`.
    pub extensions: &'a [String],
    /// Ways to give a file.
    pub methods: &'a [String],
    /// Whether images keep to `methods` as well. On Dify they do in messages, and not in fields of a form.
    pub methods_count_for_images: bool,
}

impl InputField {
    /// The rules for the field's files.
    pub fn rules(&self) -> FileRules<'_> {
        FileRules {
            name: &self.variable,
            types: &self.allowed_file_types,
            extensions: &self.allowed_file_extensions,
            methods: &self.allowed_file_upload_methods,
            methods_count_for_images: false,
        }
    }
}

impl FileRules<'_> {
    /// The rule that a file breaks, in words; `None` if the file is allowed. `kind` is the file's type in the form
    /// (`image`, …, `custom`), `method` its transfer method.
    pub fn refusal(&self, kind: &str, extension: &str, method: &str) -> Option<String> {
        let name = self.name;
        let is_among =
            |list: &[String], value: &str| list.is_empty() || list.iter().any(|item| item == value);
        // Other kinds with an extension that the form names are custom.
        if kind != "custom" && !is_among(self.types, kind) {
            let types = self.types.join(", ");
            return Some(format!("{name} takes {types}, not {kind} (allowed_file_types)"));
        }
        let plain = |extension: &str| extension.trim_start_matches('.').to_lowercase();
        let extensions: Vec<String> = self.extensions.iter().map(|known| plain(known)).collect();
        if kind == "custom" && !is_among(&extensions, &plain(extension)) {
            let (known, given) = (extensions.join(", "), plain(extension));
            return Some(format!(
                "{name} takes the extensions {known}, not {given} (allowed_file_extensions)"
            ));
        }
        let counts = kind != "image" || self.methods_count_for_images;
        if counts && !is_among(self.methods, method) {
            let methods = self.methods.join(", ");
            return Some(format!(
                "{name} takes files by {methods}, not by {method} (allowed_file_upload_methods)"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dsl::Problems;

    #[test]
    fn a_file_that_a_field_does_not_take_breaks_a_named_rule() {
        let types = "allowed_file_types";
        let extensions = "allowed_file_extensions";
        let methods = "allowed_file_upload_methods";
        for (field, file, rule) in [
            (json!({}), ("image", ".png", "remote_url"), None),
            (json!({types: ["image", "audio"]}), ("image", ".png", "remote_url"), None),
            (
                json!({types: ["image", "audio"]}),
                ("document", ".pdf", "remote_url"),
                Some("f takes image, audio, not document (allowed_file_types)"),
            ),
            (json!({types: ["image"]}), ("custom", ".x", "remote_url"), None),
            (json!({extensions: [".PDF", "txt"]}), ("custom", ".pdf", "remote_url"), None),
            (
                json!({extensions: [".PDF", "txt"]}),
                ("custom", ".exe", "remote_url"),
                Some("f takes the extensions pdf, txt, not exe (allowed_file_extensions)"),
            ),
            (json!({extensions: [".pdf"]}), ("document", ".txt", "remote_url"), None),
            (json!({methods: ["local_file"]}), ("document", ".txt", "local_file"), None),
            (
                json!({methods: ["local_file"]}),
                ("document", ".txt", "remote_url"),
                Some("f takes files by local_file, not by remote_url (allowed_file_upload_methods)"),
            ),
            (json!({methods: ["local_file"]}), ("image", ".png", "remote_url"), None),
        ] {
            let mut data = json!({"variable": "f", "label": "F", "type": "file"});
            data.as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
            let mut problems = Problems::new();
            let parsed = InputField::parse(data.as_object().unwrap(), &mut problems).unwrap();
            let in_a_message = FileRules { methods_count_for_images: true, ..parsed.rules() };
            let is_image_by_method = file == ("image", ".png", "remote_url") && field.get(methods).is_some();
            let refused = in_a_message.refusal(file.0, file.1, file.2).is_some();
            assert_eq!(refused, rule.is_some() || is_image_by_method, "{field} {file:?}");
            assert_eq!(parsed.rules().refusal(file.0, file.1, file.2).as_deref(), rule, "{field} {file:?}");
        }
    }
}
