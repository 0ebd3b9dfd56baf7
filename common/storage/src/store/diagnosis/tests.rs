use super::*;

fn live(id: &str) -> LiveProcess {
    LiveProcess { id: id.into(), silent: Duration::from_secs(1), is_current: true }
}

fn shard(owner: Option<&str>, cursor: u64, waits: Option<u64>) -> ShardState {
    ShardState {
        shard: ShardId(2),
        owner: owner.map(str::to_string),
        cursor: EntryId::new(cursor, 0),
        fact_waits: waits.map(Duration::from_secs),
        inbox: 3,
    }
}

fn queue(name: &str, waiting: u64, oldest: Option<u64>, readers: &[&str]) -> QueueState {
    let job = |seconds| OldestJob {
        entry: EntryId::new(3, 0),
        run: "r".into(),
        run_age: Some(Duration::from_secs(seconds)),
    };
    QueueState {
        shard: ShardId(0),
        queue: name.into(),
        waiting,
        held: 0,
        oldest: oldest.map(job),
        readers: readers.iter().map(|name| (*name).to_string()).collect(),
    }
}

fn well() -> Fleet {
    Fleet {
        schedulers: vec![live("s-1")],
        workers: vec![live("w-1")],
        shards: vec![shard(Some("s-1"), 5, None)],
        queues: vec![queue("default", 3, Some(1), &["w-1"])],
        versions: (2, 2),
        ..Fleet::default()
    }
}

fn lack(worker: &str) -> Lack {
    Lack { worker: worker.into(), need: "a sandbox".into(), reason: "not\ninstalled".into() }
}

fn said(fleet: &Fleet, before: Option<&Fleet>) -> Vec<(Severity, String)> {
    fleet.findings(before).into_iter().map(|found| (found.severity, found.text)).collect()
}

#[test]
fn a_fleet_that_works_has_no_finding() {
    assert_eq!(said(&well(), None), []);
    let of_silent = Fleet { lacks: vec![lack("w-dead")], ..well() };
    assert_eq!(said(&of_silent, None), []);
    let idle = Fleet { queues: vec![queue("default", 0, None, &["w-1"])], ..well() };
    assert!(well().is_worth_a_second_look() && !idle.is_worth_a_second_look());
}

#[test]
fn every_problem_of_the_fleet_has_its_finding() {
    use Severity::{Error, Hint, Warning};
    let old = LiveProcess { is_current: false, ..live("w-old") };
    for (fleet, severity, part) in [
        (Fleet { schedulers: vec![], ..well() }, Error, "no scheduler is alive"),
        (Fleet { workers: vec![], queues: vec![], ..well() }, Error, "no worker is alive"),
        (
            Fleet { is_new: true, schedulers: vec![], workers: vec![], queues: vec![], ..well() },
            Hint,
            "namespace yet",
        ),
        (Fleet { workers: vec![live("w-1"), old], ..well() }, Warning, "w-old do not know version 2"),
        (Fleet { shards: vec![shard(None, 5, None)], ..well() }, Error, "shard 2 has no living owner"),
        (
            Fleet { shards: vec![shard(Some("s-dead"), 5, None)], ..well() },
            Error,
            "shard 2 has no living owner",
        ),
        (Fleet { shards: vec![shard(Some("s-1"), 5, Some(40))], ..well() }, Warning, "late by 40 seconds"),
        (
            Fleet { queues: vec![queue("gpu", 7, Some(300), &[])], ..well() },
            Error,
            "7 jobs of the queue \"gpu\" wait (the oldest in run r, which began 5 minutes ago)",
        ),
        (
            Fleet { queues: vec![queue("gpu", 1, Some(0), &["w-dead"])], ..well() },
            Error,
            "no living worker serves the queue",
        ),
        (
            Fleet { queues: vec![queue("default", 9, Some(60), &["w-1"])], ..well() },
            Warning,
            "do not keep up",
        ),
        (Fleet { patterns_refused: vec!["tm:{*}:tick".into()], ..well() }, Warning, "`&tm:{*}:tick`"),
        (
            Fleet { lacks: vec![lack("w-1")], ..well() },
            Warning,
            "the worker w-1 lacks a sandbox: not installed",
        ),
    ] {
        let found = said(&fleet, None);
        assert!(
            matches!(&found[..], [(s, text)] if *s == severity && text.contains(part)),
            "{part}: {found:?}"
        );
    }
}

#[test]
fn a_second_look_tells_a_stuck_inbox_from_a_late_one() {
    let stuck = Fleet { shards: vec![shard(Some("s-1"), 5, Some(40))], ..well() };
    assert!(stuck.is_worth_a_second_look());
    let found = said(&stuck, Some(&stuck));
    assert!(matches!(&found[..], [(Severity::Error, text)] if text.contains("does not move")), "{found:?}");
    let moved = Fleet { shards: vec![shard(Some("s-1"), 9, Some(40))], ..well() };
    assert_eq!(said(&moved, Some(&stuck))[0].0, Severity::Warning);
}

#[test]
fn a_shard_between_two_owners_is_not_an_error_yet() {
    let free = Fleet { shards: vec![shard(None, 5, None)], ..well() };
    assert!(free.is_worth_a_second_look());
    assert_eq!(said(&free, Some(&well()))[0].0, Severity::Warning, "it was owned a moment ago");
    assert_eq!(said(&free, Some(&free))[0].0, Severity::Error);
}

#[test]
fn a_queue_counts_over_all_shards() {
    let mut second = queue("default", 4, Some(50), &[]);
    second.shard = ShardId(1);
    let fleet = Fleet { queues: vec![queue("default", 3, Some(1), &["w-1"]), second], ..well() };
    let found = said(&fleet, None);
    assert!(matches!(&found[..], [(Severity::Warning, text)] if text.contains("7 jobs")), "{found:?}");
}

#[test]
fn a_job_that_is_taken_a_moment_later_does_not_wait() {
    let now = Fleet { queues: vec![queue("new", 1, Some(60), &[])], ..well() };
    let mut before = now.clone();
    assert_eq!(said(&now, Some(&before)).len(), 1);
    if let Some(job) = &mut before.queues[0].oldest {
        job.entry = EntryId::new(2, 0);
    }
    assert_eq!(said(&now, Some(&before)), []);
}

#[test]
fn a_process_that_was_silent_too_long_does_not_count() {
    let mut fleet = well();
    fleet.workers[0].silent = Duration::from_secs(100);
    fleet.forget_silent(Duration::from_secs(30), Duration::from_secs(45));
    assert_eq!((fleet.schedulers.len(), fleet.workers.len()), (1, 0));
}
