//! A Call as a program. It is started for each operation, reads the operation from standard input, answers on standard
//! output and exits with 0. Its standard error goes to the log.
//!
//! The program is not sandboxed: it runs with the worker's rights. So a worker starts only programs named in its own
//! settings.

use std::collections::BTreeMap;
use std::process::Stdio;

use tidemill_common::need::Need;
use tidemill_common::nodes::step::CallError;
use tidemill_common::registry::Secret;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::outside::calls::catalog::VALUE_ERROR;
use crate::outside::calls::custom::{OperationRequest, Take};

/// Variables of the worker's environment that most programs need.
const PASSED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// Bytes per read.
const READ_BYTES: usize = 16 * 1024;
/// Most logged bytes of a program's standard error.
const LOG_BYTES_MAX: usize = 4096;

pub(super) async fn ask(
    request: OperationRequest<'_>,
    command: &[String],
    (env, env_from): (&BTreeMap<String, Secret>, &BTreeMap<String, String>),
    take: Take<'_>,
) -> Result<(), CallError> {
    let OperationRequest { id, body, calls, key, hide, secrets } = request;
    let Some((program, arguments)) = command.split_first() else {
        return Err(CallError::of(VALUE_ERROR, format!("the Call {id} names no program")));
    };
    if !calls.config.programs.contains(program) {
        let message = format!(
            "the Call {id} is the program {program}, which this worker does not start: add it to calls.programs of its \
             settings"
        );
        return Err(CallError::of(VALUE_ERROR, message).lacking(Need::Call { id: id.into() }));
    }
    let mut started = Command::new(program);
    started.args(arguments).env_clear().kill_on_drop(true);
    started.envs(PASSED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    started.envs(env.iter().map(|(name, value)| (name, &value.0)));
    for (name, variable) in env_from {
        started.env(name, calls.variable(variable, &format!("the Call {id}"))?);
    }
    started.env("IDEMPOTENCY_KEY", key);
    started.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |reason: String| CallError::new(format!("the program of the Call {id} {reason}"));
    let mut child = started.spawn().map_err(|error| failed(format!("does not start: {error}")))?;
    let (Some(mut stdin), Some(mut stdout), Some(mut stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed("has no standard streams".into()));
    };
    let line = format!("{body}\n");
    let writing = async {
        // A program may ignore its input; its exit code decides.
        let _ = stdin.write_all(line.as_bytes()).await;
        drop(stdin);
        Ok(())
    };
    let most = calls.config.answer_bytes_max;
    let reading = async {
        let (mut buffer, mut bytes) = (vec![0; READ_BYTES], 0);
        loop {
            let count =
                stdout.read(&mut buffer).await.map_err(|error| failed(format!("cannot be read: {error}")))?;
            if count == 0 {
                return Ok(());
            }
            bytes += count as u64;
            if bytes > most {
                let message =
                    format!("the Call {id} answers with more than {most} bytes (calls.answer_bytes_max)");
                return Err(CallError::of("CallLimitExceeded", message));
            }
            take(&buffer[..count])?;
        }
    };
    // Do not wait after an invalid answer: dropping the program kills it.
    let ((), (), said) = tokio::try_join!(reading, writing, besides(&mut stderr))?;
    if !said.is_empty() {
        let said = secrets.masked(hide.text(&String::from_utf8_lossy(&said)));
        tracing::info!(call = %id, said, "a program of a Call wrote to standard error");
    }
    let ended = child.wait().await.map_err(|error| failed(format!("is lost: {error}")))?;
    if ended.success() {
        return Ok(());
    }
    Err(failed(format!("ended with {ended}; its standard error is in the worker's log")))
}

/// Returns the start of a program's standard error. All of it is read, so that the program is not blocked.
async fn besides(stderr: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, CallError> {
    let (mut buffer, mut kept) = (vec![0; READ_BYTES], Vec::new());
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let room = LOG_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
    Ok(kept)
}
