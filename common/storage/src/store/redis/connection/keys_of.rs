//! Finds the keys among the words of a command, for all commands that the store sends. On a cluster the first key decides
//! which server gets the command, and all keys must be in one slot.

/// The keys of a command; `words` begins with its name. Empty for commands without keys.
pub(in crate::store::redis) fn keys_of<'a>(words: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let Some(name) = words.first().map(|name| name.to_ascii_uppercase()) else { return Vec::new() };
    let number = |at: usize| {
        let text = words.get(at).and_then(|word| str::from_utf8(word).ok());
        text.and_then(|text| text.parse::<usize>().ok()).unwrap_or(0)
    };
    let from = |first: usize, count: usize| words.iter().skip(first).take(count).copied().collect();
    match name.as_slice() {
        b"PING" | b"ECHO" | b"TIME" | b"INFO" | b"CONFIG" | b"CLIENT" | b"SCRIPT" | b"SCAN" | b"AUTH"
        | b"SELECT" | b"MULTI" | b"EXEC" | b"ASKING" | b"CLUSTER" | b"ROLE" | b"PUBLISH" => Vec::new(),
        b"DEL" | b"UNLINK" | b"WATCH" | b"EXISTS" => from(1, usize::MAX),
        b"COPY" => from(1, 2),
        b"EVAL" | b"EVALSHA" => from(3, number(2)),
        b"XINFO" | b"XGROUP" => from(2, 1),
        b"XREAD" | b"XREADGROUP" => {
            // The same number of entry ids follows the keys.
            let first =
                words.iter().position(|word| word.eq_ignore_ascii_case(b"STREAMS")).map_or(0, |at| at + 1);
            from(first, words.len().saturating_sub(first) / 2)
        }
        _ => from(1, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_names_its_keys_at_its_own_places() {
        for (command, keys) in [
            ("GET a", "a"),
            ("hset a f v", "a"),
            ("UNLINK a b c", "a b c"),
            ("COPY a b REPLACE", "a b"),
            ("EVALSHA hash 2 a b c", "a b"),
            ("EVALSHA hash 0 c", ""),
            ("XREADGROUP GROUP g w COUNT 1 STREAMS a b > >", "a b"),
            ("XREAD COUNT 9 STREAMS a 0", "a"),
            ("XINFO GROUPS a", "a"),
            ("XGROUP CREATE a g 0 MKSTREAM", "a"),
            ("PUBLISH channel text", ""),
            ("TIME", ""),
            ("", ""),
        ] {
            let words: Vec<&[u8]> = command.split_whitespace().map(str::as_bytes).collect();
            let found: Vec<&str> =
                keys_of(&words).iter().filter_map(|key| str::from_utf8(key).ok()).collect();
            assert_eq!(found.join(" "), keys, "{command}");
        }
    }
}
