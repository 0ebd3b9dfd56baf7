//! `tidemill calls add --check`: waits until the living workers have checked the Call, and says which can use it. Workers
//! check it, because its program is on their machines.

use std::time::Duration;

use serde_json::Value as Json;
use tokio::time::{Instant, sleep};

use super::catalog::CALL;
use super::common::Common;
use crate::console::Console;
use crate::error::{Error, Exit};

/// Longest wait. Workers look at the catalog every ten seconds, and a check takes at most five.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The checks of a Call by all living workers, as far as they are known.
#[derive(Debug, PartialEq, Eq)]
struct Checks {
    /// A line for each worker.
    lines: Vec<String>,
    /// The number of workers that have not checked it.
    open: usize,
    /// The number of workers that can use it.
    usable: usize,
}

/// Waits for the checks and shows them. Fails if no worker can use the Call.
pub(super) async fn wait(id: &str, common: &Common, console: &mut Console) -> Result<Exit, Error> {
    let (client, until) = (common.client()?, Instant::now() + WAIT_MAX);
    loop {
        let checks = checks(id, &client.entry(CALL.many, id).await?);
        let is_late = Instant::now() >= until;
        if checks.open > 0 && !is_late {
            sleep(LOOK_EVERY).await;
            continue;
        }
        for line in &checks.lines {
            console.note(format_args!("{line}"));
        }
        if checks.lines.is_empty() {
            console.note(format_args!("no worker is running, so the Call {id} was not checked"));
        }
        return Ok(if checks.usable > 0 { Exit::Succeeded } else { Exit::Failed });
    }
}

fn checks(id: &str, entry: &Json) -> Checks {
    let mut checks = Checks { lines: Vec::new(), open: 0, usable: 0 };
    for check in entry["workers"].as_array().into_iter().flatten() {
        let worker = check["worker"].as_str().unwrap_or_default();
        checks.lines.push(match check["usable"].as_bool() {
            Some(true) => {
                checks.usable += 1;
                format!("worker {worker} can use the Call {id}")
            }
            Some(false) => {
                let reason = check["reason"].as_str().unwrap_or_default();
                format!("warning: worker {worker} cannot use the Call {id}: {reason}")
            }
            None => {
                checks.open += 1;
                format!("warning: worker {worker} has not checked the Call {id} yet")
            }
        });
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_worker_has_a_line_and_only_a_usable_call_counts() {
        let entry = json!({"workers": [
            {"worker": "a", "usable": true, "reason": null},
            {"worker": "b", "usable": false, "reason": "the program x is not on this machine"},
            {"worker": "c", "usable": null, "reason": null},
        ]});
        let lines = [
            "worker a can use the Call greet",
            "warning: worker b cannot use the Call greet: the program x is not on this machine",
            "warning: worker c has not checked the Call greet yet",
        ];
        let expected = Checks { lines: lines.map(String::from).into(), open: 1, usable: 1 };
        assert_eq!(checks("greet", &entry), expected);
        assert_eq!(checks("greet", &json!({})), Checks { lines: Vec::new(), open: 0, usable: 0 });
    }
}
