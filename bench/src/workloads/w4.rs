//! W4: whether a step costs the same in a short chain and in a long one. What grows with the length of a run (a scan of
//! its nodes, a state written whole) would show here as a slope.

use futures_util::FutureExt as _;

use super::workflow::{self, Place};
use super::{Unit, Workload};
use crate::error::Error;
use crate::fleet::Plan;
use crate::floor::Shape;
use crate::lab::{BareLoop, Lab};
use crate::measure::Load;
use crate::report::Row;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W4",
    about: "one run of 10, 100, 1 000, 10 000 steps on a worker, one after the other",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

/// A chain.
struct Chain {
    steps: usize,
    /// How often it is run, and how often in short.
    times: [usize; 2],
    floor: BareLoop,
}

macro_rules! chain {
    ($steps:literal, $times:literal, $quick:literal, $floor:literal) => {
        Chain {
            steps: $steps,
            times: [$times, $quick],
            floor: BareLoop {
                name: $floor,
                shape: Shape::Chain($steps),
                unit: Unit::MicrosPerStep,
                load: |is_quick| Load::one_by_one(if is_quick { $quick } else { $times }),
            },
        }
    };
}

/// From short to long.
static CHAINS: [Chain; 4] = [
    chain!(10, 100, 10, "floor W4/10"),
    chain!(100, 30, 5, "floor W4/100"),
    chain!(1_000, 5, 2, "floor W4/1000"),
    chain!(10_000, 2, 1, "floor W4/10000"),
];

async fn measure(lab: &Lab) -> Result<(), Error> {
    let unit = Unit::MicrosPerStep;
    let (mut seconds, mut floors) = (Vec::new(), Vec::new());
    for chain in &CHAINS {
        let floor = lab.floor(&chain.floor).await?;
        let server = lab.server().await?;
        let plan = Plan::of(&server, 1, 1);
        let job = workflow::job(Shape::Chain(chain.steps), Place::Worker);
        let mut engine = lab.engine(&server, &plan, job).await?;
        // One on each shard, so that both have the graph at hand.
        let load = Load::one_by_one(chain.times[usize::from(lab.is_quick)]).warmed_by(2);
        engine.warm_up(&load).await?;
        let figure = engine.measure(&load).await?;
        let value = unit.value(figure.seconds, chain.steps);
        seconds.push((chain.steps, figure.seconds));
        floors.push((chain.steps, floor * chain.steps as f64 / 1e6));
        let about = format!("one run of {} steps on a worker, with its beginning and its end", chain.steps);
        lab.tell(Row {
            ratio_to_floor: Some(value / floor),
            cpu_us_per_step: Some(figure.cpu_us_per_step),
            ..Row::bare(format!("W4/{}", chain.steps), value, unit.name(), &about)
        });
    }
    let further = further_steps(&seconds);
    for (steps, seconds) in &further {
        let about = format!("a further step, up to the {steps}th, of a run that has begun");
        lab.tell(Row::bare(format!("W4/to {steps}"), seconds * 1e6, unit.name(), &about));
    }
    let by_floor = by_floor(&further, &further_steps(&floors));
    lab.tell(Row::bare("W4/raw", spread(&further), "%", "how far these are from the first of them at most"));
    lab.tell(Row {
        targets: &[Target::AtMost(20.0)],
        ..Row::bare("W4", spread(&by_floor), "%", "the same, each by a further step of the bare loop there")
    });
    Ok(())
}

/// What each further step cost: the difference of two chains by that of their lengths. What a run costs by itself is in
/// both, and so in none of these.
fn further_steps(chains: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let between = |pair: &[(usize, f64)]| {
        let [(shorter, less), (longer, more)] = pair else { return None };
        Some((*longer, (more - less) / (longer - shorter) as f64))
    };
    chains.windows(2).filter_map(between).collect()
}

/// The same by what the bare loop needs: the machine may be quicker for one length than a minute before for another.
fn by_floor(further: &[(usize, f64)], floors: &[(usize, f64)]) -> Vec<(usize, f64)> {
    further.iter().zip(floors).map(|((steps, cost), (_, floor))| (*steps, cost / floor)).collect()
}

/// In percent of the first.
fn spread(costs: &[(usize, f64)]) -> f64 {
    let first = costs.first().map_or(f64::NAN, |(_, value)| *value);
    costs.iter().map(|(_, value)| (value / first - 1.0).abs() * 100.0).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_step_leaves_out_what_a_run_costs_by_itself() {
        // Three for the run, two a step.
        let chains = [(10, 23.0), (100, 203.0), (1_000, 2_003.0)];
        assert_eq!(further_steps(&chains), [(100, 2.0), (1_000, 2.0)]);
    }

    #[test]
    fn the_spread_counts_in_either_direction() {
        assert_eq!(spread(&[(10, 100.0), (100, 125.0), (1_000, 50.0)]), 50.0);
        assert_eq!(spread(&[(10, 100.0), (100, 150.0), (1_000, 75.0)]), 50.0);
    }
}
