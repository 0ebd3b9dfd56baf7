//! Where the checks read from: one Redis, or a cluster, where each command goes to the server of its key.

use redis::FromRedisValue;

use crate::redis::Redis;
use crate::redis_cluster::RedisCluster;

/// The servers with the data. Keys are named as on one server.
#[derive(Debug)]
pub enum Contents<'a> {
    One(&'a Redis),
    /// The cluster, and its masters.
    Cluster(&'a RedisCluster, Vec<usize>),
}

impl<'a> Contents<'a> {
    /// Of a cluster that is whole.
    pub async fn of_cluster(cluster: &'a RedisCluster) -> Self {
        Self::Cluster(cluster, cluster.masters().await)
    }

    /// Sends a command whose key is the second word.
    ///
    /// # Panics
    /// When it fails.
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        match self {
            Self::One(redis) => redis.ask(words).await,
            Self::Cluster(cluster, masters) => {
                let at = usize::from(words[0] == "XINFO") + 1;
                let key = in_cluster(words[at]);
                let mut words = words.to_vec();
                words[at] = &key;
                let mut said = String::new();
                for master in masters {
                    match cluster.try_ask(*master, &words).await {
                        Ok(answer) => return answer,
                        Err(error) => said = error,
                    }
                }
                panic!("{words:?}: {said}")
            }
        }
    }

    /// The names of all keys, sorted.
    ///
    /// # Panics
    /// When a server does not answer.
    pub async fn all_keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        match self {
            Self::One(redis) => {
                scan(&mut keys, async |cursor: &str| redis.ask(&["SCAN", cursor, "COUNT", "1000"]).await)
                    .await;
            }
            Self::Cluster(cluster, masters) => {
                for at in masters {
                    scan(&mut keys, async |cursor: &str| {
                        cluster.ask(*at, &["SCAN", cursor, "COUNT", "1000"]).await
                    })
                    .await;
                }
            }
        }
        keys.iter_mut().for_each(|key| *key = key.replacen("{tm}:", "tm:", 1));
        keys.sort();
        keys.dedup();
        keys
    }
}

async fn scan(keys: &mut Vec<String>, page: impl AsyncFn(&str) -> (String, Vec<String>)) {
    let mut cursor = "0".to_string();
    loop {
        let more;
        (cursor, more) = page(&cursor).await;
        keys.extend(more);
        if cursor == "0" {
            return;
        }
    }
}

/// The name of a key in a cluster.
fn in_cluster(key: &str) -> String {
    if key.contains('{') { key.to_string() } else { key.replacen("tm:", "{tm}:", 1) }
}
