//! What the nodes do that need the outside world, one file a type; their configuration is in `tidemill-common`.

pub mod llm;
