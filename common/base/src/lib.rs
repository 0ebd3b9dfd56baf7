//! The lowest crate of Tidemill: ids, time, limits, failures, and values with their templates and conversions. It knows
//! neither workflows nor runs.

pub mod clock;
pub mod crash;
pub mod failure;
pub mod hidden;
pub mod ids;
pub mod language;
pub mod limits;
pub mod need;
pub mod sse;
pub mod value;
pub mod warning;
