//! Versions of Python and of the SDK, and the conditions on them that packages state (`>=3.12,<3.14`). Only the numbers
//! of a release are compared: that is what interpreters and released packages have.

use std::fmt::{self, Display};

/// A released version: its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(Vec<u32>);

impl Version {
    /// Reads the numbers at the beginning of a text: `3.12.1` of `3.12.1rc1`.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let numbers: Option<Vec<u32>> =
            text[..end].trim_end_matches('.').split('.').take(6).map(|part| part.parse().ok()).collect();
        numbers.map(Self)
    }

    /// A version with these numbers.
    pub fn new(numbers: &[u32]) -> Self {
        Self(numbers.to_vec())
    }

    fn number(&self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// Compares number by number; missing ones are 0.
    pub fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let most = self.0.len().max(other.0.len());
        (0..most)
            .map(|at| self.number(at).cmp(&other.number(at)))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    }

    /// Tests whether it begins with the numbers of another.
    fn begins_with(&self, other: &Self) -> bool {
        (0..other.0.len()).all(|at| self.number(at) == other.number(at))
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// Conditions on a version, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions(Vec<(&'static str, String)>);

/// The comparisons, longest first.
const COMPARISONS: [&str; 8] = ["===", "~=", "==", "!=", "<=", ">=", "<", ">"];

impl Conditions {
    /// Reads `>=3.12,<4`. A part that is not a condition is left out.
    pub fn read(text: &str) -> Self {
        let part = |part: &str| {
            let part = part.trim();
            let comparison = COMPARISONS.iter().find(|comparison| part.starts_with(**comparison))?;
            Some((*comparison, part[comparison.len()..].trim().to_owned()))
        };
        Self(text.split(',').filter_map(part).collect())
    }

    /// Tests a version.
    pub fn allow(&self, version: &Version) -> bool {
        self.0.iter().all(|(comparison, text)| holds(version, comparison, text))
    }

    /// The oldest version that the conditions name.
    pub fn lowest(&self) -> Option<Version> {
        let low =
            self.0.iter().filter(|(comparison, _)| matches!(*comparison, ">=" | ">" | "==" | "~=" | "==="));
        low.filter_map(|(_, text)| Version::read(text)).max_by(Version::compare)
    }
}

fn holds(version: &Version, comparison: &str, text: &str) -> bool {
    let Some(other) = Version::read(text) else { return true };
    let order = version.compare(&other);
    let is_family = text.ends_with(".*");
    match comparison {
        "==" if is_family => version.begins_with(&other),
        "!=" if is_family => !version.begins_with(&other),
        "==" | "===" => order.is_eq(),
        "!=" => order.is_ne(),
        "<=" => order.is_le(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        ">" => order.is_gt(),
        _ => {
            let family = Version(other.0[..other.0.len().saturating_sub(1).max(1)].to_vec());
            order.is_ge() && version.begins_with(&family)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_as_pip_reads_them() {
        for (conditions, version, expected) in [
            (">=3.12", "3.12.1", true),
            (">=3.12", "3.11.7", false),
            (">=3.11,<3.13", "3.12", true),
            (">=3.11,<3.13", "3.13.0", false),
            ("~=3.12", "3.13", true),
            ("~=3.12.1", "3.13", false),
            ("==3.12.*", "3.12.9", true),
            ("==3.12", "3.12.0", true),
            ("!=3.12.*", "3.12.1", false),
            ("", "2.7", true),
            ("nonsense", "3", true),
        ] {
            let version = Version::read(version).unwrap();
            assert_eq!(Conditions::read(conditions).allow(&version), expected, "{conditions} {version}");
        }
        assert_eq!(Conditions::read(">=0.9.0,<1").lowest().unwrap().to_string(), "0.9.0");
        assert_eq!(Conditions::read("<1").lowest(), None);
    }
}
