//! The forms of `redis.url`: one server, the first known servers of a cluster, or Sentinels that name a master.

use redis::{ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::store::StoreError;

/// Where `redis.url` leads.
#[derive(Debug)]
pub(in crate::store::redis) enum Address {
    /// `redis://…`, `rediss://…`, `unix://…`
    One(Box<ConnectionInfo>),
    /// `redis+cluster://host:port,host:port`: servers that are asked for the others.
    Cluster(Vec<ConnectionInfo>),
    /// `redis+sentinel://host:port,host:port/name`
    Sentinel(Box<Watched>),
}

/// A master that Sentinels watch.
#[derive(Debug)]
pub(in crate::store::redis) struct Watched {
    /// Its name.
    pub(in crate::store::redis) name: String,
    /// User, password and database at the master, at the address of the first Sentinel.
    pub(in crate::store::redis) master: ConnectionInfo,
    /// The Sentinels, without user and password.
    pub(in crate::store::redis) sentinels: Vec<ConnectionInfo>,
}

/// The port of a Sentinel whose address names none.
const SENTINEL_PORT: u16 = 26_379;

impl Address {
    /// Reads a URL. `shown` is the same without password, for messages.
    ///
    /// # Errors
    /// Another form, or one that names things which a cluster does not have.
    pub(in crate::store::redis) fn read(url: &str, shown: &str) -> Result<Self, StoreError> {
        // The library's own message names one of its build options.
        if url.ends_with("#insecure") {
            return Err(StoreError::Unusable(format!(
                "redis.url {shown} ends with #insecure, but Tidemill always checks the server's certificate; remove \
                 #insecure, and name the file with the certificates to trust in redis.ca_file"
            )));
        }
        let of_cluster = [("redis+cluster://", "redis"), ("rediss+cluster://", "rediss")];
        let of_cluster =
            of_cluster.iter().find_map(|(begin, scheme)| Some((*scheme, url.strip_prefix(begin)?)));
        if let Some((scheme, rest)) = of_cluster {
            let servers = of_cluster_in(scheme, rest).map_err(|reason| {
                StoreError::Unusable(format!(
                    "redis.url {shown} is not the address of a Redis Cluster: {reason}; use one like \
                     redis+cluster://10.0.0.1:6379,10.0.0.2:6379"
                ))
            })?;
            return Ok(Self::Cluster(servers));
        }
        let of_sentinels = [("redis+sentinel://", "redis"), ("rediss+sentinel://", "rediss")];
        let of_sentinels =
            of_sentinels.iter().find_map(|(begin, scheme)| Some((*scheme, url.strip_prefix(begin)?)));
        if let Some((scheme, rest)) = of_sentinels {
            let watched = watched(scheme, rest).map_err(|reason| {
                StoreError::Unusable(format!(
                    "redis.url {shown} does not name Sentinels and a master: {reason}; use one like \
                     redis+sentinel://user:password@10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379/mymaster"
                ))
            })?;
            return Ok(Self::Sentinel(Box::new(watched)));
        }
        let one = url.into_connection_info().map_err(|e| {
            StoreError::Unusable(format!(
                "redis.url {shown} is not a Redis address: {e}; use one like redis://127.0.0.1:6379, \
                 redis+cluster://10.0.0.1:6379,10.0.0.2:6379 for a cluster, or \
                 redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster for Sentinels"
            ))
        })?;
        Ok(Self::One(Box::new(one)))
    }
}

/// The servers of a cluster.
fn of_cluster_in(scheme: &str, rest: &str) -> Result<Vec<ConnectionInfo>, String> {
    let (authority, path) = parts(rest)?;
    if !matches!(path, "" | "/" | "/0") {
        return Err("it names a database or a path, and a cluster has one database only".into());
    }
    servers(scheme, authority, str::to_string)
}

/// A master and its Sentinels.
fn watched(scheme: &str, rest: &str) -> Result<Watched, String> {
    let (authority, path) = parts(rest)?;
    let mut words = path.split('/').skip(1);
    let (name, db) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if name.is_empty() {
        return Err("it does not end with the name of the master that the Sentinels watch".into());
    }
    let db = if db.is_empty() { Some(0) } else { db.parse::<i64>().ok().filter(|db| *db >= 0) };
    let db = db.filter(|_| words.next().is_none());
    let db = db.ok_or("after the name of the master there may only be the number of a database")?;
    let with_port = |host: &str| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        if has_port { host.to_string() } else { format!("{host}:{SENTINEL_PORT}") }
    };
    let servers = servers(scheme, authority, with_port)?;
    let first = servers.first().ok_or("it names no server")?;
    let master = first.clone().set_redis_settings(first.redis_settings().clone().set_db(db));
    let alone = |server: &ConnectionInfo| server.clone().set_redis_settings(RedisConnectionInfo::default());
    Ok(Watched { name: name.into(), sentinels: servers.iter().map(alone).collect(), master })
}

/// The hosts with the user before them, and the path.
fn parts(rest: &str) -> Result<(&str, &str), String> {
    if rest.contains(['?', '#']) {
        return Err("it has a query or a fragment".into());
    }
    // A password may contain `/`.
    let hosts = rest.rfind('@').map_or(0, |at| at + 1);
    let path = rest[hosts..].find('/').map_or(rest.len(), |at| hosts + at);
    Ok(rest.split_at(path))
}

/// The servers in a list of hosts and ports, with the user and the password before it.
fn servers(
    scheme: &str,
    authority: &str,
    complete: impl Fn(&str) -> String,
) -> Result<Vec<ConnectionInfo>, String> {
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    if hosts.is_empty() {
        return Err("it names no server".into());
    }
    let server = |host: &str| {
        let info = format!("{scheme}://{user}{}", complete(host)).into_connection_info();
        // The library's error may have the password.
        info.map_err(|_| {
            format!("{host:?} is no host and port, or the user before it is not percent-encoded")
        })
    };
    hosts.split(',').map(|host| server(host.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Address, String> {
        Address::read(url, "SHOWN").map_err(|error| error.to_string())
    }

    fn seeds(url: &str) -> Vec<String> {
        match read(url) {
            Ok(Address::Cluster(seeds)) => seeds.iter().map(|seed| seed.addr().to_string()).collect(),
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn a_cluster_is_named_by_some_of_its_servers() {
        assert_eq!(seeds("redis+cluster://a:1,b:2/"), ["a:1", "b:2"]);
        assert_eq!(seeds("redis+cluster://10.0.0.1, [::1]:7/0"), ["10.0.0.1:6379", "::1:7"]);
        let Ok(Address::Cluster(seeds)) = read("rediss+cluster://me:p%40ss@a:1,b:2") else {
            panic!("no cluster")
        };
        for seed in &seeds {
            let who = seed.redis_settings();
            assert_eq!((who.username(), who.password()), (Some("me"), Some("p@ss")));
            assert!(matches!(seed.addr(), redis::ConnectionAddr::TcpTls { .. }));
        }
    }

    #[test]
    fn a_master_is_named_by_its_sentinels_and_its_name() {
        let Ok(Address::Sentinel(watched)) = read("rediss+sentinel://me:p%40ss@a:1, [::1],c/main/2") else {
            panic!("no Sentinels")
        };
        let places: Vec<_> = watched.sentinels.iter().map(|it| it.addr().to_string()).collect();
        assert_eq!(
            (watched.name.as_str(), &places[..]),
            ("main", &["a:1", "::1:26379", "c:26379"].map(String::from)[..])
        );
        let who = watched.master.redis_settings();
        assert_eq!((who.username(), who.password(), who.db()), (Some("me"), Some("p@ss"), 2));
        for sentinel in &watched.sentinels {
            let who = sentinel.redis_settings();
            assert_eq!((who.username(), who.password(), who.db()), (None, None, 0), "these are the master's");
            assert!(matches!(sentinel.addr(), redis::ConnectionAddr::TcpTls { .. }));
        }
        let Ok(Address::Sentinel(plain)) = read("redis+sentinel://a/main/") else { panic!("no Sentinels") };
        assert_eq!((plain.name.as_str(), plain.master.redis_settings().db()), ("main", 0));
    }

    #[test]
    fn one_server_keeps_its_forms() {
        for url in ["redis://127.0.0.1:6379", "redis://:pw@h:1/3", "unix:///tmp/redis.sock", "rediss://h"] {
            assert!(matches!(read(url), Ok(Address::One(_))), "{url}");
        }
    }

    #[test]
    fn an_address_that_cannot_be_used_says_why_without_its_password() {
        for (url, why) in [
            ("redis+cluster://:secret@a:1,b:2/3", "one database"),
            ("redis+cluster://", "names no server"),
            ("redis+cluster://:secret@a:1,b:x", "\"b:x\" is no host and port"),
            ("redis+cluster://:secret@a:1?protocol=resp3", "query"),
            ("redis+sentinel://:secret@a:1,b:2", "the name of the master"),
            ("redis+sentinel://:secret@a:1/main/two", "the number of a database"),
            ("redis+sentinel://:secret@a:1/main/2/3", "the number of a database"),
            ("redis+sentinel://:secret@/main", "names no server"),
            ("http://:secret@a", "redis+cluster://"),
            ("rediss://a/#insecure", "redis.ca_file"),
        ] {
            let said = read(url).unwrap_err();
            assert!(
                said.contains(why) && said.contains("SHOWN") && !said.contains("secret"),
                "{url}: {said}"
            );
        }
    }
}
