//! Finds secrets in a text, and the part of a growing text that may already be shown.

use std::cmp::Reverse;

use super::{CHARS_MIN, Secret, Secrets};

/// Ends a text that was cut because it is too long to be shown.
const CUT: char = '…';

/// A range of a text that holds a secret, or several that overlap.
pub(super) struct Found<'a> {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The longest of them.
    pub(super) secret: &'a Secret,
    longest: usize,
}

impl Secrets {
    pub(super) fn is_within(&self, text: &str) -> bool {
        self.0.iter().flat_map(|secret| &secret.spellings).any(|spelling| text.contains(spelling.as_str()))
    }

    /// Finds all ranges with secrets, in order.
    pub(super) fn found(&self, text: &str) -> Vec<Found<'_>> {
        if self.is_within(text) { merged(self.each_found(text)) } else { Vec::new() }
    }

    /// As [`Self::found`], with secrets whose end was cut off.
    pub(super) fn found_or_cut(&self, text: &str) -> Vec<Found<'_>> {
        let cut = self.cut_off(text);
        if cut.is_empty() {
            return self.found(text);
        }
        let mut all = self.each_found(text);
        all.extend(cut);
        merged(all)
    }

    /// Beginnings of secrets at the end of a text and before each [`CUT`]. Short ones are ignored.
    fn cut_off(&self, text: &str) -> Vec<Found<'_>> {
        let ends = text.match_indices(CUT).map(|(at, _)| at).chain(std::iter::once(text.len()));
        let at = |to: usize| {
            let each = self.0.iter().flat_map(|secret| secret.spellings.iter().map(move |one| (secret, one)));
            each.filter_map(move |(secret, spelling)| {
                let longest = begun(&text[..to], spelling);
                let from = to - longest;
                (text[from..to].chars().nth(CHARS_MIN - 1).is_some()).then_some(Found {
                    from,
                    to,
                    secret,
                    longest,
                })
            })
        };
        if self.0.is_empty() { Vec::new() } else { ends.flat_map(at).collect() }
    }

    fn each_found(&self, text: &str) -> Vec<Found<'_>> {
        let mut all: Vec<Found<'_>> = Vec::new();
        for secret in &self.0 {
            for spelling in &secret.spellings {
                let each = places(text, spelling).map(|from| Found {
                    from,
                    to: from + spelling.len(),
                    secret,
                    longest: spelling.len(),
                });
                all.extend(each);
            }
        }
        all
    }

    /// Finds the first secret in a text, the longest of those that begin there: returns its position, the
    /// secret and the index of the spelling.
    pub(super) fn first_in(&self, text: &str) -> Option<(usize, &Secret, usize)> {
        let found = self.0.iter().flat_map(|secret| {
            let each = secret.spellings.iter().enumerate();
            each.filter_map(move |(nth, spelling)| Some((text.find(spelling.as_str())?, &**secret, nth)))
        });
        found.min_by_key(|(at, secret, nth)| (*at, Reverse(secret.spellings[*nth].len())))
    }

    /// Returns how many bytes of a growing text may be shown: its end may still become a secret. The cut is
    /// never inside a secret.
    pub fn shown_of_growing(&self, text: &str) -> usize {
        let spellings = self.0.iter().flat_map(|secret| &secret.spellings);
        let begun = spellings.map(|spelling| begun(text, spelling)).max().unwrap_or(0);
        let end = text.len() - begun;
        if begun == 0 {
            return end;
        }
        self.found(text)
            .iter()
            .find(|found| found.from < end && end < found.to)
            .map_or(end, |found| found.from)
    }
}

/// Returns the parts in order, with overlapping ones joined.
fn merged(mut all: Vec<Found<'_>>) -> Vec<Found<'_>> {
    all.sort_by_key(|found| (found.from, Reverse(found.to)));
    let mut parts: Vec<Found<'_>> = Vec::with_capacity(all.len());
    for found in all {
        match parts.last_mut() {
            Some(last) if found.from < last.to => {
                last.to = last.to.max(found.to);
                if found.longest > last.longest {
                    (last.secret, last.longest) = (found.secret, found.longest);
                }
            }
            _ => parts.push(found),
        }
    }
    parts
}

/// Iterates over the positions of a spelling in a text, including overlapping ones.
fn places<'a>(text: &'a str, spelling: &'a str) -> impl Iterator<Item = usize> + 'a {
    let step = spelling.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(spelling)?;
        from = at + step;
        Some(at)
    })
}

/// Returns how many bytes at the end of a text are an incomplete beginning of a spelling.
fn begun(text: &str, spelling: &str) -> usize {
    let most = text.len().min(spelling.len().saturating_sub(1));
    let (text, spelling) = (text.as_bytes(), spelling.as_bytes());
    // Both are valid UTF-8: where their bytes agree, their character boundaries agree too.
    (1..=most).rev().find(|length| text[text.len() - length..] == spelling[..*length]).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::value::{Segment, SegmentType};

    fn secrets(all: &[&str]) -> Secrets {
        let all: Vec<_> = all.iter().map(|text| Segment::new(SegmentType::Secret, json!(text))).collect();
        Secrets::of(all.iter().enumerate().map(|(at, one)| (Arc::from(format!("K{at}")), one)))
    }

    /// Shows a text that arrives in these pieces, each piece masked separately.
    fn shown_in_pieces(known: &Secrets, pieces: &[&str]) -> String {
        let (mut waits, mut shown) = (String::new(), String::new());
        for piece in pieces {
            waits.push_str(piece);
            let rest = waits.split_off(known.shown_of_growing(&waits));
            shown.push_str(&known.masked(std::mem::replace(&mut waits, rest)));
        }
        shown + &known.masked(waits)
    }

    #[test]
    fn secrets_that_overlap_are_masked_as_one() {
        let known = secrets(&["abcdefgh-12", "gh-12345678", "12345"]);
        assert_eq!(known.masked("x abcdefgh-12345678 y".into()), "x abcdef************12 y");
        assert_eq!(known.masked("abcdefgh-12gh-12345678".into()), "abcdef************12gh-123************78");
        let own = secrets(&["aaaaaaaaa"]);
        assert_eq!(own.masked(format!("b{}b", "a".repeat(12))), "baaaaaa************aab");
    }

    #[test]
    fn a_secret_is_masked_where_a_text_was_cut_within_it() {
        let known = secrets(&["sk-0123456789", "short"]);
        for (text, shown) in [
            ("bad key sk-01234567", "bad key sk-012************89"),
            ("bad key sk-01234567… (cut)", "bad key sk-012************89… (cut)"),
            (
                "sk-01234… sk-0123456789 sk-01234",
                "sk-012************89… sk-012************89 sk-012************89",
            ),
            ("sk-0123", "sk-0123"),
            ("sk-01234 and more", "sk-01234 and more"),
            ("shor", "shor"),
        ] {
            assert_eq!(known.masked(text.into()), shown);
            let (json, as_json) =
                (serde_json::json!([text]).to_string(), serde_json::json!([shown]).to_string());
            assert_eq!(known.hidden_json(json, 1), as_json);
        }
    }

    #[test]
    fn a_growing_text_is_cut_before_a_possible_secret() {
        let known = secrets(&["sk-0123456789"]);
        for (text, shown) in [
            ("hello", 5),
            ("hello s", 6),
            ("hello sk-01234567", 6),
            ("sk-0123456789", 13),
            ("sk-x", 4),
            ("", 0),
        ] {
            assert_eq!(known.shown_of_growing(text), shown, "{text}");
        }
        // The text after a complete secret may be the beginning of another; then neither is cut.
        let two = secrets(&["abcdefgh-12", "gh-12345678"]);
        assert_eq!(two.shown_of_growing("x abcdefgh-12"), 2);
        assert_eq!(two.shown_of_growing("x abcdefgh-12 "), 14);
        assert_eq!(Secrets::default().shown_of_growing("sk-"), 3);
    }

    proptest! {
        #[test]
        fn however_a_text_is_cut_it_is_shown_as_if_it_were_not(
            secrets_of in prop::collection::vec("[abé]{3,6}", 1..3), text in "[abé]{0,40}", cuts in prop::collection::vec(0..40usize, 0..6),
        ) {
            let known = secrets(&secrets_of.iter().map(String::as_str).collect::<Vec<_>>());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| text.floor_char_boundary(at.min(text.len()))).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&text[from..cut]);
                from = cut;
            }
            pieces.push(&text[from..]);
            prop_assert_eq!(shown_in_pieces(&known, &pieces), known.masked(text.clone()));
        }
    }
}
