//! Tables of what a worker takes over.

use std::collections::BTreeMap;

use tidemill_common::ids::{EntryId, ShardId};

use super::*;

const LEASE: Duration = Duration::from_secs(10);

fn job(entry: u64, holder: &str, idle_s: u64, number: u32) -> StaleJob {
    StaleJob {
        shard: ShardId(u16::try_from(entry % 2).unwrap()),
        queue: "default".into(),
        entry: EntryId::new(entry, 0),
        holder: holder.into(),
        idle: Duration::from_secs(idle_s),
        number,
        suspect: None,
    }
}

fn record(holder: &str, size: u32, lost: u32, alone: u32) -> Suspect {
    Suspect { holder: holder.into(), size, lost, alone, outage: false, origin: "w0".into() }
}

fn jobs(of: std::ops::RangeInclusive<u64>, holder: &str, idle_s: u64, number: u32) -> Vec<StaleJob> {
    of.map(|entry| job(entry, holder, idle_s, number)).collect()
}

fn noted(jobs: Vec<StaleJob>, suspect: &Suspect) -> Vec<StaleJob> {
    jobs.into_iter().map(|job| StaleJob { suspect: Some(suspect.clone()), ..job }).collect()
}

fn decide(jobs: &[StaleJob], change: impl FnOnce(&mut Situation<'_>)) -> Plan {
    decide_with(jobs, &[], change)
}

fn decide_with(jobs: &[StaleJob], cleared: &[&str], change: impl FnOnce(&mut Situation<'_>)) -> Plan {
    let mut situation = Situation {
        consumer: "me",
        lease: LEASE,
        deliveries_max: 3,
        permits: 1000,
        window: Window::default(),
        barred: &|_| false,
    };
    change(&mut situation);
    let cleared = cleared.iter().map(ToString::to_string).collect();
    plan(&Stale { jobs: jobs.to_vec(), cleared }, &situation)
}

/// The taken jobs: entry and new delivery number, by entry.
fn taken(plan: &Plan) -> BTreeMap<u64, u32> {
    let taken = plan.changes.iter().map(|c| &c.take_over);
    taken.filter_map(|it| Some((it.entry.major, it.new_number?))).collect()
}

/// The number of jobs taken.
fn count(plan: &Plan) -> usize {
    taken(plan).len()
}

/// The written records: entry, size, losses, evidence.
fn written(plan: &Plan) -> BTreeMap<u64, (u32, u32, u32)> {
    let note = |c: &Change| match &c.take_over.note {
        Note::Write(s) => Some((c.take_over.entry.major, (s.size, s.lost, s.alone))),
        Note::Leave | Note::Remove => None,
    };
    plan.changes.iter().filter_map(note).collect()
}

#[test]
fn of_a_dead_worker_half_of_the_jobs_are_taken_and_the_size_is_noted_for_all() {
    let plan = decide(&jobs(1..=21, "w1", 11, 1), |_| {});
    assert_eq!((count(&plan), plan.suspects_wait), (11, true));
    assert!(taken(&plan).values().all(|number| *number == 2));
    assert_eq!(written(&plan).len(), 21, "over both shards");
    assert!(written(&plan).values().all(|it| *it == (21, 1, 0)));
    // The other half is left for the next worker.
    let left = noted(jobs(12..=21, "w1", 12, 1), &record("w1", 21, 1, 0));
    let plan = decide(&left, |_| {});
    assert_eq!((count(&plan), plan.suspects_wait, written(&plan).len()), (10, false, 0));
}

#[test]
fn each_death_halves_the_suspects_until_one_is_left() {
    let mut held = jobs(1..=200, "w0", 11, 1);
    let mut sizes = Vec::new();
    for death in 1..=9_u32 {
        let plan = decide(&held, |_| {});
        let of = |entry: u64| held.iter().find(|job| job.entry.major == entry).unwrap().clone();
        sizes.push(count(&plan));
        let taken = plan.changes.iter().filter(|c| c.take_over.new_number.is_some());
        let again = taken.map(|c| StaleJob {
            holder: format!("w{death}"),
            number: c.take_over.new_number.unwrap(),
            suspect: c.suspect.clone(),
            ..of(c.take_over.entry.major)
        });
        held = again.collect();
    }
    assert_eq!(sizes, [100, 50, 25, 13, 7, 4, 2, 1, 1]);
    let last = held[0].suspect.clone().unwrap();
    assert_eq!((last.origin.as_str(), last.size, last.lost, last.alone), ("w0", 1, 9, 2));
    assert!(is_convicted(&last, held[0].number, 3));
}

#[test]
fn a_lone_job_is_given_up_after_as_many_deliveries_as_are_allowed() {
    for (number, suspect, expected) in [
        (1, None, false),
        (2, Some(record("w1", 1, 1, 2)), false),
        (3, Some(record("w2", 1, 2, 4)), true),
        // Older workers wrote no record.
        (3, None, true),
        (1002, Some(record("w1", 1, 1, 2)), false),
    ] {
        let lone = [StaleJob { suspect, ..job(1, "w3", 11, number) }];
        let plan = decide(&lone, |_| {});
        assert_eq!(taken(&plan), BTreeMap::from([(1, number + 1)]));
        let suspect = plan.changes[0].suspect.clone().unwrap();
        assert_eq!(is_convicted(&suspect, Delivery::counted_of(number + 1), 3), expected, "{number}");
        assert_eq!(most_beside(&suspect), Some(1));
    }
}

#[test]
fn a_job_that_was_not_alone_is_not_given_up_however_often_it_was_delivered() {
    let pair = noted(jobs(1..=2, "w5", 11, 9), &record("w4", 4, 8, 0));
    let plan = decide(&pair, |_| {});
    assert_eq!(taken(&plan), BTreeMap::from([(2, 10)]), "one of two");
    assert!(plan.changes.iter().all(|c| !is_convicted(c.suspect.as_ref().unwrap(), 10, 3)));
    assert!(is_convicted(&record("w", 2, 3 * limits::LOSSES_FACTOR + limits::LOSSES_MORE, 0), 40, 3));
}

#[test]
fn beside_new_work_a_lone_suspect_is_given_up_only_when_it_happens_twice() {
    let mut lost = noted(jobs(1..=1, "w5", 11, 5), &record("w4", 2, 4, 0));
    lost.extend(jobs(2..=9, "w5", 11, 1));
    let plan = decide(&lost, |_| {});
    assert_eq!(taken(&plan), BTreeMap::from([(1, 6)]), "the suspect first, and alone");
    assert_eq!(written(&plan)[&1], (1, 5, 1));
    assert_eq!(written(&plan)[&2], (9, 1, 0));
    assert!(!is_convicted(plan.changes[0].suspect.as_ref().unwrap(), 6, 3));
    lost[0].suspect = Some(record("w4", 1, 5, 1));
    let plan = decide(&lost, |_| {});
    assert!(is_convicted(plan.changes[0].suspect.as_ref().unwrap(), 6, 3));
    assert_eq!(count(&plan), 6, "it is not run, so the others are taken beside it");
    assert!(plan.changes.iter().all(|c| c.suspect.as_ref().is_none_or(|s| s.origin == "w0")));
}

#[test]
fn workers_that_die_within_a_lease_are_an_outage_and_nothing_is_counted() {
    let both = [jobs(1..=20, "w1", 15, 1), jobs(21..=40, "w2", 12, 1)].concat();
    let plan = decide(&both, |_| {});
    assert_eq!((count(&plan), plan.suspects_wait), (40, false));
    assert!(taken(&plan).values().all(|number| Delivery::counted_of(*number) == 1));
    assert!(plan.changes.iter().all(|c| most_beside(c.suspect.as_ref().unwrap()).is_none()));
    // The second worker is silent, but its lease runs on.
    let soon = [jobs(1..=20, "w1", 10, 1), jobs(21..=40, "w2", 7, 1)].concat();
    assert_eq!(taken(&decide(&soon, |_| {})), (1..=20).map(|entry| (entry, 1001)).collect());
    // A part that is left is still part of the outage when the other worker's jobs are gone.
    let left = Suspect { outage: true, ..record("w1", 20, 1, 0) };
    let mut left = noted(jobs(1..=5, "w1", 30, 1), &left);
    left.extend(jobs(6..=9, "w1", 30, 1));
    assert_eq!(count(&decide(&left, |_| {})), 9);
    // A lease apart they are two deaths.
    let apart = [jobs(1..=20, "w1", 25, 1), jobs(21..=40, "w2", 15, 1)].concat();
    assert_eq!(count(&decide(&apart, |_| {})), 10);
}

#[test]
fn what_was_lost_before_is_narrowed_in_an_outage_too_and_given_up_in_the_end() {
    let before = noted(jobs(1..=10, "w3", 12, 2), &record("w1", 21, 1, 0));
    let lost = [before, jobs(11..=30, "w4", 12, 1)].concat();
    let plan = decide(&lost, |_| {});
    assert_eq!(count(&plan), 20 + 5);
    assert_eq!(taken(&plan)[&11], 1001);
    assert_eq!(written(&plan)[&1], (10, 2, 0));
    let lone = |lost| Suspect { outage: true, ..record("w", 1, lost, 0) };
    assert!(!is_convicted(&lone(11), 1, 3));
    assert!(is_convicted(&lone(12), 1, 3), "two jobs that always die together end as well");
}

#[test]
fn suspects_that_this_worker_holds_leave_less_room() {
    let lost = noted(jobs(1..=10, "w1", 11, 1), &record("w1", 10, 1, 0));
    for (held, most, expected) in
        [(0, None, 5), (3, Some(10), 2), (5, Some(5), 0), (1, Some(1), 0), (2, Some(4), 2)]
    {
        let plan = decide(&lost, |it| it.window = Window { held, most });
        assert_eq!(count(&plan), expected, "{held} {most:?}");
        assert_eq!(plan.suspects_wait, expected < 10);
    }
    // The smallest group comes first and allows no others.
    let two = [noted(jobs(11..=13, "w2", 30, 2), &record("w2", 3, 2, 0)), lost].concat();
    assert_eq!(taken(&decide(&two, |_| {})).keys().copied().collect::<Vec<_>>(), [11, 12]);
}

#[test]
fn suspects_of_a_cleared_origin_are_taken_at_once() {
    let left = noted(jobs(1..=10, "w1", 30, 2), &record("w1", 10, 2, 0));
    let plan = decide_with(&left, &["w0"], |it| it.window = Window { held: 1, most: Some(1) });
    assert_eq!(count(&plan), 10);
    assert!(plan.changes.iter().all(|c| c.take_over.note == Note::Remove && c.suspect.is_none()));
    // Lost once more they are suspected as if for the first time.
    let again = noted(jobs(1..=10, "w2", 11, 3), &record("w1", 10, 2, 0));
    let plan = decide_with(&again, &["w0"], |_| {});
    assert_eq!((count(&plan), written(&plan)[&1]), (5, (10, 1, 0)));
    assert!(plan.changes.iter().all(|c| c.suspect.as_ref().is_some_and(|s| s.origin == "w2")));
}

#[test]
fn returned_jobs_and_this_workers_own_are_taken_at_once_and_not_suspected() {
    let known = Some(record("w1", 1, 2, 2));
    let returned = StaleJob { idle: HANDED_BACK * 2, suspect: known.clone(), ..job(1, "w1", 0, 1002) };
    let own = job(2, "me", 11, 3);
    let plan = decide(&[returned.clone(), own, job(3, "me", 7, 1)], |_| {});
    assert_eq!(taken(&plan), BTreeMap::from([(1, 1003), (2, 1003)]));
    assert!(plan.changes.iter().all(|c| c.suspect.is_none()));
    // A returned job is no sign that its worker died.
    let plan = decide(&[vec![returned], jobs(4..=7, "w1", 11, 1)].concat(), |_| {});
    assert_eq!((count(&plan), written(&plan)[&4]), (3, (4, 1, 0)));
}

#[test]
fn barred_jobs_and_those_without_a_permit_are_left() {
    let returned = |entry| StaleJob { idle: HANDED_BACK, ..job(entry, "w1", 0, 1001) };
    let lost = [returned(1), returned(2), returned(3)];
    let plan = decide(&lost, |it| it.barred = &|job| job.entry.major == 2);
    assert_eq!(taken(&plan).keys().copied().collect::<Vec<_>>(), [1, 3]);
    assert!(!plan.lacks_permits);
    let plan = decide(&lost, |it| it.permits = 1);
    assert_eq!((count(&plan), plan.lacks_permits), (1, true));
    let plan = decide(&jobs(1..=4, "w1", 11, 1), |it| it.barred = &|_| true);
    assert_eq!((count(&plan), written(&plan).len()), (0, 4), "they are noted for the other workers");
}

#[test]
fn a_part_that_was_not_noted_is_never_taken_for_a_lone_job() {
    // A worker died while it took this group over: it had noted one shard only.
    let mut left = noted(jobs(1..=3, "w1", 11, 3), &record("w1", 4, 1, 0));
    left.push(StaleJob { suspect: Some(record("w0", 9, 5, 1)), ..job(4, "w1", 11, 3) });
    let plan = decide(&left, |_| {});
    assert_eq!(written(&plan), BTreeMap::from([(4, (4, 6, 1))]));
}
