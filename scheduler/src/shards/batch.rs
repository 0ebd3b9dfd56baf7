//! Facts and due timers in, one commit out. Deciding only: nothing is written here.
//!
//! A step that panics must not take the shard with it: the batch is thrown away and done again fact by fact, and the
//! fact that panics fails its own run.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::failure::{EngineErrorType, JOB_REFUSED};
use tidemill_common::ids::{EntryId, FramePath, NodeId, RunId};
use tidemill_common::machine::changes::Changes;
use tidemill_common::machine::fact::JobLost;
use tidemill_common::machine::run::{Hashing, RunHead};
use tidemill_common::machine::{Fact, Moment, RunState, step, step_into};
use tidemill_common::store::{Commit, Dead, RawFact, withheld};
use tidemill_common::telemetry;
use tidemill_common::value::secrets::Secrets;
use tidemill_common::wire;
use tidemill_common::wire::commit::RunWrite;
use tidemill_common::wire::state::AtRest;
use tidemill_common::wire::timers::{TimerRead, timer_from_member, timer_run};

use crate::shards::run_cache::RunCache;
use crate::shards::step_buffers::Changed;

/// Something to apply.
#[derive(Debug, Clone)]
pub enum Input {
    /// An entry of the inbox.
    Fact(RawFact),
    /// A member of the timers set whose time has come.
    Timer(String),
    /// A job that is gone.
    Lost(RunId, JobLost),
}

impl Input {
    /// The run it is about; none when it names none.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Fact(fact) => fact.run.as_ref().ok().copied(),
            Self::Timer(member) => timer_run(member),
            Self::Lost(run, _) => Some(*run),
        }
    }
    /// The inbox entry it is.
    pub fn entry(&self) -> Option<EntryId> {
        match self {
            Self::Fact(fact) => Some(fact.entry),
            Self::Timer(_) | Self::Lost(..) => None,
        }
    }
    /// Whether it may tell of a cost, which counts also when its run is over.
    pub fn may_cost(&self) -> bool {
        use wire::fact::kind::{CHILD_ENDED, CHILD_RETRY, CHILD_STEP, DONE, FAILED, STEP};
        let Self::Fact(fact) = self else { return false };
        match &*fact.kind {
            STEP | CHILD_STEP => fact.body.contains("\"charge\""),
            CHILD_RETRY | CHILD_ENDED | DONE | FAILED => fact.body.contains("_tokens\""),
            _ => false,
        }
    }
    /// About how many bytes it is.
    pub fn size(&self) -> usize {
        match self {
            Self::Fact(fact) => fact.body.len() + 64,
            Self::Timer(member) => member.len(),
            Self::Lost(..) => 64,
        }
    }
}

/// A run that cannot be worked on, with what the store has of it.
#[derive(Debug, Clone)]
pub struct Gone {
    /// Why.
    pub reason: String,
    /// What is stored of it; none when there is nothing.
    pub rest: Option<AtRest>,
}

/// A commit, and whose changes are in it.
#[derive(Debug, Default)]
pub struct Batch {
    /// What to write.
    pub commit: Commit,
    /// Runs that it touches.
    pub touched: Vec<RunId>,
    /// How many bytes it writes for each of them, about.
    pub written: Vec<(RunId, usize)>,
    /// Runs that end with it.
    pub ended: Vec<RunId>,
    /// How many inputs it applies.
    pub inputs: usize,
}

/// A step panicked; the states of these runs must be thrown away, and the inputs applied one by one.
#[derive(Debug)]
pub struct Panicked {
    /// Runs whose states are spoilt.
    pub touched: Vec<RunId>,
    /// What the panic said.
    pub reason: String,
}

/// Applies inputs to the runs in the cache. Every run that an input is about has been loaded before, or is in `gone`
/// with the reason why it cannot be. `changed` is room that is kept from batch to batch.
///
/// What changes is written when all steps are made: each run once, and writing is about as much code as a processor keeps close by.
///
/// # Errors
/// A step panicked.
pub fn decide(
    inputs: &[Input],
    cache: &mut RunCache,
    changed: &mut Changed,
    gone: &HashMap<RunId, Gone>,
    number: u64,
    now: Timestamp,
) -> Result<Batch, Panicked> {
    let mut batch = Batch { commit: Commit { number, ..Commit::default() }, ..Batch::default() };
    // Until all has gone well: what a panic leaves half done goes with its room.
    let mut rooms = std::mem::take(changed);
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
                // A run that cannot begin must not wait for ever.
                Fact::Defect(reason.into())
            }
        };
        let (moment, ordered) = (Moment { now, commit: number, jobs }, rooms.next());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| step_into(run, fact, moment, ordered))) {
            return Err(Panicked {
                touched: rooms.runs().chain([id]).collect(),
                reason: telemetry::said(&*panic).into(),
            });
        }
        jobs += ordered.jobs.len() as u64;
        keep_timer(&mut batch, input, ordered);
        rooms.keep(id);
    }
    let (runs, mut lost) = (rooms.runs().count(), None);
    batch.commit.writes.reserve(runs);
    batch.touched.reserve(runs);
    batch.written.reserve(runs);
    rooms.hand_over(|id, ordered| match cache.get(&id) {
        Some(run) => write(&mut batch, run, ordered),
        None => {
            lost = Some(id);
            0
        }
    });
    if let Some(id) = lost {
        // Nothing takes a run out of the cache meanwhile. If ever something does, its facts must not pass for applied.
        batch.touched.push(id);
        return Err(Panicked {
            touched: batch.touched,
            reason: format!("run {id} has moved, and its state is gone"),
        });
    }
    *changed = rooms;
    Ok(batch)
}

/// The ends of jobs among the inputs, read before the first step is made, each in its place. What their steps will look at in
/// the states of their runs is looked at here: those lie far apart in memory, a step waits for them one after the other, and a
/// loop that does nothing else waits for many at once.
fn read_ahead(inputs: &[Input], cache: &RunCache) -> Vec<Option<Fact>> {
    let facts: Vec<Option<Fact>> = inputs.iter().map(|input| known_before(input, cache)).collect();
    for (input, fact) in inputs.iter().zip(&facts) {
        let Some(Fact::JobSucceeded(done) | Fact::JobFailed(done)) = fact else { continue };
        let run = input.run().and_then(|id| cache.get(&id));
        std::hint::black_box(run.map(|run| run.glance(&done.job.frame, done.job.node)));
    }
    facts
}

/// Of anything else, also of what cannot be read, nothing: it is read when its turn comes. The beginning of a run that was made
/// of what that says has been read.
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

/// Puts what a run has changed into the commit; answers about how many bytes that is.
fn write(batch: &mut Batch, run: &RunState, ordered: &mut Changes) -> usize {
    if ordered.is_empty() {
        return 0;
    }
    batch.touched.push(run.id);
    if run.status.is_over() {
        batch.ended.push(run.id);
    }
    batch.commit.writes.push(RunWrite::new(run, ordered));
    let bytes = batch.commit.writes.last().map_or(0, RunWrite::size);
    batch.written.push((run.id, bytes));
    bytes
}

/// A timer that its run did not clear by itself is cleared all the same: its time has come and gone.
fn keep_timer(batch: &mut Batch, input: &Input, ordered: &Changes) {
    if let Input::Timer(member) = input
        && ordered.timers.is_empty()
    {
        batch.commit.timers_cleared.push(member.clone());
    }
}

/// Whether the input is the one with which its run begins.
fn begins(input: &Input) -> bool {
    use wire::fact::kind::{IMPORT, START};
    matches!(input, Input::Fact(fact) if fact.kind == START || fact.kind == IMPORT)
}

fn clear_timer(batch: &mut Batch, input: &Input) {
    if let Input::Timer(member) = input {
        batch.commit.timers_cleared.push(member.clone());
    }
}

/// What an input means to its run; nothing for a timer whose frame is closed.
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
            TimerRead::Unknown => Err("it is no timer of this run".into()),
        },
        Input::Lost(_, lost) => Ok(Some(Fact::JobLost(lost.clone()))),
    }
}

/// The run is over or swept: what is said of it means nothing any more. One that cannot be read is ended, and the fact
/// kept.
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

/// A job was done for a run that is not there. A run takes its jobs with it when it ends, and is removed later: somebody has
/// removed this one by hand, or Redis has lost it. Whatever else is said of such a run means nothing.
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
    tracing::error!(%run, node, reason, "a job is given up on");
    metrics::counter!(crate::metrics::DEAD.name).increment(1);
    let content = format!("{} {}", fact.kind, withheld(&fact.body));
    let dead = Dead::new("job", run.to_string(), reason, content);
    let frame = text("frame").map(FramePath::from).unwrap_or_default();
    batch.commit.dead.push(dead.at(frame, NodeId::from(node)));
}

/// Whether a worker has given the job up: then it has left a letter of its own.
fn is_given_up(class: Option<&str>, error: Option<&str>) -> bool {
    let is_of = |known: EngineErrorType| class == Some(known.name());
    is_of(EngineErrorType::WorkerLost)
        || is_of(EngineErrorType::Engine) && error.is_some_and(|error| error.starts_with(JOB_REFUSED))
}

/// Writes a dead letter with the secrets of the workflow masked; if the workflow cannot be read, without any texts.
fn give_up(batch: &mut Batch, input: &Input, reason: &str, hidden: Option<&Secrets>) {
    let (what, run, content) = match input {
        Input::Fact(fact) => {
            let body = match hidden {
                Some(hidden) => hidden.hidden_json(fact.body.to_string(), 1),
                None => withheld(&fact.body),
            };
            ("fact", fact.run_text(), format!("{} {body}", fact.kind))
        }
        Input::Timer(member) => {
            batch.commit.timers_cleared.push(member.clone());
            ("timer", String::new(), member.clone())
        }
        Input::Lost(run, lost) => ("job", run.to_string(), lost.entry.to_string()),
    };
    let reason = hidden.map_or_else(|| reason.to_owned(), |hidden| hidden.masked(reason.to_owned()));
    tracing::error!(what, run, reason, "given up on");
    metrics::counter!(crate::metrics::DEAD.name).increment(1);
    batch.commit.dead.push(Dead::new(what, run, reason, content));
}

/// The commit that ends a run whose step panics, and keeps the fact.
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
        Ok(mut ordered) => {
            write(&mut batch, run, &mut ordered);
        }
        Err(_) => cache.remove(&id),
    }
    batch
}

/// The runs that inputs are about and the cache lacks, each once. One that has ended is wanted only where something may have
/// been paid for it.
pub fn missing(inputs: &[Input], cache: &RunCache) -> HashSet<RunId, Hashing> {
    inputs
        .iter()
        .filter_map(|input| Some((input, input.run()?)))
        .filter(|(input, id)| cache.get(id).is_none() && (!cache.has_ended(id) || input.may_cost()))
        .map(|(_, id)| id)
        .collect()
}

/// The fact with which a run begins and the head in it, when it is among the inputs.
pub fn start_of(inputs: &[Input], run: RunId) -> Option<(EntryId, Box<RunHead>)> {
    let is_start = |input: &&Input| matches!(input, Input::Fact(fact) if fact.kind == wire::fact::kind::START && input.run() == Some(run));
    let Some(Input::Fact(fact)) = inputs.iter().find(is_start) else { return None };
    match wire::fact::parse_start(&fact.body) {
        Ok(Fact::Start(head)) => Some((fact.entry, head)),
        Ok(_) | Err(_) => None,
    }
}

/// Whether any of these may tell of a cost of a run.
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

    /// How many letters are left by a failure of a run that is not there.
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
            &mut Changed::default(),
            &gone,
            1,
            Timestamp::from_millis(0),
        );
        batch.expect("nothing panics").commit.dead.len()
    }

    #[test]
    fn se_a29_a_job_of_a_run_that_is_gone_leaves_one_letter_whoever_writes_it() {
        assert_eq!(letters("InvokeServerUnavailableError", "500"), 1);
        assert_eq!(letters("EngineError", "a template is too long"), 1);
        // Its worker has given it up, and has left one with that.
        assert_eq!(letters(EngineErrorType::WorkerLost.name(), "handed out 3 times"), 0);
        assert_eq!(letters(EngineErrorType::Engine.name(), &format!("{JOB_REFUSED}: it is newer")), 0);
    }

    #[test]
    fn a_letter_about_a_fact_that_cannot_be_read_shows_no_secret() {
        let mut cache = cached("running", [run(1)]);
        let body = json!({"node": 1, "outputs": {"a": "tok sk-0123456789"}}).to_string();
        let fact = RawFact::read(EntryId::new(5, 0), wire::fact::kind::DONE, &run(1).to_string(), body);
        let batch = decided(&[Input::Fact(fact)], &mut cache, &mut Changed::default(), 1).expect("no panic");
        let [letter] = &batch.commit.dead[..] else { panic!("one letter: {:?}", batch.commit.dead) };
        assert!(letter.content.contains("tok sk-012************89"), "{letter:?}");
    }

    #[test]
    fn a_letter_about_a_run_whose_workflow_cannot_be_read_shows_no_text_of_it() {
        let body = json!({"node": "n", "attempt": 1, "error": "no tok sk-0123456789"}).to_string();
        let fact = RawFact::read(EntryId::new(5, 0), wire::fact::kind::FAILED, &run(1).to_string(), body);
        let gone = Gone { reason: "it has no workflow".into(), rest: Some(AtRest::default()) };
        for gone in [Gone { rest: None, ..gone.clone() }, gone] {
            let (mut cache, gone) = (RunCache::new(1024), HashMap::from([(run(1), gone)]));
            let (fact, now) = ([Input::Fact(fact.clone())], Timestamp::from_millis(0));
            let batch =
                decide(&fact, &mut cache, &mut Changed::default(), &gone, 1, now).expect("nothing panics");
            let [letter] = &batch.commit.dead[..] else { panic!("one letter: {:?}", batch.commit.dead) };
            assert_eq!(letter.content, r#"failed {"node":"n","attempt":1,"error":"(withheld)"}"#);
        }
    }

    /// A cache with runs of this status.
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

    fn said(entry: u64, kind: &'static str, run: RunId) -> Input {
        Input::Fact(RawFact::read(EntryId::new(entry, 0), kind, &run.to_string(), "{}".into()))
    }

    fn decided(
        inputs: &[Input],
        cache: &mut RunCache,
        changed: &mut Changed,
        number: u64,
    ) -> Result<Batch, Panicked> {
        decide(inputs, cache, changed, &HashMap::new(), number, Timestamp::from_millis(0))
    }

    #[test]
    fn a_fact_that_is_given_up_on_leaves_its_letter_and_ends_its_run_only_once() {
        for (status, ends) in [("running", 1), ("succeeded", 0)] {
            let id = run(1);
            let mut cache = cached(status, [id]);
            let input = said(1, wire::fact::kind::DONE, id);
            let batch = end_by_defect(&input, &mut cache, "a test", 1, Timestamp::from_millis(0));
            let Commit { writes, dead, cursor, .. } = batch.commit;
            assert_eq!((writes.len(), batch.ended.len(), dead.len()), (ends, ends, 1), "{status}");
            assert_eq!(cursor, Some(EntryId::new(1, 0)), "{status}");
        }
    }

    /// Turns of one conversation may end in one batch, and what they leave to it is written in the order of their writes.
    #[test]
    fn of_runs_of_one_batch_the_one_that_changed_last_is_written_last() {
        use wire::fact::kind::{DONE, PAUSE, STOP};
        let [a, b, c] = [run(1), run(2), run(3)];
        let (mut cache, mut changed) = (cached("running", [a, b, c]), Changed::default());
        let stale = format!("{b} retry 1 gone/e");
        let inputs = [
            said(1, PAUSE, a),
            said(2, PAUSE, c),
            said(3, STOP, b),
            said(4, DONE, c),
            Input::Timer(stale.clone()),
            said(5, STOP, a),
            // It is over: that means nothing any more, and b's turn is where it was.
            said(6, STOP, b),
        ];
        let batch = decided(&inputs, &mut cache, &mut changed, 7).expect("nothing panics");
        let written: Vec<RunId> = batch.commit.writes.iter().map(|write| write.run).collect();
        assert_eq!(written, [c, b, a]);
        assert_eq!((&batch.touched, &batch.ended), (&vec![c, b, a], &vec![b, a]));
        assert_eq!((batch.commit.cursor, batch.inputs), (Some(EntryId::new(6, 0)), inputs.len()));
        assert_eq!(batch.commit.timers_cleared, [stale]);
        // A result that names no node cannot be read, and is kept.
        assert_eq!(batch.commit.dead.len(), 1);
    }

    #[test]
    fn a_run_that_is_made_of_its_start_begins_as_one_that_was_loaded() {
        let graph = std::sync::Arc::new(
            tidemill_common::graph::import(WORKFLOW.as_bytes()).graph.expect("it can run"),
        );
        let body = json!({"graph": &*graph.hash.0, "user": "ada", "created_at": 7, "inputs": {"x": "given"}})
            .to_string();
        let entry = EntryId::new(5, 0);
        let start =
            || Input::Fact(RawFact::read(entry, wire::fact::kind::START, &run(1).to_string(), body.clone()));
        let (found, head) =
            start_of(&[said(4, wire::fact::kind::DONE, run(1)), start()], run(1)).expect("it can be read");
        assert_eq!((found, start_of(&[start()], run(2))), (entry, None));
        let new = |head: RunHead| RunState::new(run(1), graph.clone(), head);
        let mut written = Vec::new();
        for made_of in [Some(entry), Some(EntryId::new(4, 0)), None] {
            let mut cache = RunCache::new(1024);
            match made_of {
                Some(fact) => cache.insert_new(new((*head).clone()), fact),
                // What is said to be its head is not what the fact says: the fact counts.
                None => cache.insert(new(RunHead { user: "bob".into(), ..(*head).clone() })),
            }
            let begins = matches!(known_before(&start(), &cache), Some(Fact::Begin));
            assert_eq!(begins, made_of == Some(entry), "{made_of:?}");
            let batch = decided(&[start()], &mut cache, &mut Changed::default(), 1).expect("nothing panics");
            assert_eq!(cache.get(&run(1)).map(|run| run.head.user.as_str()), Some("ada"), "{made_of:?}");
            written.push(batch.commit.writes);
        }
        assert!(!written[0][0].entries.is_empty() && written.iter().all(|writes| *writes == written[0]));
    }

    #[test]
    fn a_step_that_panics_takes_what_its_batch_has_changed_with_it() {
        use wire::fact::kind::{CONTINUE, PAUSE, STOP};
        let [a, b] = [run(1), run(2)];
        let (mut cache, mut changed) = (cached("running", [a, b]), Changed::default());
        cache
            .get_mut(&b)
            .expect("a run")
            .ready
            .push_back((FramePath::default(), tidemill_common::graph::NodeIx(99)));
        let inputs = [said(1, PAUSE, a), said(2, CONTINUE, b)];
        let panicked = decided(&inputs, &mut cache, &mut changed, 1).expect_err("there is no such node");
        assert_eq!(panicked.touched, [a, b]);
        let mut cache = cached("running", [a, b]);
        let batch = decided(&[said(2, STOP, b)], &mut cache, &mut changed, 1).expect("nothing panics");
        assert_eq!((batch.touched, batch.commit.writes.len()), (vec![b], 1));
    }

    #[test]
    fn facts_that_may_tell_of_a_cost_are_known_by_sight() {
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
