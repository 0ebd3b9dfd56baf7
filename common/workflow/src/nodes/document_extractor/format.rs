//! The document format of a file. The extension decides, exactly as written; without one the MIME type does. The
//! extension `.bin` stands for an unknown one.

use serde_json::Value as Json;
use tidemill_base::value::file_name::UNKNOWN_EXTENSION;

/// A document format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Plain text; also HTML, XML, Markdown and source code.
    Text,
    /// JSON, formatted again.
    Json,
    /// YAML, formatted again.
    Yaml,
    Pdf,
    /// Word before 2007.
    Doc,
    Docx,
    /// CSV.
    Csv,
    /// Excel, before and after 2007.
    Excel,
    /// PowerPoint before 2007.
    Ppt,
    Pptx,
    /// An e-book.
    Epub,
    /// OpenDocument text.
    Odt,
    /// An e-mail.
    Eml,
    /// An e-mail of Outlook.
    Msg,
    /// WebVTT subtitles.
    Vtt,
    /// A Java properties file.
    Properties,
}

/// A row of the table of formats.
struct Row {
    format: Format,
    name: &'static str,
    /// With the dot.
    extensions: &'static [&'static str],
    mime_types: &'static [&'static str],
    /// The text before the reason of a failure.
    failure: &'static str,
}

const TEXT_EXTENSIONS: &[&str] = &[
    ".txt",
    ".markdown",
    ".md",
    ".mdx",
    ".html",
    ".htm",
    ".xml",
    ".c",
    ".h",
    ".cpp",
    ".hpp",
    ".cc",
    ".cxx",
    ".c++",
    ".py",
    ".js",
    ".ts",
    ".jsx",
    ".tsx",
    ".java",
    ".php",
    ".rb",
    ".go",
    ".rs",
    ".swift",
    ".kt",
    ".scala",
    ".sh",
    ".bash",
    ".bat",
    ".ps1",
    ".sql",
    ".r",
    ".m",
    ".pl",
    ".lua",
    ".vim",
    ".asm",
    ".s",
    ".css",
    ".scss",
    ".less",
    ".sass",
    ".ini",
    ".cfg",
    ".conf",
    ".toml",
    ".env",
    ".log",
    // As on Dify the subtitle parser is only for files without an extension.
    ".vtt",
];

macro_rules! rows {
    ($($format:ident $name:literal $extensions:expr, $mime_types:expr, $failure:literal;)*) => {
        const ROWS: &[Row] = &[$(Row {
            format: Format::$format, name: $name, extensions: $extensions, mime_types: $mime_types,
            failure: $failure,
        },)*];
    };
}

rows! {
    Text "text" TEXT_EXTENSIONS, &["text/plain", "text/html", "text/htm", "text/markdown", "text/xml"],
        "Failed to decode plain text file";
    Json "json" &[".json"], &["application/json"], "Failed to decode or parse JSON file";
    Yaml "yaml" &[".yaml", ".yml"], &["application/x-yaml", "text/yaml"], "Failed to decode or parse YAML file";
    Pdf "pdf" &[".pdf"], &["application/pdf"], "Failed to extract text from PDF";
    Doc "doc" &[".doc"], &["application/msword"], "Failed to extract text from DOC";
    Docx "docx" &[".docx"], &["application/vnd.openxmlformats-officedocument.wordprocessingml.document"],
        "Failed to extract text from DOCX";
    Csv "csv" &[".csv"], &["text/csv"], "Failed to extract text from CSV";
    Excel "excel" &[".xls", ".xlsx"],
        &["application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "application/vnd.ms-excel"],
        "Failed to extract text from Excel file";
    Ppt "ppt" &[".ppt"], &["application/vnd.ms-powerpoint"], "Failed to extract text from PPT";
    Pptx "pptx" &[".pptx"], &["application/vnd.openxmlformats-officedocument.presentationml.presentation"],
        "Failed to extract text from PPTX";
    Epub "epub" &[".epub"], &["application/epub+zip"], "Failed to extract text from EPUB";
    Odt "odt" &[".odt"], &["application/vnd.oasis.opendocument.text"], "Failed to extract text from ODT";
    Eml "eml" &[".eml"], &["message/rfc822"], "Failed to extract text from EML";
    Msg "msg" &[".msg"], &["application/vnd.ms-outlook"], "Failed to extract text from MSG";
    Vtt "vtt" &[], &["text/vtt"], "Failed to extract text from VTT";
    Properties "properties" &[".properties"], &["text/properties"], "Failed to extract text from properties file";
}

impl Format {
    /// The format of a file object.
    ///
    /// # Errors
    /// Dify's message for an unknown format.
    pub fn of_file(file: &Json) -> Result<Self, String> {
        let text = |key: &str| file.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let by = |fits: &dyn Fn(&Row) -> bool| ROWS.iter().find(|row| fits(row)).map(|row| row.format);
        let of_extension = |extension| by(&|row| row.extensions.contains(&extension));
        let of_type = |mime_type| by(&|row| row.mime_types.contains(&mime_type));
        match (text("extension"), text("mime_type")) {
            (Some(extension), mime_type) => {
                let unknown = mime_type.filter(|_| extension == UNKNOWN_EXTENSION);
                of_extension(extension)
                    .or_else(|| unknown.and_then(of_type))
                    .ok_or_else(|| format!("Unsupported Extension Type: {extension}"))
            }
            (None, Some(mime_type)) => {
                of_type(mime_type).ok_or_else(|| format!("Unsupported MIME type: {mime_type}"))
            }
            (None, None) => {
                Err("Unable to determine file type: MIME type or file extension is missing".into())
            }
        }
    }

    /// The format's name.
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// Finds a format by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.name == name).map(|row| row.format)
    }
    /// The failure message of a node for this reason.
    pub fn failure(self, reason: impl std::fmt::Display) -> String {
        format!("{}: {reason}", self.row().failure)
    }
    /// One of the format's extensions; empty when it has none.
    pub fn extension(self) -> &'static str {
        self.row().extensions.first().copied().unwrap_or_default()
    }

    /// True when reading is simple work on text, linear in its size. Other formats are read in a separate process.
    pub const fn is_plain(self) -> bool {
        match self {
            Self::Text | Self::Json | Self::Yaml | Self::Csv | Self::Vtt | Self::Properties => true,
            Self::Pdf
            | Self::Doc
            | Self::Docx
            | Self::Excel
            | Self::Ppt
            | Self::Pptx
            | Self::Epub
            | Self::Odt
            | Self::Eml
            | Self::Msg => false,
        }
    }

    fn row(self) -> &'static Row {
        // The table has the same order as the enum; a test checks that.
        &ROWS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_lists_every_format_in_order_and_each_key_once() {
        let mut keys = std::collections::HashSet::new();
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.format as usize, at);
            assert_eq!(Format::from_name(row.name), Some(row.format));
            assert!(row.extensions.iter().chain(row.mime_types).all(|key| keys.insert(*key)), "{}", row.name);
        }
    }

    #[test]
    fn the_extension_decides_and_only_without_one_the_mime_type() {
        for (extension, mime_type, expected) in [
            (json!(".pdf"), json!("text/plain"), Ok(Format::Pdf)),
            (json!(".PDF"), json!("application/pdf"), Err("Unsupported Extension Type: .PDF")),
            (json!(".vtt"), json!("text/vtt"), Ok(Format::Text)),
            (json!(null), json!("text/vtt"), Ok(Format::Vtt)),
            (json!(""), json!("message/rfc822"), Ok(Format::Eml)),
            (json!(null), json!("image/png"), Err("Unsupported MIME type: image/png")),
            (
                json!(null),
                json!(null),
                Err("Unable to determine file type: MIME type or file extension is missing"),
            ),
        ] {
            let file = json!({"extension": extension, "mime_type": mime_type});
            assert_eq!(Format::of_file(&file), expected.map_err(String::from), "{file}");
        }
    }
}
