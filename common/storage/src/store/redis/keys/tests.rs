//! Tests of the names of keys.

use super::*;
use crate::store::CatalogKind;

#[test]
fn everything_of_a_shard_carries_its_hash_tag() {
    let (keys, shard) = (Keys::new("tm"), ShardId(3));
    let run = RunId::new(1, 2, shard);
    assert_eq!(keys.state(run), format!("tm:{{3}}:run:{run}:state"));
    for key in [
        keys.owner(shard),
        keys.fence(shard),
        keys.jobs(shard, "gpu"),
        keys.blob(shard, &"b".into()),
        keys.run(run),
        keys.events(run),
    ] {
        assert!(key.starts_with("tm:{3}:"), "{key}");
    }
}

#[test]
fn on_a_cluster_the_keys_of_the_namespace_have_its_tag_and_the_others_their_own() {
    let (one, cluster) = (Keys::new("tm"), Keys::on_cluster("tm"));
    assert_eq!([one.meta(), one.app("a")], ["tm:meta", "tm:app:a"]);
    assert_eq!([cluster.meta(), cluster.app("a")], ["{tm}:meta", "{tm}:app:a"]);
    let of = |keys: &Keys| {
        [
            keys.limit("account", "level", "*"),
            keys.limited("app", "runs", Some("k")),
            keys.uploads("app", None),
            keys.of_dataset("set", "hits"),
            keys.annotation("app", "hits", "1"),
            keys.inbox(ShardId(3)),
            keys.ticks(),
        ]
    };
    assert_eq!(of(&one), of(&cluster));
    for keys in [one, cluster] {
        let tags = of(&keys).map(|key| keys.tag_of(&key).to_string());
        assert_eq!(tags, ["account", "app", "app", "set", "app", "3", "*"]);
        for key in [keys.meta(), keys.app("{3}"), keys.knowledge(), keys.worker("limit:{3}")] {
            assert_eq!(keys.tag_of(&key), "tm", "{key}");
        }
    }
}

#[test]
fn a_copy_has_the_names_of_its_servers_and_nothing_of_living_processes() {
    let (one, cluster) = (Keys::new("tm"), Keys::on_cluster("new"));
    let run = RunId::new(1, 2, ShardId(3));
    let names = |keys: &Keys| {
        vec![
            keys.meta(),
            keys.app_version("a", "b"),
            keys.keys_made(),
            keys.keys_used(),
            keys.end_user("{u}"),
            keys.entry(CatalogKind::Library, "x"),
            keys.knowledge(),
            keys.of_dataset("d", "hits"),
            keys.limit("a", "level", "*"),
            keys.limits_set(),
            keys.limited("a", "requests", None),
            keys.annotation("app", "hits", "1"),
            keys.uploads("app", Some("u")),
            keys.fence(ShardId(0)),
            keys.jobs(ShardId(3), "owner"),
            keys.object(run, "messages:main"),
        ]
    };
    for (from, to) in [(&one, &cluster), (&cluster, &one), (&one, &one), (&cluster, &cluster)] {
        for (name, copy) in names(from).iter().zip(names(to)) {
            assert_eq!(from.in_copy(name, to), InCopy::As(copy), "{name}");
        }
        let (probe, owner) = (from.probe_of(ShardId(3)), from.owner(ShardId(3)));
        for left in [from.schedulers(), from.worker("w"), from.knowing(), from.probe(), owner, probe] {
            assert_eq!(from.in_copy(&left, to), InCopy::Left, "{left}");
        }
    }
    for foreign in ["tm:other:meta", "tmx:meta", "{tm}:meta", "new:meta"] {
        assert_eq!(one.in_copy(foreign, &cluster), InCopy::Foreign, "{foreign}");
    }
    assert_eq!(one.everything(), ["tm:*"]);
    assert_eq!(cluster.everything(), ["new:*", "{new}:*"]);
}

#[test]
fn a_jobs_stream_names_its_shard_and_queue() {
    let keys = Keys::new("t[m");
    assert_eq!(keys.all_jobs(), "t\\[m:{*}:jobs:*");
    let key = keys.jobs(ShardId(7), "gpu:large");
    assert_eq!(keys.shard_and_queue(&key), Some((ShardId(7), "gpu:large")));
    assert_eq!(keys.shard_and_queue("other:{7}:jobs:x"), None);
}

#[test]
fn keys_by_part_are_those_that_are_spelled_whole() {
    let (keys, run) = (Keys::new("tm"), RunId::new(1, 2, ShardId(3)));
    let by_part = keys.of_run_by_part(run);
    assert_eq!(by_part.run(), keys.run(run));
    assert_eq!([by_part.state().concat(), by_part.events().concat()], [keys.state(run), keys.events(run)]);
}
