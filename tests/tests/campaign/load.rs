//! The load: a steady number of runs in flight, each followed by its own client from submit to end. Also runs each
//! workflow without faults, to know its results.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tidemill_sim::dice::Dice;
use tidemill_tests::check::Transcript;
use tidemill_tests::fleet::Fleet;
use tidemill_tests::patient::{Followed, Patient, Trouble};
use tidemill_tests::story::{Reference, Story, TAG, without_tag};
use tokio::task::JoinSet;

use crate::model::Model;
use crate::workflows::Workflow;

/// The longest time from submit to end, with all faults meanwhile.
const END_MAX: Duration = Duration::from_secs(120);
/// The number of runs of each workflow without faults. Outputs that differ between them are not compared later.
const REFERENCES: usize = 2;

/// The tag of a run. All tags have the same length, so that none is part of another.
pub(crate) fn tag(letter: char, number: usize) -> String {
    format!("{letter}{number:05}")
}

/// Runs in flight.
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    stories: Arc<Mutex<Vec<Story>>>,
    clients: JoinSet<()>,
}

impl Load {
    /// Keeps this many runs in flight from now on.
    pub(crate) fn start(patient: &Arc<Patient>, workflows: &[Workflow], runs: usize, seed: u64) -> Self {
        let (is_over, stories): (Arc<AtomicBool>, Arc<Mutex<Vec<Story>>>) = Default::default();
        let next = Arc::new(AtomicUsize::new(0));
        let workflows: Arc<[Workflow]> = workflows.into();
        let mut clients = JoinSet::new();
        for _ in 0..runs {
            let (patient, workflows) = (patient.clone(), workflows.clone());
            let (is_over, stories, next) = (is_over.clone(), stories.clone(), next.clone());
            clients.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let at = number % workflows.len();
                    let story = live(&patient, &workflows[at], at, tag('r', number), seed).await;
                    stories.lock().unwrap_or_else(PoisonError::into_inner).push(story);
                }
            });
        }
        Self { is_over, stories, clients }
    }

    /// Begins no more runs, and waits until the runs in flight have ended.
    pub(crate) async fn finish(mut self) -> Vec<Story> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("a client does not panic");
        }
        std::mem::take(&mut *self.stories.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Submits a run and follows it to its end.
async fn live(patient: &Patient, workflow: &Workflow, at: usize, tag: String, seed: u64) -> Story {
    let began = Instant::now();
    let mut story = Story {
        workflow: at,
        run: String::new(),
        began,
        ended: began,
        transcript: Transcript::default(),
        resets: 0,
        connections: 0,
        record: Transcript::default(),
        shown: Json::Null,
        trouble: None,
        is_gone: false,
        tag,
    };
    match patient.submit(&workflow.submission(&story.tag), &format!("{seed}-{}", story.tag)).await {
        Ok(run) => {
            story.run = run;
            let (seen, trouble) = follow(patient, workflow, &story).await;
            (story.transcript, story.resets, story.connections) =
                (seen.transcript, seen.resets, seen.connections);
            note_trouble(&mut story, trouble);
        }
        Err(trouble) => note_trouble(&mut story, Some(trouble)),
    }
    story.ended = Instant::now();
    story
}

/// Follows a run to its end, and answers its pauses meanwhile.
async fn follow(patient: &Patient, workflow: &Workflow, story: &Story) -> (Followed, Option<Trouble>) {
    let following = patient.follow(&story.run, END_MAX);
    let followed = if workflow.asks_people {
        tokio::select! {
            followed = following => followed,
            never = patient.answer_pauses(&story.run, &story.tag) => match never {},
        }
    } else {
        following.await
    };
    match followed {
        Ok(seen) => (seen, None),
        Err((seen, trouble)) => (seen, Some(trouble)),
    }
}

fn note_trouble(story: &mut Story, trouble: Option<Trouble>) {
    match trouble {
        None => {}
        Some(Trouble::Gone) => story.is_gone = true,
        Some(Trouble::Other(what)) => story.trouble = Some(what),
    }
}

/// Reads all runs again after the faults. A run whose end Redis has lost ends again first.
pub(crate) async fn look_back(patient: &Patient, workflows: &[Workflow], stories: &mut [Story]) {
    for story in stories.iter_mut().filter(|story| story.trouble.is_none() && !story.run.is_empty()) {
        let (record, trouble) = follow(patient, &workflows[story.workflow], story).await;
        story.record = record.transcript;
        story.is_gone = false;
        note_trouble(story, trouble);
        match patient.run(&story.run).await {
            Ok(shown) => story.shown = shown,
            Err(trouble) => note_trouble(story, Some(trouble)),
        }
    }
}

/// Runs each workflow without faults and returns the results.
///
/// # Panics
/// When a run does not end.
pub(crate) async fn references(workflows: &[Workflow]) -> Vec<Reference> {
    let model = Model::start().await;
    let fleet =
        Fleet::start(&crate::round::SETTINGS, &model.running, [1, 2], false, &mut Dice::new(0), None).await;
    let patient = Patient::new(fleet.schedulers());
    let mut references = Vec::new();
    for (at, workflow) in workflows.iter().enumerate() {
        let mut stories = Vec::new();
        for again in 0..REFERENCES {
            let tag = tag('q', at * REFERENCES + again);
            stories.push(live(&patient, workflow, at, tag, 0).await);
        }
        look_back(&patient, workflows, &mut stories).await;
        let transcript = |story: &Story| {
            assert!(story.trouble.is_none() && !story.is_gone, "{} without faults: {story:?}", workflow.name);
            without_tag(&story.shown["outputs"], &story.tag)
        };
        let first = &stories[0];
        let outputs = Some(transcript(first))
            .filter(|outputs| stories.iter().all(|story| transcript(story) == *outputs));
        let status = first.shown["status"].as_str().unwrap_or_default().to_string();
        let mut calls = BTreeMap::new();
        for call in model.calls().iter().filter(|call| call.contains(&first.tag)) {
            *calls.entry(call.replace(&first.tag, TAG)).or_default() += 1;
        }
        references.push(Reference { workflow: workflow.name.clone(), status, outputs, calls });
    }
    references
}
