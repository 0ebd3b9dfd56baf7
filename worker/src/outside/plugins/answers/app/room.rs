//! How many invocations of plugins wait for apps on this worker. An invocation that waits keeps the permit of its job, a process
//! and a place in it, and the jobs of the app may need the same ones here. So there are always fewer invocations that wait
//! than there are of each: at least one stays for an invocation that waits for no app, and the apps go on. None waits for its turn:
//! without a place the question is refused.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidemill_common::config::Config;
use tidemill_plugins::settings::ProcessLimits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What an invocation that waits keeps, and how many of it this worker has.
#[derive(Debug, Clone, Copy)]
struct Kept {
    setting: &'static str,
    count: usize,
}

/// The places of invocations that wait for apps.
pub(in crate::outside::plugins) struct AppRoom {
    places: Arc<Semaphore>,
    size: usize,
    /// What there is least of.
    least: Kept,
    percent: usize,
}

/// The place of one invocation, which it keeps as long as it waits for any app.
#[derive(Default)]
pub(in crate::outside::plugins) struct OwnPlace(Mutex<Weak<OwnedSemaphorePermit>>);

impl AppRoom {
    pub(in crate::outside::plugins) fn new(config: &Config, limits: &ProcessLimits) -> Self {
        let kept = [
            ("worker.permits", config.worker.permits),
            ("plugins.processes_max without plugins.nested_percent", limits.outermost_processes()),
            (
                "plugins.processes_each_max × plugins.sessions_max without plugins.nested_percent",
                limits.outermost_places(),
            ),
        ];
        let [first, others @ ..] = kept.map(|(setting, count)| Kept { setting, count });
        let least =
            others.into_iter().fold(first, |least, one| if one.count < least.count { one } else { least });
        let percent = config.plugins.apps_percent;
        let share = least.count.saturating_mul(percent).div_ceil(100);
        let size = share.min(least.count.saturating_sub(1)).min(Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(size)), size, least, percent }
    }

    /// Takes a place for an invocation inside this many others: they wait with it, and keep what they have, too.
    fn take(&self, around: u32) -> Result<OwnedSemaphorePermit, String> {
        let Self { size, least: Kept { setting, count }, percent, .. } = *self;
        let needed = around.saturating_add(1);
        if size == 0 && percent == 0 {
            return Err("on this worker no plugin may wait for an app: plugins.apps_percent is 0".into());
        }
        if size == 0 {
            return Err(format!(
                "on this worker no plugin may wait for an app, because the app could need the only place that there is: \
                 raise {setting}, which is {count}"
            ));
        }
        if usize::try_from(needed).is_ok_and(|needed| needed > size) {
            return Err(format!(
                "{needed} invocations of plugins, one inside the other, would wait for the app, and on this worker only {size} may \
                 (plugins.apps_percent of {setting})"
            ));
        }
        self.places.clone().try_acquire_many_owned(needed).map_err(|_| {
            format!(
                "busy: on this worker {size} invocations of plugins may wait for apps at once (plugins.apps_percent of {setting})"
            )
        })
    }
}

impl OwnPlace {
    /// The place of the invocation: a new one, if it waits for no other app.
    ///
    /// # Errors
    /// There is none; the reason names the setting.
    pub(super) fn take(&self, room: &AppRoom, around: u32) -> Result<Arc<OwnedSemaphorePermit>, String> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = own.upgrade() {
            return Ok(place);
        }
        let place = Arc::new(room.take(around)?);
        *own = Arc::downgrade(&place);
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;

    use super::*;

    /// The room of a worker with these permits, processes, processes of a plugin, sessions, and per cents for nested ones and apps.
    fn room(permits: usize, [all, each, sessions, nested, percent]: [usize; 5]) -> AppRoom {
        let mut config = Config::default();
        (config.worker.permits, config.plugins.apps_percent) = (permits, percent);
        let limits = ProcessLimits {
            processes_max: all,
            processes_each_max: each,
            sessions_max: sessions,
            nested_percent: nested,
            ..ProcessLimits::default()
        };
        AppRoom::new(&config, &limits)
    }

    #[test]
    fn one_place_of_each_kind_is_always_left() {
        for (permits, limits, expected) in [
            (256, [32, 4, 16, 25, 50], 12),
            (256, [32, 4, 16, 25, 90], 22),
            (8, [32, 4, 16, 25, 50], 4),
            (3, [32, 4, 16, 25, 50], 2),
            (2, [32, 4, 16, 25, 90], 1),
            (2, [32, 4, 16, 25, 1], 1),
            (1, [32, 4, 16, 25, 50], 0),
            (256, [2, 4, 16, 25, 50], 0),
            (256, [3, 4, 16, 25, 90], 1),
            (256, [2, 4, 16, 0, 50], 1),
            (256, [1, 4, 16, 0, 50], 0),
            (256, [32, 1, 2, 0, 50], 1),
            (256, [32, 1, 1, 25, 50], 0),
            (256, [32, 2, 2, 50, 90], 1),
            (256, [32, 4, 16, 25, 0], 0),
        ] {
            let room = room(permits, limits);
            assert_eq!(room.size, expected, "{permits} permits and {limits:?}");
            assert!(room.size == 0 || room.size < room.least.count, "{permits} permits and {limits:?}");
        }
    }

    #[test]
    fn one_too_many_is_refused_and_an_end_gives_its_place_back() {
        let room = room(4, [32, 4, 16, 25, 50]);
        let (first, second, third) = (OwnPlace::default(), OwnPlace::default(), OwnPlace::default());
        let one = first.take(&room, 0).unwrap();
        let again = first.take(&room, 0).unwrap();
        let waits = async {
            let _place = second.take(&room, 0).unwrap();
            pending::<()>().await;
        };
        let mut waits = Box::pin(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        let refused = third.take(&room, 0).unwrap_err();
        assert!(refused.starts_with("busy: ") && refused.contains("plugins.apps_percent"), "{refused}");
        drop(waits);
        let place = third.take(&room, 0).unwrap();
        drop(one);
        assert!(second.take(&room, 0).is_err(), "the first one waits for another app");
        drop(again);
        assert!(second.take(&room, 0).is_ok());
        drop(place);
        assert_eq!(room.places.available_permits(), 2);
    }

    #[test]
    fn invocations_around_one_that_waits_count_with_it() {
        let room = room(4, [32, 4, 16, 25, 50]);
        let (inner, other) = (OwnPlace::default(), OwnPlace::default());
        let refused = inner.take(&room, 2).unwrap_err();
        assert!(refused.contains("3 invocations") && refused.contains("only 2 may"), "{refused}");
        let _place = inner.take(&room, 1).unwrap();
        assert!(other.take(&room, 0).unwrap_err().starts_with("busy: "));
    }

    #[test]
    fn a_worker_without_room_names_the_setting() {
        for (room, setting) in [
            (room(1, [32, 4, 16, 25, 50]), "raise worker.permits, which is 1"),
            (room(256, [2, 4, 16, 25, 50]), "raise plugins.processes_max"),
            (room(256, [32, 1, 1, 25, 50]), "raise plugins.processes_each_max"),
            (room(256, [32, 4, 16, 25, 0]), "plugins.apps_percent is 0"),
        ] {
            let refused = OwnPlace::default().take(&room, 0).unwrap_err();
            assert!(refused.contains(setting), "{refused}");
        }
    }
}
