//! The helper that reads one document: it confines itself, reads the document from its input, and writes one status
//! byte with the text or the error to its output.

use std::io::{Read, Write};
use std::panic::catch_unwind;

use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tidemill_common::nodes::document_extractor::Format;
use tidemill_documents::{Limits, extract};

use crate::confine::{self, Confinement, filter};

/// The text follows.
pub(super) const READ: u8 = b'+';
/// The document's error follows.
pub(super) const WRONG: u8 = b'-';
/// The parser panicked; its message is in the error output.
pub(super) const PANICKED: u8 = b'!';

/// The settings of a document helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) confinement: Confinement,
    pub(crate) format: String,
    pub(crate) memory_bytes: u64,
    pub(crate) unpacked_bytes: u64,
    pub(crate) text_bytes: u64,
    /// Most processor time, in seconds.
    pub(crate) seconds: u64,
}

/// Reads the document.
pub(crate) fn serve(settings: &str) -> Result<(), String> {
    let settings: Settings = serde_json::from_str(settings).map_err(|error| format!("settings: {error}"))?;
    let format = Format::from_name(&settings.format)
        .ok_or_else(|| format!("there is no document of type {:?}", settings.format))?;
    let limits = Limits { unpacked_bytes: settings.unpacked_bytes, text_bytes: settings.text_bytes };
    let filter = filter::computing().map_err(|error| format!("the filter of system calls: {error}"))?;
    let own_bytes = data_bytes()?;
    confine::enter(&settings.confinement)?;
    // A busy parser does not notice when its worker dies.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("prctl: {error}"))?;
    nix::sys::prctl::set_dumpable(false).map_err(|error| format!("prctl: {error}"))?;
    // This limits writable memory; reserved address space does not count.
    confine::limit(Resource::RLIMIT_DATA, own_bytes.saturating_add(settings.memory_bytes))?;
    confine::limit(Resource::RLIMIT_CPU, settings.seconds)?;
    confine::limit(Resource::RLIMIT_FSIZE, 0)?;
    confine::limit(Resource::RLIMIT_NPROC, 0)?;
    seccompiler::apply_filter(&filter)
        .map_err(|error| format!("the kernel rejects the filter of system calls: {error}"))?;
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| format!("cannot read: {error}"))?;
    let (word, text) = match catch_unwind(|| extract(format, &bytes, limits)) {
        Ok(Ok(text)) => (READ, text),
        Ok(Err(error)) => (WRONG, error.to_string()),
        Err(_) => (PANICKED, String::new()),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(&[word])
        .and_then(|()| out.write_all(text.as_bytes()))
        .and_then(|()| out.flush())
        .map_err(|error| format!("cannot answer: {error}"))
}

/// The bytes this process already uses of the limited memory.
fn data_bytes() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| format!("/proc/self/status: {error}"))?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmData:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok())
        .ok_or("/proc/self/status says nothing of VmData")?;
    Ok(kibibytes * 1024)
}
