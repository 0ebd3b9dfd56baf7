//! The metrics of listeners, with one spelling of each name.

use metrics::{Unit, describe_counter, describe_gauge};

use super::ListenerSettings;
use super::phase::Cut;

/// Open connections, by listener.
const CONNECTIONS: &str = "tidemill_connections";
/// Connections that the server closed, by listener and reason.
const CUT: &str = "tidemill_connections_cut_total";

/// Sets the help texts of the metrics.
pub fn describe() {
    describe_gauge!(CONNECTIONS, Unit::Count, "Open connections, by listener");
    describe_counter!(
        CUT,
        Unit::Count,
        "Connections cut, by listener and reason: header_timeout, idle, room (for a new one), full (refused), stalled (a \
         client that does not read its stream)"
    );
}

pub(super) fn open(settings: &ListenerSettings, count: usize) {
    metrics::gauge!(CONNECTIONS, "listener" => settings.name).set(count as f64);
}

pub(super) fn cut(settings: &ListenerSettings, why: Cut) {
    metrics::counter!(CUT, "listener" => settings.name, "reason" => why.name()).increment(1);
}
