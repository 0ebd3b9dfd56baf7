//! What is run: one file per workload, one table. Each has the same shape for the floor and for Tidemill.

mod w1;
mod w1p;
mod w2;
mod w3;
pub(crate) mod w7;

use serde_json::{Value as Json, json};

use crate::floor::Shape;
use crate::measure::Load;

/// How the seconds of a load are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Microseconds a step: one run's latency.
    MicrosPerStep,
    /// Steps a second: throughput.
    StepsPerSecond,
    /// Milliseconds a run.
    Millis,
}

impl Unit {
    /// Its name in the table and in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MicrosPerStep => "us/step",
            Self::StepsPerSecond => "steps/s",
            Self::Millis => "ms",
        }
    }
}

/// Something to measure.
pub(crate) struct Workload {
    /// Its name, such as `W1`.
    pub(crate) name: &'static str,
    /// What it is, for people.
    pub(crate) about: &'static str,
    /// How its runs hang together.
    pub(crate) shape: Shape,
    /// Where its steps are executed.
    pub(crate) place: Place,
    /// How it is told.
    pub(crate) unit: Unit,
    /// Runs of Tidemill for one figure, in full and in short.
    pub(crate) load: fn(is_quick: bool) -> Load,
    /// Runs of the bare loop; none when it is compared with another workload's.
    pub(crate) floor_load: Option<fn(is_quick: bool) -> Load>,
    /// The workload whose floor it is compared with.
    pub(crate) floor: &'static str,
}

/// Where the steps of a workload are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Each by a worker, as a job.
    Worker,
    /// In the scheduler, as pure nodes are.
    Scheduler,
}

/// All of them, in the order of the table.
pub(crate) const WORKLOADS: [Workload; 4] = [w1::WORKLOAD, w2::WORKLOAD, w3::WORKLOAD, w1p::WORKLOAD];

impl Workload {
    /// A load's seconds in this workload's unit.
    pub(crate) fn value(&self, seconds: f64, load: &Load) -> f64 {
        let steps = (load.runs * self.shape.steps()) as f64;
        match self.unit {
            Unit::MicrosPerStep => seconds * 1e6 / steps,
            Unit::StepsPerSecond => steps / seconds,
            Unit::Millis => seconds * 1e3,
        }
    }

    /// The workflow file: a start node, templates that hand a text on, an end node.
    pub(crate) fn workflow(&self) -> String {
        let steps = self.shape.steps();
        let name = |at: usize| format!("step{at}");
        let text_of =
            |at: usize| if at == 0 { ["start".into(), "text".into()] } else { [name(at), "output".into()] };
        let mut nodes = vec![
            json!({"id": "start", "data": {"type": "start", "title": "Start", "variables": [
                {"variable": "text", "label": "Text", "type": "paragraph", "required": true, "max_length": 1000},
            ]}}),
        ];
        let mut edges = Vec::new();
        for at in 1..=steps {
            let before = self.before(at);
            nodes.push(self.step(&name(at), &text_of(before[0])));
            edges.extend(
                before.iter().map(|b| edge(&if *b == 0 { "start".to_string() } else { name(*b) }, &name(at))),
            );
        }
        nodes.push(json!({"id": "end", "data": {"type": "end", "title": "End", "outputs": [
            {"variable": "text", "value_selector": text_of(steps)},
        ]}}));
        edges.push(edge(&name(steps), "end"));
        json!({
            "kind": "app", "version": "0.6.0", "app": {"name": self.name, "mode": "workflow"},
            "workflow": {"graph": {"nodes": nodes, "edges": edges}},
        })
        .to_string()
    }

    /// The steps, from 1, in front of a step; 0 is the start node.
    fn before(&self, at: usize) -> Vec<usize> {
        match self.shape {
            Shape::Chain(_) => vec![at - 1],
            Shape::Fan(_) if at == 1 => vec![0],
            Shape::Fan(width) if at <= width + 1 => vec![1],
            Shape::Fan(width) => (2..=width + 1).collect(),
        }
    }

    fn step(&self, id: &str, text: &[String; 2]) -> Json {
        let mut data = json!({
            "type": "template-transform", "title": format!("Hand on {id}"), "template": "{{ text }}",
            "variables": [{"variable": "text", "value_selector": text}],
        });
        if self.place == Place::Worker {
            data["tidemill"] = json!({"runs_on": "worker"});
        }
        json!({"id": id, "data": data})
    }
}

fn edge(from: &str, to: &str) -> Json {
    json!({"id": format!("{from}-source-{to}-target"), "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workflow_can_be_run() {
        for workload in &WORKLOADS {
            let imported = tidemill_common::graph::import(workload.workflow().as_bytes());
            assert!(imported.is_usable(), "{}: {:?}", workload.name, imported.diagnostics);
        }
    }

    #[test]
    fn every_workload_has_a_floor_in_its_own_unit() {
        for workload in &WORKLOADS {
            let floor = WORKLOADS.iter().find(|w| w.name == workload.floor).unwrap();
            assert!(floor.floor_load.is_some() && floor.unit == workload.unit, "{}", workload.name);
        }
    }
}
