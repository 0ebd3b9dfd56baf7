//! The `document-extractor` node: files are fetched here and read by `tidemill-sandbox`, or by an Unstructured service
//! ([`unstructured`]) if there is one and nothing here reads them as well.

mod fetch;
mod unstructured;

use serde_json::Value as Json;
use tidemill_common::config::Config;
use tidemill_common::failure::NodeFailure;
use tidemill_common::files::Files;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::document_extractor::{DocumentExtractorData, Format, output};
use tidemill_common::value::Variables;
use tidemill_sandbox::documents::DocumentReader;
use tidemill_sandbox::helper::Host;

use crate::http::Http;
use unstructured::Unstructured;

/// What document extractors need of a worker.
pub struct DocumentNodes {
    reader: DocumentReader,
    service: Option<Unstructured>,
    file_bytes_max: u64,
}

impl DocumentNodes {
    /// By the settings. Nothing is started before it is needed.
    pub fn new(config: &Config) -> Self {
        Self::hosted(config, Host::this_program())
    }

    fn hosted(config: &Config, host: Option<Host>) -> Self {
        let documents = &config.documents;
        Self {
            reader: DocumentReader::new(documents, &config.code, host),
            service: (!documents.unstructured_url.is_empty()).then(|| Unstructured::new(documents)),
            file_bytes_max: documents.file_bytes_max,
        }
    }

    /// Runs the node; one file that cannot be read fails it. Dropping the future ends the work.
    pub async fn run(
        &self,
        data: &DocumentExtractorData,
        variables: &(dyn Variables + Send + Sync),
        http: &Http,
        files: &dyn Files,
    ) -> NodeResult {
        let (documents, record) = match data.documents(variables) {
            Ok(found) => found,
            Err(result) => return *result,
        };
        let mut texts = Vec::with_capacity(documents.files.len());
        for file in &documents.files {
            match self.text_of(file, http, files).await {
                Ok(text) => texts.push(text),
                // Dify gives these failures no class.
                Err(message) => return NodeResult { failure: Some(NodeFailure::new("", message)), ..record },
            }
        }
        NodeResult { outputs: vec![output(texts, documents.single)], ..record }
    }

    async fn text_of(&self, file: &Json, http: &Http, files: &dyn Files) -> Result<String, String> {
        // Before the file is fetched: what nobody reads is not worth the way.
        let format = Format::of_file(file)?;
        let service = self.service.as_ref().filter(|_| is_for_service(format));
        if format == Format::Doc && service.is_none() {
            return Err("Unstructured API URL is not configured for DOC file processing.".into());
        }
        let bytes = fetch::fetch(file, self.file_bytes_max, http, files).await?;
        let read = match service {
            Some(service) => service.read(format, file, bytes).await,
            None => self.reader.read(format, bytes).await.map_err(|error| error.to_string()),
        };
        read.map_err(|reason| format.failure(reason))
    }
}

/// Whether the service, if there is one, reads it: as on Dify, and mails of Outlook, which nothing here reads.
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
