//! Apps that a plugin calls. The published version runs as a sub-workflow run, as if a node had called it as a tool, but the
//! job is not parked: the process of the plugin waits. The run is ordered through the journal of the job, and this worker
//! reads from time to time how it is, so no thread waits. The run is stopped when this worker no longer has the job.

mod info;
mod room;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value as Json;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::tool::{APP_NOT_FOUND, APP_NOT_PUBLISHED};
use tidemill_common::store::{App, Called, Jobs};
use tidemill_common::value::JsonMap;
use tidemill_plugins::process::Parts;
use tokio::time::{Instant, Interval, MissedTickBehavior};

pub(in crate::outside::plugins) use self::room::{AppRoom, OwnPlace};
use self::shape::{AppRequest, CalledRun};
use super::{Answering, Asker, text};
use crate::attempt::journal::{ChargeSource, Journal, SideCall};
use crate::jobs::backoff::Backoff;
use crate::outside::tools::called_run::{clean, error, opened, take_over_files, usage};
use crate::outside::tools::{NO_SECRETS, ToolError};

/// The first pause between two looks at the run: one that needs no worker for long has ended then.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause. One small request a second is little beside what the run itself costs, and the plugin learns of the
/// end of a long run soon enough.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The longest time in which nothing knows an ordered run, while Redis answers. The owner of a shard applies an order in
/// milliseconds, and another process takes over the shard of a dead one within seconds.
const UNKNOWN_MAX: Duration = Duration::from_secs(60);
/// The time between two pings of a stream. The SDK gives up after 250 s without a part.
const PING: Duration = Duration::from_secs(60);

/// Sends a part of the answer.
type Sending<'m, 's> = &'m mut (dyn FnMut(Json) -> BoxFuture<'s, Result<(), String>> + Send + 's);

impl Answering<'_> {
    /// Runs an app, and answers as Dify's blocking or streaming response.
    pub(super) async fn app(&self, mut request: Json, parts: &Parts) -> Result<(), String> {
        let app = find(&*self.host.jobs, text(&request, "app_id")?).await?;
        check_approval(self.asker.auto_approved, &app.id)?;
        let journal = self.asker.journal.ok_or("only a job with a journal can call an app")?;
        let request = AppRequest::read(&app, &mut request)?;
        let _place = self.app_place.take(&self.host.app_room, self.asker.nested)?;
        let call = Self::call_name();
        let charge = |run: RunId, cost: &Usage| self.charge(&call, cost, ChargeSource::Run(run));
        let mut send = |part: Json| async move { parts.send(part).await }.boxed();
        let called = AppCall { asker: self.asker, journal, call: &call, app: &app, request };
        called.answer(&mut send, &charge).await
    }

    /// What is known about an app, as Dify describes it to plugins.
    pub(super) async fn app_info(&self, request: &Json) -> Result<Json, String> {
        let app = find(&*self.host.jobs, text(request, "app_id")?).await?;
        info::of(&app, &self.host.app_settings)
    }
}

/// A call of an app.
struct AppCall<'c> {
    asker: Asker<'c>,
    journal: &'c Journal,
    /// The name of the call, unique among all of the job.
    call: &'c str,
    app: &'c App,
    request: AppRequest,
}

impl AppCall<'_> {
    /// Orders the run, follows it, and sends what it answers. `charge` counts its cost.
    async fn answer(
        &self,
        send: Sending<'_, '_>,
        charge: &(dyn Fn(RunId, &Usage) + Send + Sync),
    ) -> Result<(), String> {
        let given = self.request.given();
        if self.journal.secrets().are_in(&given) {
            return Err(NO_SECRETS.into());
        }
        let mut pings = pings();
        let mut called = self.journal.call_beside(self.call, &self.app.id, Json::Object(given)).await?;
        let run = called.run;
        let fields = self.end_of(&mut called, &mut pings, &mut *send).await?;
        charge(run, &usage(&fields));
        // As on Dify, the failure of a workflow is a part of its answer, and that of a chat is an error.
        if let Some(reason) = error(&fields).filter(|_| self.request.is_chat()) {
            return Err(reason);
        }
        let outputs = self.outputs(&fields).await?;
        for part in self.called(run, &fields).answer(outputs, self.request.streams) {
            send(part).await?;
        }
        Ok(())
    }

    /// Waits for the end of the run, and returns the fields of its hash. A stream gets its start meanwhile, and pings.
    async fn end_of(
        &self,
        called: &mut SideCall<'_>,
        pings: &mut Interval,
        send: Sending<'_, '_>,
    ) -> Result<HashMap<String, String>, String> {
        let (run, mut has_begun) = (called.run, !self.request.streams);
        let (mut pause, mut unknown) = (FIRST_PAUSE, Duration::ZERO);
        loop {
            let (fields, is_over) = match self.pinging(run, called.look(), pings, &mut *send).await? {
                Called::Refused(reason) => return Err(reason),
                Called::Gone => {
                    return Err(format!(
                        "the run {run} of the app was removed before its result was read (scheduler.retention_seconds)"
                    ));
                }
                Called::Unknown if unknown >= UNKNOWN_MAX => return Err(not_applied(run)),
                Called::Unknown => {
                    // Only the pauses count: a look takes as long as Redis does not answer.
                    unknown += pause;
                    (None, false)
                }
                Called::Ended(fields) => (Some(fields), true),
                Called::Runs(fields) => (Some(fields), false),
                Called::Waits => (None, false),
            };
            if let Some(fields) = fields {
                if !has_begun {
                    has_begun = true;
                    if let Some(part) = self.called(run, &fields).start(self.request.inputs.clone()) {
                        send(part).await?;
                    }
                }
                if is_over {
                    return Ok(fields);
                }
            }
            self.pinging(run, tokio::time::sleep(pause), pings, &mut *send).await?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits for something, and sends a stream its pings meanwhile. A reader that is gone ends the wait.
    async fn pinging<T>(
        &self,
        run: RunId,
        waits: impl Future<Output = T>,
        pings: &mut Interval,
        send: Sending<'_, '_>,
    ) -> Result<T, String> {
        tokio::pin!(waits);
        loop {
            tokio::select! {
                biased;
                done = &mut waits => return Ok(done),
                _ = pings.tick(), if self.request.streams => {
                    send(self.called(run, &HashMap::new()).ping()).await?;
                }
            }
        }
    }

    fn called<'r>(&'r self, run: RunId, fields: &'r HashMap<String, String>) -> CalledRun<'r> {
        CalledRun { app: self.app, kind: self.request.kind, run, fields }
    }

    /// The outputs, cleaned by the rules of the app. Their files become files of the run that asks.
    async fn outputs(&self, fields: &HashMap<String, String>) -> Result<JsonMap, String> {
        let Asker { run, http, files, .. } = self.asker;
        let opened = async {
            let mut outputs = opened(fields, self.journal).await?;
            clean(fields, &mut outputs)?;
            take_over_files(&mut outputs, (run, http, files)).await?;
            Ok::<_, ToolError>(outputs)
        };
        opened.await.map_err(|error| error.message)
    }
}

/// The times for the pings of a stream, from now.
fn pings() -> Interval {
    let mut pings = tokio::time::interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// The error for an order that no scheduler applies.
fn not_applied(run: RunId) -> String {
    let seconds = UNKNOWN_MAX.as_secs();
    format!(
        "the order for the run {run} of the app was not applied within {seconds} s: it may be among the dead letters \
         (tidemill dead ls), an older scheduler may own the run, which does not know such orders, or no scheduler keeps up \
         (none runs, or Redis is full); the app may still begin later, and a repeated call starts another run"
    )
}

/// Finds the published version of an app, by its id, or else by its name. The errors have Dify's words.
async fn find(jobs: &dyn Jobs, wanted: &str) -> Result<Arc<App>, String> {
    let mut backoff = Backoff::default();
    let found = loop {
        match jobs.app_called(wanted).await {
            Ok(found) => break found,
            Err(error) if error.is_passing() => backoff.wait().await,
            Err(error) => return Err(format!("the app {wanted} cannot be looked up: {error}")),
        }
    };
    let app =
        found.ok_or_else(|| format!("{APP_NOT_FOUND}: no single app has the id or the name {wanted}"))?;
    if app.document.is_empty() { Err(APP_NOT_PUBLISHED.into()) } else { Ok(Arc::new(app)) }
}

/// Refuses an app where calls of tools need approval, because a plugin cannot ask a person. The author can approve it as a
/// tool with the name `app/ID`.
fn check_approval(approved: Option<&[Arc<str>]>, app: &str) -> Result<(), String> {
    let id = format!("app/{app}");
    if approved.is_none_or(|all| all.iter().any(|name| **name == *id)) {
        return Ok(());
    }
    Err(format!(
        "calls of tools must be approved in this run, and a plugin cannot ask for approval: {id} is not among \
         tool_approval.auto_approved_tools"
    ))
}
