//! W4: whether a step costs the same in a short chain and in a long one. What grows with the length of a run (a scan of
//! its nodes, a state written whole) would show here as a slope.

use futures_util::FutureExt as _;

use super::workflow::{self, Place};
use super::{Unit, Workload};
use crate::error::Error;
use crate::fleet::Plan;
use crate::floor::Shape;
use crate::lab::Lab;
use crate::measure::Load;
use crate::report::Row;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W4",
    about: "one run of 10, 100, 1 000, 10 000 steps on a worker, one after the other",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

/// The chain that the others are held against.
const MEASURE: usize = 100;

/// Steps of a chain, how often it is run, and how often in short.
const CHAINS: [(usize, usize, usize); 4] = [(10, 100, 10), (MEASURE, 30, 5), (1_000, 5, 2), (10_000, 2, 1)];

async fn measure(lab: &Lab) -> Result<(), Error> {
    let mut values = Vec::with_capacity(CHAINS.len());
    for (steps, times, times_quick) in CHAINS {
        let server = lab.server().await?;
        let plan = Plan::of(&server, 1, 1);
        let mut engine =
            lab.engine(&server, &plan, workflow::job(Shape::Chain(steps), Place::Worker)).await?;
        // One on each shard, so that both have the graph at hand.
        let load = Load::one_by_one(if lab.is_quick { times_quick } else { times }).warmed_by(2);
        engine.warm_up(&load).await?;
        let figure = engine.measure(&load).await?;
        let value = Unit::MicrosPerStep.value(figure.seconds, steps);
        values.push((steps, value));
        let about = format!("one run of {steps} steps on a worker, with its beginning and its end");
        lab.tell(Row {
            cpu_us_per_step: Some(figure.cpu_us_per_step),
            ..Row::bare(format!("W4/{steps}"), value, Unit::MicrosPerStep.name(), &about)
        });
    }
    let worst = worst_deviation(&values);
    lab.tell(Row {
        targets: &[Target::AtMost(20.0)],
        ..Row::bare(
            "W4",
            worst,
            "%",
            "how far a step of the other chains is from one of the chain of 100 at most",
        )
    });
    Ok(())
}

/// In percent of the chain of [`MEASURE`] steps.
fn worst_deviation(values: &[(usize, f64)]) -> f64 {
    let of_measure = values.iter().find(|(steps, _)| *steps == MEASURE).map_or(f64::NAN, |(_, value)| *value);
    values.iter().map(|(_, value)| (value / of_measure - 1.0).abs() * 100.0).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_deviation_counts_in_either_direction() {
        assert_eq!(worst_deviation(&[(10, 125.0), (100, 100.0), (1_000, 50.0)]), 50.0);
        assert_eq!(worst_deviation(&[(10, 150.0), (100, 100.0), (1_000, 75.0)]), 50.0);
    }
}
