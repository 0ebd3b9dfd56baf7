//! The metrics of a process, for Prometheus. Histograms have the same buckets in every process, so that they
//! can be summed, and keep no samples, with or without a scraper.

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// The interval at which samples are folded into counts. Until then each sample takes 24 bytes.
const UPKEEP: Duration = Duration::from_secs(5);
/// The thread for that. Separate, because the kinds of processes have different runtimes.
const THREAD: &str = "metrics";

/// Upper bounds of the buckets, by suffix of the metric's name.
const BUCKETS: [(&str, &[f64]); 2] = [
    // From a commit over a socket to a job of ten minutes.
    (
        "_seconds",
        &[
            0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
            120.0, 300.0, 600.0,
        ],
    ),
    ("_facts", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]),
];
/// The buckets of all other metrics.
const OTHER_BUCKETS: &[f64] = &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

/// Starts the metrics of this process, once; returns the renderer for Prometheus.
pub fn start_metrics() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let recorder = recorder();
            let handle = recorder.handle();
            // Only the first recorder of a process counts; there is no other.
            drop(::metrics::set_global_recorder(recorder));
            keep_up(handle.clone());
            handle
        })
        .clone()
}

fn recorder() -> PrometheusRecorder {
    let mut builder = PrometheusBuilder::new().set_buckets(OTHER_BUCKETS).expect("there are buckets");
    for (end, buckets) in BUCKETS {
        let these = Matcher::Suffix(end.to_owned());
        builder = builder.set_buckets_for_metric(these, buckets).expect("there are buckets");
    }
    builder.build_recorder()
}

/// Without this the recorder keeps each sample until it is scraped.
fn keep_up(handle: PrometheusHandle) {
    let work = move || {
        loop {
            std::thread::sleep(UPKEEP);
            handle.run_upkeep();
        }
    };
    if let Err(error) = std::thread::Builder::new().name(THREAD.to_owned()).spawn(work) {
        tracing::error!(%error, "no thread for the upkeep of metrics: their samples stay in memory until they are scraped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: usize = 200_000;
    const ROUNDS: usize = 60;

    fn resident_kib() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn unscraped_samples_are_counted_and_not_kept() {
        let recorder = recorder();
        let handle = recorder.handle();
        let before = resident_kib();
        ::metrics::with_local_recorder(&recorder, || {
            let histogram = ::metrics::histogram!("tidemill_commit_seconds");
            for _ in 0..ROUNDS {
                (0..SAMPLES).for_each(|at| histogram.record(at as f64 / 1e5));
                handle.run_upkeep();
            }
            ::metrics::histogram!("tidemill_commit_facts").record(3.0);
            ::metrics::histogram!("tidemill_other").record(3.0);
        });
        let grown = resident_kib().saturating_sub(before);
        // All samples together would take 288 MB. Other tests of this process use memory at the same time.
        assert!(grown < 144 * 1024, "{grown} KiB");
        let text = handle.render();
        for line in [
            format!("tidemill_commit_seconds_count {}", SAMPLES * ROUNDS),
            format!("tidemill_commit_seconds_bucket{{le=\"1\"}} {}", 100_001 * ROUNDS),
            "tidemill_commit_facts_bucket{le=\"4\"} 1".to_owned(),
            "tidemill_other_bucket{le=\"10\"} 1".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} is missing in {text}");
        }
        assert!(!text.contains("quantile") && text.len() < 8192, "{text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn every_process_that_measures_has_the_upkeep() {
        start_metrics();
        let is_there = || {
            let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
            let mut names =
                threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
            names.any(|name| name.trim() == THREAD)
        };
        // A thread has its name only once it runs.
        let began = std::time::Instant::now();
        while !is_there() {
            assert!(began.elapsed() < Duration::from_secs(60), "no thread {THREAD}");
            std::thread::yield_now();
        }
    }
}
