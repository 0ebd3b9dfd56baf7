//! `tidemill namespace copy`: copies everything of an installation to another Redis, or from one server to a cluster, while
//! no process runs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::json;
use tidemill_common::config::{Config, RedisConfig, Sources, masked_url};
use tidemill_common::store::redis::{CopyError, CopyPlan, CopyProgress, RedisStore};

use super::doctor::WORKER_LEASES;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::local::LocalError;
use crate::output::{json, text};

/// The time between two lines about the progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// The arguments of `tidemill namespace`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Copy a namespace to another Redis or to a cluster; all schedulers and workers must be stopped
    Copy(Copy),
}

#[derive(Debug, Args)]
struct Copy {
    /// Address of the Redis or the cluster with the namespace [default: redis.url of the settings]
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Address of the Redis or the cluster that gets the copy
    #[arg(long, value_name = "URL")]
    to: String,
    /// The namespace to copy [default: redis.namespace of the settings]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The name of the copy [default: the same]
    #[arg(long, value_name = "NAME")]
    namespace_to: Option<String>,
    /// Remove what an interrupted copy has left at the target, and begin again
    #[arg(long)]
    again: bool,
    /// Settings file of schedulers and workers [default: tidemill.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Copy(copy) => perform_copy(copy, console).await,
    }
}

async fn perform_copy(arguments: &Copy, console: &mut Console) -> Result<Exit, Error> {
    let config = Config::load(&Sources::of_process(arguments.config.clone(), Vec::new()));
    let config = config.map_err(|error| Error::Usage(error.to_string()))?;
    let mut from = config.redis.clone();
    from.url = arguments.from.clone().map_or(from.url, Into::into);
    from.namespace = arguments.namespace.clone().unwrap_or(from.namespace);
    let to = RedisConfig {
        url: arguments.to.clone().into(),
        namespace: arguments.namespace_to.clone().unwrap_or_else(|| from.namespace.clone()),
        ..from.clone()
    };
    let store = |redis| RedisStore::new(redis, config.store_limits()).map_err(LocalError::Store);
    let (source, target) = (store(&from)?, store(&to)?);
    let plan = CopyPlan {
        scheduler_silent: Duration::from_millis(config.scheduler.shard_lease_ms),
        worker_silent: Duration::from_millis(config.worker.job_lease_ms).saturating_mul(WORKER_LEASES),
        again: arguments.again,
    };
    let mut shown = Instant::now();
    let mut progress = |done: CopyProgress| {
        if shown.elapsed() >= PROGRESS_EVERY {
            shown = Instant::now();
            console.note(format_args!("{} of {} keys, {}", done.keys, done.of, text::size(done.bytes)));
        }
    };
    let copied = source.copy_to(&target, plan, &mut progress).await;
    let done = copied.map_err(|error| match error {
        CopyError::Store(error) => Error::from(LocalError::Store(error)),
        other => Error::Failed(other.to_string()),
    })?;
    if arguments.json {
        let foreign = done.foreign;
        json::whole(&json!({"keys": done.keys, "bytes": done.bytes, "keys_left_out": foreign}), console)?;
        return Ok(Exit::Succeeded);
    }
    console.text(render(done, [&from, &to]))?;
    Ok(Exit::Succeeded)
}

fn render(done: CopyProgress, [from, to]: [&RedisConfig; 2]) -> String {
    let named = |redis: &RedisConfig| format!("{} at {}", redis.namespace, masked_url(&redis.url));
    let mut said = format!("copied {} keys ({})\n", done.keys, text::size(done.bytes));
    if done.foreign > 0 {
        let begin = format!("{}:", from.namespace);
        said.push_str(&format!(
            "left out {} keys that begin with {begin} and belong to another namespace\n",
            done.foreign
        ));
    }
    said.push_str(&format!(
        "the copy is {}; nothing was removed from {}\nstart schedulers and workers on the copy alone: on both, what waits \
         would be done twice\n",
        named(to),
        named(from)
    ));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_says_where_the_copy_is_and_shows_no_password() {
        let redis = |url: &str, namespace: &str| RedisConfig {
            url: url.into(),
            namespace: namespace.into(),
            ..RedisConfig::default()
        };
        let (from, to) = (redis("redis://:secret@a:1", "tm"), redis("redis+cluster://:secret@b:2", "new"));
        let done = CopyProgress { keys: 7, of: 7, bytes: 2048, foreign: 2 };
        let said = render(done, [&from, &to]);
        assert!(said.starts_with("copied 7 keys (2.0 KiB)\nleft out 2 keys that begin with tm: "), "{said}");
        assert!(said.contains("new at redis+cluster://") && said.contains("tm at redis://"), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}
