//! Checks in builds with debug assertions that all keys of a script, a transaction or a command are in one slot, also on
//! one server, where Redis would not complain. So every test of the store finds what a cluster would refuse.

use redis::{Arg, Cmd, Pipeline};

use crate::store::redis::connection::keys_of::keys_of;
use crate::store::redis::connection::wire_connection::Request;
use crate::store::redis::keys::Keys;

/// Whether the check is made. The callers do nothing for it in other builds.
pub(in crate::store::redis) const IS_CHECKED: bool = cfg!(debug_assertions);

/// Panics with the names of the keys unless they are in one slot.
pub(in crate::store::redis) fn check<'a>(
    names: &Keys,
    doing: &'static str,
    keys: impl IntoIterator<Item = &'a str>,
) {
    let keys: Vec<&str> = keys.into_iter().collect();
    let Some(first) = keys.first() else { return };
    let tag = names.tag_of(first);
    let is_one = keys.iter().all(|key| names.tag_of(key) == tag);
    assert!(is_one, "the keys of one request are in several slots while {doing}: {}", keys.join(" "));
}

/// Checks a command.
pub(in crate::store::redis) fn check_command(names: &Keys, doing: &'static str, command: &Cmd) {
    check_words(names, doing, [words(command)]);
}

/// Checks a transaction; of other pipelines each command, because they are split.
pub(in crate::store::redis) fn check_pipeline(names: &Keys, doing: &'static str, pipe: &Pipeline) {
    if pipe.is_transaction() {
        check_words(names, doing, pipe.cmd_iter().map(words));
    } else {
        pipe.cmd_iter().for_each(|command| check_command(names, doing, command));
    }
}

/// Checks a request, all of whose commands go over one connection.
pub(in crate::store::redis) fn check_request(names: &Keys, doing: &'static str, request: &Request) {
    check_words(names, doing, request.each_command());
}

fn check_words<'a>(names: &Keys, doing: &'static str, commands: impl IntoIterator<Item = Vec<&'a [u8]>>) {
    let keys: Vec<String> = commands
        .into_iter()
        .flat_map(|words| keys_of(&words))
        .map(|key| String::from_utf8_lossy(key).into_owned())
        .collect();
    check(names, doing, keys.iter().map(String::as_str));
}

/// The words of a command of the client library.
pub(in crate::store::redis) fn words(command: &Cmd) -> Vec<&[u8]> {
    let word = |arg| match arg {
        Arg::Simple(word) => word,
        // Only the library's own iterators have cursors, and the store does not use them.
        _ => &b"0"[..],
    };
    command.args_iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(check: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let Err(panic) = std::panic::catch_unwind(check) else { return String::new() };
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn keys_of_several_slots_are_named() {
        let names = Keys::new("tm");
        let said = panics(|| check(&Keys::new("tm"), "testing", ["tm:{1}:inbox", "tm:meta"]));
        assert!(said.ends_with("while testing: tm:{1}:inbox tm:meta"), "{said}");
        check(&names, "testing", ["tm:{1}:inbox", "tm:{1}:fence"]);
        check(&names, "testing", ["tm:meta", "tm:apps"]);
        check(&names, "testing", []);
    }

    #[test]
    fn a_transaction_is_one_request_and_a_pipeline_is_not() {
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg("tm:{1}:a").cmd("GET").arg("tm:{2}:a");
        check_pipeline(&Keys::new("tm"), "testing", &pipe);
        pipe.atomic();
        assert!(panics(move || check_pipeline(&Keys::new("tm"), "testing", &pipe)).contains("several slots"));
        let mut request = Request::default();
        request.command("GET", 1).word("tm:{1}:a");
        request.command("UNLINK", 2).word("tm:{2}:a").word("tm:{2}:b");
        let said = panics(move || check_request(&Keys::new("tm"), "testing", &request));
        assert!(said.ends_with("tm:{1}:a tm:{2}:a tm:{2}:b"), "{said}");
    }
}
