//! Decides how each attempt of each worker node ends, and how a form is answered. Only the seed, the place and the
//! attempt count, so that no fault can change it: the fleet and the reference follow the same script.

use std::collections::BTreeSet;

use crate::dice::fate;

/// An attempt: the path of the frame (empty for the root), the node, and the number of the attempt, from 1.
pub type AttemptName = (String, String, u32);

/// How an attempt ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With this text. After each tilde [`marked`] puts the mark of the holder that made it.
    Text(String),
    /// With this error.
    Error(String),
}

/// The end of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormFate {
    /// A person chooses this action and writes this comment.
    Answered(&'static str, String),
    /// No person answers in time.
    Expires,
}

/// The script of a simulated run.
#[derive(Debug, Clone)]
pub struct Script {
    seed: u64,
    failing_percent: u64,
    /// Attempts that the fleet gave up, because every worker that had them died. This is the only way in which faults
    /// may change an outcome. Users are promised it (`deliveries_max`), so the reference takes it into account.
    pub given_up: BTreeSet<AttemptName>,
}

impl Script {
    /// Creates a script in which `failing_percent` of 100 attempts fail.
    pub fn new(seed: u64, failing_percent: u64) -> Self {
        Self { seed, failing_percent, given_up: BTreeSet::new() }
    }

    /// Returns true if the fleet gave up the attempt.
    pub fn is_given_up(&self, frame: &str, node: &str, attempt: u32) -> bool {
        self.given_up.contains(&(frame.to_string(), node.to_string(), attempt))
    }

    /// Returns how an attempt ends.
    pub fn ending(&self, frame: &str, node: &str, attempt: u32) -> Ending {
        let fate = fate(self.seed, &[frame, node, &attempt.to_string()]);
        if fate % 100 < self.failing_percent {
            return Ending::Error(format!("{node} broke in {frame:?} at attempt {attempt}"));
        }
        let sign = if fate & 0x100 == 0 { '+' } else { '-' };
        // Texts of many lengths, so that some are stored as blobs, with characters of several bytes.
        let tail = "größer~ ".repeat(usize::try_from((fate >> 16) % 12).unwrap_or(0));
        Ending::Text(format!("{node}~({frame}){attempt}~{sign}{tail}"))
    }

    /// Returns what happens to the form of a node.
    pub fn form(&self, frame: &str, node: &str) -> FormFate {
        let fate = fate(self.seed, &["form", frame, node]);
        match fate % 5 {
            0 => FormFate::Expires,
            1 | 2 => FormFate::Answered("approve", format!("fine {}", fate % 97)),
            _ => FormFate::Answered("reject", format!("no {}", fate % 97)),
        }
    }
}

/// Marks a text with a number of the delivery. Texts of two holders then differ everywhere, so that a mixture of both
/// is noticed.
pub fn marked(text: &str, handing_out: u64) -> String {
    text.replace('~', &format!("~{handing_out}~"))
}

/// Removes the marks from a text.
pub fn plain(text: &str) -> String {
    // A number follows every other tilde.
    text.split('~')
        .enumerate()
        .filter(|(at, _)| at % 2 == 0)
        .map(|(_, part)| part)
        .collect::<Vec<_>>()
        .join("~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_distinguish_holders_and_can_be_removed() {
        let text = "a~b~c";
        assert_ne!(marked(text, 1), marked(text, 2));
        assert_eq!(plain(&format!("{}, {}", marked(text, 1), marked(text, 22))), "a~b~c, a~b~c");
    }
}
