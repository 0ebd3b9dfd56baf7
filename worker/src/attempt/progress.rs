//! Reports a running job: that it started, its streamed text, and its model's reasoning. After a quiet time the first
//! piece is sent at once; later pieces are gathered for at most `worker.chunk_gather_ms`. A job that ends before
//! anything is due reports nothing.
//!
//! Text has byte offsets, and lost pieces are filled in from the outputs. Reasoning is sent and forgotten; a job that
//! is delivered again sends it again. The order of text and reasoning is kept: before one kind follows the other,
//! pending pieces are sent.
//!
//! No piece ends inside a secret, because the masking of a single piece would not find half a secret. Text that may be
//! the start of a secret waits for the next piece.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use serde_json::json;
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::limits;
use tidemill_common::machine::fact::ChildEvent;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::NodeResult;
use tidemill_common::value::secrets::Secrets;
use tidemill_common::value::{JsonMap, Selector};
use tidemill_common::wire::fact::report::{JobName, Report};
use tokio::time::Instant;

use crate::attempt::growing::Growing;
use crate::attempt::journal::ChildTry;
use crate::jobs::reporter::ReportQueue;
use crate::metrics;

const STARTED_AFTER: Duration = Duration::from_millis(limits::STARTED_AFTER_MS);
/// More pending text than this is sent even when the report queue is long.
const PENDING_BYTES_MAX: usize = 64 * 1024;

/// The progress of one attempt; see the module.
#[derive(Debug)]
pub(crate) struct Progress {
    reports: ReportQueue,
    run: RunId,
    name: JobName,
    started_at: Timestamp,
    /// Set for a node that runs inside the job.
    child_try: Option<ChildTry>,
    began: Instant,
    /// The streamed texts: the main one first, then other outputs that stream. Empty when no client reads them.
    texts: Vec<Text>,
    /// Reasoning that is not sent yet.
    thought: Growing,
    /// Secrets that no piece may cut.
    secrets: Secrets,
    /// The node, if its executor belongs to the host: any of its outputs may stream, and none has to.
    host: Option<String>,
    /// Longest time for gathering pieces. Zero sends every piece separately.
    gather: Duration,
    announced: bool,
    last: Option<Instant>,
}

/// One streamed text.
#[derive(Debug)]
struct Text {
    selector: Selector,
    /// The number of bytes already sent.
    sent: u64,
    pending: Growing,
}

impl Text {
    fn new(selector: Selector) -> Self {
        Self { selector, sent: 0, pending: Growing::default() }
    }
}

impl Progress {
    pub(crate) fn new(
        reports: ReportQueue,
        run: RunId,
        name: JobName,
        started_at: Timestamp,
        selector: Option<Selector>,
        gather: Duration,
    ) -> Self {
        Self {
            reports,
            run,
            name,
            started_at,
            child_try: None,
            began: Instant::now(),
            texts: selector.into_iter().map(Text::new).collect(),
            host: None,
            gather,
            announced: false,
            thought: Growing::default(),
            secrets: Secrets::default(),
            last: None,
        }
    }

    /// Reports a node that runs inside the job. Sends at once that the node started.
    pub(crate) fn of_child(self, child_try: ChildTry) -> Self {
        self.report(child_try.report(ChildEvent::Started));
        Self { child_try: Some(child_try), announced: true, ..self }
    }

    /// Reports a node whose executor says itself which outputs stream. A client reads them.
    pub(crate) fn of_host(self, node: &str) -> Self {
        Self { host: Some(node.to_owned()), ..self }
    }

    /// Sets the secrets that no piece may cut.
    pub(crate) fn cutting_none_of(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Adds a piece of the main text.
    pub(crate) fn push(&mut self, text: &str) {
        if !self.texts.is_empty() {
            self.take(0, text);
        }
    }

    /// Adds a piece of an output by name. An empty piece declares that the output streams: its readers then receive its
    /// end, not its value.
    pub(crate) fn push_to(&mut self, output: &str, text: &str) {
        let Some(node) = self.node().cloned() else { return };
        let known = self.texts.iter().position(|one| one.selector.get(1).is_some_and(|name| name == output));
        let at = known.unwrap_or_else(|| {
            self.texts.push(Text::new(vec![node, output.to_owned()]));
            self.texts.len() - 1
        });
        self.take(at, text);
    }

    /// The node whose text a client reads, if any does.
    fn node(&self) -> Option<&String> {
        let main = self.texts.first().and_then(|main| main.selector.first());
        main.or(self.host.as_ref())
    }

    fn take(&mut self, at: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        let now = Instant::now();
        self.send_thought(now, false);
        let before = self.pending();
        self.texts[at].pending.push(text, &self.secrets);
        let quiet = self.last.is_none_or(|last| now.duration_since(last) >= self.gather);
        // Text that already waits has its own due time.
        if self.gather.is_zero() || quiet && before == 0 && !self.reports.is_busy() {
            self.flush_texts_at(now);
        }
    }

    /// Adds a piece of reasoning. It is sent as an event of the node, only when a client reads the node's text.
    pub(crate) fn think(&mut self, text: &str, is_last: bool) {
        if self.node().is_none() {
            return;
        }
        self.flush_texts();
        let now = Instant::now();
        let quiet =
            self.thought.ready() == 0 && self.last.is_none_or(|last| now.duration_since(last) >= self.gather);
        self.thought.push(text, &self.secrets);
        if is_last || self.gather.is_zero() || quiet && !self.reports.is_busy() {
            self.send_thought(now, is_last);
        }
    }

    /// Returns true if all streamed texts equal the outputs in length. They differ when an output was cleaned up.
    pub(crate) fn is_in(&self, result: &NodeResult) -> bool {
        self.texts.iter().all(|text| {
            let name = text.selector.get(1).map(String::as_str);
            let output = result.outputs.iter().find(|(known, _)| Some(known.as_str()) == name);
            let streamed = text.sent + text.pending.len() as u64;
            output.is_some_and(|(_, segment)| segment.text().len() as u64 == streamed)
        })
    }

    /// The number of pending bytes that may be sent.
    fn pending(&self) -> usize {
        self.thought.ready() + self.texts.iter().map(|text| text.pending.ready()).sum::<usize>()
    }

    /// The time at which the next report is due.
    fn due(&self) -> Option<Instant> {
        if self.pending() > 0 {
            return Some(self.last.unwrap_or(self.began) + self.gather);
        }
        (!self.announced).then(|| self.began + STARTED_AFTER)
    }

    fn fire(&mut self, now: Instant) {
        if self.pending() == 0 {
            self.announced = true;
            self.report(Report::Started { at: self.started_at });
        } else if self.reports.is_busy() && self.pending() < PENDING_BYTES_MAX {
            self.last = Some(now);
        } else {
            self.send_pending();
        }
    }

    /// Sends the pieces that are pending. Text that may be the start of a secret still waits.
    pub(crate) fn send_pending(&mut self) {
        self.send_thought(Instant::now(), false);
        self.flush_texts();
    }

    /// Sends everything that is pending, because no more follows.
    pub(crate) fn flush(&mut self) {
        self.thought.end();
        self.texts.iter_mut().for_each(|text| text.pending.end());
        self.send_pending();
    }

    fn flush_texts(&mut self) {
        self.flush_texts_at(Instant::now());
    }

    fn flush_texts_at(&mut self, now: Instant) {
        if self.texts.iter().any(|text| text.pending.ready() > 0) {
            self.send(now);
        }
    }

    /// The total bytes of each streamed text, sent or not. The receiver takes unsent text from the outputs.
    pub(crate) fn streamed(&self) -> Vec<(Selector, u64)> {
        let total = |text: &Text| text.sent + text.pending.len() as u64;
        self.texts.iter().map(|text| (text.selector.clone(), total(text))).collect()
    }

    fn send(&mut self, now: Instant) {
        let started_at = self.started_at;
        let due = self.texts.iter_mut().filter(|text| text.pending.ready() > 0);
        let chunks: Vec<Report> = due
            .map(|Text { selector, sent, pending }| {
                let (text, offset) = (pending.take(), *sent);
                *sent += text.len() as u64;
                Report::Chunk { started_at, selector: selector.clone(), offset, text }
            })
            .collect();
        for chunk in chunks {
            self.report(chunk);
            metrics::CHUNKS.count();
        }
        self.announced = true;
        self.last = Some(now);
    }

    fn send_thought(&mut self, now: Instant, is_last: bool) {
        let Some(node) = self.node().cloned() else { return };
        if is_last {
            self.thought.end();
        }
        if self.thought.ready() == 0 && !is_last {
            return;
        }
        let text = self.thought.take();
        let mut data = JsonMap::new();
        data.insert("selector".into(), json!([node, "reasoning_content"]));
        data.insert("chunk".into(), json!(text));
        data.insert("is_final".into(), json!(is_last));
        let events = vec![(StepEvent::ReasoningChunk, data)];
        let report = Report::Step { started_at: self.started_at, events, charge: None };
        self.report(report);
        self.announced = true;
        self.last = Some(now);
    }

    fn report(&self, report: Report) {
        let report = match &self.child_try {
            None => report,
            Some(child_try) => child_try.report(of_child(report)),
        };
        self.reports.report(self.run, report.kind(), report.to_json(&self.name));
    }
}

/// Converts a report of the job to an event of a node inside it.
fn of_child(report: Report) -> ChildEvent {
    match report {
        Report::Chunk { selector, offset, text, .. } => ChildEvent::Chunk { selector, offset, text },
        Report::Step { events, charge, .. } => ChildEvent::Step { events, charge },
        Report::Child { what, .. } => what,
        Report::Started { .. } | Report::Parked { .. } | Report::Called { .. } | Report::Ended { .. } => {
            ChildEvent::Started
        }
    }
}

/// The progress of one attempt, shared between the node, which pushes, and [`send_pieces`], which sends.
#[derive(Debug)]
pub(crate) struct SharedProgress(Mutex<Progress>);

impl SharedProgress {
    pub(crate) fn new(progress: Progress) -> Self {
        Self(Mutex::new(progress))
    }
    pub(crate) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `work` and reports its progress meanwhile.
pub(crate) async fn sending_pieces<T>(progress: &SharedProgress, work: impl Future<Output = T>) -> T {
    tokio::select! {
        // The work comes first: the same poll then sees what it pushed, without another wake-up.
        biased;
        done = work => done,
        never = send_pieces(progress) => match never {},
    }
}

async fn send_pieces(progress: &SharedProgress) -> Infallible {
    let mut sleep = pin!(tokio::time::sleep(STARTED_AFTER));
    poll_fn(|cx| {
        loop {
            let due = {
                let mut progress = progress.lock();
                let (due, now) = (progress.due(), Instant::now());
                match due {
                    None => return Poll::Pending,
                    Some(due) if due <= now => {
                        progress.fire(now);
                        continue;
                    }
                    Some(due) => due,
                }
            };
            if sleep.deadline() != due {
                sleep.as_mut().reset(due);
            }
            ready!(sleep.as_mut().poll(cx));
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fake::{FakeJobs, core, run_id, until};
    use serde_json::Value as Json;
    use std::sync::Arc;
    use tidemill_common::ids::{Delivery, EntryId, FramePath, ShardId};
    use tidemill_common::value::{Segment, SegmentType};

    fn progress(jobs: &Arc<FakeJobs>, streams: bool) -> SharedProgress {
        let name = JobName {
            lost_at: None,
            frame: FramePath::root(),
            node: "llm".into(),
            attempt: 1,
            entry: EntryId::new(5, 0),
            holder: Delivery { consumer: "w".into(), number: 1 },
        };
        let reports = core(jobs, 1).reporter.of(ShardId(0));
        let selector = streams.then(|| vec!["llm".to_string(), "text".to_string()]);
        let gather = Duration::from_millis(limits::CHUNK_GATHER_MS);
        SharedProgress::new(Progress::new(
            reports,
            run_id(),
            name,
            Timestamp::from_micros(5),
            selector,
            gather,
        ))
    }

    /// A sent report: milliseconds since the start, kind, offset, text.
    type Told = (u64, &'static str, Json, Json);

    /// Pushes pieces, each after its delay in milliseconds, and returns the reports sent.
    async fn told(streams: bool, pieces: &[(u64, &str)], rest_ms: u64) -> Vec<Told> {
        let jobs = FakeJobs::new();
        let progress = progress(&jobs, streams);
        let began = Instant::now();
        let watched = jobs.clone();
        let watch = tokio::spawn(async move {
            let mut told: Vec<Told> = Vec::new();
            until("over", || {
                let at = u64::try_from(began.elapsed().as_millis()).unwrap();
                for (kind, body) in watched.state().facts.iter().skip(told.len()) {
                    told.push((at, *kind, body["offset"].clone(), body["text"].clone()));
                }
                began.elapsed() > Duration::from_secs(2)
            })
            .await;
            told
        });
        sending_pieces(&progress, async {
            for (ms, text) in pieces {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                progress.lock().push(text);
            }
            tokio::time::sleep(Duration::from_millis(rest_ms)).await;
        })
        .await;
        watch.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_piece_goes_at_once_and_the_following_are_gathered() {
        let told =
            told(true, &[(5, "He"), (3, "l"), (3, "lö"), (10, ","), (1, " you"), (100, "!")], 50).await;
        let chunk = |offset: u64, text: &str| ("chunk", json!(offset), json!(text));
        let texts: Vec<_> = told.iter().map(|it| (it.1, it.2.clone(), it.3.clone())).collect();
        assert_eq!(texts, [chunk(0, "He"), chunk(2, "llö, you"), chunk(11, "!")]);
        let times: Vec<u64> = told.iter().map(|it| it.0).collect();
        for (time, expected) in times.iter().zip([5, 25, 122]) {
            assert!(time.abs_diff(expected) <= 8, "{times:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_told_once_and_only_by_what_runs_longer() {
        assert!(told(true, &[], 15).await.is_empty());
        let late = told(true, &[(60, "x")], 0).await;
        assert_eq!(late.iter().map(|it| it.1).collect::<Vec<_>>(), ["started", "chunk"]);
        let unread = told(false, &[(5, "x"), (5, "y")], 40).await;
        assert_eq!(unread.iter().map(|it| it.1).collect::<Vec<_>>(), ["started"]);
    }

    #[tokio::test(start_paused = true)]
    async fn thoughts_are_gathered_and_keep_their_place_among_the_text() {
        let jobs = FakeJobs::new();
        let progress = progress(&jobs, true);
        {
            let mut progress = progress.lock();
            progress.think("a", false);
            progress.think("b", false);
            progress.think("c", false);
            progress.push("said");
            progress.think("", true);
        }
        until("told", || jobs.state().facts.len() == 4).await;
        let shown = |body: &Json| match body.get("events") {
            Some(events) => json!([events[0][0], events[0][1]["chunk"], events[0][1]["is_final"]]),
            None => json!([body["offset"], body["text"]]),
        };
        let told: Vec<Json> = jobs.state().facts.iter().map(|(_, body)| shown(body)).collect();
        let thought = |text: &str, last: bool| json!(["node_run_reasoning_chunk", text, last]);
        assert_eq!(told, [thought("a", false), thought("bc", false), json!([0, "said"]), thought("", true)]);
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_can_be_sent_before_they_are_due() {
        let jobs = FakeJobs::new();
        let progress = progress(&jobs, true);
        {
            let mut progress = progress.lock();
            progress.push("at once");
            progress.push(", gathered");
            progress.send_pending();
            assert_eq!(progress.pending(), 0);
            progress.send_pending();
        }
        until("told", || jobs.state().facts.len() == 2).await;
        let told: Vec<Json> = jobs.state().facts.iter().map(|(_, body)| body["text"].clone()).collect();
        assert_eq!(told, ["at once", ", gathered"]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_piece_ends_within_a_secret() {
        let key = Segment::new(SegmentType::Secret, "sk-0123456789".into());
        let secrets = Secrets::of(std::iter::once((Arc::from("KEY"), &key)));
        let jobs = FakeJobs::new();
        let SharedProgress(inner) = progress(&jobs, true);
        let mut progress = inner.into_inner().unwrap().cutting_none_of(secrets);
        progress.gather = Duration::ZERO;
        for piece in ["a s", "k", "-01234", "56789 b s", "k-0", "x", " sk-"] {
            progress.push(piece);
        }
        // Text that might become a secret is not due; it is sent at the end.
        assert_eq!((progress.due().is_some(), progress.streamed()[0].1), (false, 27));
        progress.flush();
        until("told", || jobs.state().facts.len() == 5).await;
        let told: Vec<Json> = jobs.state().facts.iter().map(|(_, body)| body["text"].clone()).collect();
        assert_eq!(told, ["a ", "sk-0123456789 b ", "sk-0x", " ", "sk-"]);
    }

    #[tokio::test(start_paused = true)]
    async fn text_that_the_output_does_not_repeat_to_the_byte_is_not_left_to_the_output() {
        let jobs = FakeJobs::new();
        let shared = progress(&jobs, true);
        shared.lock().push("a\n\n\nb");
        let output = |text: &str| NodeResult::outputs(vec![("text".into(), Segment::string(text))]);
        assert!(shared.lock().is_in(&output("a\n\n\nb")));
        assert!(!shared.lock().is_in(&output("a\n\nb")));
        assert!(!shared.lock().is_in(&NodeResult::default()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_total_counts_what_was_not_sent() {
        let jobs = FakeJobs::new();
        let key = || vec!["llm".to_string(), "text".to_string()];
        let shared = progress(&jobs, true);
        assert_eq!(shared.lock().streamed(), [(key(), 0)]);
        shared.lock().push("ab");
        shared.lock().push("ö");
        assert_eq!(shared.lock().streamed(), [(key(), 4)]);
        assert!(progress(&jobs, false).lock().streamed().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn outputs_that_stream_besides_are_told_apart() {
        let jobs = FakeJobs::new();
        let shared = progress(&jobs, true);
        let key = |name: &str| vec!["llm".to_string(), name.to_string()];
        shared.lock().push_to("story", "once");
        shared.lock().push_to("text", "ab");
        shared.lock().push_to("empty", "");
        shared.lock().push_to("story", " upon");
        assert_eq!(shared.lock().streamed(), [(key("text"), 2), (key("story"), 9), (key("empty"), 0)]);
        let unread = progress(&jobs, false);
        unread.lock().push_to("story", "once");
        assert!(unread.lock().streamed().is_empty());
    }
}
