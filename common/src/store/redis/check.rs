//! Whether the server can hold runs safely; read from INFO alone, so that no right to CONFIG is needed.

use super::RedisStore;
use crate::store::{ServerReport, StoreError};

/// The oldest server that has what the scripts use.
const VERSION_MIN: (u64, u64) = (6, 2);

pub(super) async fn check(store: &RedisStore) -> Result<ServerReport, StoreError> {
    let mut pipe = redis::pipe();
    for section in ["server", "memory", "persistence"] {
        pipe.cmd("INFO").arg(section);
    }
    let sections: Vec<String> = store.connector.ask_all("looking at the server", &pipe).await?;
    judge(&sections.concat(), &store.connector.address)
}

/// What INFO says, as a verdict.
fn judge(info: &str, address: &str) -> Result<ServerReport, StoreError> {
    let field = |name: &str| {
        info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':')).unwrap_or("")
    };
    let version = field("redis_version").to_string();
    let mut numbers = version.split('.').map(|n| n.parse::<u64>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < VERSION_MIN {
        let (major, minor) = VERSION_MIN;
        return Err(StoreError::Unusable(format!(
            "Redis at {address} is version {version}; Tidemill needs {major}.{minor} or newer"
        )));
    }
    let policy = field("maxmemory_policy");
    if !policy.is_empty() && policy != "noeviction" {
        return Err(StoreError::Unusable(format!(
            "Redis at {address} has maxmemory-policy {policy}, which throws runs away when memory is short; \
             set `maxmemory-policy noeviction` in its redis.conf (or CONFIG SET maxmemory-policy noeviction)"
        )));
    }
    let mut warnings = Vec::new();
    if field("aof_enabled") == "0" {
        warnings.push(
            "the append-only file of Redis is off: when Redis stops, every run since the last snapshot is lost; \
             set `appendonly yes`"
                .to_string(),
        );
    }
    Ok(ServerReport { version, warnings })
}

#[cfg(test)]
mod tests {
    use super::judge;

    fn info(version: &str, policy: &str, aof: &str) -> String {
        format!("redis_version:{version}\r\nmaxmemory_policy:{policy}\r\naof_enabled:{aof}\r\n")
    }

    #[test]
    fn a_server_that_would_lose_runs_is_refused_with_what_to_set() {
        assert!(judge(&info("7.0.15", "noeviction", "1"), "a").unwrap().warnings.is_empty());
        assert_eq!(judge(&info("7.0.15", "noeviction", "0"), "a").unwrap().warnings.len(), 1);
        assert!(
            judge(&info("6.0.16", "noeviction", "1"), "a").unwrap_err().to_string().contains("6.2 or newer")
        );
        let refused = judge(&info("7.2.4", "allkeys-lru", "1"), "a").unwrap_err().to_string();
        assert!(refused.contains("maxmemory-policy noeviction"), "{refused}");
    }
}
