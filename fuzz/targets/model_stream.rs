//! The bytes of a model's stream, in whatever pieces the network makes of them. First byte: the length of a piece.
#![no_main]

use libfuzzer_sys::fuzz_target;

// By its path: the worker as a whole would take minutes to build, and this file needs nothing of it.
#[path = "../../worker/src/providers/sse.rs"]
mod sse;

fn decoded<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<String>, sse::SseError> {
    let (mut decoder, mut events) = (sse::Decoder::default(), Vec::new());
    for piece in pieces {
        decoder.feed(piece, &mut events)?;
    }
    decoder.finish(&mut events)?;
    Ok(events)
}

fuzz_target!(|bytes: &[u8]| {
    let [size, stream @ ..] = bytes else { return };
    let pieces = stream.chunks(usize::from(*size).max(1));
    assert_eq!(decoded(pieces), decoded(std::iter::once(stream)), "the pieces do not matter");
});
