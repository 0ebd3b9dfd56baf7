//! code: the time of a trivial function in the worker's sandbox, and how many run per second on two processors. It
//! uses neither Redis nor the engine, so it is the extra cost of a code node compared with other nodes.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use tidemill_common::config::CodeConfig;
use tidemill_common::nodes::code::{CodeLanguage, result};
use tidemill_sandbox::helper::Host;
use tidemill_sandbox::{BuiltIn, CodeRunner, Owner, Program};

use super::Workload;
use crate::error::Error;
use crate::lab::Lab;
use crate::report::Row;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "code",
    about: "a trivial function in the sandbox, Python and JavaScript",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

/// Number of functions at once; the targets are set for this number.
const AT_ONCE: usize = 2;
const EXECUTIONS: usize = 1_000;
const EXECUTIONS_QUICK: usize = 100;
/// After so many calls all helpers have been started.
const WARM_UP: usize = 8;
const INPUTS: &str = r#"{"a": 1, "b": 2}"#;

/// A language, the names of its rows, and a function that adds.
const LANGUAGES: [(CodeLanguage, [&str; 2], &str); 2] = [
    (CodeLanguage::Python, ["code/python", "code/python/s"], "def main(a, b): return {'r': a + b}"),
    (CodeLanguage::JavaScript, ["code/js", "code/js/s"], "const main = ({a, b}) => ({r: a + b})"),
];

async fn measure(lab: &Lab) -> Result<(), Error> {
    let config = CodeConfig { concurrency: AT_ONCE, ..CodeConfig::default() };
    let sandbox = BuiltIn::new(&config, Some(Host::at(&lab.programs.worker)));
    let executions = if lab.is_quick { EXECUTIONS_QUICK } else { EXECUTIONS };
    for (language, [one, many], code) in LANGUAGES {
        lane(&sandbox, language, code, WARM_UP).await?;
        let mut times = lane(&sandbox, language, code, executions).await?;
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        lab.add_row(Row {
            targets: &[Target::Below(5.0)],
            ..Row::bare(one, median.as_secs_f64() * 1e3, "ms", "one after the other, median")
        });
        let begun = Instant::now();
        let lanes = (0..AT_ONCE).map(|_| lane(&sandbox, language, code, executions / AT_ONCE));
        let done: usize = try_join_all(lanes).await?.iter().map(Vec::len).sum();
        lab.add_row(Row {
            targets: &[Target::AtLeast(400.0)],
            ..Row::bare(many, done as f64 / begun.elapsed().as_secs_f64(), "per s", "two at once")
        });
    }
    Ok(())
}

/// Runs a function again and again, and returns the time of each call.
async fn lane(
    sandbox: &BuiltIn,
    language: CodeLanguage,
    code: &str,
    executions: usize,
) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::with_capacity(executions);
    for _ in 0..executions {
        let begun = Instant::now();
        let printed = sandbox.run(Program { language, code, inputs: INPUTS, owner: Owner::default() }).await;
        times.push(begun.elapsed());
        let printed = printed.map_err(|error| Error::Wrong(format!("the sandbox: {error}")))?;
        let returned = result::read(&printed, false).map_err(|failure| Error::Wrong(failure.message))?;
        if returned.get("r").and_then(serde_json::Value::as_i64) != Some(3) {
            return Err(Error::Wrong(format!("a function of the sandbox returned {returned:?}")));
        }
    }
    Ok(times)
}
