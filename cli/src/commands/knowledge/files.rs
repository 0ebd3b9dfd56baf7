//! Finds local documents and reads their texts. Formats with complex parsers are read in a separate process, as
//! document extractors do it.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use tidemill_common::nodes::code::CodeConfig;
use tidemill_common::nodes::document_extractor::{DocumentsConfig, Format};
use tidemill_sandbox::documents::DocumentReader;
use tidemill_sandbox::helper::Host;

use crate::error::Error;

/// A file to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    /// The name of the document: the path within the folder that was given.
    pub(super) name: String,
    /// The path of the file; `None` means standard input.
    pub(super) path: Option<PathBuf>,
    pub(super) format: Format,
}

/// Finds the documents in files and folders, and the files of a type that cannot be read. Hidden files and folders are
/// ignored.
///
/// # Errors
/// A path cannot be read, a file that was named is of an unknown type, or two documents have the same name.
pub(super) fn find(paths: &[PathBuf], name: Option<&str>) -> Result<(Vec<Document>, Vec<PathBuf>), Error> {
    let (mut found, mut passed_over) = (Vec::new(), Vec::new());
    for path in paths {
        if path.as_os_str() == "-" {
            let name = name.ok_or_else(|| {
                Error::Usage("give the text from standard input a name with --name, such as notes.md".into())
            })?;
            let format = format_of(Path::new(name)).unwrap_or(Format::Text);
            found.push(Document { name: name.into(), path: None, format });
        } else if path.is_dir() {
            below(path, path, &mut found, &mut passed_over)?;
        } else {
            let format = format_of(path).map_err(|why| Error::Usage(format!("{}: {why}", path.display())))?;
            let own = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            found.push(Document { name: name.map_or(own, str::to_owned), path: Some(path.clone()), format });
        }
    }
    let mut names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Error::Usage(format!("several documents have the name {}: add them one by one", pair[0])))
        }
        None => Ok((found, passed_over)),
    }
}

fn below(
    root: &Path,
    folder: &Path,
    found: &mut Vec<Document>,
    passed_over: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Usage(format!("cannot read {}: {error}", folder.display()));
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).map_err(failed)?.collect();
    let mut entries: Vec<PathBuf> = entries.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        match format_of(&path) {
            _ if is_hidden => {}
            _ if path.is_dir() => below(root, &path, found, passed_over)?,
            Ok(format) => {
                let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                found.push(Document { name, path: Some(path), format });
            }
            Err(_) => passed_over.push(path),
        }
    }
    Ok(())
}

fn format_of(path: &Path) -> Result<Format, String> {
    match path.extension() {
        Some(extension) => {
            Format::of_file(&json!({"extension": format!(".{}", extension.to_string_lossy().to_lowercase())}))
        }
        None => Err("its type is unknown, because it has no extension".into()),
    }
}

/// Reads the content of documents.
pub(super) struct Reader {
    reader: DocumentReader,
    bytes_max: u64,
}

impl Reader {
    pub(super) fn new() -> Self {
        let (documents, code) = (DocumentsConfig::default(), CodeConfig::default());
        let reader = DocumentReader::new(&documents, &code, Host::this_program());
        Self { reader, bytes_max: documents.file_bytes_max }
    }

    fn bytes(&self, document: &Document) -> Result<Vec<u8>, Error> {
        let failed = |error: std::io::Error| Error::Failed(format!("cannot read {}: {error}", document.name));
        let mut bytes = Vec::new();
        let limit = self.bytes_max + 1;
        match &document.path {
            Some(path) => read_some(std::fs::File::open(path).map_err(failed)?, limit, &mut bytes),
            None => read_some(std::io::stdin().lock(), limit, &mut bytes),
        }
        .map_err(failed)?;
        if bytes.len() as u64 > self.bytes_max {
            return Err(Error::Failed(format!("{} has more than {} bytes", document.name, self.bytes_max)));
        }
        Ok(bytes)
    }

    /// Returns the content of a document for a request: its text, or with `qa` the questions and answers of a table.
    ///
    /// # Errors
    /// The document cannot be read.
    pub(super) async fn content(
        &self,
        document: &Document,
        is_qa: bool,
    ) -> Result<(&'static str, Json), Error> {
        let bytes = self.bytes(document)?;
        if is_qa {
            return Ok(("segments", questions(&document.name, &bytes)?));
        }
        let text = self.reader.read(document.format, bytes).await;
        let text = text.map_err(|error| {
            Error::Failed(format!("{}: {}", document.name, document.format.failure(error)))
        })?;
        Ok(("text", text.into()))
    }
}

fn read_some(from: impl std::io::Read, limit: u64, into: &mut Vec<u8>) -> std::io::Result<usize> {
    std::io::Read::read_to_end(&mut std::io::Read::take(from, limit), into)
}

/// Reads the rows of a table with the columns `question` and `answer`.
fn questions(name: &str, bytes: &[u8]) -> Result<Json, Error> {
    let failed = |why: String| Error::Usage(format!("{name}: {why}"));
    let mut table = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(bytes);
    let head = table.headers().map_err(|error| failed(error.to_string()))?.clone();
    let column = |wanted: &str| {
        let named = |it: &str| it.trim_start_matches('\u{feff}').eq_ignore_ascii_case(wanted);
        head.iter().position(named).ok_or_else(|| failed(format!("the table has no column {wanted}")))
    };
    let (question, answer) = (column("question")?, column("answer")?);
    let mut segments = Vec::new();
    for row in table.records() {
        let row = row.map_err(|error| failed(error.to_string()))?;
        let text = |at: usize| row.get(at).unwrap_or_default();
        if !text(question).is_empty() {
            segments.push(json!({"content": text(question), "answer": text(answer)}));
        }
    }
    Ok(segments.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(documents: &[Document]) -> Vec<&str> {
        documents.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn a_folder_gives_all_readable_files_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("sub/.git")).expect("makes");
        for file in ["b.md", "a.TXT", "sub/c.csv", "sub/.git/d.md", "photo.jpeg", ".hidden.md"] {
            std::fs::write(folder.path().join(file), "x").expect("writes");
        }
        let (found, passed_over) = find(&[folder.path().into()], None).expect("reads");
        assert_eq!(names(&found), ["a.TXT", "b.md", "sub/c.csv"]);
        assert_eq!(passed_over, [folder.path().join("photo.jpeg")]);
        let wrong = |paths: &[PathBuf]| find(paths, None).expect_err("wrong").to_string();
        assert!(wrong(&["-".into()]).contains("--name"));
        assert!(wrong(&[folder.path().join("photo.jpeg")]).contains("photo.jpeg"));
        assert!(wrong(&[folder.path().join("b.md"), folder.path().join("b.md")]).contains("several"));
        let (found, _) = find(&["-".into()], Some("notes.md")).expect("named");
        assert_eq!((names(&found), &found[0].path), (vec!["notes.md"], &None));
    }

    #[tokio::test]
    async fn tables_are_read_as_questions_and_answers_on_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("faq.csv");
        std::fs::write(&path, "\u{feff}Question,answer,by\n\"How many days?\",30,HR\n,nothing,HR\n")
            .expect("writes");
        let (found, _) = find(std::slice::from_ref(&path), None).expect("reads");
        let reader = Reader::new();
        let (key, segments) = reader.content(&found[0], true).await.expect("reads");
        assert_eq!((key, segments), ("segments", json!([{"content": "How many days?", "answer": "30"}])));
        let (key, text) = reader.content(&found[0], false).await.expect("reads");
        assert!(key == "text" && text.as_str().is_some_and(|text| text.contains("How many days?")));
        std::fs::write(&path, "q,a\n1,2\n").expect("writes");
        let error = reader.content(&found[0], true).await.expect_err("no such column");
        assert!(error.to_string().contains("no column question"), "{error}");
    }
}
