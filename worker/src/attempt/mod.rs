//! One attempt of a node: its input, its execution, its result.
//!
//! - [`execute`] runs the attempt and catches panics; [`time_left`] ends it when the time of the run is over; [`executor`] is the interface of node types.
//! - [`variables`] reads the values that the job carries or that are stored in Redis; [`list_cache`] keeps large lists.
//! - [`stages`] runs what surrounds a node: slots, approvals, hooks, nodes inside it.
//! - [`journal`] records what must not be repeated, and [`progress`] reports while the attempt runs.
//! - [`spill`] stores large outputs as blobs; [`noted_files`] notes files before they are written,
//!   and [`own_files`] refuses files of other apps and users.

pub(crate) mod execute;
pub mod executor;
pub(crate) mod growing;
pub mod journal;
pub(crate) mod list_cache;
pub(crate) mod noted_files;
pub(crate) mod own_files;
pub(crate) mod progress;
pub(crate) mod spill;
pub(crate) mod stages;
mod time_left;
pub(crate) mod variables;
