//! The bytes of a model's stream, in whatever pieces the network makes of them, read as every API that is spoken. The last byte
//! is the length of a piece, so that the recorded streams (`worker/src/providers/fixtures`) are seeds as they are.
#![no_main]

use libfuzzer_sys::fuzz_target;

// By their paths: the worker as a whole would take minutes to build, and these files need nothing of it.
#[path = "../../worker/src/providers"]
#[allow(dead_code, unused_imports)]
mod providers {
    pub mod errors;
    pub mod frames;
    pub mod ndjson;
    pub mod params;
    pub mod produced;
    pub mod reading;
    pub mod reply;
    pub mod source;
    pub mod sse;
    pub mod tool_calls;

    pub mod anthropic {
        pub mod events;
        mod kept;
    }
    pub mod ollama {
        pub mod lines;
    }
    pub mod openai {
        pub mod chunks;
    }
}

use providers::anthropic::events::Events;
use providers::frames::Framing;
use providers::ollama::lines::Lines;
use providers::openai::chunks::Chunks;
use providers::reading::{Dialect, Intake, Reader, ReplyReader};
use providers::reply::RateFacts;

/// What is told of a stream: the pieces of text, and the reply or why there is none.
type Told = (Vec<String>, Result<String, String>);

fn told<'a>(framing: Framing, dialect: impl Dialect, pieces: impl Iterator<Item = &'a [u8]>) -> Told {
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
        // Ids may be made here, and times differ.
        let calls: Vec<_> = reply.tool_calls.iter().map(|call| (&call.name, &call.arguments)).collect();
        format!("{:?} {calls:?} {:?} {:?}", reply.text, reply.finish_reason, reply.tokens)
    });
    (deltas, reply.map_err(|error| error.message))
}

fn check<D: Dialect>(framing: Framing, dialect: impl Fn() -> D, size: usize, stream: &[u8]) {
    let (deltas, reply) = told(framing, dialect(), std::iter::once(stream));
    assert!(deltas.iter().all(|delta| !delta.is_empty()), "no piece is empty");
    assert_eq!(told(framing, dialect(), stream.chunks(size)), (deltas, reply), "the pieces do not matter");
}

fuzz_target!(|bytes: &[u8]| {
    let [stream @ .., size] = bytes else { return };
    let size = usize::from(*size).max(1);
    check(Framing::Sse, Chunks::default, size, stream);
    check(Framing::Sse, || Events::new(false), size, stream);
    check(Framing::Sse, || Events::new(true), size, stream);
    check(Framing::Ndjson, || Lines, size, stream);
});
