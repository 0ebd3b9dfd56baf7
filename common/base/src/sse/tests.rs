//! Tests of the decoder: what each stream holds, and that it does not matter where the network cuts it.

use proptest::prelude::*;

use super::*;

/// An event that owns its texts: id, name, data.
type Owned = (Option<String>, String, String);

/// The state after the last piece.
#[derive(Debug, PartialEq)]
struct Told {
    events: Vec<Owned>,
    /// The events of `finish`.
    last: Vec<String>,
    last_id: Option<String>,
    retry_ms: Option<u64>,
    error: Option<SseError>,
}

fn told<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, bytes_max: usize) -> Told {
    let (mut decoder, mut events, mut last) = (Decoder::new(bytes_max), Vec::new(), Vec::new());
    let read = || {
        for mut piece in pieces {
            while let Some(Event { id, name, data }) = decoder.next(&mut piece)? {
                events.push((id.map(str::to_owned), name.to_owned(), data));
            }
        }
        decoder.finish(&mut last)
    };
    let error = read().err();
    let (last_id, retry_ms) = (decoder.last_id().map(str::to_owned), decoder.retry_ms());
    Told { events, last, last_id, retry_ms, error }
}

/// The data of all events, in pieces of any size.
fn data(text: &str) -> Vec<String> {
    let whole = told([text.as_bytes()], EVENT_BYTES_MAX);
    for size in 1..=text.len() {
        assert_eq!(
            told(text.as_bytes().chunks(size), EVENT_BYTES_MAX),
            whole,
            "{text:?} in pieces of {size}"
        );
    }
    assert_eq!(whole.error, None, "{text:?}");
    let mut all: Vec<String> = whole.events.into_iter().map(|(_, _, data)| data).collect();
    all.extend(whole.last);
    all
}

#[test]
fn streams_are_read_as_browsers_read_them() {
    for (text, expected) in [
        ("data: a\n\ndata: b\n\n", &["a", "b"][..]),
        ("data:a\r\n\r\ndata:  b\r\n\r\n", &["a", " b"]),
        ("data: a\r\rdata: b\r\r", &["a", "b"]),
        ("data: a\r\n\rdata: b\n\r\n", &["a", "b"]),
        (": keep-alive\n\ndata: größe 🙂\n\n", &["größe 🙂"]),
        ("event: x\nid: 1\ndata: one\ndata: two\nretry: 5\n\n", &["one\ntwo"]),
        ("data: a\ndata:b\ndata:\n\n", &["a\nb\n"]),
        ("\u{feff}data: a\n\n", &["a"]),
        ("data: a\n\n\u{feff}data: b\n\n", &["a"]),
        ("data\n\n", &[""]),
        ("event: no data\nid: 1\n\ndata\n\n", &[""]),
        ("retry: 3\nother\nData: x\ndata:  two blanks\n\n", &[" two blanks"]),
        ("data: {\"a\": \"b: c\"}\n\n", &["{\"a\": \"b: c\"}"]),
        ("\n\n\n", &[]),
        ("", &[]),
    ] {
        assert_eq!(data(text), expected, "{text:?}");
    }
}

#[test]
fn the_last_event_counts_without_its_empty_line_when_the_stream_is_ended() {
    for text in ["data: last", "data: last\n", "data: last\r", "data: last\r\n"] {
        let told = told([text.as_bytes()], EVENT_BYTES_MAX);
        assert_eq!((told.events.len(), told.last), (0, vec!["last".to_owned()]), "{text:?}");
    }
}

#[test]
fn an_event_has_the_id_and_the_name_that_stand_with_it() {
    let text = "id: 1-0\nevent: a\ndata: x\n\ndata: y\n\nid: 2-0\nid: a\0b\nevent: b\nevent: c\ndata: z\n\n";
    for size in 1..=text.len() {
        let told = told(text.as_bytes().chunks(size), EVENT_BYTES_MAX);
        let event =
            |id: Option<&str>, name: &str, data: &str| (id.map(str::to_owned), name.into(), data.into());
        let expected = [event(Some("1-0"), "a", "x"), event(None, "", "y"), event(Some("2-0"), "c", "z")];
        assert_eq!(told.events, expected, "in pieces of {size}");
    }
}

#[test]
fn the_last_id_is_that_of_the_last_event_that_came_whole() {
    let text = "id: 1\nretry: 70\ndata: a\n\nid: 2\ndata:\n\ndata: b\n\nretry: soon\nid: 3\ndata: c";
    for size in 1..=text.len() {
        let told = told(text.as_bytes().chunks(size), EVENT_BYTES_MAX);
        assert_eq!((told.last_id.as_deref(), told.retry_ms), (Some("2"), Some(70)), "in pieces of {size}");
    }
    assert_eq!(Decoder::default().last_id(), None);
}

#[test]
fn lines_are_read_raw_for_those_who_look_at_comments_and_unknown_fields() {
    let mut lines = Lines::new(EVENT_BYTES_MAX);
    let mut rest: &[u8] = b": ping\nevent:x\nother\n\n: cut";
    let mut read = Vec::new();
    while let Some(line) = lines.next(&mut rest).unwrap() {
        read.push(format!("{line:?}"));
    }
    let expected = [Line::Comment("ping"), Line::Field("event", "x"), Line::Field("other", ""), Line::Empty];
    assert_eq!(read, expected.map(|line| format!("{line:?}")));
    assert_eq!(lines.finish(), Ok(Some(Line::Comment("cut"))));
    assert_eq!(lines.finish(), Ok(None));
}

#[test]
fn what_is_no_text_and_what_never_ends_is_refused_after_the_events_before_it() {
    let good = b"data: a\n\n";
    let too_large = SseError::TooLarge { max: 10 };
    for (bad, error) in [
        (&b"data: \xff\n"[..], SseError::NotUtf8),
        (b": \xff\n", SseError::NotUtf8),
        (b"data: \xf0\x9f", SseError::NotUtf8),
        (b"data: 12345\n", too_large.clone()),
        (b":2345678901", too_large.clone()),
        (b"data: 1234\ndata: 1234\ndata: 1234\n", too_large),
    ] {
        let text = [good, bad].concat();
        for size in 1..=text.len() {
            let told = told(text.chunks(size), 10);
            assert_eq!((told.events.len(), told.error), (1, Some(error.clone())), "{text:?} by {size}");
        }
    }
    assert_eq!(told([&b"data: 1234\r\n\r\n"[..]], 10).error, None, "the line end does not count");
}

proptest! {
    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                &b"data: a"[..], b"data", b"data:", b"id: 1", b"id", b"event: e", b"retry: 5", b": c", b"other: x",
                b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b" ", b":", b"\0", b"\xef\xbb\xbf", "ü🙂".as_bytes(),
                b"\xff", b"\xf0\x9f",
            ]),
            0..40,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        bytes_max in 8_usize..64,
    ) {
        let text = parts.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
        prop_assert_eq!(told(pieces, bytes_max), told([&text[..]], bytes_max));
    }
}
