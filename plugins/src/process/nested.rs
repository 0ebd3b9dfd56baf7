//! Invocations inside others. A plugin that asks for the tool or the model of a plugin waits for it, and keeps its process and its
//! place until then. So such an invocation never waits for a process or a place that others hold: they might all wait for one more.
//! A share of both is kept for it (`nested_percent`), and without room it fails at once.
//!
//! Answers call tools and models through many layers that know nothing of plugins, so what begins within an answer is marked by the
//! task that polls it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::settings::ProcessLimits;

tokio::task_local! {
    static NESTED: ();
}

/// Runs what answers a question of a plugin. Each invocation that it begins is nested, except in other tasks.
pub async fn nested<T>(answer: impl Future<Output = T>) -> T {
    NESTED.scope((), answer).await
}

/// Whether what runs now answers a question of a plugin.
pub(super) fn is_nested() -> bool {
    NESTED.try_with(|()| ()).is_ok()
}

/// How many of all the outermost invocations may have. They have one at least.
fn outermost_of(all: usize, nested_percent: usize) -> usize {
    let kept = all.saturating_mul(nested_percent).div_ceil(100);
    all - kept.min(all.saturating_sub(1))
}

impl ProcessLimits {
    /// Most processes in which sessions run that are not nested.
    pub fn outermost_processes(&self) -> usize {
        outermost_of(self.processes_max, self.nested_percent)
    }

    /// Most sessions of one plugin for one app.
    pub(super) fn places_each(&self) -> usize {
        self.processes_each_max.saturating_mul(self.sessions_max).min(Semaphore::MAX_PERMITS)
    }

    /// Most of them that are not nested.
    pub fn outermost_places(&self) -> usize {
        outermost_of(self.places_each(), self.nested_percent)
    }
}

/// What a session holds until its end.
pub(super) struct Held {
    /// A place among those of its plugin and app, and for an outermost one also among those of outermost ones.
    pub(super) _places: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

/// A process in which outermost sessions run counts as one of theirs, as long as one of them holds this.
pub(super) type Share = Arc<OwnedSemaphorePermit>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_for_nested_invocations_and_one_for_the_others() {
        for (all, percent, expected) in
            [(32, 25, 24), (64, 25, 48), (1, 25, 1), (2, 25, 1), (3, 90, 1), (8, 0, 8)]
        {
            assert_eq!(outermost_of(all, percent), expected, "{percent} % of {all}");
        }
    }

    #[tokio::test]
    async fn only_what_runs_within_an_answer_is_nested() {
        assert!(!is_nested());
        assert!(nested(async { is_nested() }).await);
        assert!(
            nested(async {
                nested(async {}).await;
                is_nested()
            })
            .await
        );
        assert!(!is_nested());
    }
}
