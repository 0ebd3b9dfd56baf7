//! Counts the bytes of uploads, and notes which runs have files, with the behaviour of the scripts.

use super::Namespace;
use crate::store::{UploadCharge, UploadCharged};
use tidemill_base::ids::RunId;

impl Namespace {
    pub(super) fn note_files(&mut self, run: RunId) -> bool {
        let shard = self.shard(run.shard());
        let is_there = shard.runs.contains_key(&run);
        if is_there {
            shard.files.insert(run);
        }
        is_there
    }

    pub(super) fn charge(&mut self, it: &UploadCharge) -> UploadCharged {
        let keys = [(it.app.clone(), None), (it.app.clone(), Some(it.user.clone()))];
        let mut used = [0; 2];
        for (key, sum) in keys.iter().zip(&mut used) {
            let days = self.uploads.entry(key.clone()).or_default();
            days.retain(|day, _| *day >= it.first_day);
            *sum = days.values().sum();
        }
        let [of_app, of_user] = used;
        let is_full = |used: u64, max: u64| max > 0 && used + it.bytes > max;
        if is_full(of_app, it.app_max) {
            return UploadCharged::AppFull { used: of_app };
        }
        if is_full(of_user, it.user_max) {
            return UploadCharged::UserFull { used: of_user };
        }
        for key in keys {
            *self.uploads.entry(key).or_default().entry(it.day.clone()).or_default() += it.bytes;
        }
        UploadCharged::Taken
    }

    pub(super) fn give_back(&mut self, app: &str, user: &str, until: &str, kept: u64) {
        let Some(days) = self.uploads.get_mut(&(app.to_owned(), Some(user.to_owned()))) else { return };
        let mut back = Vec::new();
        for (day, bytes) in days.iter_mut().filter(|(day, _)| day.as_str() <= until) {
            let left = if day == until { kept.min(*bytes) } else { 0 };
            back.push((day.clone(), *bytes - left));
            *bytes = left;
        }
        days.retain(|_, bytes| *bytes > 0);
        let Some(days) = self.uploads.get_mut(&(app.to_owned(), None)) else { return };
        for (day, bytes) in back {
            if let Some(of_day) = days.get_mut(&day) {
                *of_day = of_day.saturating_sub(bytes);
            }
        }
        days.retain(|_, bytes| *bytes > 0);
    }

    pub(super) fn refund(&mut self, it: &UploadCharge) {
        for key in [(it.app.clone(), None), (it.app.clone(), Some(it.user.clone()))] {
            let of_day = self.uploads.entry(key).or_default().entry(it.day.clone()).or_default();
            *of_day = of_day.saturating_sub(it.bytes);
        }
    }
}
