//! Runs as people and clients read them: [`record`] and [`render`] read a run, [`pauses`] and [`forms`] what it waits
//! for, [`file_links`] where its files are opened and [`text_links`] the links in its texts, [`waiting`] the queues that its
//! nodes wait in, [`projection`] its events in Dify's form, [`ids`] its names there. [`answered`] names what answers in
//! place of a workflow, [`scan`] looks at many runs.

pub(crate) mod answered;
pub mod end_user;
pub mod file_links;
pub mod forms;
pub mod ids;
pub mod pauses;
pub mod projection;
pub mod record;
pub mod render;
pub(crate) mod scan;
pub mod text_links;
pub mod waiting;
