//! The phase of a connection and its time limit: pure decisions.
//!
//! New connections, those between two requests, and those still sending a head count as idle: they can be
//! closed without losing an answer.

use tokio::time::Instant;

use super::Limits;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No bytes received yet.
    New { since: Instant },
    /// Receiving the head of a request.
    Head { since: Instant },
    /// A request is in progress, or its answer is being sent.
    Busy,
    /// The request waits for more of its body.
    Body { since: Instant },
    /// The answer is complete here, and the client has not received all of it.
    Rest { since: Instant },
    /// Between two requests.
    Idle { since: Instant },
}

/// An event on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happening {
    /// Bytes were received.
    Read,
    /// A head is complete.
    Request,
    /// The handler waits for more of the body.
    BodyAwaited,
    /// The handler has it, or wants no more.
    BodyCame,
    /// The last part of the answer was given to the HTTP library.
    Answered,
    /// The client received bytes.
    Wrote,
    /// All bytes were sent.
    Flushed,
}

/// The reason for closing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The head was late.
    Header,
    /// Nothing was received or sent for too long.
    Idle,
    /// A new connection needed its place.
    Room,
    /// There was no place for it.
    Full,
    /// The client of an event stream takes nothing although much waits for it.
    Stalled,
}

impl Cut {
    /// The name in the metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Header => "header_timeout",
            Self::Idle => "idle",
            Self::Room => "room",
            Self::Full => "full",
            Self::Stalled => "stalled",
        }
    }
}

impl Phase {
    /// The phase after an event; irrelevant events change nothing.
    pub(super) fn after(self, what: Happening, now: Instant) -> Self {
        match (what, self) {
            // A client gains no time by sending single bytes.
            (Happening::Read, Self::New { since }) => Self::Head { since },
            (Happening::Read, Self::Idle { .. }) => Self::Head { since: now },
            (Happening::Request, _) => Self::Busy,
            (Happening::BodyAwaited, Self::Busy) => Self::Body { since: now },
            (Happening::BodyCame, Self::Body { .. }) => Self::Busy,
            (Happening::Answered, Self::Busy | Self::Body { .. }) | (Happening::Wrote, Self::Rest { .. }) => {
                Self::Rest { since: now }
            }
            (Happening::Flushed, Self::Rest { .. }) => Self::Idle { since: now },
            (
                Happening::Read
                | Happening::BodyAwaited
                | Happening::BodyCame
                | Happening::Answered
                | Happening::Wrote
                | Happening::Flushed,
                _,
            ) => self,
        }
    }

    /// The end of the phase's time, and the reason for closing then.
    pub(super) fn deadline(self, limits: &Limits) -> Option<(Instant, Cut)> {
        match self {
            Self::New { since } | Self::Head { since } => Some((since + limits.header_timeout, Cut::Header)),
            Self::Body { since } | Self::Rest { since } | Self::Idle { since } => {
                Some((since + limits.idle, Cut::Idle))
            }
            Self::Busy => None,
        }
    }

    /// Whether it may be closed for another one.
    pub(super) fn is_idle(self) -> bool {
        match self {
            Self::New { .. } | Self::Head { .. } | Self::Idle { .. } => true,
            Self::Busy | Self::Body { .. } | Self::Rest { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Happening::{Answered, BodyAwaited, BodyCame, Flushed, Read, Request, Wrote};
    use super::*;

    const LIMITS: Limits = Limits {
        header_timeout: Duration::from_secs(10),
        idle: Duration::from_secs(100),
        connections_max: 1,
    };

    /// The second at which a connection would be cut, and the reason; each step is (second, event).
    fn cut_after(steps: &[(u64, Happening)]) -> Option<(u64, Cut)> {
        let begin = Instant::now();
        let mut phase = Phase::New { since: begin };
        for (second, what) in steps {
            phase = phase.after(*what, begin + Duration::from_secs(*second));
        }
        phase.deadline(&LIMITS).map(|(at, cut)| (at.duration_since(begin).as_secs(), cut))
    }

    #[test]
    fn a_head_has_its_time_from_the_first_byte_and_a_new_connection_from_the_start() {
        assert_eq!(cut_after(&[]), Some((10, Cut::Header)));
        assert_eq!(cut_after(&[(3, Read), (6, Read), (9, Read)]), Some((10, Cut::Header)));
        let answered = [(1, Read), (1, Request), (2, Answered), (2, Flushed)];
        assert_eq!(cut_after(&answered), Some((102, Cut::Idle)));
        let again = [&answered[..], &[(50, Read), (55, Read)]].concat();
        assert_eq!(cut_after(&again), Some((60, Cut::Header)));
    }

    #[test]
    fn a_request_in_progress_has_no_time_limit_however_long_it_is_silent() {
        assert_eq!(cut_after(&[(1, Read), (1, Request)]), None);
        // An event stream: bytes are sent, and the end has not come.
        assert_eq!(cut_after(&[(1, Read), (1, Request), (2, Wrote), (2, Flushed), (3, Wrote)]), None);
        // A second request that came with the first.
        assert_eq!(cut_after(&[(1, Read), (1, Request), (2, Answered), (2, Request), (2, Flushed)]), None);
    }

    #[test]
    fn a_body_that_does_not_come_and_an_answer_that_is_not_taken_are_cut() {
        let waits = [(1, Read), (1, Request), (2, BodyAwaited), (90, BodyAwaited)];
        assert_eq!(cut_after(&waits), Some((102, Cut::Idle)));
        assert_eq!(cut_after(&[&waits[..], &[(91, BodyCame)]].concat()), None);
        let rest = [(1, Read), (1, Request), (2, Answered), (60, Wrote)];
        assert_eq!(cut_after(&rest), Some((160, Cut::Idle)));
    }

    #[test]
    fn only_what_takes_no_answer_from_anybody_makes_room() {
        let since = Instant::now();
        for phase in [Phase::New { since }, Phase::Head { since }, Phase::Idle { since }] {
            assert!(phase.is_idle(), "{phase:?}");
        }
        for phase in [Phase::Busy, Phase::Body { since }, Phase::Rest { since }] {
            assert!(!phase.is_idle(), "{phase:?}");
        }
    }
}
