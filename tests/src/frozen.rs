//! The complete content of a Redis as a text file: a head in JSON, then one command a line that restores the content.
//! Tests keep the data of older versions in this form, and every later version must be able to read it.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use redis::FromRedisValue;
use serde_json::Value as Json;

use crate::redis::Redis;

/// The remaining lease of a fleet that has ended, in milliseconds.
const LEASE_LEFT_MS: i64 = 500;

/// The longest distance between a time and the moment of freezing, in milliseconds. A number that is farther away is
/// no time, or a time that should never come.
const NEAR_MS: i64 = 2 * 24 * 3600 * 1000;

/// The frozen content of a Redis.
#[derive(Debug, Clone, PartialEq)]
pub struct Frozen {
    /// A description and the expected results; `at` is the moment of freezing, in Unix milliseconds.
    pub head: Json,
    /// Commands that restore the content.
    pub commands: Vec<Vec<String>>,
}

impl Frozen {
    /// Freezes a Redis that no process writes to. `hidden` has pairs of words, such as names of machines, and their
    /// replacements.
    ///
    /// # Panics
    /// When Redis does not answer, or has a key of an unknown type.
    pub async fn take(redis: &Redis, head: Json, hidden: &[(&str, &str)]) -> Self {
        let mut keys: Vec<String> = redis.ask(&["KEYS", "*"]).await;
        keys.sort();
        let mut commands = Vec::new();
        for key in &keys {
            commands.extend(commands_of(redis, key).await);
            let left: i64 = redis.ask(&["PTTL", key]).await;
            if left >= 0 {
                let left = if key.ends_with(":owner") { left.min(LEASE_LEFT_MS) } else { left };
                commands.push(words(&["PEXPIRE", key, &left.to_string()]));
            }
        }
        let shown = |word: &mut String| hidden.iter().for_each(|(of, as_)| *word = word.replace(of, as_));
        commands.iter_mut().flatten().for_each(shown);
        Self { head, commands }
    }

    /// Moves all times so that the content was frozen `age` ago. So its age does not depend on when it is read, or on
    /// the clock of the machine that froze it.
    ///
    /// # Panics
    /// When the head has no time of freezing.
    #[must_use]
    pub fn of_age(&self, age: Duration) -> Self {
        let at = self.head["at"].as_i64().expect("the head says when it was frozen");
        let then = chrono::Utc::now().timestamp_millis() - i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let moved = |word: &String| moved(word, at, then - at);
        let head = serde_json::from_str(&moved(&self.head.to_string())).expect("it is JSON as before");
        let mut commands: Vec<Vec<String>> =
            self.commands.iter().map(|command| command.iter().map(moved).collect()).collect();
        // The holders of jobs have been silent since then, too.
        for command in commands.iter_mut().filter(|command| command[0] == "XCLAIM") {
            let idle = command.iter().position(|word| word == "IDLE").expect("a claim says how long") + 1;
            let silent: u128 = command[idle].parse().expect("milliseconds");
            command[idle] = (silent + age.as_millis()).to_string();
        }
        Self { head, commands }
    }

    /// Restores the content in an empty Redis.
    ///
    /// # Panics
    /// When a command is refused.
    pub async fn restore(&self, redis: &Redis) {
        for command in &self.commands {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            redis.ask::<redis::Value>(&command).await;
        }
    }

    /// Writes the file.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, path: &Path) {
        let lines = self.commands.iter().map(|command| Json::from(command.clone()).to_string());
        let lines: Vec<String> = std::iter::once(self.head.to_string()).chain(lines).collect();
        std::fs::write(path, lines.join("\n") + "\n")
            .unwrap_or_else(|e| panic!("{} cannot be written: {e}", path.display()));
    }

    /// Reads the file.
    ///
    /// # Panics
    /// When it is not a frozen Redis.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path);
        let text = text.unwrap_or_else(|e| panic!("{} cannot be read: {e}", path.display()));
        let mut lines = text.lines();
        let head = lines.next().and_then(|line| serde_json::from_str(line).ok());
        let head = head.unwrap_or_else(|| panic!("{} begins with no head", path.display()));
        let commands = lines.map(|line| serde_json::from_str(line).expect("a line is a list of words"));
        Self { head, commands: commands.collect() }
    }
}

/// Moves every time in a text: separate numbers near `at_ms`, in milliseconds or microseconds.
fn moved(text: &str, at_ms: i64, by_ms: i64) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        let unit = if word.len() == 16 { 1000 } else { 1 };
        match word.parse::<i64>() {
            Ok(time) if word.len() >= 13 && (time / unit - at_ms).abs() < NEAR_MS => {
                out.push_str(&(time + by_ms * unit).to_string());
            }
            _ => out.push_str(&word),
        }
        word.clear();
        out.push(c);
    }
    out.pop();
    out
}

async fn commands_of(redis: &Redis, key: &str) -> Vec<Vec<String>> {
    let kind: String = redis.ask(&["TYPE", key]).await;
    match kind.as_str() {
        "string" => vec![words(&["SET", key, &redis.ask::<String>(&["GET", key]).await])],
        "hash" => {
            let mut fields: Vec<(String, String)> =
                redis.ask::<HashMap<String, String>>(&["HGETALL", key]).await.into_iter().collect();
            fields.sort();
            fields.iter().map(|(field, value)| words(&["HSET", key, field, value])).collect()
        }
        "list" => {
            let all: Vec<String> = redis.ask(&["LRANGE", key, "0", "-1"]).await;
            all.iter().map(|value| words(&["RPUSH", key, value])).collect()
        }
        "set" => {
            let mut all: Vec<String> = redis.ask(&["SMEMBERS", key]).await;
            all.sort();
            all.iter().map(|member| words(&["SADD", key, member])).collect()
        }
        "zset" => {
            let all: Vec<(String, String)> = redis.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]).await;
            all.iter().map(|(member, score)| words(&["ZADD", key, score, member])).collect()
        }
        "stream" => commands_of_stream(redis, key).await,
        other => panic!("{key} is of type {other}"),
    }
}

async fn commands_of_stream(redis: &Redis, key: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let entries: Vec<(String, Vec<String>)> = redis.ask(&["XRANGE", key, "-", "+"]).await;
    let last: String = field(&redis.ask(&["XINFO", "STREAM", key]).await, "last-generated-id");
    for (id, fields) in &entries {
        commands.push([words(&["XADD", key, id]), fields.clone()].concat());
    }
    if entries.is_empty() {
        // The stream had entries before, so its next id must be larger than theirs.
        commands.extend([words(&["XADD", key, &last, "", ""]), words(&["XDEL", key, &last])]);
    }
    commands.push(words(&["XSETID", key, &last]));
    let groups: Vec<HashMap<String, redis::Value>> = redis.ask(&["XINFO", "GROUPS", key]).await;
    for group in &groups {
        let name: String = field(group, "name");
        commands.push(words(&["XGROUP", "CREATE", key, &name, &field::<String>(group, "last-delivered-id")]));
        let consumers: Vec<HashMap<String, redis::Value>> =
            redis.ask(&["XINFO", "CONSUMERS", key, &name]).await;
        for consumer in &consumers {
            let consumer: String = field(consumer, "name");
            commands.push(words(&["XGROUP", "CREATECONSUMER", key, &name, &consumer]));
        }
        let held: Vec<(String, String, u64, u64)> =
            redis.ask(&["XPENDING", key, &name, "-", "+", "1000"]).await;
        for (id, consumer, idle, deliveries) in held {
            let (idle, deliveries) = (idle.to_string(), deliveries.to_string());
            let claim = ["XCLAIM", key, &name, &consumer, "0", &id, "IDLE", &idle];
            let as_it_was = ["RETRYCOUNT", &deliveries, "FORCE", "JUSTID"];
            commands.push(words(&[&claim[..], &as_it_was[..]].concat()));
        }
    }
    commands
}

fn field<T: FromRedisValue>(of: &HashMap<String, redis::Value>, name: &str) -> T {
    let value = of.get(name).cloned().unwrap_or_else(|| panic!("XINFO says no {name}: {of:?}"));
    redis::from_redis_value(value).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_times_are_moved() {
        let at = 1_763_766_000_000;
        for (text, expected) in [
            ("1763766000123456-7", "1763765999123456-7"),
            (r#"{"ts":1763766000005,"n":17637660000}"#, r#"{"ts":1763765999005,"n":17637660000}"#),
            ("r1763766000000 deadline", "r1763766000000 deadline"),
            ("4917366000000", "4917366000000"),
            ("", ""),
        ] {
            assert_eq!(moved(text, at, -1000), expected);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_frozen_redis_is_restored_unchanged() {
        let redis = Redis::start().await;
        for line in [
            "SET s text",
            "HSET h b 2 a 1",
            "RPUSH l x y x",
            "SADD m two one",
            "ZADD z 1763766000000 due",
            "XADD jobs 5-0 run r",
            "XADD jobs 6-1 run q",
            "XADD jobs 7-0 run q",
            "XGROUP CREATE jobs workers 0",
            "XREADGROUP GROUP workers w-here-1 COUNT 2 STREAMS jobs >",
            "XCLAIM jobs workers w-here-1 0 5-0 RETRYCOUNT 4 JUSTID",
            "XDEL jobs 7-0",
            "XADD inbox 9-9 a b",
            "XDEL inbox 9-9",
            "PEXPIRE s 50000",
        ] {
            let line: Vec<&str> = line.split(' ').collect();
            redis.ask::<redis::Value>(&line).await;
        }
        let frozen = Frozen::take(&redis, json!({"story": "all types"}), &[("-here-", "-gone-")]).await;
        let folder = tempfile::tempdir().expect("a folder");
        frozen.write(&folder.path().join("all.jsonl"));
        let read = Frozen::read(&folder.path().join("all.jsonl"));
        assert_eq!(read, frozen);

        let other = Redis::start().await;
        read.restore(&other).await;
        // Times are moved; everything else is the same.
        let still = |frozen: &Frozen| {
            let timeless = |word: &String| !word.parse::<u64>().is_ok_and(|n| n < 100_000);
            let lines = frozen.commands.iter().cloned();
            lines.map(|line| line.into_iter().filter(timeless).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let again = Frozen::take(&other, json!({"story": "all types"}), &[]).await;
        assert_eq!(still(&again), still(&frozen));
        let held: Vec<(String, String, u64, u64)> =
            other.ask(&["XPENDING", "jobs", "workers", "-", "+", "9"]).await;
        let held: Vec<_> = held.into_iter().map(|(id, of, _, times)| (id, of, times)).collect();
        let of = |id: &str, times| (id.to_string(), "w-gone-1".to_string(), times);
        assert_eq!(held, [of("5-0", 4), of("6-1", 1)]);
        assert_eq!(other.cli(&["XADD", "jobs", "7-*", "a", "b"]), "7-1", "an id never comes twice");
    }
}
