//! Reads stream entries from replies of XREAD and XREADGROUP: `[[stream, [[id, [field, value, …]], …]], …]`.

use std::borrow::Cow;

use crate::store::redis::connection::wire_connection::{Replies, Reply};
use tidemill_base::ids::EntryId;

/// Passes on each entry with its stream and the values of the named fields; missing fields are empty. Skips
/// deleted entries (without fields) and other fields. Returns `None` when the reply has another form.
pub(in crate::store::redis) fn entries<'a, const N: usize>(
    replies: &mut Replies<'a>,
    names: [&str; N],
    mut each: impl FnMut(&str, EntryId, [Cow<'a, str>; N]),
) -> Option<()> {
    for _ in 0..replies.list()? {
        replies.list().filter(|parts| *parts == 2)?;
        let stream = replies.text()?;
        for _ in 0..replies.list()? {
            replies.list().filter(|parts| *parts == 2)?;
            let id = replies.text()?.parse().ok();
            let words = replies.list()?;
            let mut values = [const { Cow::Borrowed("") }; N];
            for _ in 0..words / 2 {
                let (name, value) = (replies.word()?, replies.word()?);
                if let Some(at) = names.iter().position(|known| known.as_bytes() == name) {
                    values[at] = Reply::Text(value).text()?;
                }
            }
            if let Some(id) = id
                && words > 0
            {
                each(&stream, id, values);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_with_the_fields_that_were_asked_for() {
        let text = "*2\r\n*2\r\n$1\r\na\r\n*2\r\n*2\r\n$3\r\n5-1\r\n*4\r\n$1\r\ny\r\n$1\r\n1\r\n$1\r\nz\r\n$1\r\n2\r\n\
                    *2\r\n$3\r\n5-2\r\n*-1\r\n*2\r\n$1\r\nb\r\n*1\r\n*2\r\n$3\r\n6-0\r\n*2\r\n$1\r\nx\r\n$1\r\n3\r\n";
        let mut found = Vec::new();
        let each = |stream: &str, id: EntryId, values: [Cow<'_, str>; 2]| {
            found.push(format!("{stream} {id} {values:?}"));
        };
        assert_eq!(entries(&mut Replies::new(text.as_bytes()), ["x", "y"], each), Some(()));
        assert_eq!(found, [r#"a 5-1 ["", "1"]"#, r#"b 6-0 ["3", ""]"#]);
    }

    #[test]
    fn silence_is_no_entry_and_anything_else_none() {
        assert_eq!(entries(&mut Replies::new(b"*-1\r\n"), ["x"], |_, _, _| {}), Some(()));
        assert_eq!(entries(&mut Replies::new(b"+OK\r\n"), ["x"], |_, _, _| {}), None);
        assert_eq!(entries(&mut Replies::new(b"*1\r\n*1\r\n$1\r\na\r\n"), ["x"], |_, _, _| {}), None);
    }
}
