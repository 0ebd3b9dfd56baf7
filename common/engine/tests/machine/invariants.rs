//! Each invariant notices a state that it forbids.

use serde_json::json;

use super::play::Play;
use tidemill_base::ids::FramePath;
use tidemill_engine::RunState;
use tidemill_engine::state::invariants::{INVARIANTS, broken};
use tidemill_engine::state::run::{EdgeState, NodeStatus, RunStatus};

/// A run with an open item, a waiting form, a job and a node that waits for its retry.
fn busy() -> Play {
    let mut play = Play::sheet(
        "a job\nb job\nm llm retry_config: {max_retries: 1, retry_interval: 0, retry_enabled: true}\n\
         it iteration iterator_selector: [s, l], output_selector: [t, output]\nit/t job\n\
         p human-input required_variables: [k.v]\n\
         s > a > b\ns > m\ns > it\ns > p\nits > t",
        json!({"l": [1, 2]}),
    );
    play.start().failed("m", "busy");
    play
}

#[test]
fn each_invariant_notices_a_state_that_breaks_it() {
    let play = busy();
    let ix = |id: &str| play.run.graph.find(id).unwrap();
    let (root, item) = (FramePath::root(), FramePath::from("it#0"));
    let node =
        |run: &mut RunState, id: &str, change: &dyn Fn(&mut tidemill_engine::state::run::NodeState)| {
            change(&mut run.frames.get_mut(&root).unwrap().nodes[ix(id).at()]);
        };
    type Break<'a> = Box<dyn Fn(&mut RunState) + 'a>;
    let cases: Vec<(&str, Break<'_>)> = vec![
        ("INV-1", Box::new(|run| node(run, "a", &|a| a.job = None))),
        ("INV-2", Box::new(|run| run.frames.get_mut(&root).unwrap().edges[0] = EdgeState::Unknown)),
        ("INV-3", Box::new(|run| run.ready.push_back((root.clone(), ix("a"))))),
        ("INV-4", Box::new(|run| run.status = RunStatus::Failed)),
        ("INV-5", Box::new(|run| run.frames.get_mut(&root).unwrap().open = 0)),
        ("INV-6", Box::new(|run| node(run, "b", &|b| b.started_at = Some(play.now)))),
        ("INV-8", Box::new(|run| run.sums.steps += 1)),
        ("INV-8", Box::new(|run| run.frames.get_mut(&root).unwrap().open += 1)),
        ("INV-9", Box::new(|run| _ = run.frames.remove(&item))),
        ("INV-9", Box::new(|run| node(run, "it", &|it| it.body.as_mut().unwrap().next = 0))),
        ("INV-10", Box::new(|run| run.pauses.clear())),
        ("INV-10", Box::new(|run| node(run, "p", &|p| p.status = NodeStatus::Retrying))),
        ("INV-11", Box::new(|run| run.status = RunStatus::Paused)),
        ("INV-12", Box::new(|run| run.containers.clear())),
        ("INV-12", Box::new(|run| node(run, "it", &|it| it.body.as_mut().unwrap().closed = 1))),
    ];
    assert_eq!(broken(&play.run), Vec::<&str>::new());
    for (id, change) in cases {
        let mut run = play.run.clone();
        change(&mut run);
        assert!(broken(&run).contains(&id), "{id} does not notice it; broken: {:?}", broken(&run));
    }
}

#[test]
fn invariants_are_numbered_in_order_and_have_a_text() {
    for (at, invariant) in INVARIANTS.iter().enumerate() {
        assert_eq!(invariant.id, format!("INV-{}", at + 1));
        assert!(!invariant.says.is_empty());
    }
}
