//! The pure crates under the name `tidemill-common`. Fuzz targets include files of the worker that use this name, and
//! must not build a Redis client for them.

pub use tidemill_base::{clock, failure, ids, language, limits, need, sse, value};
pub use tidemill_engine as machine;
pub use tidemill_wire as wire;
pub use tidemill_workflow::{dsl, graph, nodes};
