//! Notices: what a commit orders for the webhook of a run's app, in the same transaction as the change itself.

use crate::state::AtRest;
use crate::state::WEBHOOK_FIELD;
use tidemill_base::clock::Timestamp;
use tidemill_engine::order::changes::Changes;
use tidemill_engine::state::run::{RunState, RunStatus};

/// The run has ended, and not by a failure.
pub const ENDED: &str = "ended";
/// The run has failed.
pub const FAILED: &str = "failed";
/// The run waits for an answer or a command.
pub const PAUSED: &str = "paused";
/// All events.
pub const EVENTS: [&str; 3] = [ENDED, FAILED, PAUSED];

/// An order to notify the webhook of an app about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeWrite {
    pub app: String,
    /// One of [`EVENTS`].
    pub event: &'static str,
    /// The time of the event.
    pub at: Timestamp,
}

/// The event of a run that has come to this status.
fn event_of(status: RunStatus) -> Option<&'static str> {
    match status {
        RunStatus::Scheduled | RunStatus::Running => None,
        RunStatus::Paused => Some(PAUSED),
        RunStatus::Succeeded | RunStatus::PartialSucceeded | RunStatus::Stopped => Some(ENDED),
        RunStatus::Failed => Some(FAILED),
    }
}

fn wanted(events: &str, app: &str, status: RunStatus, at: Timestamp) -> Option<Box<NoticeWrite>> {
    let event = event_of(status).filter(|event| events.split(' ').any(|wanted| wanted == *event))?;
    Some(Box::new(NoticeWrite { app: app.into(), event, at }))
}

/// The notice about the changes of a run.
pub(crate) fn notice(run: &RunState, changes: &Changes) -> Option<Box<NoticeWrite>> {
    let (events, app) = (run.head.webhook.as_deref()?, run.head.app.as_deref()?);
    changes.status_from?;
    wanted(events, app, run.status, time_of(run, changes))
}

/// When the run has come to its status. The number of a commit does not say it: a quiet shard's numbers stay far in the past.
fn time_of(run: &RunState, changes: &Changes) -> Timestamp {
    let ended = run.finished_at.filter(|_| run.status.is_over());
    // Every change of a status is an event.
    let told = || changes.entries.events().last().map(|event| event.at);
    let asked = || run.pauses.values().map(|pause| pause.opened_at).max();
    ended.or_else(told).or_else(asked).unwrap_or(run.head.created_at)
}

/// The notice about the failure of a run that cannot be read.
pub(crate) fn unreadable(rest: &AtRest, now: Timestamp) -> Option<Box<NoticeWrite>> {
    wanted(rest.run.get(WEBHOOK_FIELD)?, rest.run.get("app")?, RunStatus::Failed, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wanted_events_are_ordered() {
        for (events, status, expected) in [
            ("ended failed paused", RunStatus::Succeeded, Some(ENDED)),
            ("ended failed paused", RunStatus::Stopped, Some(ENDED)),
            ("ended failed", RunStatus::Paused, None),
            ("paused", RunStatus::Paused, Some(PAUSED)),
            ("ended", RunStatus::Failed, None),
            ("failed", RunStatus::Failed, Some(FAILED)),
            ("ended failed paused", RunStatus::Running, None),
            ("", RunStatus::Succeeded, None),
        ] {
            let event = wanted(events, "a", status, Timestamp::default()).map(|notice| notice.event);
            assert_eq!(event, expected, "{events} {status:?}");
        }
    }
}
