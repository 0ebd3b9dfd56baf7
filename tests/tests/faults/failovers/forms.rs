//! The forms of Redis that fail over: replicas that an operator promotes, Sentinels, and a cluster.

use std::time::{Duration, Instant};

use tidemill_tests::redis_cluster::RedisCluster;
use tidemill_tests::replicas::{FailOver, Replicas};
use tidemill_tests::sentinels::Sentinels;
use tidemill_tests::wait::until;

/// A fail-over that was begun is given up after five seconds, for example when the other masters have just voted.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(6);
/// The longest time until the servers are in order again.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

/// The servers.
pub(super) enum Form {
    Replicas(Replicas),
    Sentinel(Sentinels),
    Cluster(RedisCluster),
}

impl Form {
    /// Starts servers of a form, by its name in `FAILOVERS_FORM`.
    pub(super) async fn start(name: &str) -> Self {
        match name {
            "replicas" => Self::Replicas(Replicas::start(2).await),
            "sentinel" => Self::Sentinel(Sentinels::start().await),
            "cluster" => Self::Cluster(RedisCluster::start().await),
            other => panic!("FAILOVERS_FORM is {other:?}, not replicas, sentinel or cluster"),
        }
    }

    /// The settings of processes that use them: (setting, value).
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Replicas(_) => vec![("scheduler.shards", "2".into())],
            Self::Sentinel(sentinels) => {
                [vec![("scheduler.shards", "2".into())], sentinels.settings()].concat()
            }
            // Enough for each master to have some.
            Self::Cluster(_) => vec![("scheduler.shards", "6".into())],
        }
    }

    /// Their address, as a setting.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Replicas(replicas) => replicas.url(),
            Self::Sentinel(sentinels) => sentinels.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// Fails over for this time, and waits until all servers are in order again. Returns how.
    pub(super) async fn fail_over(&mut self, number: usize) -> &'static str {
        let while_both = tokio::time::sleep(Duration::from_millis(50 * (number as u64 % 10)));
        let is_planned = number.is_multiple_of(2);
        match self {
            Self::Replicas(replicas) => {
                // The old master of a planned one goes on for 0 to 450 ms.
                let how = if is_planned { FailOver::Planned } else { FailOver::Crash };
                replicas.fail_over(how, while_both).await;
                if is_planned { "planned" } else { "crash" }
            }
            Self::Sentinel(sentinels) => {
                let how = ["planned", "crash", "cut off"][number % 3];
                let old = sentinels.master();
                match how {
                    "planned" => sentinels.begin_fail_over().await,
                    "crash" => sentinels.servers[old].kill(),
                    _ => sentinels.cut_off(old),
                }
                sentinels.another_than(old).await;
                while_both.await;
                match how {
                    "planned" => {}
                    "crash" => sentinels.servers[old].restart().await,
                    _ => sentinels.let_in(old),
                }
                sentinels.settled().await;
                how
            }
            Self::Cluster(cluster) => {
                of_cluster(cluster, number, is_planned).await;
                if is_planned { "planned" } else { "crash" }
            }
        }
    }
}

/// Fails one master over to its replica; the masters take turns.
async fn of_cluster(cluster: &mut RedisCluster, number: usize, is_planned: bool) {
    let (masters, old, replica) = until("each master to have its replica", SETTLES_WITHIN, async || {
        let masters = cluster.masters().await;
        let old = masters.get(number / 2 % masters.len().max(1)).copied();
        let old = old.ok_or_else(|| format!("{masters:?}"))?;
        match cluster.replicas_of(old).await.first() {
            Some(replica) => Ok((masters, old, *replica)),
            None => Err(format!("{old} of {masters:?} has none")),
        }
    })
    .await;
    if is_planned {
        take_over(cluster, replica).await;
    } else {
        cluster.servers[old].kill();
    }
    cluster.is_master(replica).await;
    if !is_planned {
        cluster.servers[old].restart().await;
    }
    until("the old master to follow the new one", SETTLES_WITHIN, async || {
        let now = cluster.masters().await;
        if now.len() == masters.len() && !now.contains(&old) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    cluster.is_whole().await;
}

/// Lets a replica take over from its master. When the servers give it up, it is begun again.
async fn take_over(cluster: &RedisCluster, replica: usize) {
    let mut begun: Option<Instant> = None;
    until("a replica to take over", SETTLES_WITHIN, async || {
        if begun.is_none_or(|begun| begun.elapsed() > GIVEN_UP_AFTER) {
            cluster.try_ask::<()>(replica, &["CLUSTER", "FAILOVER"]).await?;
            begun = Some(Instant::now());
        }
        let info: String = cluster.try_ask(replica, &["INFO", "replication"]).await?;
        if info.contains("role:master") { Ok(()) } else { Err(info) }
    })
    .await;
}
