//! Runs as people and clients read them: [`record`] and [`render`] read a run, [`pauses`] and [`forms`] what it waits
//! for, [`file_links`] where its files are opened, [`waiting`] the queues that its nodes wait in, [`projection`] its events in Dify's form.

pub mod file_links;
pub mod forms;
pub mod pauses;
pub mod projection;
pub mod record;
pub mod render;
pub mod waiting;
