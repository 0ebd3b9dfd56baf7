//! The limit of open files of the process. Each connection is a file, so this limit bounds the connections
//! that a listener can accept.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The highest limit that some systems accept where they state none.
const OPEN_MAX: u64 = 10_240;

/// The files that the process needs, by its settings.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// Files other than the connections that listeners accept: connections to Redis and other servers, and
    /// files on disk.
    pub own: u64,
    /// Connections that a listener may accept, by its setting.
    pub connections: usize,
    /// Names of the settings that cause the need, for the warning.
    pub settings: &'static str,
}

/// Raises the soft limit to the hard one and returns the number of connections that fit. Warns when that is
/// less than needed.
pub fn prepare(need: &Need) -> usize {
    let limit = raise();
    let connections = connections_within(limit, need);
    let needed = need.own.saturating_add(need.connections as u64);
    if limit < needed {
        tracing::warn!(
            limit,
            needed,
            connections,
            settings = need.settings,
            "the limit of open files is too low for these settings; raise the hard limit (LimitNOFILE of systemd, --ulimit \
             nofile of Docker, ulimit -Hn), or lower them"
        );
    }
    connections
}

/// Raises the soft limit to the hard one and returns the limit now in force.
fn raise() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return OPEN_MAX };
    // Where the hard limit is "unlimited", the system may refuse it and accept a smaller one.
    for goal in [hard, hard.min(OPEN_MAX)] {
        if goal > soft && setrlimit(Resource::RLIMIT_NOFILE, goal, hard).is_ok() {
            return goal;
        }
    }
    soft
}

/// Returns the number of connections that fit into a limit: at least a quarter of it, whatever the process
/// needs itself.
fn connections_within(limit: u64, need: &Need) -> usize {
    let left = limit.saturating_sub(need.own).max(limit / 4);
    usize::try_from(left).unwrap_or(usize::MAX).min(need.connections).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_as_many_as_set_while_the_limit_of_files_allows() {
        let need = |connections| Need { own: 256, connections, settings: "s" };
        for (limit, set, room_for) in
            [(20_000, 10_000, 10_000), (u64::MAX, 10_000, 10_000), (1024, 10_000, 768), (1024, 50, 50)]
        {
            assert_eq!(connections_within(limit, &need(set)), room_for, "{limit} files, {set} connections");
        }
        assert_eq!(
            (connections_within(256, &need(100)), connections_within(0, &need(100))),
            (64, 1),
            "some are always taken"
        );
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(raise() >= hard.min(OPEN_MAX));
    }
}
