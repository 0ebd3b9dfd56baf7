//! The stored form of a run: the fields of its two hashes.
//!
//! | hash | field | holds |
//! | --- | --- | --- |
//! | run | `status`, `version`, `mode`, `workflow`, `app`, `user` | words |
//! | run | `inputs`, `sys`, `conversation`, `commands`, `options`, `outputs` | JSON |
//! | run | `turn` | `true` when its messages become a turn of its conversation |
//! | run | `history` | the earlier turns of its conversation |
//! | run | `messages` | `true` when it continues its conversation's message list |
//! | run | `objects` | which other keys of it exist, see [`crate::state::messages`] |
//! | run | `conversation_id` | the conversation it belongs to |
//! | run | `key` | the id of the API key that pays for it |
//! | run | `caller`, `call_depth` | the node that called it, as JSON, and the number of callers above it |
//! | run | `created_at`, `started_at`, `resumed_at`, `finished_at` | Unix microseconds; it last continued at `resumed_at` |
//! | run | `error`, `steps`, `tokens`, `price`, `currency`, `exceptions` | written at the end |
//! | state | `n:<frame>/<node>` | JSON of a node's state |
//! | state | `v:<frame>/<node>.<name>` | a variable |
//! | state | `s:<node>.<name>` | a streamed text |
//! | state | `m:<list>` | the index of a message list |
//! | state | `response` | which nodes may stream, and the position of the cursor |
//!
//! In field names `%`, `/` and `.` of node ids and names are written `%25`, `%2F`, `%2E`.

pub mod breakpoint;
pub(crate) mod changes;
pub mod frames;
mod head;
mod load;
pub mod messages;
mod names;
mod node;
mod options;
pub mod pause;
mod response;

pub use head::{
    WEBHOOK_FIELD, caller_run, head_fields, head_from_fields, head_from_json, head_to_json, read_caller,
};
pub use load::{AtRest, load};
pub use names::{container_field, node_of_field, stream_field, variable_field};
pub(super) use names::{put_node_field, put_variable_field};
pub use node::node_from_json;
pub(super) use node::{variable_text, write_node};
pub(super) use options::write_budget;
pub use options::{options_from_json, options_to_json, read_budget};
pub use response::{RESPONSE_FIELD, held_json, response_json, stream_json};

const WHAT: &str = "the state of a run";
