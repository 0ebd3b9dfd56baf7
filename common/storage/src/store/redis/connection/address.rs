//! The forms of `redis.url`: one server, or the first known servers of a cluster.

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::store::redis::StoreError;

/// Where `redis.url` leads.
#[derive(Debug)]
pub(in crate::store::redis) enum Address {
    /// `redis://…`, `rediss://…`, `unix://…`
    One(Box<ConnectionInfo>),
    /// `redis+cluster://host:port,host:port`: servers that are asked for the others.
    Cluster(Vec<ConnectionInfo>),
}

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
            let servers = servers(scheme, rest).map_err(|reason| {
                StoreError::Unusable(format!(
                    "redis.url {shown} is not the address of a Redis Cluster: {reason}; use one like \
                     redis+cluster://10.0.0.1:6379,10.0.0.2:6379"
                ))
            })?;
            return Ok(Self::Cluster(servers));
        }
        let one = url.into_connection_info().map_err(|e| {
            StoreError::Unusable(format!(
                "redis.url {shown} is not a Redis address: {e}; use one like redis://127.0.0.1:6379, or \
                 redis+cluster://10.0.0.1:6379,10.0.0.2:6379 for a cluster"
            ))
        })?;
        Ok(Self::One(Box::new(one)))
    }
}

/// The servers in a list of hosts and ports, with the user and the password before it.
fn servers(scheme: &str, rest: &str) -> Result<Vec<ConnectionInfo>, String> {
    if rest.contains(['?', '#']) {
        return Err("it has a query or a fragment".into());
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if !matches!(path, "" | "/" | "/0") {
        return Err("it names a database or a path, and a cluster has one database only".into());
    }
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    if hosts.is_empty() {
        return Err("it names no server".into());
    }
    let server = |host: &str| {
        let info = format!("{scheme}://{user}{host}").into_connection_info();
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
