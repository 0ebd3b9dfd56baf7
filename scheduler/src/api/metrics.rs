//! The metrics of the API.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Answered requests, by route, method and status.
pub const REQUESTS: &str = "tidemill_api_requests_total";
/// Seconds until the head of the response, by route.
pub const REQUEST_SECONDS: &str = "tidemill_api_request_seconds";
/// Open event streams.
pub const STREAMS: &str = "tidemill_api_streams";
/// Number of times that a follower had to start again because events were missing.
pub const RESETS: &str = "tidemill_api_stream_resets_total";
/// Entries that could not be written to the audit log.
pub const AUDIT_LOST: &str = "tidemill_audit_lost_total";

/// Registers the help texts of the metrics.
pub fn describe() {
    describe_counter!(REQUESTS, Unit::Count, "Requests answered, by route, method and status");
    describe_histogram!(REQUEST_SECONDS, Unit::Seconds, "Time until the head of the answer, by route");
    describe_gauge!(STREAMS, Unit::Count, "Event streams that are open");
    describe_counter!(AUDIT_LOST, Unit::Count, "Entries that could not be written to the audit log");
    describe_counter!(RESETS, Unit::Count, "Followers that had to start again because events were missing");
}

/// Counts an open stream while it exists.
pub struct OpenStream(());

impl OpenStream {
    /// Counts one more open stream.
    pub fn count() -> Self {
        metrics::gauge!(STREAMS).increment(1.0);
        Self(())
    }
}
impl Drop for OpenStream {
    fn drop(&mut self) {
        metrics::gauge!(STREAMS).decrement(1.0);
    }
}
