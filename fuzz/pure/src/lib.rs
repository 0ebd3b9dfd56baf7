//! The pure crates under the name `tidemill-common`. Targets include files of the worker that use that name, and must
//! not build a Redis client for it.

pub use tidemill_base::{clock, failure, ids, language, limits, value};
pub use tidemill_engine as machine;
pub use tidemill_wire as wire;
pub use tidemill_workflow::{dsl, graph, nodes};
