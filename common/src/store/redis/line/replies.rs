//! Replies, read in place. A line first finds out where the replies to a request end ([`Scan`]); then they are gone through
//! from the front ([`Replies`]), and only what is kept is copied.

use std::borrow::Cow;

use redis::RedisError;

use super::error_of;

/// What came is no reply of a Redis server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::redis) struct Malformed;

/// Where in what came the reading stands, so that nothing is looked at twice however it comes in pieces.
#[derive(Debug)]
pub(super) struct Scan {
    at: usize,
    /// Replies, and elements of those that have begun, that are still to come.
    left: usize,
}

impl Scan {
    pub(super) fn new(replies: usize) -> Self {
        Self { at: 0, left: replies }
    }

    /// Whether all has come; `bytes` is everything that came so far.
    pub(super) fn is_whole(&mut self, bytes: &[u8]) -> Result<bool, Malformed> {
        while self.left > 0 {
            let Some((kind, line, end)) = line_at(bytes, self.at) else { return Ok(false) };
            let mut more = 0;
            let mut next = end;
            match kind {
                b'+' | b'-' | b':' => {}
                b'$' => {
                    if let Some(length) = length_of(line)? {
                        next = length.checked_add(2).and_then(|all| end.checked_add(all)).ok_or(Malformed)?;
                    }
                }
                b'*' => more = length_of(line)?.unwrap_or(0),
                _ => return Err(Malformed),
            }
            if next > bytes.len() {
                return Ok(false);
            }
            self.at = next;
            self.left = (self.left - 1).checked_add(more).ok_or(Malformed)?;
        }
        if self.at == bytes.len() { Ok(true) } else { Err(Malformed) }
    }
}

/// That a command waits for the end of its transaction.
const QUEUED: &[u8] = b"+QUEUED\r\n";

/// The line that begins at `at`: its first byte, what follows that, and where the next one begins.
fn line_at(bytes: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let rest = bytes.get(at..)?;
    // Of the replies to a transaction half say this, one for each command.
    if rest.starts_with(QUEUED) {
        return Some((b'+', &rest[1..QUEUED.len() - 2], at + QUEUED.len()));
    }
    // Lines are a few bytes long, but for errors.
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = rest[..end].strip_suffix(b"\r")?;
    let (kind, line) = line.split_first()?;
    Some((*kind, line, at + end + 1))
}

/// A length; none for the length of what is not there (-1).
fn length_of(line: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(line)? {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| Malformed),
    }
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    let (digits, negative) = match line.strip_prefix(b"-") {
        Some(digits) => (digits, true),
        None => (line, false),
    };
    if digits.is_empty() {
        return Err(Malformed);
    }
    let mut number = 0i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Malformed);
        }
        let digit = i64::from(digit - b'0');
        number = number.checked_mul(10).and_then(|n| n.checked_add(digit)).ok_or(Malformed)?;
    }
    Ok(if negative { -number } else { number })
}

/// A reply, or the head of one with elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::redis) enum Reply<'a> {
    /// A word such as `OK`, `QUEUED`.
    Status(&'a [u8]),
    /// What the server calls wrong.
    Error(&'a [u8]),
    Number(i64),
    Text(&'a [u8]),
    /// Nothing: no text, or no list.
    Nil,
    /// So many replies follow.
    List(usize),
}

impl<'a> Reply<'a> {
    /// A text, whatever way the server writes it. What a hand wrote that is no UTF-8 is shown as well as can be.
    pub(in crate::store::redis) fn text(self) -> Option<Cow<'a, str>> {
        match self {
            // Looked at as a whole first: what is asked character by character takes several times as long.
            Self::Status(text) | Self::Text(text) => {
                Some(str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed))
            }
            Self::Number(number) => Some(number.to_string().into()),
            Self::Error(_) | Self::Nil | Self::List(_) => None,
        }
    }
}

/// Whole replies, gone through from the front.
#[derive(Debug, Clone)]
pub(in crate::store::redis) struct Replies<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Replies<'a> {
    /// `bytes` are whole replies.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The same, unless the first of them is an error.
    pub(in crate::store::redis) fn checked(self) -> Result<Self, RedisError> {
        match self.clone().next() {
            Some(Reply::Error(error)) => Err(error_of(error)),
            _ => Ok(self),
        }
    }

    /// The next reply or element; none at the end.
    pub(in crate::store::redis) fn next(&mut self) -> Option<Reply<'a>> {
        let (kind, line, end) = line_at(self.bytes, self.at)?;
        self.at = end;
        Some(match kind {
            b'+' => Reply::Status(line),
            b'-' => Reply::Error(line),
            b':' => Reply::Number(number(line).ok()?),
            b'$' => match length_of(line).ok()? {
                None => Reply::Nil,
                Some(length) => {
                    self.at = end + length + 2;
                    Reply::Text(self.bytes.get(end..end + length)?)
                }
            },
            _ => length_of(line).ok()?.map_or(Reply::Nil, Reply::List),
        })
    }

    /// The next text.
    pub(in crate::store::redis) fn text(&mut self) -> Option<Cow<'a, str>> {
        self.next()?.text()
    }

    /// How many elements the list has that comes next; nil is an empty one.
    pub(in crate::store::redis) fn list(&mut self) -> Option<usize> {
        match self.next()? {
            Reply::List(length) => Some(length),
            Reply::Nil => Some(0),
            _ => None,
        }
    }

    /// Passes over so many replies with all that is in them; tells the first error among them.
    pub(in crate::store::redis) fn pass(&mut self, replies: usize) -> Option<&'a [u8]> {
        let (mut left, mut first) = (replies, None);
        while left > 0
            && let Some(reply) = self.next()
        {
            left -= 1;
            match reply {
                Reply::List(length) => left += length,
                Reply::Error(error) => first = first.or(Some(error)),
                _ => {}
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: &str =
        "+OK\r\n+QUEUED\r\n$5\r\na\r\nbc\r\n*2\r\n:-7\r\n*3\r\n$-1\r\n$0\r\n\r\n*0\r\n*-1\r\n-ERR what\r\n";

    #[test]
    fn replies_are_whole_only_with_their_last_byte() {
        for cut in 0..WHOLE.len() {
            let mut scan = Scan::new(6);
            assert_eq!(scan.is_whole(&WHOLE.as_bytes()[..cut]), Ok(false), "{cut}");
            assert_eq!(scan.is_whole(WHOLE.as_bytes()), Ok(true), "{cut}");
        }
        // More than was asked for belongs to nobody.
        assert_eq!(Scan::new(5).is_whole(WHOLE.as_bytes()), Err(Malformed));
    }

    #[test]
    fn replies_are_read_from_the_front() {
        let mut replies = Replies::new(WHOLE.as_bytes());
        assert_eq!(replies.text().as_deref(), Some("OK"));
        assert_eq!(replies.next(), Some(Reply::Status(b"QUEUED")));
        assert_eq!(replies.text().as_deref(), Some("a\r\nbc"));
        assert_eq!((replies.list(), replies.next()), (Some(2), Some(Reply::Number(-7))));
        assert_eq!((replies.list(), replies.next()), (Some(3), Some(Reply::Nil)));
        assert_eq!((replies.text().as_deref(), replies.list()), (Some(""), Some(0)));
        assert_eq!(replies.list(), Some(0));
        assert_eq!(replies.next(), Some(Reply::Error(b"ERR what")));
        assert_eq!(replies.next(), None);
        assert_eq!(Replies::new(WHOLE.as_bytes()).pass(6), Some(b"ERR what".as_slice()));
        assert_eq!(Replies::new(WHOLE.as_bytes()).pass(5), None);
    }

    #[test]
    fn what_is_no_reply_is_told_from_one_that_is_not_whole() {
        for wrong in
            ["HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", ":\r\n$1\r\na\r\n?\r\n", "*99999999999999999999\r\n"]
        {
            assert_eq!(Scan::new(3).is_whole(wrong.as_bytes()), Err(Malformed), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_bring_the_reader_down(bytes in prop::collection::vec(any::<u8>(), 0..200), replies in 0..9usize) {
            if Scan::new(replies).is_whole(&bytes) == Ok(true) {
                Replies::new(&bytes).pass(replies);
            }
            let mut all = Replies::new(&bytes);
            while all.next().is_some() {}
        }
    }
}
