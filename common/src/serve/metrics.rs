//! The metrics of listeners, each name once.

use metrics::{Unit, describe_counter, describe_gauge};

use super::Door;
use super::phase::Cut;

/// Connections that are open, by listener.
const CONNECTIONS: &str = "tidemill_connections";
/// Connections that were closed before their client wanted it, by listener and reason.
const CUT: &str = "tidemill_connections_cut_total";

/// Gives the metrics their help texts.
pub fn describe() {
    describe_gauge!(CONNECTIONS, Unit::Count, "Connections that are open, by listener");
    describe_counter!(
        CUT,
        Unit::Count,
        "Connections cut, by listener and reason: header_timeout, idle, room (for a new one), full (refused)"
    );
}

pub(super) fn open(door: &Door, count: usize) {
    metrics::gauge!(CONNECTIONS, "listener" => door.name).set(count as f64);
}

pub(super) fn cut(door: &Door, why: Cut) {
    metrics::counter!(CUT, "listener" => door.name, "reason" => why.name()).increment(1);
}
