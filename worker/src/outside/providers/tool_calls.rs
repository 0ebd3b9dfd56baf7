//! Assembles tool calls that arrive in pieces. Servers number the pieces, or repeat the call's id, or do neither
//! (Dify's rules).

use tidemill_common::nodes::llm::message::ToolCall;
use uuid::Uuid;

/// A piece of a call; missing texts are empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fragment<'a> {
    /// The call's number in the reply.
    pub index: Option<u64>,
    pub id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The next part of the arguments' text.
    pub arguments: &'a str,
}

/// The calls of a reply so far.
#[derive(Debug, Default)]
pub struct Calls {
    calls: Vec<ToolCall>,
    /// The call of each number; the newest entry comes last.
    numbers: Vec<(u64, usize)>,
}

impl Calls {
    /// Adds a piece to its call.
    ///
    /// # Errors
    /// The piece names no call, and there is none yet.
    pub fn take(&mut self, fragment: Fragment<'_>) -> Result<(), &'static str> {
        let at = match self.known(fragment) {
            Some(at) => at,
            None if fragment.id.is_empty() && fragment.name.is_empty() => {
                let last = self.calls.len().checked_sub(1);
                last.ok_or("tool_call_id is empty but no existing tool call is available to apply the delta")?
            }
            None => self.begin(fragment.index),
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            fragment.id.clone_into(&mut call.id);
        }
        if !fragment.name.is_empty() {
            fragment.name.clone_into(&mut call.name);
        }
        call.arguments.push_str(fragment.arguments);
        Ok(())
    }

    /// Returns the calls; those without an id get one.
    pub fn into_calls(self) -> Vec<ToolCall> {
        let named = |call: ToolCall| match call.id.as_str() {
            "" => ToolCall { id: format!("chatcmpl-tool-{}", Uuid::new_v4().simple()), ..call },
            _ => call,
        };
        self.calls.into_iter().map(named).collect()
    }

    fn known(&self, fragment: Fragment<'_>) -> Option<usize> {
        let Some(index) = fragment.index else {
            let same = |call: &ToolCall| call.id == fragment.id;
            return self.calls.iter().position(same).filter(|_| !fragment.id.is_empty());
        };
        let (_, at) = *self.numbers.iter().rev().find(|(number, _)| *number == index)?;
        // Some servers give every call the number 0, so a different id with a name starts a new call.
        let call = &self.calls[at];
        let other = [fragment.id, fragment.name, &call.id].iter().all(|text| !text.is_empty());
        (!other || call.id == fragment.id).then_some(at)
    }

    fn begin(&mut self, index: Option<u64>) -> usize {
        let at = self.calls.len();
        self.calls.push(ToolCall { id: String::new(), name: String::new(), arguments: String::new() });
        self.numbers.extend(index.map(|index| (index, at)));
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Piece = (Option<u64>, &'static str, &'static str, &'static str);

    fn calls(pieces: &[Piece]) -> Result<Vec<(String, String, String)>, &'static str> {
        let mut calls = Calls::default();
        for &(index, id, name, arguments) in pieces {
            calls.take(Fragment { index, id, name, arguments })?;
        }
        Ok(calls.into_calls().into_iter().map(|call| (call.id, call.name, call.arguments)).collect())
    }

    #[test]
    fn pieces_come_together_by_number_by_id_or_by_order() {
        let (first, second) = (Some(0), Some(1));
        for (pieces, expected) in [
            (
                &[
                    (first, "a", "f", ""),
                    (second, "b", "g", "{"),
                    (first, "", "", "{}"),
                    (second, "", "", "}"),
                ][..],
                &[("a", "f", "{}"), ("b", "g", "{}")][..],
            ),
            // The id and name in every piece; an id that changes without a name.
            (&[(first, "a", "f", "1"), (first, "a", "f", "2")], &[("a", "f", "12")]),
            (&[(first, "a", "f", "1"), (first, "x", "", "2")], &[("a", "f", "12")]),
            // Every call has the number 0.
            (
                &[(first, "a", "f", "1"), (first, "b", "f", "2"), (first, "", "", "3")],
                &[("a", "f", "1"), ("b", "f", "23")],
            ),
            // No numbers.
            (
                &[(None, "a", "f", "1"), (None, "b", "g", ""), (None, "a", "h", "2")],
                &[("a", "h", "12"), ("b", "g", "")],
            ),
            (&[(None, "a", "f", "1"), (None, "", "", "2")], &[("a", "f", "12")]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())).collect();
            assert_eq!(calls(pieces).unwrap(), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_call_without_an_id_gets_one() {
        let made = calls(&[(None, "", "f", "1"), (None, "", "", "2"), (None, "", "g", "3")]).unwrap();
        assert_eq!(made.iter().map(|call| call.2.as_str()).collect::<Vec<_>>(), ["12", "3"]);
        for (id, ..) in &made {
            let hex = id.strip_prefix("chatcmpl-tool-").unwrap();
            assert!(hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        }
        assert_ne!(made[0].0, made[1].0);
    }

    #[test]
    fn a_piece_of_no_call_is_refused() {
        assert!(calls(&[(None, "", "", "{}")]).unwrap_err().starts_with("tool_call_id is empty"));
        assert!(calls(&[(Some(0), "", "", "{}")]).is_err());
    }
}
