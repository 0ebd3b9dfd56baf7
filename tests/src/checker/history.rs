//! Checks of what clients saw.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::Value as Json;
use tidemill_common::wire::event::kind::TERMINAL;

use super::Evidence;
use crate::check::Transcript;
use crate::story::{Story, TAG, without_tag};

/// Types of events that end an execution.
const ENDS: [&str; 3] = ["node_run_succeeded", "node_run_failed", "node_run_exception"];
/// The number of characters of a value that a violation shows.
const SHOWN: usize = 300;

/// Runs that still exist, or should.
fn present(evidence: &Evidence) -> impl Iterator<Item = &Story> {
    evidence.stories.iter().filter(|story| !story.is_gone)
}

fn named(story: &Story, what: impl std::fmt::Display) -> String {
    format!("run {} ({}): {what}", story.run, story.tag)
}

fn short(value: &Json) -> String {
    value.to_string().chars().take(SHOWN).collect()
}

pub(super) fn every_run_ends(evidence: &Evidence) -> Vec<String> {
    let stuck = present(evidence).filter_map(|story| Some(named(story, story.trouble.as_ref()?)));
    stuck.collect()
}

pub(super) fn no_run_is_lost(evidence: &Evidence) -> Vec<String> {
    evidence.stories.iter().filter(|story| story.is_gone).map(|story| named(story, "is gone")).collect()
}

pub(super) fn outputs_are_right(evidence: &Evidence) -> Vec<String> {
    let mut wrong = Vec::new();
    for story in present(evidence).filter(|story| story.trouble.is_none()) {
        let reference = &evidence.references[story.workflow];
        // A run that Redis lost in part goes over it again, and then the servers that refused its calls at first no longer do.
        let has_no_exceptions = evidence.lost_writes()
            && reference.status == "partial-succeeded"
            && story.shown["status"] == "succeeded";
        if story.shown["status"] != reference.status.as_str() && !has_no_exceptions {
            let what =
                format!("{} ended {}: {}", reference.workflow, story.shown["status"], story.shown["error"]);
            wrong.push(named(story, what));
        } else if let Some(expected) = &reference.outputs {
            let outputs = without_tag(&story.shown["outputs"], &story.tag);
            if outputs != *expected {
                let what =
                    format!("{} gave {} and not {}", reference.workflow, short(&outputs), short(expected));
                wrong.push(named(story, what));
            }
        }
    }
    wrong
}

pub(super) fn one_end_per_execution(evidence: &Evidence) -> Vec<String> {
    let mut wrong = Vec::new();
    for story in present(evidence).filter(|story| story.trouble.is_none()) {
        let mut counts: BTreeMap<String, (usize, usize, String)> = BTreeMap::new();
        // A node that waits for people starts again when its run continues.
        let waits = story.record.of_kind("node_run_pause_requested").filter_map(|event| event.node());
        let waiting: BTreeSet<&str> = waits.collect();
        for event in &story.record.events {
            let is_start = event.kind == "node_run_started";
            let is_end = ENDS.contains(&event.kind.as_str());
            if is_start || is_end {
                let count = counts.entry(event.data["id"].to_string()).or_default();
                count.0 += usize::from(is_start);
                count.1 += usize::from(is_end);
                count.2 = format!("{} {}", event.node().unwrap_or_default(), event.frame());
            }
        }
        let uneven = counts.into_values().filter(|(starts, ends, node)| {
            let waits = waiting.contains(node.split(' ').next().unwrap_or_default());
            *ends != 1 || *starts == 0 || *starts > 1 && !waits
        });
        wrong.extend(uneven.map(|(starts, ends, node)| {
            named(story, format!("node {node} started {starts} times and ended {ends} times"))
        }));
    }
    wrong
}

pub(super) fn calls_are_bounded(evidence: &Evidence) -> Vec<String> {
    let mut calls: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for call in &evidence.calls {
        if let Some(at) = evidence.stories.iter().position(|story| call.contains(&story.tag)) {
            let call = call.replace(&evidence.stories[at].tag, TAG);
            *calls.entry((at, call)).or_default() += 1;
        }
    }
    let mut wrong = Vec::new();
    for ((at, call), count) in calls {
        let story = &evidence.stories[at];
        let reference = &evidence.references[story.workflow];
        let Some(expected) = reference.calls.get(&call) else {
            if reference.outputs.is_some() {
                wrong.push(named(story, format!("a call that a run without faults never makes: {call}")));
            }
            continue;
        };
        // Work that Redis has forgotten may be done again, long after the client saw the end of the run.
        let lost = evidence.lost_writes();
        let reaches = |from: Instant| lost || from <= story.ended;
        let during = evidence.faults.iter().filter(|fault| reaches(fault.from) && fault.to >= story.began);
        // After a loss of writes, all attempts after the last one that Redis still has are made again.
        let again = during.map(|fault| match (fault.loses, fault.repeats) {
            (true, _) => *expected,
            (false, times) => times,
        });
        let bound = expected + again.sum::<usize>();
        if count > bound {
            wrong.push(named(story, format!("called {count} times, {bound} at most: {call}")));
        }
    }
    wrong
}

pub(super) fn attempts_keep_their_key(evidence: &Evidence) -> Vec<String> {
    let mut wrong = Vec::new();
    for story in present(evidence) {
        let of_story: Vec<_> =
            evidence.outside.iter().filter(|call| call.body.contains(&story.tag)).collect();
        let keys: BTreeSet<_> = of_story.iter().map(|call| &call.key).collect();
        // In a campaign, a node that calls this server has only one attempt.
        if keys.len() > 1 || keys.contains(&None) {
            wrong.push(named(story, format!("called under these keys: {keys:?}")));
        }
        let during = |from: Instant, to: Instant| from <= story.ended && to >= story.began;
        let again = evidence.faults.iter().filter(|fault| during(fault.from, fault.to));
        let bound = 1 + again.map(|fault| fault.repeats).sum::<usize>();
        if of_story.len() > bound {
            wrong.push(named(story, format!("called outside {} times, {bound} at most", of_story.len())));
        }
    }
    wrong
}

/// Returns the first fault in a sequence that should have every event once, in order, from 1 to the end of the run.
fn gap(transcript: &Transcript) -> Option<String> {
    let out_of_place = transcript.events.iter().zip(1..).find(|(event, expected)| event.seq != *expected);
    if let Some((event, expected)) = out_of_place {
        return Some(format!("event {expected} is number {} ({})", event.seq, event.kind));
    }
    let is_end = |kind: &str| TERMINAL.contains(&kind);
    match transcript.events.iter().position(|event| is_end(&event.kind)) {
        Some(at) if at + 1 == transcript.events.len() => None,
        Some(at) => Some(format!("{} events come after the end", transcript.events.len() - at - 1)),
        None => Some("there is no end".into()),
    }
}

pub(super) fn events_are_whole(evidence: &Evidence) -> Vec<String> {
    let mut wrong = Vec::new();
    for story in present(evidence).filter(|story| story.trouble.is_none()) {
        wrong.extend(gap(&story.transcript).map(|what| named(story, format!("the follower: {what}"))));
        wrong.extend(gap(&story.record).map(|what| named(story, format!("the record: {what}"))));
        if story.resets > 0 && !evidence.lost_writes() {
            wrong.push(named(story, "its follower got a reset although nothing was lost"));
        }
    }
    wrong
}

pub(super) fn followers_agree(evidence: &Evidence) -> Vec<String> {
    // A client that saw the end before Redis lost it did not see the second end.
    let last_loss = evidence.faults.iter().filter(|fault| fault.loses).map(|fault| fault.to).max();
    let ended = present(evidence).filter(|story| story.trouble.is_none());
    let ended = ended.filter(|story| last_loss.is_none_or(|loss| story.ended > loss));
    let differing = ended.filter_map(|story| {
        let pairs = story.transcript.events.iter().zip(&story.record.events);
        let (transcript, record) = pairs.into_iter().find(|(transcript, record)| transcript != record)?;
        let what = format!(
            "event {} was {} {} for the follower and is {} {} in the record",
            transcript.seq,
            transcript.kind,
            short(&transcript.data),
            record.kind,
            short(&record.data)
        );
        Some(named(story, what))
    });
    differing.collect()
}

pub(super) fn text_is_final(evidence: &Evidence) -> Vec<String> {
    let ended = present(evidence).filter(|story| story.trouble.is_none());
    let differing = ended.filter_map(|story| {
        let answer = story.shown["outputs"]["answer"].as_str()?;
        let text = story.transcript.text();
        let mut chunks = story.transcript.of_kind("node_run_stream_chunk");
        let is_streamed = chunks.any(|chunk| chunk.data["in_answer"] != false);
        (is_streamed && text != answer)
            .then(|| named(story, format!("streamed {text:?}, answered {answer:?}")))
    });
    differing.collect()
}
