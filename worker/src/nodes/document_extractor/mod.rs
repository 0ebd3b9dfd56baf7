//! The `document-extractor` node. It fetches files, and `tidemill-sandbox` reads them. An Unstructured service
//! ([`unstructured`]), if configured, reads some formats instead.

mod fetch;
mod unstructured;

use serde_json::Value as Json;
use tidemill_common::config::Config;
use tidemill_common::failure::NodeFailure;
use tidemill_common::files::Files;
use tidemill_common::need::Need;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::document_extractor::{DocumentExtractorData, Format, output};
use tidemill_common::value::Variables;
use tidemill_common::value::file_name::UNKNOWN_EXTENSION;
use tidemill_sandbox::Owner;
use tidemill_sandbox::documents::{DocumentError, DocumentReader};
use tidemill_sandbox::helper::Host;

use crate::outside::http::Http;
use unstructured::Unstructured;

/// The document readers of a worker.
pub struct DocumentNodes {
    reader: DocumentReader,
    service: Option<Unstructured>,
    file_bytes_max: u64,
}

/// The means of an attempt.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub http: &'a Http,
    pub files: &'a dyn Files,
    /// The app and the run that read the documents.
    pub owner: Owner<'a>,
}

impl DocumentNodes {
    /// Creates the readers from the settings. Nothing is started before it is needed.
    pub fn new(config: &Config) -> Self {
        Self::hosted(config, Host::named(&config.code.helper))
    }

    fn hosted(config: &Config, host: Option<Host>) -> Self {
        let documents = &config.documents;
        Self {
            reader: DocumentReader::new(documents, &config.code, host),
            service: (!documents.unstructured_url.is_empty()).then(|| Unstructured::new(documents)),
            file_bytes_max: documents.file_bytes_max,
        }
    }

    /// Runs the node. A single unreadable file fails it. Dropping the future stops the work.
    pub async fn run(
        &self,
        data: &DocumentExtractorData,
        variables: &(dyn Variables + Send + Sync),
        means: Means<'_>,
    ) -> NodeResult {
        let (documents, record) = match data.documents(variables) {
            Ok(found) => found,
            Err(result) => return *result,
        };
        let mut texts = Vec::with_capacity(documents.files.len());
        for file in &documents.files {
            match self.text_of(file, means).await {
                Ok(text) => texts.push(text),
                // Dify gives these failures no error type.
                Err(Unread { message, lacks }) => {
                    let failure = NodeFailure { lacks, ..NodeFailure::new("", message) };
                    return NodeResult { failure: Some(failure), ..record };
                }
            }
        }
        NodeResult { outputs: vec![output(texts, documents.single)], ..record }
    }

    /// Returns the reason why documents that need a sandbox are not read here, if there is one.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.reader.refusal()
    }

    async fn text_of(&self, file: &Json, means: Means<'_>) -> Result<String, Unread> {
        let Means { http, files, owner } = means;
        // Check the format before fetching the file. The server may know it where the file object does not.
        let known = Format::of_file(file);
        let text = |key: &str| file.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let is_unknown = text("extension").is_none_or(|extension| extension == UNKNOWN_EXTENSION);
        let may_be_said = is_unknown && text("transfer_method") == Some("remote_url");
        if let Err(unknown) = &known
            && !may_be_said
        {
            return Err(unknown.clone().into());
        }
        if let Ok(format) = known {
            self.service_for(format)?;
        }
        let fetched = fetch::fetch(file, self.file_bytes_max, http, files).await?;
        let said = fetched.said.as_ref().and_then(|said| Format::of_file(said).ok());
        let format = known.or_else(|unknown| said.ok_or(unknown))?;
        let (service, bytes) = (self.service_for(format)?, fetched.bytes);
        let (reason, lacks) = match service {
            Some(service) => match service.read(format, file, bytes).await {
                Ok(text) => return Ok(text),
                Err(reason) => (reason, None),
            },
            None => match self.reader.read_for(owner, format, bytes).await {
                Ok(text) => return Ok(text),
                Err(error @ DocumentError::Refused(_)) => (error.to_string(), Some(Need::Documents.into())),
                Err(error) => (error.to_string(), None),
            },
        };
        Err(Unread { message: format.failure(reason), lacks })
    }

    /// The service that reads this format, or `None` if the worker reads it.
    fn service_for(&self, format: Format) -> Result<Option<&Unstructured>, String> {
        let service = self.service.as_ref().filter(|_| is_for_service(format));
        if format == Format::Doc && service.is_none() {
            return Err("Unstructured API URL is not configured for DOC file processing.".into());
        }
        Ok(service)
    }
}

/// A document that could not be read.
struct Unread {
    message: String,
    lacks: Option<Box<Need>>,
}

impl From<String> for Unread {
    fn from(message: String) -> Self {
        Self { message, lacks: None }
    }
}

/// Returns true if the service, when configured, reads this format: as in Dify, and Outlook mails, which the worker
/// cannot read.
const fn is_for_service(format: Format) -> bool {
    match format {
        Format::Doc | Format::Ppt | Format::Pptx | Format::Epub | Format::Odt | Format::Msg => true,
        Format::Text
        | Format::Json
        | Format::Yaml
        | Format::Pdf
        | Format::Docx
        | Format::Csv
        | Format::Excel
        | Format::Eml
        | Format::Vtt
        | Format::Properties => false,
    }
}

#[cfg(test)]
mod tests;
