//! The JavaScript helper: confines itself, then runs programs one after the other. It keeps nothing of an ended
//! program, and can reach only its two pipes.

use std::io::{Read, Write};
use std::time::Duration;

use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::engine::{Ended, Limits, execute};
use crate::confine::{self, Confinement, filter};

/// Address space besides the engine's, in bytes: the host program, and reserves of its allocator.
const OWN_BYTES: u64 = 2 << 30;

/// The settings of a JavaScript helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) confinement: Confinement,
    pub(crate) timeout_ms: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) output_bytes: u64,
}

/// Serves until its input ends.
pub(crate) fn serve(settings: &str) -> Result<(), String> {
    let settings: Settings = serde_json::from_str(settings).map_err(|error| format!("settings: {error}"))?;
    let filter = filter::computing().map_err(|error| format!("the filter of system calls: {error}"))?;
    let whole = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let limits = Limits {
        time: Duration::from_millis(settings.timeout_ms),
        memory_bytes: whole(settings.memory_bytes),
        output_bytes: whole(settings.output_bytes),
    };
    confine::enter(&settings.confinement)?;
    // A busy engine does not notice when its worker dies.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("prctl: {error}"))?;
    nix::sys::prctl::set_dumpable(false).map_err(|error| format!("prctl: {error}"))?;
    confine::limit(Resource::RLIMIT_AS, settings.memory_bytes.saturating_add(OWN_BYTES))?;
    confine::limit(Resource::RLIMIT_FSIZE, 0)?;
    confine::limit(Resource::RLIMIT_NPROC, 0)?;
    seccompiler::apply_filter(&filter)
        .map_err(|error| format!("the kernel rejects the filter of system calls: {error}"))?;
    let (mut requests, mut answers) = (std::io::stdin().lock(), std::io::stdout().lock());
    while let Some((code, inputs)) = request(&mut requests)? {
        let ended = execute(&code, &inputs, limits);
        answer(&mut answers, ended).map_err(|error| format!("cannot answer: {error}"))?;
    }
    Ok(())
}

/// Reads the next program; `None` at the end of the input.
fn request(from: &mut impl Read) -> Result<Option<(String, String)>, String> {
    let failed = |error: std::io::Error| format!("cannot read a program: {error}");
    let mut lengths = [0; 8];
    match from.read_exact(&mut lengths) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read.map_err(failed)?,
    }
    let mut text = |at: usize| {
        let length = u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]);
        let mut bytes = vec![0; length as usize];
        from.read_exact(&mut bytes).map_err(failed)?;
        String::from_utf8(bytes).map_err(|error| format!("a program that is not text: {error}"))
    };
    Ok(Some((text(0)?, text(4)?)))
}

/// Writes the lengths of verdict, output and error output, then all three.
fn answer(to: &mut impl Write, ended: Ended) -> std::io::Result<()> {
    let verdict = serde_json::to_string(&ended.verdict)?;
    let parts = [verdict, ended.stdout, ended.stderr];
    for part in &parts {
        to.write_all(&u32::try_from(part.len()).map_err(std::io::Error::other)?.to_le_bytes())?;
    }
    for part in &parts {
        to.write_all(part.as_bytes())?;
    }
    to.flush()
}
