//! first: the time from the start of `tidemill run` to the first event of a small file, as a person at the terminal
//! waits for it. With `--earlier` also that of an earlier build, in turns with this one.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use futures_util::FutureExt as _;

use super::Workload;
use crate::error::Error;
use crate::lab::Lab;
use crate::measure::median;
use crate::report::Row;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "first",
    about: "tidemill run of a hello file: from its start to the first event, median of 20 starts",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

const STARTS: usize = 20;
const STARTS_QUICK: usize = 3;
/// The file to run, from the root of the repository.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hello.yml");
/// The type of the first event of a run; its line contains it.
const FIRST: &str = "graph_run_started";

async fn measure(lab: &Lab) -> Result<(), Error> {
    let starts = if lab.is_quick { STARTS_QUICK } else { STARTS };
    let earlier = lab.programs.earlier.as_deref();
    let (mut now, mut before) = (Vec::new(), Vec::new());
    // The first start reads the program from the disk.
    once(&lab.programs.tidemill)?;
    for _ in 0..starts {
        now.push(once(&lab.programs.tidemill)?);
        before.extend(earlier.map(once).transpose()?);
    }
    let value = median(&mut now);
    lab.add_row(Row { targets: &[Target::AtMost(30.0)], ..Row::bare("first", value, "ms", WORKLOAD.about) });
    if earlier.is_some() {
        let before = median(&mut before);
        lab.add_row(Row::bare("first/earlier", before, "ms", "the same with the earlier build"));
        lab.add_row(Row {
            targets: &[Target::AtMost(0.25)],
            ..Row::bare("first/by earlier", value / before, "x", "the first by the second")
        });
    }
    Ok(())
}

/// Runs the file once, and returns the milliseconds until the line of its first event.
fn once(program: &Path) -> Result<f64, Error> {
    let begun = Instant::now();
    let mut child = Command::new(program)
        .args(["run", FILE, "-i", "name=Ada", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| Error::Start { program: program.display().to_string(), source })?;
    let mut first = None;
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(Error::io("reading the events of `tidemill run`"))?;
        if first.is_none() && line.contains(FIRST) {
            first = Some(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    let status = child.wait().map_err(Error::io("waiting for `tidemill run`"))?;
    first
        .filter(|_| status.success())
        .ok_or_else(|| Error::Wrong(format!("{} run: {status}, first event: {first:?}", program.display())))
}
