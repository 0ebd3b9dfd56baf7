//! Helpers to write tests with: real processes, a private Redis, a client, and short descriptions of workflows.
//!
//! A complete test:
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
//! In the order of a test: [`flow`] writes the workflow; [`redis`] and [`cluster`] start what it runs on
//! ([`binaries`] builds the programs, [`process`] is one of them); [`client`] and [`sse`] talk to it; [`wait`] waits
//! for a condition; [`described`] compares each answer with the description of the API; [`frames`] reads streams of `/v1` as Dify's clients do, [`messages`] as lists of events; [`check`] checks the result. Long campaigns use [`fleet`] (processes that are started again, each
//! with a [`proxy`]), [`patient`] (a client that tries again), [`story`] (what happened) and [`checker`]. [`frozen`]
//! keeps the data of older versions. Nothing here is used outside tests, so errors panic with what was seen.
#![allow(clippy::print_stderr, reason = "a failed test prints the logs of its processes")]

pub mod binaries;
pub mod certificates;
pub mod check;
pub mod checker;
pub mod client;
pub mod cluster;
pub mod contract;
pub mod described;
pub mod file_server;
pub mod fleet;
pub mod flow;
pub mod frames;
pub mod frozen;
pub mod llm;
pub mod messages;
pub mod outside;
pub mod patient;
pub mod process;
pub mod proxy;
pub mod ready_proxy;
pub mod redis;
pub mod redis_cluster;
pub mod refund;
pub mod replicas;
pub mod sentinels;
pub mod sse;
pub mod story;
pub mod switching_proxy;
pub mod wait;
pub mod waitaof_proxy;

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    // The package is directly below it.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a package is in its workspace").to_path_buf()
}
