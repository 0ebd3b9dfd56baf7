//! Tests of the record of a worker: what is written when, and what a job's need adds to it.

use super::*;
use tidemill_common::clock::SystemClock;
use tidemill_common::store::Jobs;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::wire::worker::ProviderAbility;

const TTL: Duration = Duration::from_secs(30);

fn provider() -> Need {
    Need::Provider { provider: "openai".into(), model: "m".into() }
}

async fn read(store: &MemoryStore) -> LiveWorker {
    let jobs: &dyn Jobs = store;
    jobs.announce_worker("w", TTL).await.unwrap();
    jobs.fleet().workers().await.unwrap().remove(0)
}

#[tokio::test]
async fn a_need_of_a_job_is_missing_until_a_survey_shows_that_it_is_there() {
    let setup = Setup::new(None);
    setup.note(&provider(), "no key");
    let about = setup.about();
    assert_eq!((about.missing.len(), about.missing[0].reason.as_str()), (1, "no key"));
    assert!(about.missing[0].asked_at.is_some());
    setup.set(AboutWorker::default());
    assert_eq!(setup.about().missing.len(), 1, "the survey does not find it");
    let found = ProviderAbility { name: "openai".into(), serves: Vec::new(), usable: true };
    setup.set(AboutWorker { providers: vec![found], ..AboutWorker::default() });
    assert!(setup.about().missing.is_empty());
}

#[tokio::test]
async fn code_that_failed_here_is_mended_by_a_survey_that_had_seen_it_missing_or_by_code_that_runs() {
    let python = || Need::Code { language: "python3".into() };
    let able = || AboutWorker { code: vec!["python3".into()], ..AboutWorker::default() };
    let unable = || AboutWorker {
        missing: vec![survey::lacking(python(), "no environment".into())],
        ..AboutWorker::default()
    };
    let met = |setup: &Setup| setup.met(&python());
    let other = |setup: &Setup| setup.met(&provider());
    for (name, before, after, then, is_mended) in [
        ("installed", unable(), Some(able()), None, true),
        ("still not installed", unable(), Some(unable()), None, false),
        ("looked well, and did not run", able(), Some(able()), None, false),
        ("looked well, and runs again", able(), None, Some(&met as &dyn Fn(&Setup)), true),
        ("something else is there", able(), None, Some(&other), false),
    ] {
        let setup = Setup::new(None);
        setup.set(before);
        setup.note(&python(), "it did not run");
        assert!(!decide::can(&setup.about(), &python(), None), "{name}");
        if let Some(after) = after {
            setup.set(after);
        }
        if let Some(then) = then {
            then(&setup);
        }
        assert_eq!(decide::can(&setup.about(), &python(), None), is_mended, "{name}");
    }
}

#[tokio::test]
async fn the_record_is_written_again_after_it_has_expired() {
    let (setup, store) = (Setup::new(None), MemoryStore::new(Arc::new(SystemClock)));
    setup.set(AboutWorker { host: "h".into(), ..AboutWorker::default() });
    setup.write(&store, ("w", TTL, 2)).await.unwrap();
    let worker = read(&store).await;
    assert_eq!((worker.held, worker.about.unwrap().host.as_str()), (Some(2), "h"));
    let jobs: &dyn Jobs = &store;
    jobs.retire_worker("w").await.unwrap();
    setup.write(&store, ("w", TTL, 0)).await.unwrap();
    assert_eq!(read(&store).await.about.unwrap().host, "h");
}

#[tokio::test]
async fn a_job_that_was_handed_back_is_left_to_others_while_they_can_do_it() {
    let (setup, store) = (Setup::new(None), MemoryStore::new(Arc::new(SystemClock)));
    let (shard, entry) = (tidemill_common::ids::ShardId(0), tidemill_common::ids::EntryId::new(1, 0));
    let place = JobPlace { shard, queue: "default".into(), entry };
    let wanted = || decide::Wanted { need: provider(), node: None, is_hosted_here: false };
    assert!(setup.remember(&place, wanted()), "the first time");
    assert!(!setup.remember(&place, wanted()), "the second time");
    assert!(setup.has_passed(&place) && !setup.is_for_others("me", &place), "no other worker is known");
    let found = ProviderAbility { name: "openai".into(), serves: Vec::new(), usable: true };
    let about =
        AboutWorker { queues: vec!["default".into()], providers: vec![found], ..AboutWorker::default() };
    let jobs: &dyn Jobs = &store;
    jobs.announce_worker("able", TTL).await.unwrap();
    jobs.fleet().note_worker("able", TTL, 0, Some(&about)).await.unwrap();
    setup.look_at_fleet(&store).await;
    assert!(setup.is_for_others("me", &place));
    assert!(!setup.is_for_others("able", &place), "it is the worker itself");
}
