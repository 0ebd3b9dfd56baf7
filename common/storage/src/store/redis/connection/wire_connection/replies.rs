//! Reads replies in place. [`Scan`] first finds the end of a request's replies; then [`Replies`] reads them
//! from the front, and the caller copies only what it keeps.

use std::borrow::Cow;

use redis::RedisError;

use crate::store::redis::connection::wire_connection::error_of;

/// The bytes are not a valid reply of a Redis server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::redis) struct Malformed;

/// The position in the received bytes, so that no byte is scanned twice when they come in pieces.
#[derive(Debug)]
pub(super) struct Scan {
    at: usize,
    /// Replies and elements of begun lists that are still to come.
    left: usize,
}

impl Scan {
    pub(super) fn new(replies: usize) -> Self {
        Self { at: 0, left: replies }
    }

    /// Whether all replies have come; `bytes` is everything received so far.
    pub(super) fn is_whole(&mut self, bytes: &[u8]) -> Result<bool, Malformed> {
        while self.left > 0 {
            let Some((head, end)) = head_at(bytes, self.at)? else { return Ok(false) };
            let (mut more, mut next) = (0, end);
            match head {
                Head::Text(length) => {
                    next = length.checked_add(2).and_then(|all| end.checked_add(all)).ok_or(Malformed)?;
                }
                Head::List(length) => more = length,
                Head::Status(_) | Head::Error(_) | Head::Number(_) | Head::Nil => {}
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

/// The head of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head<'a> {
    Status(&'a [u8]),
    Error(&'a [u8]),
    Number(i64),
    /// A string of so many bytes follows, and a line end.
    Text(usize),
    /// So many replies follow.
    List(usize),
    Nil,
}

/// The reply to a command in a transaction.
const QUEUED: &[u8; 9] = b"+QUEUED\r\n";

/// The head at `at` and the end of its line; `None` when the line is incomplete.
#[inline(always)]
fn head_at(bytes: &[u8], at: usize) -> Result<Option<(Head<'_>, usize)>, Malformed> {
    let Some(line) = bytes.get(at..) else { return Ok(None) };
    let Some((kind, rest)) = line.split_first() else { return Ok(None) };
    if let b'+' | b'-' = kind {
        // Half of the replies to a transaction are this one.
        if line.first_chunk() == Some(QUEUED) {
            return Ok(Some((Head::Status(&QUEUED[1..7]), at + QUEUED.len())));
        }
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let text = rest[..length].strip_suffix(b"\r").ok_or(Malformed)?;
        let head = if *kind == b'+' { Head::Status(text) } else { Head::Error(text) };
        return Ok(Some((head, at + length + 2)));
    }
    if !matches!(kind, b':' | b'$' | b'*') {
        return Err(Malformed);
    }
    let Some((number, length)) = number_in(rest)? else { return Ok(None) };
    let head = match kind {
        b':' => Head::Number(number),
        // Length -1 means nil.
        _ if number == -1 => Head::Nil,
        _ => {
            let length = usize::try_from(number).map_err(|_| Malformed)?;
            if *kind == b'$' { Head::Text(length) } else { Head::List(length) }
        }
    };
    Ok(Some((head, at + 1 + length)))
}

/// The number in the line, and the length of the line with its end; `None` when it is incomplete.
#[inline(always)]
fn number_in(line: &[u8]) -> Result<Option<(i64, usize)>, Malformed> {
    let is_negative = line.first() == Some(&b'-');
    let first = usize::from(is_negative);
    let (mut number, mut at) = (0i64, first);
    loop {
        match line.get(at) {
            None => return Ok(None),
            Some(digit @ b'0'..=b'9') => {
                let digit = i64::from(digit - b'0');
                number = number.checked_mul(10).and_then(|n| n.checked_add(digit)).ok_or(Malformed)?;
                at += 1;
            }
            Some(b'\r') if at > first => break,
            Some(_) => return Err(Malformed),
        }
    }
    match line.get(at + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((if is_negative { -number } else { number }, at + 2))),
        Some(_) => Err(Malformed),
    }
}

/// A reply, or the head of one with elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::redis) enum Reply<'a> {
    /// A word such as `OK`, `QUEUED`.
    Status(&'a [u8]),
    /// An error message of the server.
    Error(&'a [u8]),
    Number(i64),
    Text(&'a [u8]),
    /// A nil string or list.
    Nil,
    /// So many replies follow.
    List(usize),
}

impl<'a> Reply<'a> {
    /// A string in any of the protocol's forms. Invalid UTF-8, which only a person could have written, is
    /// replaced.
    pub(in crate::store::redis) fn text(self) -> Option<Cow<'a, str>> {
        match self {
            // Checked in one pass first: decoding character by character takes several times as long.
            Self::Status(text) | Self::Text(text) => {
                Some(str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed))
            }
            Self::Number(number) => Some(number.to_string().into()),
            Self::Error(_) | Self::Nil | Self::List(_) => None,
        }
    }
}

/// Complete replies, read from the front.
#[derive(Debug, Clone)]
pub(in crate::store::redis) struct Replies<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Replies<'a> {
    /// `bytes` must be complete replies.
    pub(in crate::store::redis) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The same replies, unless the first of them is an error.
    pub(in crate::store::redis) fn checked(self) -> Result<Self, RedisError> {
        match self.clone().next() {
            Some(Reply::Error(error)) => Err(error_of(error)),
            _ => Ok(self),
        }
    }

    /// The next reply or element; `None` at the end.
    #[inline]
    pub(in crate::store::redis) fn next(&mut self) -> Option<Reply<'a>> {
        let (head, end) = head_at(self.bytes, self.at).ok()??;
        self.at = end;
        Some(match head {
            Head::Status(text) => Reply::Status(text),
            Head::Error(text) => Reply::Error(text),
            Head::Number(number) => Reply::Number(number),
            Head::List(length) => Reply::List(length),
            Head::Nil => Reply::Nil,
            Head::Text(length) => {
                let text = self.bytes.get(end..)?.get(..length)?;
                self.at = end + length + 2;
                Reply::Text(text)
            }
        })
    }

    /// The next string as bytes.
    pub(in crate::store::redis) fn word(&mut self) -> Option<&'a [u8]> {
        match self.next()? {
            Reply::Status(text) | Reply::Text(text) => Some(text),
            Reply::Number(_) | Reply::Error(_) | Reply::Nil | Reply::List(_) => None,
        }
    }

    /// The next string.
    pub(in crate::store::redis) fn text(&mut self) -> Option<Cow<'a, str>> {
        self.next()?.text()
    }

    /// The number of elements of the next list; nil is an empty list.
    pub(in crate::store::redis) fn list(&mut self) -> Option<usize> {
        match self.next()? {
            Reply::List(length) => Some(length),
            Reply::Nil => Some(0),
            _ => None,
        }
    }

    /// Skips so many replies with their elements; returns the first error among them.
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
        // Surplus bytes belong to no request.
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
    fn an_invalid_reply_is_distinguished_from_an_incomplete_one() {
        for wrong in
            ["HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", ":\r\n$1\r\na\r\n?\r\n", "*99999999999999999999\r\n"]
        {
            assert_eq!(Scan::new(3).is_whole(wrong.as_bytes()), Err(Malformed), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), replies in 0..9usize) {
            if Scan::new(replies).is_whole(&bytes) == Ok(true) {
                Replies::new(&bytes).pass(replies);
            }
            let mut all = Replies::new(&bytes);
            while all.next().is_some() {}
        }
    }
}
