//! The messages between the worker and its helpers. A program: the lengths of its code and inputs (four bytes each,
//! little-endian), then both. A verdict: one line of JSON from the process that supervised the execution.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CodeError, Program};

/// Most bytes of error output that are kept.
pub(crate) const COMPLAINT_BYTES_MAX: usize = 64 * 1024;

/// The end of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// It exited.
    Exit { code: i32 },
    /// It was killed by a signal that the sandbox did not send.
    Signal { name: String },
    /// It exceeded its time limit.
    Timeout,
    /// It exceeded its processor time.
    Processor,
    /// It wrote more than allowed.
    Scratch,
    /// It printed more than allowed.
    Output,
    /// Its helper ended, and it may not run again, because it had called servers.
    #[serde(skip)]
    Lost,
}

/// The limits that verdicts mention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) timeout: Duration,
    pub(crate) scratch_bytes: u64,
    pub(crate) output_bytes: u64,
}

/// Encodes a program for a helper.
pub(crate) fn program(program: Program<'_>) -> Result<Vec<u8>, CodeError> {
    let length = |text: &str| {
        u32::try_from(text.len())
            .map_err(|_| CodeError("the code or its inputs are larger than 4 GiB".into()))
    };
    let mut bytes = Vec::with_capacity(8 + program.code.len() + program.inputs.len());
    bytes.extend(length(program.code)?.to_le_bytes());
    bytes.extend(length(program.inputs)?.to_le_bytes());
    bytes.extend(program.code.as_bytes());
    bytes.extend(program.inputs.as_bytes());
    Ok(bytes)
}

/// Returns the printed output, or the node's error in dify-sandbox's form: exit code, reason, error output.
pub(crate) fn outcome(
    verdict: &Verdict,
    stdout: String,
    stderr: &str,
    bounds: Bounds,
) -> Result<String, CodeError> {
    let Bounds { timeout, scratch_bytes, output_bytes } = bounds;
    let (code, reason) = match verdict {
        Verdict::Exit { code: 0 } => return Ok(stdout),
        Verdict::Exit { code } => (*code, String::new()),
        Verdict::Signal { name } if name == "SIGKILL" => {
            (-1, "error: killed by the system, perhaps for want of memory\n".into())
        }
        Verdict::Signal { name } => (-1, format!("error: ended by signal {name}\n")),
        Verdict::Lost => {
            (-1, "error: the sandbox ended; the code had called servers, so it is not run again\n".into())
        }
        Verdict::Timeout => (
            -1,
            format!(
                "error: timeout: the code did not end within {} ms (code.timeout_ms)\n",
                timeout.as_millis()
            ),
        ),
        Verdict::Processor => (
            -1,
            format!(
                "error: timeout: the code used more processor time than {} ms (code.timeout_ms)\n",
                timeout.as_millis()
            ),
        ),
        Verdict::Scratch => {
            (-1, format!("error: the code wrote more than {scratch_bytes} bytes (code.scratch_bytes_max)\n"))
        }
        Verdict::Output => {
            (-1, format!("error: the code printed more than {output_bytes} bytes (code.output_bytes_max)\n"))
        }
    };
    Err(CodeError(format!("process exited with code {code}\n{reason}{stderr}").trim_end().to_owned()))
}
