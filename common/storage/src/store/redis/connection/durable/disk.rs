//! Whether a server has its writes on disk: `WAITAOF`, which Redis has from version 7.2 on; before, `appendfsync always`,
//! under which a server answers only what it has on disk.

use std::time::Duration;

use redis::RedisError;

use crate::store::redis::connection::wire_connection::{Line, Replies, Reply, Request, error_of};

/// The answer to the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disk {
    /// All writes from before the question are on disk.
    Written,
    /// Not in this time.
    NotYet,
    /// The server cannot say so; what to set.
    Unsupported(String),
}

/// Waits at most for `within` until all writes on this line, and those before them, are on disk.
pub(super) async fn on_disk(line: &mut Line, within: Duration) -> Result<Disk, RedisError> {
    let mut request = Request::default();
    let ms = within.as_millis().max(1).to_string();
    request.command("WAITAOF", 3).word("1").word("0").word(&ms);
    match line.ask(&request, within).await.map(written)? {
        Ok(disk) => Ok(disk),
        Err(error) if is_unknown(&error) => always(line).await,
        Err(error) if error.to_string().contains("appendonly is disabled") => Ok(no_log()),
        Err(error) => Err(error),
    }
}

/// `[number of local disks, number of replicas]`, or an error.
fn written(mut replies: Replies<'_>) -> Result<Disk, RedisError> {
    match replies.next() {
        Some(Reply::Error(error)) => Err(error_of(error)),
        Some(Reply::List(2)) if replies.next() == Some(Reply::Number(1)) => Ok(Disk::Written),
        _ => Ok(Disk::NotYet),
    }
}

/// A server that does not know the command, or a user who may not call it.
fn is_unknown(error: &RedisError) -> bool {
    let text = error.to_string().to_ascii_lowercase();
    text.contains("unknown command") || error.code() == Some("NOPERM")
}

/// Whether the server has on disk what it has answered.
async fn always(line: &mut Line) -> Result<Disk, RedisError> {
    let mut request = Request::default();
    request.command("CONFIG", 2).word("GET").word("append*");
    let answer = line.ask(&request, Duration::ZERO).await?;
    Ok(judge(&settings(answer)))
}

/// The settings in an answer of CONFIG GET; none when the server does not show them.
fn settings(mut replies: Replies<'_>) -> Vec<(String, String)> {
    let words = replies.list().unwrap_or(0);
    let mut read = || replies.text().map(|text| text.into_owned());
    (0..words / 2).filter_map(|_| Some((read()?, read()?))).collect()
}

fn judge(settings: &[(String, String)]) -> Disk {
    let of = |name: &str| settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    match (of("appendonly"), of("appendfsync")) {
        (Some("yes"), Some("always")) => Disk::Written,
        (Some("no"), _) => no_log(),
        (_, Some(how)) => Disk::Unsupported(format!(
            "durability fsync needs Redis 7.2 or newer, or `appendfsync always` in redis.conf, which is {how}"
        )),
        (_, None) => Disk::Unsupported(
            "durability fsync needs Redis 7.2 or newer with the right to WAITAOF, or `appendfsync always` with the right \
             to CONFIG GET, which this server does not give"
                .into(),
        ),
    }
}

fn no_log() -> Disk {
    Disk::Unsupported("durability fsync needs `appendonly yes` in redis.conf".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        match written(Replies::new(text.as_bytes())) {
            Ok(disk) => format!("{disk:?}"),
            Err(error) if is_unknown(&error) => "unknown".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_answer_to_waitaof_says_whether_the_disk_has_it() {
        assert_eq!(of("*2\r\n:1\r\n:0\r\n"), "Written");
        assert_eq!(of("*2\r\n:0\r\n:0\r\n"), "NotYet");
        assert_eq!(of("-ERR unknown command 'WAITAOF', with args beginning with: '1'\r\n"), "unknown");
        assert_eq!(of("-NOPERM this user has no permissions to run the 'waitaof' command\r\n"), "unknown");
    }

    #[test]
    fn a_server_without_it_must_write_always_and_is_told_what_to_set() {
        let judged = |list: &[(&str, &str)]| {
            let list: Vec<_> = list.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            match judge(&list) {
                Disk::Unsupported(why) => why,
                other => format!("{other:?}"),
            }
        };
        assert_eq!(judged(&[("appendonly", "yes"), ("appendfsync", "always")]), "Written");
        assert!(judged(&[("appendonly", "yes"), ("appendfsync", "everysec")]).contains("appendfsync always"));
        assert!(judged(&[("appendonly", "no"), ("appendfsync", "always")]).contains("appendonly yes"));
        assert!(judged(&[]).contains("CONFIG GET"));
        let answer = "*4\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n";
        assert_eq!(judge(&settings(Replies::new(answer.as_bytes()))), Disk::Written);
        assert!(settings(Replies::new(b"-NOPERM no\r\n")).is_empty());
    }
}
