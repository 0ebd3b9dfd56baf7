//! Turns a batch of facts and due timers into one commit. It only decides: nothing is written to the store here.
//!
//! A step that panics must not stop the shard. The batch is dropped and done again fact by fact, and the fact that
//! panics alone fails its run.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::failure::{EngineErrorType, JOB_REFUSED};
use tidemill_common::ids::{EntryId, FramePath, NodeId, RunId};
use tidemill_common::machine::fact::{JobLost, LastSign};
use tidemill_common::machine::order::changes::Changes;
use tidemill_common::machine::state::run::{Hashing, RunHead};
use tidemill_common::machine::{Fact, Moment, RunState, step, step_into};
use tidemill_common::store::{Commit, Dead, RawFact, withheld};
use tidemill_common::telemetry;
use tidemill_common::value::secrets::Secrets;
use tidemill_common::wire;
use tidemill_common::wire::commit::RunWrite;
use tidemill_common::wire::state::AtRest;
use tidemill_common::wire::timers::{TimerRead, timer_from_member, timer_run};

use crate::shards::failures::Failures;
use crate::shards::run_cache::RunCache;
use crate::shards::step_buffers::StepBuffers;

/// One input of a batch.
#[derive(Debug, Clone)]
pub enum Input {
    /// An entry of the inbox.
    Fact(RawFact),
    /// A member of the timers set that is due.
    Timer(String),
    /// The timer of a run's time limit, with the last signs of life of the workers that hold its jobs.
    TimeLimit(String, Vec<LastSign>),
    /// A job that has vanished from Redis.
    Lost(RunId, JobLost),
}

impl Input {
    /// The run that the input belongs to, or `None` when it names none.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Fact(fact) => fact.run.as_ref().ok().copied(),
            Self::Timer(member) | Self::TimeLimit(member, _) => timer_run(member),
            Self::Lost(run, _) => Some(*run),
        }
    }
    /// The id of the inbox entry, or `None` for inputs that are not from the inbox.
    pub fn entry(&self) -> Option<EntryId> {
        match self {
            Self::Fact(fact) => Some(fact.entry),
            Self::Timer(_) | Self::TimeLimit(..) | Self::Lost(..) => None,
        }
    }
    /// True when the input may report a cost. Costs count even after the run has ended.
    pub fn may_cost(&self) -> bool {
        use wire::fact::kind::{CHILD_ENDED, CHILD_RETRY, CHILD_STEP, DONE, FAILED, STEP};
        let Self::Fact(fact) = self else { return false };
        match &*fact.kind {
            STEP | CHILD_STEP => fact.body.contains("\"charge\""),
            CHILD_RETRY | CHILD_ENDED | DONE | FAILED => fact.body.contains("_tokens\""),
            _ => false,
        }
    }
    /// The approximate size in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Fact(fact) => fact.body.len() + 64,
            Self::Timer(member) | Self::TimeLimit(member, _) => member.len(),
            Self::Lost(..) => 64,
        }
    }
}

/// A run that cannot be loaded, with its stored state.
#[derive(Debug, Clone)]
pub struct Gone {
    pub reason: String,
    /// The stored state of the run, or `None` when nothing is stored.
    pub rest: Option<AtRest>,
}

/// A commit, and the runs that it changes.
#[derive(Debug, Default)]
pub struct Batch {
    pub commit: Commit,
    /// Runs that the commit changes.
    pub touched: Vec<RunId>,
    /// The approximate number of bytes that it writes for each of them.
    pub written: Vec<(RunId, usize)>,
    /// Runs that end with the commit.
    pub ended: Vec<RunId>,
    /// What fails with the commit, for the log.
    pub failures: Failures,
    /// The number of inputs that it applies.
    pub inputs: usize,
}

/// A step panicked. The caller must drop the states of these runs and apply the inputs one by one.
#[derive(Debug)]
pub struct Panicked {
    /// Runs whose states may be half changed.
    pub touched: Vec<RunId>,
    /// The message of the panic.
    pub reason: String,
}

/// Applies inputs to the runs in the cache. The caller has loaded the run of each input, or has put it into `gone` with
/// the reason why it cannot be loaded. `reused` has the buffers that are reused from batch to batch.
///
/// Changes are encoded after all steps: so each run is encoded once, and the encoder's code stays in the processor's
/// cache.
///
/// # Errors
/// A step panicked.
pub fn decide(
    inputs: &[Input],
    cache: &mut RunCache,
    reused: &mut StepBuffers,
    gone: &HashMap<RunId, Gone>,
    number: u64,
    now: Timestamp,
) -> Result<Batch, Panicked> {
    let mut batch = Batch { commit: Commit { number, ..Commit::default() }, ..Batch::default() };
    // Given back only on success: after a panic the half-done changes are dropped with the buffer.
    let mut buffers = std::mem::take(reused);
    let mut jobs = 0;
    let read = read_ahead(inputs, cache);
    for (input, read) in inputs.iter().zip(read) {
        batch.inputs += 1;
        if let Some(entry) = input.entry() {
            batch.commit.cursor = Some(entry);
        }
        let Some(id) = input.run() else {
            give_up(&mut batch, input, "it names no run", None);
            continue;
        };
        let Some(run) = cache.get_mut(&id) else {
            pass_over(&mut batch, input, gone.get(&id).map(|gone| (id, gone)), now);
            continue;
        };
        let fact = match read.map_or_else(|| fact_of(input, run), |fact| Ok(Some(fact))) {
            Ok(Some(fact)) => fact,
            Ok(None) => {
                clear_timer(&mut batch, input);
                continue;
            }
            Err(reason) => {
                give_up(&mut batch, input, &reason, Some(&run.graph.hidden));
                if !begins(input) {
                    continue;
                }
                // A run that cannot begin must not wait for ever, so it fails.
                Fact::Defect(reason.into())
            }
        };
        let (moment, changes) = (Moment { now, commit: number, jobs }, buffers.next());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| step_into(run, fact, moment, changes))) {
            return Err(Panicked {
                touched: buffers.runs().chain([id]).collect(),
                reason: telemetry::panic_message(&*panic).into(),
            });
        }
        jobs += changes.jobs.len() as u64;
        keep_timer(&mut batch, input, changes);
        buffers.keep(id);
    }
    let (runs, mut lost) = (buffers.runs().count(), None);
    batch.commit.writes.reserve(runs);
    batch.touched.reserve(runs);
    batch.written.reserve(runs);
    buffers.hand_over(|id, changes| match cache.get(&id) {
        Some(run) => write(&mut batch, run, changes),
        None => {
            lost = Some(id);
            0
        }
    });
    if let Some(id) = lost {
        // No code removes runs from the cache in between. If this ever changes, the facts must not count as applied.
        batch.touched.push(id);
        return Err(Panicked {
            touched: batch.touched,
            reason: format!("run {id} has moved, and its state is gone"),
        });
    }
    *reused = buffers;
    Ok(batch)
}

/// Parses results of jobs before the first step, each at the position of its input, and touches the parts of the run
/// states that their steps will read. These parts are scattered in memory: a step would wait for them one after the
/// other, but this loop does nothing else, so the processor fetches many at once.
fn read_ahead(inputs: &[Input], cache: &RunCache) -> Vec<Option<Fact>> {
    let facts: Vec<Option<Fact>> = inputs.iter().map(|input| known_before(input, cache)).collect();
    for (input, fact) in inputs.iter().zip(&facts) {
        let Some(Fact::JobSucceeded(done) | Fact::JobFailed(done)) = fact else { continue };
        let run = input.run().and_then(|id| cache.get(&id));
        std::hint::black_box(run.map(|run| run.glance(&done.job.frame, done.job.node)));
    }
    facts
}

/// Returns `None` for any other kind of fact, and for a fact that cannot be parsed: `decide` parses it in its turn. The
/// start fact of a run that was created from it needs no second parse.
fn known_before(input: &Input, cache: &RunCache) -> Option<Fact> {
    use wire::fact::kind::{DONE, FAILED, START};
    let Input::Fact(fact) = input else { return None };
    let run = fact.run.as_ref().ok()?;
    if fact.kind == START {
        return cache.is_made_of(run, fact.entry).then_some(Fact::Begin);
    }
    if fact.kind != DONE && fact.kind != FAILED {
        return None;
    }
    fact_of(input, cache.get(run)?).ok()?
}

/// Adds the changes of a run to the commit. Returns the approximate number of bytes.
fn write(batch: &mut Batch, run: &RunState, changes: &mut Changes) -> usize {
    if changes.is_empty() {
        return 0;
    }
    batch.touched.push(run.id);
    if run.status.is_over() {
        batch.ended.push(run.id);
    }
    batch.failures.add(run, changes.entries.events());
    batch.commit.writes.push(RunWrite::new(run, changes));
    let bytes = batch.commit.writes.last().map_or(0, RunWrite::size);
    batch.written.push((run.id, bytes));
    bytes
}

/// Clears the timer of the input if the run has changed no timers: a timer that was due must not stay.
fn keep_timer(batch: &mut Batch, input: &Input, changes: &Changes) {
    if let Input::Timer(member) | Input::TimeLimit(member, _) = input
        && changes.timers.is_empty()
    {
        batch.commit.timers_cleared.push(member.clone());
    }
}

/// True for the fact that begins its run.
fn begins(input: &Input) -> bool {
    use wire::fact::kind::{IMPORT, START};
    matches!(input, Input::Fact(fact) if fact.kind == START || fact.kind == IMPORT)
}

fn clear_timer(batch: &mut Batch, input: &Input) {
    if let Input::Timer(member) | Input::TimeLimit(member, _) = input {
        batch.commit.timers_cleared.push(member.clone());
    }
}

/// Parses an input for its run. Returns `None` for a timer whose frame has closed.
fn fact_of(input: &Input, run: &RunState) -> Result<Option<Fact>, String> {
    match input {
        Input::Fact(fact) if fact.kind == wire::fact::kind::IMPORT => {
            let read = wire::snapshot::parse_fact(run.id, &run.graph.0, &fact.body);
            read.map(Some).map_err(|e| e.to_string())
        }
        Input::Fact(fact) => {
            wire::fact::parse(&fact.kind, &fact.body, &run.graph).map(Some).map_err(|e| e.to_string())
        }
        Input::Timer(member) => match timer_from_member(run, member) {
            TimerRead::Timer(timer) => Ok(Some(Fact::TimerFired(timer))),
            TimerRead::Stale => Ok(None),
            TimerRead::Unknown => Err("it is not a timer of this run".into()),
        },
        Input::TimeLimit(_, signs) => Ok(Some(Fact::RunDeadline(signs.clone()))),
        Input::Lost(_, lost) => Ok(Some(Fact::JobLost(lost.clone()))),
    }
}

/// Handles an input without a run in the cache. When the run has ended or was removed, the input is dropped. A run that
/// cannot be loaded is ended, and the fact becomes a dead letter.
fn pass_over(batch: &mut Batch, input: &Input, gone: Option<(RunId, &Gone)>, now: Timestamp) {
    match gone {
        Some((id, Gone { reason, rest: Some(rest) })) => {
            give_up(batch, input, reason, None);
            if !batch.ended.contains(&id)
                && let Ok(write) = RunWrite::unreadable(id, rest, reason, now)
            {
                batch.commit.writes.push(write);
                batch.ended.push(id);
            }
        }
        Some((id, Gone { reason, rest: None })) => bury_job(batch, input, id, reason),
        None => {}
    }
    clear_timer(batch, input);
}

/// Writes a dead letter for a job that was done for a missing run. A run's jobs are removed when it ends, and the run
/// itself later. So a person has removed this run, or Redis has lost it. Other facts of such a run are dropped.
fn bury_job(batch: &mut Batch, input: &Input, run: RunId, reason: &str) {
    use wire::fact::kind::{DONE, FAILED, PARKED};
    let Input::Fact(fact) = input else { return };
    if ![DONE, FAILED, PARKED].contains(&&*fact.kind) {
        return;
    }
    let body: Json = serde_json::from_str(&fact.body).unwrap_or_default();
    let text = |key: &str| body.get(key).and_then(Json::as_str);
    let Some(node) = text("node") else { return };
    if is_given_up(text("error_type"), text("error")) {
        return;
    }
    tracing::error!(%run, node, reason, "a job is given up");
    metrics::counter!(crate::metrics::DEAD.name).increment(1);
    let content = format!("{} {}", fact.kind, withheld(&fact.body));
    let dead = Dead::new("job", run.to_string(), reason, content);
    let frame = text("frame").map(FramePath::from).unwrap_or_default();
    batch.commit.dead.push(dead.at(frame, NodeId::from(node)));
}

/// True when a worker gave the job up: then the worker has already written a dead letter.
fn is_given_up(class: Option<&str>, error: Option<&str>) -> bool {
    let is_of = |known: EngineErrorType| class == Some(known.name());
    is_of(EngineErrorType::WorkerLost)
        || is_of(EngineErrorType::Engine) && error.is_some_and(|error| error.starts_with(JOB_REFUSED))
}

/// Writes a dead letter with the workflow's secrets masked. Without the workflow all texts are withheld.
fn give_up(batch: &mut Batch, input: &Input, reason: &str, hidden: Option<&Secrets>) {
    let (what, run, content) = match input {
        Input::Fact(fact) => {
            let body = match hidden {
                Some(hidden) => hidden.hidden_json(fact.body.to_string(), 1),
                None => withheld(&fact.body),
            };
            ("fact", fact.run_text(), format!("{} {body}", fact.kind))
        }
        Input::Timer(member) | Input::TimeLimit(member, _) => {
            batch.commit.timers_cleared.push(member.clone());
            ("timer", String::new(), member.clone())
        }
        Input::Lost(run, lost) => ("job", run.to_string(), lost.entry.to_string()),
    };
    let reason = hidden.map_or_else(|| reason.to_owned(), |hidden| hidden.masked(reason.to_owned()));
    tracing::error!(what, run, reason, "a fact, timer or job is given up");
    metrics::counter!(crate::metrics::DEAD.name).increment(1);
    batch.commit.dead.push(Dead::new(what, run, reason, content));
}

/// Builds the commit that fails a run whose step panics, and keeps the fact as a dead letter.
pub fn end_by_defect(
    input: &Input,
    cache: &mut RunCache,
    reason: &str,
    number: u64,
    now: Timestamp,
) -> Batch {
    let mut batch = Batch { commit: Commit { number, ..Commit::default() }, inputs: 1, ..Batch::default() };
    batch.commit.cursor = input.entry();
    let known = input.run().and_then(|id| cache.get_mut(&id)).map(|run| run.graph.clone());
    give_up(&mut batch, input, reason, known.as_ref().map(|graph| &graph.hidden));
    let Some(id) = input.run() else { return batch };
    let Some(run) = cache.get_mut(&id) else { return batch };
    let moment = Moment { now, commit: number, jobs: 0 };
    let stepped = catch_unwind(AssertUnwindSafe(|| step(run, Fact::Defect(reason.into()), moment)));
    match stepped {
        Ok(mut changes) => {
            write(&mut batch, run, &mut changes);
        }
        Err(_) => cache.remove(&id),
    }
    batch
}

/// Returns the runs that the inputs need and the cache lacks, each once. A run that has ended is needed only when an
/// input may report a cost.
pub fn missing(inputs: &[Input], cache: &RunCache) -> HashSet<RunId, Hashing> {
    inputs
        .iter()
        .filter_map(|input| Some((input, input.run()?)))
        .filter(|(input, id)| cache.get(id).is_none() && (!cache.has_ended(id) || input.may_cost()))
        .map(|(_, id)| id)
        .collect()
}

/// Finds the start fact of a run among the inputs, and parses the head in it.
pub fn start_of(inputs: &[Input], run: RunId) -> Option<(EntryId, Box<RunHead>)> {
    let is_start = |input: &&Input| matches!(input, Input::Fact(fact) if fact.kind == wire::fact::kind::START && input.run() == Some(run));
    let Some(Input::Fact(fact)) = inputs.iter().find(is_start) else { return None };
    match wire::fact::parse_start(&fact.body) {
        Ok(Fact::Start(head)) => Some((fact.entry, head)),
        Ok(_) | Err(_) => None,
    }
}

/// True when one of the inputs may report a cost of the run.
pub fn may_cost(inputs: &[Input], run: RunId) -> bool {
    inputs.iter().any(|input| input.run() == Some(run) && input.may_cost())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidemill_common::ids::ShardId;

    use super::*;

    const WORKFLOW: &str = "\
app: {mode: workflow}
workflow:
  environment_variables: [{id: k, name: KEY, value_type: secret, value: sk-0123456789}]
  graph:
    nodes:
    - {id: s, data: {type: start, variables: []}}
    - {id: e, data: {type: end, outputs: []}}
    edges: [{source: s, target: e}]
";

    /// The number of dead letters that a failed job of a missing run leaves.
    fn letters(error_type: &str, error: &str) -> usize {
        let run = RunId::new(1, 2, ShardId(0));
        let body = json!({"node": "llm", "attempt": 1, "error": error, "error_type": error_type}).to_string();
        let fact = RawFact::read(EntryId::new(1, 0), wire::fact::kind::FAILED, &run.to_string(), body);
        let reason = format!("RuntimeError: the state of run {run} is not there, and its job was done");
        let gone = HashMap::from([(run, Gone { reason, rest: None })]);
        let mut cache = RunCache::new(1024);
        let batch = decide(
            &[Input::Fact(fact)],
            &mut cache,
            &mut StepBuffers::default(),
            &gone,
            1,
            Timestamp::from_millis(0),
        );
        batch.expect("nothing panics").commit.dead.len()
    }

    #[test]
    fn se_a29_a_job_of_a_missing_run_leaves_exactly_one_dead_letter() {
        assert_eq!(letters("InvokeServerUnavailableError", "500"), 1);
        assert_eq!(letters("EngineError", "a template is too long"), 1);
        // The worker gave these up, and has written a dead letter itself.
        assert_eq!(letters(EngineErrorType::WorkerLost.name(), "handed out 3 times"), 0);
        assert_eq!(letters(EngineErrorType::Engine.name(), &format!("{JOB_REFUSED}: it is newer")), 0);
    }

    #[test]
    fn a_dead_letter_for_an_unreadable_fact_shows_no_secret() {
        let mut cache = cached("running", [run(1)]);
        let body = json!({"node": 1, "outputs": {"a": "tok sk-0123456789"}}).to_string();
        let fact = RawFact::read(EntryId::new(5, 0), wire::fact::kind::DONE, &run(1).to_string(), body);
        let batch =
            decided(&[Input::Fact(fact)], &mut cache, &mut StepBuffers::default(), 1).expect("no panic");
        let [letter] = &batch.commit.dead[..] else { panic!("one letter: {:?}", batch.commit.dead) };
        assert!(letter.content.contains("tok sk-012************89"), "{letter:?}");
    }

    #[test]
    fn a_dead_letter_of_a_run_without_a_readable_workflow_withholds_all_texts() {
        let body = json!({"node": "n", "attempt": 1, "error": "no tok sk-0123456789"}).to_string();
        let fact = RawFact::read(EntryId::new(5, 0), wire::fact::kind::FAILED, &run(1).to_string(), body);
        let gone = Gone { reason: "it has no workflow".into(), rest: Some(AtRest::default()) };
        for gone in [Gone { rest: None, ..gone.clone() }, gone] {
            let (mut cache, gone) = (RunCache::new(1024), HashMap::from([(run(1), gone)]));
            let (fact, now) = ([Input::Fact(fact.clone())], Timestamp::from_millis(0));
            let batch = decide(&fact, &mut cache, &mut StepBuffers::default(), &gone, 1, now)
                .expect("nothing panics");
            let [letter] = &batch.commit.dead[..] else { panic!("one letter: {:?}", batch.commit.dead) };
            assert_eq!(letter.content, r#"failed {"node":"n","attempt":1,"error":"(withheld)"}"#);
        }
    }

    /// A cache that holds runs with this status.
    fn cached<const N: usize>(status: &str, ids: [RunId; N]) -> RunCache {
        let graph = tidemill_common::graph::import(WORKFLOW.as_bytes()).graph.expect("it can run");
        let graph = std::sync::Arc::new(graph);
        let mut cache = RunCache::new(1024);
        for id in ids {
            let fields = [("status", status), ("version", &graph.hash.0)];
            let fields = fields.map(|(name, text)| (name.to_string(), text.to_string()));
            let rest = AtRest { run: fields.into_iter().collect(), ..AtRest::default() };
            cache.insert(wire::state::load(id, graph.clone(), rest).expect("a run"));
        }
        cache
    }

    fn run(number: u64) -> RunId {
        RunId::new(number, 2, ShardId(0))
    }

    fn fact_input(entry: u64, kind: &'static str, run: RunId) -> Input {
        Input::Fact(RawFact::read(EntryId::new(entry, 0), kind, &run.to_string(), "{}".into()))
    }

    fn decided(
        inputs: &[Input],
        cache: &mut RunCache,
        buffers: &mut StepBuffers,
        number: u64,
    ) -> Result<Batch, Panicked> {
        decide(inputs, cache, buffers, &HashMap::new(), number, Timestamp::from_millis(0))
    }

    #[test]
    fn a_fact_that_is_given_up_leaves_a_dead_letter_and_ends_its_run_only_once() {
        for (status, ends) in [("running", 1), ("succeeded", 0)] {
            let id = run(1);
            let mut cache = cached(status, [id]);
            let input = fact_input(1, wire::fact::kind::DONE, id);
            let batch = end_by_defect(&input, &mut cache, "a test", 1, Timestamp::from_millis(0));
            let Commit { writes, dead, cursor, .. } = batch.commit;
            assert_eq!((writes.len(), batch.ended.len(), dead.len()), (ends, ends, 1), "{status}");
            assert_eq!(cursor, Some(EntryId::new(1, 0)), "{status}");
        }
    }

    /// Turns of one conversation may end in one batch. What they leave to the conversation is written in the order of
    /// their changes.
    #[test]
    fn the_run_that_changed_last_in_a_batch_is_written_last() {
        use wire::fact::kind::{DONE, PAUSE, STOP};
        let [a, b, c] = [run(1), run(2), run(3)];
        let (mut cache, mut buffers) = (cached("running", [a, b, c]), StepBuffers::default());
        let stale = format!("{b} retry 1 gone/e");
        let inputs = [
            fact_input(1, PAUSE, a),
            fact_input(2, PAUSE, c),
            fact_input(3, STOP, b),
            fact_input(4, DONE, c),
            Input::Timer(stale.clone()),
            fact_input(5, STOP, a),
            // b has ended: the fact changes nothing, and b keeps its position.
            fact_input(6, STOP, b),
        ];
        let batch = decided(&inputs, &mut cache, &mut buffers, 7).expect("nothing panics");
        let written: Vec<RunId> = batch.commit.writes.iter().map(|write| write.run).collect();
        assert_eq!(written, [c, b, a]);
        assert_eq!((&batch.touched, &batch.ended), (&vec![c, b, a], &vec![b, a]));
        assert_eq!((batch.commit.cursor, batch.inputs), (Some(EntryId::new(6, 0)), inputs.len()));
        assert_eq!(batch.commit.timers_cleared, [stale]);
        // A result that names no node cannot be read, and becomes a dead letter.
        assert_eq!(batch.commit.dead.len(), 1);
    }

    #[test]
    fn a_run_created_from_its_start_fact_begins_like_a_loaded_one() {
        let graph = std::sync::Arc::new(
            tidemill_common::graph::import(WORKFLOW.as_bytes()).graph.expect("it can run"),
        );
        let body = json!({"graph": &*graph.hash.0, "user": "ada", "created_at": 7, "inputs": {"x": "given"}})
            .to_string();
        let entry = EntryId::new(5, 0);
        let start =
            || Input::Fact(RawFact::read(entry, wire::fact::kind::START, &run(1).to_string(), body.clone()));
        let (found, head) = start_of(&[fact_input(4, wire::fact::kind::DONE, run(1)), start()], run(1))
            .expect("it can be read");
        assert_eq!((found, start_of(&[start()], run(2))), (entry, None));
        let new = |head: RunHead| RunState::new(run(1), graph.clone(), head);
        let mut written = Vec::new();
        for made_of in [Some(entry), Some(EntryId::new(4, 0)), None] {
            let mut cache = RunCache::new(1024);
            match made_of {
                Some(fact) => cache.insert_new(new((*head).clone()), fact),
                // The head in the cache differs from the fact: the fact wins.
                None => cache.insert(new(RunHead { user: "bob".into(), ..(*head).clone() })),
            }
            let begins = matches!(known_before(&start(), &cache), Some(Fact::Begin));
            assert_eq!(begins, made_of == Some(entry), "{made_of:?}");
            let batch =
                decided(&[start()], &mut cache, &mut StepBuffers::default(), 1).expect("nothing panics");
            assert_eq!(cache.get(&run(1)).map(|run| run.head.user.as_str()), Some("ada"), "{made_of:?}");
            written.push(batch.commit.writes);
        }
        assert!(!written[0][0].entries.is_empty() && written.iter().all(|writes| *writes == written[0]));
    }

    #[test]
    fn a_step_that_panics_drops_all_changes_of_its_batch() {
        use wire::fact::kind::{CONTINUE, PAUSE, STOP};
        let [a, b] = [run(1), run(2)];
        let (mut cache, mut buffers) = (cached("running", [a, b]), StepBuffers::default());
        cache
            .get_mut(&b)
            .expect("a run")
            .ready
            .push_back((FramePath::default(), tidemill_common::graph::NodeIx(99)));
        let inputs = [fact_input(1, PAUSE, a), fact_input(2, CONTINUE, b)];
        let panicked = decided(&inputs, &mut cache, &mut buffers, 1).expect_err("there is no such node");
        assert_eq!(panicked.touched, [a, b]);
        let mut cache = cached("running", [a, b]);
        let batch = decided(&[fact_input(2, STOP, b)], &mut cache, &mut buffers, 1).expect("nothing panics");
        assert_eq!((batch.touched, batch.commit.writes.len()), (vec![b], 1));
    }

    #[test]
    fn facts_that_may_report_a_cost_are_recognised_without_parsing() {
        use wire::fact::kind::{CHUNK, DONE, STEP};
        let may = |kind: &'static str, body: serde_json::Value| {
            let run = RunId::new(1, 2, ShardId(0)).to_string();
            Input::Fact(RawFact::read(EntryId::new(1, 0), kind, &run, body.to_string())).may_cost()
        };
        assert!(may(STEP, json!({"charge": {"key": "llm:1/1"}})));
        assert!(!may(STEP, json!({"events": []})));
        assert!(may(DONE, json!({"usage": {"total_tokens": 7}})));
        assert!(!may(DONE, json!({"outputs": []})));
        assert!(!may(CHUNK, json!({"text": "total_tokens"})));
        assert!(!Input::Timer("x deadline".into()).may_cost());
    }
}
