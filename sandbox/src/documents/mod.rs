//! Reads documents. Simple texts are read in the worker. Formats that need a third-party parser (PDF, tables, archives,
//! mails) are read in a separate confined process, one per document, which may crash without harm.

#[cfg(target_os = "linux")]
pub(crate) mod helper;
#[cfg(target_os = "linux")]
mod process;

use std::time::Duration;

use tidemill_common::nodes::code::CodeConfig;
use tidemill_common::nodes::document_extractor::{DocumentsConfig, Format};
use tidemill_documents::{ExtractError, Limits, extract};

use crate::fair::{FairSlots, Owner};
use crate::helper::Host;

/// Reasons why a document was not read. Workflows see the text after the name of the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is invalid or too large.
    #[error("{0}")]
    Document(String),
    /// Reading it took too much memory; the limit is in bytes.
    #[error("reading it takes more than {0} bytes of memory (documents.memory_bytes_max)")]
    Memory(u64),
    /// Reading it took too long; the limit is in milliseconds.
    #[error("reading it takes longer than {0} ms (documents.timeout_ms)")]
    Time(u64),
    /// Its parser crashed.
    #[error("its parser crashed: {0}")]
    Parser(String),
    /// This worker does not read documents of this type.
    #[error("documents of this type are not read here: {0}")]
    Refused(String),
}

impl From<ExtractError> for DocumentError {
    fn from(error: ExtractError) -> Self {
        Self::Document(error.to_string())
    }
}

/// Reads documents, as many at once as the settings allow. Apps share these slots fairly.
#[derive(Debug)]
pub struct DocumentReader {
    slots: FairSlots,
    limits: Limits,
    timeout: Duration,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    apart: Apart,
}

/// The settings of a process for one document.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) struct Apart {
    pub(crate) host: Option<Host>,
    pub(crate) memory_bytes: u64,
    /// User and group to become when started as root.
    pub(crate) user: (u32, u32),
    pub(crate) allow_weaker: bool,
}

impl DocumentReader {
    /// Creates a reader; the settings of code define its confinement. Nothing is started before it is needed.
    pub fn new(config: &DocumentsConfig, code: &CodeConfig, host: Option<Host>) -> Self {
        let at_once = match config.concurrency {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            some => some,
        };
        Self {
            slots: FairSlots::new(at_once),
            // Unpacked bytes become trees and texts, which take several times as much memory.
            limits: Limits { unpacked_bytes: config.memory_bytes_max / 4, text_bytes: config.text_bytes_max },
            timeout: Duration::from_millis(config.timeout_ms),
            apart: Apart {
                host,
                memory_bytes: config.memory_bytes_max,
                user: (code.sandbox_uid, code.sandbox_gid),
                allow_weaker: code.allow_weaker_sandbox,
            },
        }
    }

    /// Returns the reason why this worker reads no documents that need a confined process, if there is one.
    pub fn refusal(&self) -> Option<String> {
        #[cfg(target_os = "linux")]
        return process::refusal(&self.apart);
        #[cfg(not(target_os = "linux"))]
        Some("the sandbox needs Linux".into())
    }

    /// Returns the text of a document. Dropping the future stops the work, except for a simple text.
    ///
    /// # Errors
    /// [`DocumentError`].
    pub async fn read(&self, format: Format, bytes: Vec<u8>) -> Result<String, DocumentError> {
        self.read_for(Owner::default(), format, bytes).await
    }

    /// As [`Self::read`], for a run of an app.
    ///
    /// # Errors
    /// [`DocumentError`].
    pub async fn read_for(
        &self,
        owner: Owner<'_>,
        format: Format,
        bytes: Vec<u8>,
    ) -> Result<String, DocumentError> {
        let _slot = self.slots.acquire(owner).await;
        if !format.is_plain() {
            return self.read_apart(format, &bytes).await;
        }
        let limits = self.limits;
        let read = tokio::task::spawn_blocking(move || extract(format, &bytes, limits)).await;
        Ok(read.map_err(|error| DocumentError::Parser(error.to_string()))??)
    }

    #[cfg(target_os = "linux")]
    async fn read_apart(&self, format: Format, bytes: &[u8]) -> Result<String, DocumentError> {
        process::read(&self.apart, format, bytes, self.limits, self.timeout).await
    }

    #[cfg(not(target_os = "linux"))]
    async fn read_apart(&self, _: Format, _: &[u8]) -> Result<String, DocumentError> {
        let _ = self.timeout;
        Err(DocumentError::Refused("the sandbox needs Linux".into()))
    }
}
