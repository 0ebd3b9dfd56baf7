//! Parses the bytes of a model's stream, in pieces of any size, with every supported API. The last byte is the size of
//! a piece, so that the recorded streams (`worker/src/outside/providers/fixtures`) can be seeds without changes.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The files are included by path: the whole worker would take minutes to build, and these files do not need it.
#[path = "../../worker/src/outside"]
#[allow(dead_code, unused_imports)]
mod outside {
    pub mod providers {
        pub mod errors;
        pub mod frames;
        pub mod ndjson;
        pub mod params;
        pub mod model_file;
        pub mod reading;
        pub mod reply;
        pub mod source;
        pub mod tool_calls;

        pub mod anthropic {
            pub mod events;
            mod reply_blocks;
        }
        pub mod ollama {
            pub mod lines;
        }
        pub mod openai {
            pub mod chunks;
        }
    }
}

use outside::providers::anthropic::events::Events;
use outside::providers::frames::Framing;
use outside::providers::ollama::lines::Lines;
use outside::providers::openai::chunks::Chunks;
use outside::providers::reading::{Dialect, Intake, Reader, ReplyReader};
use outside::providers::reply::RateFacts;

/// The text pieces of a stream, and the reply or the error.
type Outcome = (Vec<String>, Result<String, String>);

fn read<'a>(framing: Framing, dialect: impl Dialect, pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let mut deltas = Vec::new();
    let mut on_delta = |piece: &str| deltas.push(piece.to_owned());
    let mut reader = ReplyReader::new("p", dialect, &mut on_delta);
    reader.begin();
    let mut intake = Intake::new("p", framing);
    let mut over = Ok(false);
    for piece in pieces.map(Some).chain([None]) {
        over = intake.take(piece, &mut reader);
        if over != Ok(false) {
            break;
        }
    }
    let ended = over.and_then(|_| reader.end(RateFacts::default()));
    let reply = ended.map(|()| {
        let reply = reader.into_reply();
        // Ids and times may be generated here, so they differ.
        let calls: Vec<_> = reply.tool_calls.iter().map(|call| (&call.name, &call.arguments)).collect();
        format!("{:?} {calls:?} {:?} {:?}", reply.text, reply.finish_reason, reply.tokens)
    });
    (deltas, reply.map_err(|error| error.message))
}

fn check<D: Dialect>(framing: Framing, dialect: impl Fn() -> D, size: usize, stream: &[u8]) {
    let (deltas, reply) = read(framing, dialect(), std::iter::once(stream));
    assert!(deltas.iter().all(|delta| !delta.is_empty()), "a piece of text is empty");
    assert_eq!(
        read(framing, dialect(), stream.chunks(size)),
        (deltas, reply),
        "the result depends on the size of the pieces"
    );
}

fuzz_target!(|bytes: &[u8]| {
    let [stream @ .., size] = bytes else { return };
    let size = usize::from(*size).max(1);
    check(Framing::Sse, Chunks::default, size, stream);
    check(Framing::Sse, || Events::new(false), size, stream);
    check(Framing::Sse, || Events::new(true), size, stream);
    check(Framing::Ndjson, || Lines, size, stream);
});
