//! Patterns for names of files, such as `models/llm/*.yaml`, as in the files of model providers. `*` and `?` stand for
//! characters inside one part of a name, `**` is read as `*`.

/// Tests whether a name fits a pattern, and takes the steps of this from those that are left; without any left, nothing
/// fits. The time is bounded by the product of both lengths: no recursion, and only the last `*` of a part is tried
/// again.
pub(super) fn fits(pattern: &str, name: &str, steps: &mut u64) -> bool {
    let (mut parts, mut names) = (pattern.split('/'), name.split('/'));
    loop {
        match (parts.next(), names.next()) {
            (None, None) => return true,
            (Some(pattern), Some(name)) if part_fits(pattern.as_bytes(), name.as_bytes(), steps) => {}
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

/// Tests whether a text is a pattern, and not simply a name.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

fn part_fits(pattern: &[u8], name: &[u8], steps: &mut u64) -> bool {
    if *steps == 0 {
        return false;
    }
    *steps -= 1;
    let (mut p, mut n) = (0, 0);
    // The place after the last star, and the place in the name where its text ends.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if *steps == 0 {
            return false;
        }
        *steps -= 1;
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => {
                p += 1;
                n += 1;
            }
            Some(_) | None => match &mut star {
                Some((after, end)) => {
                    *end += 1;
                    (p, n) = (*after, *end);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_characters_of_one_part() {
        for (pattern, name, expected) in [
            ("models/llm/*.yaml", "models/llm/a.yaml", true),
            ("models/llm/*.yaml", "models/llm/a/b.yaml", false),
            ("models/*/*.yaml", "models/llm/a.yaml", true),
            ("models/**/*.yaml", "models/llm/a.yaml", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a?c", "abc", true),
            ("*", "", true),
            ("a", "b", false),
            ("*a", "ba", true),
        ] {
            assert_eq!(fits(pattern, name, &mut 100), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let pattern = "*a".repeat(150) + "b";
        let mut steps = 1_000_000;
        assert!(!fits(&pattern, &"a".repeat(399), &mut steps));
        assert!(steps > 0);
    }

    #[test]
    fn without_steps_nothing_fits() {
        let mut steps = 5;
        assert!(!fits("*a", "bbbbbbbbba", &mut steps));
        assert_eq!(steps, 0);
        assert!(!fits("a", "a", &mut steps));
    }

    proptest::proptest! {
        #[test]
        fn a_name_fits_itself_and_a_star_for_any_of_its_pieces(name in "[a-z.]{1,20}", from in 0_usize..20, to in 0_usize..20) {
            let (from, to) = (from.min(name.len()), to.min(name.len()));
            let (from, to) = (from.min(to), from.max(to));
            proptest::prop_assert!(fits(&name, &name, &mut 1000));
            let pattern = format!("{}*{}", &name[..from], &name[to..]);
            proptest::prop_assert!(fits(&pattern, &name, &mut 1000));
        }
    }
}
