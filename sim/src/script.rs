//! How each attempt of each worker node ends, and what a form is answered. It follows from the seed, the place and the
//! attempt alone, so that no death, delay or repetition can change it: the fleet and the reference read the same script.

use std::collections::BTreeSet;

use crate::dice::fate;

/// One attempt: the frame's path (empty for the root), the node, and which attempt it is, from 1.
pub type AttemptName = (String, String, u32);

/// How an attempt ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With this text; where it has tildes, [`marked`] puts who made it.
    Text(String),
    /// With this error.
    Error(String),
}

/// What happens to a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormFate {
    /// Somebody chooses this action and writes this comment.
    Answered(&'static str, String),
    /// Nobody answers in time.
    Expires,
}

/// The script of one simulated run.
#[derive(Debug, Clone)]
pub struct Script {
    seed: u64,
    failing_percent: u64,
    /// Attempts that the fleet gave up, since every worker that had them died. This is the one thing that faults may
    /// change: it is a promise to the user (`deliveries_max`), and the reference is told of it.
    pub given_up: BTreeSet<AttemptName>,
}

impl Script {
    /// A script in which so many of a hundred attempts fail.
    pub fn new(seed: u64, failing_percent: u64) -> Self {
        Self { seed, failing_percent, given_up: BTreeSet::new() }
    }

    /// Whether the fleet gave an attempt up.
    pub fn is_given_up(&self, frame: &str, node: &str, attempt: u32) -> bool {
        self.given_up.contains(&(frame.to_string(), node.to_string(), attempt))
    }

    /// How an attempt ends.
    pub fn ending(&self, frame: &str, node: &str, attempt: u32) -> Ending {
        let fate = fate(self.seed, &[frame, node, &attempt.to_string()]);
        if fate % 100 < self.failing_percent {
            return Ending::Error(format!("{node} broke in {frame:?} at attempt {attempt}"));
        }
        let sign = if fate & 0x100 == 0 { '+' } else { '-' };
        // Texts of many lengths, so that some lie apart as blobs, and with letters of several bytes.
        let tail = "größer~ ".repeat(usize::try_from((fate >> 16) % 12).unwrap_or(0));
        Ending::Text(format!("{node}~({frame}){attempt}~{sign}{tail}"))
    }

    /// What happens to the form of a node.
    pub fn form(&self, frame: &str, node: &str) -> FormFate {
        let fate = fate(self.seed, &["form", frame, node]);
        match fate % 5 {
            0 => FormFate::Expires,
            1 | 2 => FormFate::Answered("approve", format!("fine {}", fate % 97)),
            _ => FormFate::Answered("reject", format!("no {}", fate % 97)),
        }
    }
}

/// A script's text as one handing-out makes it: texts of two holders differ all over, so that a mixture of both shows.
pub fn marked(text: &str, handing_out: u64) -> String {
    text.replace('~', &format!("~{handing_out}~"))
}

/// A text in which nothing says any more who made it.
pub fn plain(text: &str) -> String {
    // Behind every other tilde stands a number.
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
    fn a_mark_tells_holders_apart_and_comes_off() {
        let text = "a~b~c";
        assert_ne!(marked(text, 1), marked(text, 2));
        assert_eq!(plain(&format!("{}, {}", marked(text, 1), marked(text, 22))), "a~b~c, a~b~c");
    }
}
