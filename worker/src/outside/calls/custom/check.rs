//! Checks whether this worker can use a registered Call: its program is there and may be started, or its server answers.
//! Nothing of the Call is run, because running may have effects. A check is bounded in time, is made once for each version
//! of the Call, and is repeated only after a failure. The worker's record shows the results.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};
use tidemill_common::limits::{CALL_CHECK_AGAIN_MS, CALL_CHECK_MS, CALL_CHECKS_AT_ONCE};
use tidemill_common::registry::calls::{Manifest, Transport, manifest_of};
use tidemill_common::store::CatalogEntry;
use tidemill_common::wire::worker::CallAbility;

use crate::outside::calls::Calls;
use crate::outside::calls::custom::Custom;
use crate::outside::tools::operator_client::Request;

/// The reason why most workers cannot use a Call that a program runs. Nothing is wrong with them.
pub(crate) const NOT_HOSTED: &str = "the program around another worker runs it";

/// The result of the last check of a Call.
#[derive(Debug, Clone)]
pub(in crate::outside::calls) struct LastCheck {
    version: u64,
    at: Instant,
    refusal: Option<String>,
}

impl LastCheck {
    /// Returns true if the result still counts for this version.
    fn counts(&self, version: u64, now: Instant) -> bool {
        let is_fresh = now.duration_since(self.at) < Duration::from_millis(CALL_CHECK_AGAIN_MS);
        self.version == version && (self.refusal.is_none() || is_fresh)
    }
}

impl Calls {
    /// Checks the registered Calls whose last check does not count any more. Takes some seconds when servers do not answer.
    pub(crate) async fn check(&self) {
        let Ok(catalog) = self.read(false).await else { return };
        let now = Instant::now();
        let due: Vec<&CatalogEntry> = {
            let mut checks = self.checks();
            checks.retain(|id, _| catalog.calls.iter().any(|entry| entry.id == *id));
            let counts = |entry: &&CatalogEntry| {
                checks.get(&entry.id).is_some_and(|last| last.counts(entry.version, now))
            };
            catalog.calls.iter().filter(|entry| !counts(entry)).collect()
        };
        for some in due.chunks(CALL_CHECKS_AT_ONCE) {
            let asked: Vec<_> = some.iter().map(|entry| self.refusal(entry)).collect();
            for (entry, refusal) in some.iter().zip(join_all(asked).await) {
                if let Some(reason) = refusal.as_ref().filter(|reason| *reason != NOT_HOSTED) {
                    tracing::warn!(
                        call = entry.id,
                        version = entry.version,
                        reason,
                        "a Call cannot be used here"
                    );
                }
                let last = LastCheck { version: entry.version, at: now, refusal };
                self.checks().insert(entry.id.clone(), last);
            }
        }
    }

    /// Returns whether this worker can use the registered Calls, by id, as far as it has checked them.
    pub(crate) fn checked(&self) -> Vec<CallAbility> {
        let ability = |(id, last): (&String, &LastCheck)| CallAbility {
            id: id.clone(),
            version: last.version,
            usable: last.refusal.is_none(),
            reason: last.refusal.clone(),
        };
        let mut all: Vec<CallAbility> = self.checks().iter().map(ability).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// Returns the reason why this worker cannot use a Call, without secrets.
    async fn refusal(&self, entry: &CatalogEntry) -> Option<String> {
        let call = match manifest_of(entry, self.key()) {
            Ok(manifest) => Custom { id: entry.id.as_str().into(), manifest },
            Err(reason) => return Some(reason),
        };
        if matches!(call.manifest.transport, Some(Transport::Worker)) && self.hosted(&entry.id).is_some() {
            return None;
        }
        let hide = match call.hide(self) {
            Ok(hide) => hide,
            // It names a variable that is not set here.
            Err(error) => return Some(error.message),
        };
        let most = Duration::from_millis(CALL_CHECK_MS);
        match tokio::time::timeout(most, self.reached(&call.manifest)).await {
            Ok(reached) => reached.err().map(|reason| hide.text(&reason)),
            Err(_) => Some(format!("no answer within {CALL_CHECK_MS} ms")),
        }
    }

    async fn reached(&self, manifest: &Manifest) -> Result<(), String> {
        match &manifest.transport {
            Some(Transport::Process { command, .. }) => startable(command, &self.config.programs),
            Some(Transport::Http { url, .. }) => self.answers(url).await,
            Some(Transport::Worker) => Err(NOT_HOSTED.into()),
            None => Err("it has no transport".into()),
        }
    }

    /// Asks the server for its headers. Any answer will do, because only `POST` means something there.
    async fn answers(&self, url: &str) -> Result<(), String> {
        let url = Url::parse(url).map_err(|error| format!("its url cannot be read: {error}"))?;
        let client = self.operator_client().map_err(|error| error.message)?;
        let silence = Duration::from_millis(CALL_CHECK_MS);
        let request = Request {
            method: Method::HEAD,
            url: &url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            silence,
        };
        let failed = |reason: String| format!("its server does not answer: {reason}");
        client.send(request).await.map(drop).map_err(|error| failed(error.to_string()))
    }
}

/// Checks that a program may be started, is there, and can be executed.
fn startable(command: &[String], allowed: &[String]) -> Result<(), String> {
    let Some(program) = command.first() else { return Err("it names no program".into()) };
    if !allowed.contains(program) {
        return Err(format!(
            "this worker does not start the program {program}: add it to calls.programs of its settings"
        ));
    }
    let places: Vec<PathBuf> = if program.contains('/') {
        vec![PathBuf::from(program)]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    let is_there = |place: &&PathBuf| place.is_file();
    let Some(place) = places.iter().find(is_there) else {
        return Err(format!("the program {program} is not on this machine"));
    };
    if is_executable(place) { Ok(()) } else { Err(format!("the file {} is not executable", place.display())) }
}

fn is_executable(place: &Path) -> bool {
    place.metadata().is_ok_and(|about| about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_startable_if_it_is_named_there_and_executable() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, mode: u32| {
            let place = folder.path().join(name);
            std::fs::write(&place, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
            place.display().to_string()
        };
        let (good, plain) = (write("good", 0o755), write("plain", 0o644));
        let gone = folder.path().join("gone").display().to_string();
        let allowed = [good.clone(), plain.clone(), gone.clone(), "sh".to_owned()];
        for (command, refusal) in [
            (vec![good.clone(), "-x".into()], None),
            (vec!["sh".into()], None),
            (vec![plain], Some("is not executable")),
            (vec![gone], Some("is not on this machine")),
            (vec!["/bin/true".into()], Some("add it to calls.programs")),
            (Vec::new(), Some("names no program")),
        ] {
            let found = startable(&command, &allowed).err();
            match refusal {
                Some(part) => assert!(found.as_ref().is_some_and(|it| it.contains(part)), "{found:?}"),
                None => assert_eq!(found, None, "{command:?}"),
            }
        }
    }

    #[test]
    fn a_check_counts_for_its_version_and_a_failed_one_only_for_a_while() {
        let at = Instant::now();
        let later = at + Duration::from_millis(CALL_CHECK_AGAIN_MS);
        for (refusal, version, now, counts) in [
            (None, 1, later, true),
            (None, 2, at, false),
            (Some("no"), 1, at, true),
            (Some("no"), 1, later, false),
        ] {
            let last = LastCheck { version: 1, at, refusal: refusal.map(str::to_owned) };
            assert_eq!(last.counts(version, now), counts, "{refusal:?} {version}");
        }
    }
}
