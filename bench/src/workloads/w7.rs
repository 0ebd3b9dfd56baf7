//! W7: the stress test that comes with Dify, a chatflow of start, model and answer, watched by many clients at once.

use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::programs::Programs;
use crate::report::Row;
use crate::sse_load::{self, Crowd, Fleet, Quantiles};
use crate::target::Target;

/// Its name.
pub(crate) const NAME: &str = "W7";
/// Clients that watch at the same time.
const CLIENTS: [usize; 3] = [100, 500, 1000];
/// The crowd that the targets for times are about.
const TARGET_CLIENTS: usize = 500;
/// Longest time to the first event, 95 of 100, in milliseconds.
const FIRST_MS: &[Target] = &[Target::AtMost(20.0)];
/// Longest time from a word said to a word read, 95 of 100, in milliseconds.
const WORD_MS: &[Target] = &[Target::AtMost(25.0)];
/// Runs that a scheduler must take in a second.
const STARTS: &[Target] = &[Target::AtLeast(500.0)];
/// Clients that submit without following.
const SUBMITTERS: usize = 64;
const SEED: u64 = 7;

/// Measures, and answers its rows of the table. Once and not repeatedly: each row stands for thousands of samples.
pub(crate) async fn rows(
    redis_server: &Path,
    programs: &Programs,
    is_quick: bool,
    told: impl Fn(&str),
) -> Result<Vec<Row>, Error> {
    let (words, seconds) = if is_quick { (20, 3) } else { (100, 15) };
    let lasts = Duration::from_secs(seconds);
    let mut rows = Vec::new();
    for clients in CLIENTS {
        told(&format!("{NAME}: {clients} clients watch answers of {words} words"));
        let fleet = Fleet::start(redis_server, programs).await?;
        let crowd = Crowd { clients, words, lasts, seed: SEED };
        rows.extend(watched(&fleet, crowd, &told).await?);
    }
    told(&format!("{NAME}: {SUBMITTERS} clients submit as fast as they can"));
    let fleet = Fleet::start(redis_server, programs).await?;
    let starts = sse_load::starts(&fleet, SUBMITTERS, lasts).await?;
    rows.push(row(
        "starts".into(),
        starts.per_second,
        "runs/s",
        STARTS,
        format!("taken; done {:.0}/s; {}", starts.ended_per_second, starts.shares.told()),
    ));
    Ok(rows)
}

async fn watched(fleet: &Fleet, crowd: Crowd, told: impl Fn(&str)) -> Result<Vec<Row>, Error> {
    let done = sse_load::watch(fleet, crowd).await?;
    let tally = &done.tally;
    if !tally.errors.is_empty() {
        told(&format!("{}{}", tally.errors(), fleet.last_words()));
    }
    let clients = crowd.clients;
    let [first, word, accepted, load] =
        [&tally.first, &tally.words, &tally.accepted, &tally.load].map(Quantiles::of);
    // With errors no time means anything.
    let broken = if tally.errors.is_empty() { 1.0 } else { f64::INFINITY };
    let target = |bound| if clients == TARGET_CLIENTS { bound } else { &[][..] };
    Ok(vec![
        row(
            format!("{clients} first"),
            first.p95 * broken,
            "ms p95",
            target(FIRST_MS),
            format!(
                "time to the first event; p50 {:.1}, p99 {:.1}; run taken p50 {:.1}, p95 {:.1}; load late p95 {:.1}; {:.0} runs/s, {}",
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
                "from a word said to a word read; p50 {:.1}, p99 {:.1}; {:.0} words/s",
                word.p50,
                word.p99,
                tally.words.len() as f64 / crowd.lasts.as_secs_f64()
            ),
        ),
        row(format!("{clients} cpu"), done.shares.product(), "cores", &[], done.shares.told()),
    ])
}

fn row(name: String, value: f64, unit: &'static str, targets: &'static [Target], about: String) -> Row {
    Row { targets, ..Row::bare(format!("{NAME} {name}"), value, unit, &about) }
}
