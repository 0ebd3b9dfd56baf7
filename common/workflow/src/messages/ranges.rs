//! Lists of indexes as text. Most lists are a few ranges of consecutive indexes: `0-4,7,9-12`.

/// Writes indexes in their order.
pub fn write_ranges(indexes: &[u32]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < indexes.len() {
        let (first, begin) = (indexes[at], at);
        while at + 1 < indexes.len() && indexes[at].checked_add(1) == Some(indexes[at + 1]) {
            at += 1;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&first.to_string());
        if at > begin {
            text.push('-');
            text.push_str(&indexes[at].to_string());
        }
        at += 1;
    }
    text
}

/// Parses the text; `None` when it is invalid or contains an index of `end` or more.
pub fn read_ranges(text: &str, end: u32) -> Option<Vec<u32>> {
    let mut indexes = Vec::new();
    if text.is_empty() {
        return Some(indexes);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= end {
            return None;
        }
        indexes.extend(first..=last);
    }
    Some(indexes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_become_one_range() {
        for (indexes, text) in [
            (&[][..], ""),
            (&[0], "0"),
            (&[0, 1, 2], "0-2"),
            (&[3, 5, 0, 1, 2], "3,5,0-2"),
            (&[2, 1, 0], "2,1,0"),
            (&[1, 1], "1,1"),
        ] {
            assert_eq!(write_ranges(indexes), text);
            assert_eq!(read_ranges(text, 6).as_deref(), Some(indexes));
        }
        for text in ["x", "1-", "2-1", "0-6", ","] {
            assert_eq!(read_ranges(text, 6), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_ranges_read_back(indexes in proptest::collection::vec(0..50u32, 0..30)) {
            prop_assert_eq!(read_ranges(&write_ranges(&indexes), 50), Some(indexes));
        }
    }
}
