//! W7: repeats Dify's own stress test on Tidemill, with a chatflow of start, model and answer. Many clients follow
//! answers at the same time; then clients submit as fast as they can.

use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::programs::Programs;
use crate::report::Row;
use crate::sse_load::{self, Crowd, Fleet, Quantiles};
use crate::target::Target;

/// The name of the workload.
pub(crate) const NAME: &str = "W7";
/// Number of clients at the same time.
const CLIENTS: [usize; 3] = [100, 500, 1000];
/// The number of clients for which the targets for times are set.
const TARGET_CLIENTS: usize = 500;
/// Longest time to the first event for 95 of 100 clients, in milliseconds.
const FIRST_MS: &[Target] = &[Target::AtMost(20.0)];
/// Longest time from sending a word to reading it for 95 of 100 words, in milliseconds.
const WORD_MS: &[Target] = &[Target::AtMost(25.0)];
/// Runs per second that a scheduler must accept.
const STARTS: &[Target] = &[Target::AtLeast(500.0)];
/// Number of clients that submit without following.
const SUBMITTERS: usize = 64;
const SEED: u64 = 7;

/// Measures and returns the rows. Once and not in every repeat, because each row comes from thousands of samples.
pub(crate) async fn rows(
    redis_server: &Path,
    programs: &Programs,
    is_quick: bool,
    progress: impl Fn(&str),
) -> Result<Vec<Row>, Error> {
    let (words, seconds) = if is_quick { (20, 3) } else { (100, 15) };
    let lasts = Duration::from_secs(seconds);
    let mut rows = Vec::new();
    for clients in CLIENTS {
        progress(&format!("{NAME}: {clients} clients watch answers of {words} words"));
        let fleet = Fleet::start(redis_server, programs).await?;
        let crowd = Crowd { clients, words, lasts, seed: SEED };
        rows.extend(watched(&fleet, crowd, &progress).await?);
    }
    progress(&format!("{NAME}: {SUBMITTERS} clients submit as fast as they can"));
    let fleet = Fleet::start(redis_server, programs).await?;
    let starts = sse_load::starts(&fleet, SUBMITTERS, lasts).await?;
    rows.push(row(
        "starts".into(),
        starts.per_second,
        "runs/s",
        STARTS,
        format!("accepted; ended {:.0}/s; {}", starts.ended_per_second, starts.shares.describe()),
    ));
    Ok(rows)
}

async fn watched(fleet: &Fleet, crowd: Crowd, progress: impl Fn(&str)) -> Result<Vec<Row>, Error> {
    let done = sse_load::watch(fleet, crowd).await?;
    let tally = &done.tally;
    if !tally.errors.is_empty() {
        progress(&format!("{}{}", tally.errors(), fleet.last_words()));
    }
    let clients = crowd.clients;
    let [first, word, accepted, load] =
        [&tally.first, &tally.words, &tally.accepted, &tally.load].map(Quantiles::of);
    // If there were errors, the times have no meaning.
    let broken = if tally.errors.is_empty() { 1.0 } else { f64::INFINITY };
    let target = |bound| if clients == TARGET_CLIENTS { bound } else { &[][..] };
    Ok(vec![
        row(
            format!("{clients} first"),
            first.p95 * broken,
            "ms p95",
            target(FIRST_MS),
            format!(
                "time to the first event; p50 {:.1}, p99 {:.1}; run accepted p50 {:.1}, p95 {:.1}; load late p95 {:.1}; {:.0} runs/s, {}",
                first.p50,
                first.p99,
                accepted.p50,
                accepted.p95,
                load.p95,
                crowd.per_second(),
                tally.errors()
            ),
        ),
        row(
            format!("{clients} word"),
            word.p95 * broken,
            "ms p95",
            target(WORD_MS),
            format!(
                "from sending a word to reading it; p50 {:.1}, p99 {:.1}; {:.0} words/s",
                word.p50,
                word.p99,
                tally.words.len() as f64 / crowd.lasts.as_secs_f64()
            ),
        ),
        row(format!("{clients} cpu"), done.shares.product(), "cores", &[], done.shares.describe()),
    ])
}

fn row(name: String, value: f64, unit: &'static str, targets: &'static [Target], about: String) -> Row {
    Row { targets, ..Row::bare(format!("{NAME} {name}"), value, unit, &about) }
}
