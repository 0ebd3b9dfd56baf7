//! The test language: real processes, a Redis of their own, a client, and short words for workflows.
//!
//! A whole test:
//!
//! ```no_run
//! use tidemill_tests::{cluster::Cluster, flow::Flow, llm};
//!
//! # async fn a_run_survives_its_worker() {
//! let model = llm::slow(&["Hello", ", ", "world"], 200).await;
//! let cluster = Cluster::start(&[("worker.job_lease_ms", "1500")], Some(&model)).await;
//! let (scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
//! let client = scheduler.client();
//! let run = client.start(&Flow::new("start -> llm -> answer"), &[]).await;
//! client.follow(&run, None).await.until_text("Hello").await;
//! worker.process.kill();
//! let _other = cluster.worker().await;
//! assert_eq!(client.ended(&run).await["outputs"]["answer"], "Hello, world");
//! # }
//! ```
//!
//! In the order of a test: [`flow`] writes the workflow, [`redis`] and [`cluster`] start what it runs on ([`binaries`]
//! builds the programs, [`process`] holds one), [`client`] and [`sse`] talk to it, [`wait`] waits without luck, [`check`]
//! says what must have come out. For the long campaigns there are [`fleet`] (processes that come back, each behind a
//! [`proxy`]), [`patient`] (a client that does not mind), [`story`] (what happened) and [`checker`]; [`frozen`] keeps what an older version has left. Nothing here is used outside tests: what goes wrong panics with what was seen.
#![allow(clippy::print_stderr, reason = "a failed test tells what its processes said")]

pub mod binaries;
pub mod check;
pub mod checker;
pub mod client;
pub mod cluster;
pub mod contract;
pub mod door;
pub mod fleet;
pub mod flow;
pub mod frozen;
pub mod llm;
pub mod outside;
pub mod patient;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod refund;
pub mod sse;
pub mod story;
pub mod wait;

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    // The package lies directly below it.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a package lies in its workspace").to_path_buf()
}
