//! The machine on its own: facts in, events out, nothing else.
