//! The parts together: the store on a real Redis, the HTTP APIs on real processes, the layers of the source.

mod acl;
mod admin_keys;
mod annotations;
mod api_refusals;
mod api_runs;
mod app_keys;
mod app_life;
mod app_limits;
mod app_models;
mod black_holes;
mod called;
mod canary;
mod chats;
mod children;
mod children_seen;
mod circles;
mod code_packages;
mod commands_of_a_step;
mod connections;
mod containers;
mod control;
mod conversations;
mod datasets;
mod dead_ends;
mod deadlines;
mod deploy;
mod dev_call;
mod doctor;
mod documented;
mod durable;
mod encrypted;
mod events;
mod every_route;
mod exported_files;
mod fair_slots;
mod fetched_files;
mod field_cases;
mod first_try;
mod fleet;
mod foreign_forms;
mod foreign_ids;
mod form_at_run;
mod frames;
mod growing;
mod hosts;
mod https;
mod https_sockets;
mod key_rights;
mod knowledge;
mod labels;
mod layering;
mod library;
mod library_steps;
mod limits;
mod linked_texts;
mod masked;
mod messages;
mod migrate;
mod model_protocols;
mod model_provider;
mod moderated;
mod moderated_by_servers;
mod moderated_waiting;
mod moderation;
mod namespace_copy;
mod operations;
mod own_files;
mod pauses;
mod plain;
mod plugins;
mod profile_llm;
mod providers;
mod questions;
mod redis_cluster;
mod redis_page;
mod refund;
mod registered_calls;
mod removals;
mod removed_callers;
mod rolling;
mod runs_by_app;
mod runs_without_redis;
mod scratch_folder;
mod sealing;
mod secrets;
mod sentinels;
mod service_api_table;
mod service_files;
mod service_front;
mod service_runs;
mod settings_mistakes;
mod simple_apps;
mod sizes;
mod snapshots;
mod spending;
mod steps;
mod store_contract;
mod timers;
mod tool_servers;
mod triggers;
mod unread_bodies;
mod warnings;
mod webhooks_out;
mod working_time;

use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};

/// A cluster with a scheduler and a worker.
struct System {
    client: Client,
    cluster: Cluster,
    _scheduler: Scheduler,
    _worker: Worker,
}

/// Starts both; every provider is this model.
async fn system(settings: &[(&str, &str)], model: &tidemill_mock_llm::Running) -> System {
    let cluster = Cluster::start(settings, Some(model)).await;
    let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
    System { client: scheduler.client(), cluster, _scheduler: scheduler, _worker: worker }
}
