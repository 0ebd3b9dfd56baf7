//! The table of cases whose instructions are counted.

use std::hint::black_box;

use tidemill_common::ids::EntryId;
use tidemill_common::machine::order::changes::Changes;
use tidemill_common::machine::order::events::EventKind;
use tidemill_common::machine::{Fact, step, step_into};
use tidemill_common::wire::commit::RunWrite;
use tidemill_common::wire::{event, fact, job, state};

use super::counted;
use super::story::Story;
use super::workflows::{chain, chat, fan, iteration};
use crate::error::Error;

/// Number of steps of the chain. Half of them are done when the counting begins.
const CHAIN: usize = 20;
/// Number of branches of the fan.
const WIDTH: usize = 100;

/// One case.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// A description for the table.
    pub(super) about: &'static str,
    /// Prepares the case and runs it `repeats` times and once more; each time except the first is [`counted`].
    pub(super) run: fn(repeats: u64) -> Result<(), Error>,
}

/// All cases.
pub(super) const CASES: [Case; 11] = [
    Case {
        name: "step chain",
        about: "a step: the result of a node, and the job of the next",
        run: |repeats| of_step(&mid_chain()?, repeats),
    },
    Case {
        name: "step fan-in",
        about: "a step: the last of 100 results, and the job after them",
        run: |repeats| of_step(&last_of_fan()?, repeats),
    },
    Case {
        name: "step iteration",
        about: "a step: the result of an item, and the next item",
        run: |repeats| of_step(&mid_iteration()?, repeats),
    },
    Case {
        name: "step chunk",
        about: "a step: a piece of text and its event",
        run: |repeats| of_step(&mid_answer()?, repeats),
    },
    Case {
        name: "decode result",
        about: "wire: a worker's result is read",
        run: |repeats| of_parse(mid_chain()?, repeats),
    },
    Case {
        name: "decode chunk",
        about: "wire: a worker's piece of text is read",
        run: |repeats| of_parse(mid_answer()?, repeats),
    },
    Case { name: "decode job", about: "wire: a worker reads a job", run: of_job },
    Case { name: "decode event", about: "wire: an entry of events is read", run: of_event },
    Case {
        name: "load state",
        about: "wire: a run of 22 nodes, half of which are done, is loaded",
        run: of_load,
    },
    Case {
        name: "encode commit",
        about: "wire: the changes of a step of the chain are written",
        run: |repeats| of_commit(&mid_chain()?, repeats),
    },
    Case { name: "encode event", about: "wire: the event of a node's end is written", run: of_encoded_event },
];

/// A run and the next fact for it.
struct Scene {
    story: Story,
    kind: &'static str,
    body: String,
}

impl Scene {
    fn fact(&self) -> Result<Fact, Error> {
        self.story.parse(self.kind, &self.body)
    }

    /// Returns the changes that the step makes.
    fn changes(&self) -> Result<(tidemill_common::machine::RunState, Changes), Error> {
        let mut run = self.story.run.clone();
        let changes = step(&mut run, self.fact()?, self.story.moment());
        Ok((run, changes))
    }
}

fn mid_chain() -> Result<Scene, Error> {
    let mut story = Story::begin(&chain(CHAIN))?;
    story.work_off(CHAIN / 2)?;
    let (kind, body) = story.done()?;
    Ok(Scene { story, kind, body })
}

fn last_of_fan() -> Result<Scene, Error> {
    let mut story = Story::begin(&fan(WIDTH))?;
    story.work_off(WIDTH - 1)?;
    let (kind, body) = story.done()?;
    Ok(Scene { story, kind, body })
}

fn mid_iteration() -> Result<Scene, Error> {
    let mut story = Story::begin(&iteration())?;
    story.work_off(10)?;
    let (kind, body) = story.done()?;
    Ok(Scene { story, kind, body })
}

fn mid_answer() -> Result<Scene, Error> {
    let mut story = Story::begin(&chat())?;
    let (kind, body) = story.chunk(0)?;
    let first = story.parse(kind, &body)?;
    story.apply(first);
    let (kind, body) = story.chunk(6)?;
    Ok(Scene { story, kind, body })
}

fn of_step(scene: &Scene, repeats: u64) -> Result<(), Error> {
    let mut changes = Changes::default();
    for turn in 0..=repeats {
        let (mut run, fact, at) = (scene.story.run.clone(), scene.fact()?, scene.story.moment());
        // As in each batch after the first, the buffers are reused.
        changes.clear();
        counted(turn, || step_into(&mut run, black_box(fact), at, &mut changes));
        if changes.entries.is_empty() {
            return Err(Error::Wrong("a counted step has changed nothing".into()));
        }
    }
    Ok(())
}

fn of_parse(scene: Scene, repeats: u64) -> Result<(), Error> {
    let Scene { story, kind, body } = scene;
    for turn in 0..=repeats {
        let read = counted(turn, || fact::parse(black_box(kind), black_box(&body), &story.graph));
        read.map_err(|error| Error::Wrong(error.to_string()))?;
    }
    Ok(())
}

fn of_job(repeats: u64) -> Result<(), Error> {
    let scene = mid_chain()?;
    let (run, mut changes) = scene.changes()?;
    let write = RunWrite::new(&run, &mut changes);
    let entry = write.jobs.first().ok_or_else(|| Error::Wrong("a counted step has made no job".into()))?;
    for turn in 0..=repeats {
        let read = counted(turn, || job::parse(entry.run, black_box(&entry.body)));
        read.map_err(|error| Error::Wrong(error.to_string()))?;
    }
    Ok(())
}

fn of_event(repeats: u64) -> Result<(), Error> {
    let scene = mid_chain()?;
    let (run, changes) = scene.changes()?;
    let events = changes.entries.events().iter().map(|entry| event::encode(entry, &run.graph));
    let fields: Vec<(String, String)> = events.map(|(kind, text)| (kind.to_string(), text)).collect();
    for turn in 0..=repeats {
        let fields = fields.clone();
        let read = counted(turn, || event::decode(EntryId::new(1, 0), black_box(fields)));
        read.map_err(|error| Error::Wrong(error.to_string()))?;
    }
    Ok(())
}

fn of_load(repeats: u64) -> Result<(), Error> {
    let story = mid_chain()?.story;
    for turn in 0..=repeats {
        let (graph, rest) = (story.graph.clone(), story.at_rest());
        let read = counted(turn, || state::load(story.run.id, graph, black_box(rest)));
        read.map_err(|error| Error::Wrong(error.to_string()))?;
    }
    Ok(())
}

fn of_commit(scene: &Scene, repeats: u64) -> Result<(), Error> {
    for turn in 0..=repeats {
        let (run, mut changes) = scene.changes()?;
        let encode = || {
            let write = RunWrite::new(black_box(&run), &mut changes);
            changes.clear();
            write
        };
        drop(counted(turn, encode));
    }
    Ok(())
}

fn of_encoded_event(repeats: u64) -> Result<(), Error> {
    let (run, changes) = mid_chain()?.changes()?;
    let is_end = |kind: &EventKind| event::type_name(kind, &run.graph) == event::kind::NODE_RUN_SUCCEEDED;
    let ended = changes.entries.events().iter().find(|entry| is_end(&entry.kind));
    let ended = ended.ok_or_else(|| Error::Wrong("a counted step has ended no node".into()))?;
    for turn in 0..=repeats {
        drop(counted(turn, || event::encode(black_box(ended), &run.graph)));
    }
    Ok(())
}
